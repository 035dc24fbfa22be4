//! What is known to have happened before: vector clocks (Mattern, 1989; Flanagan and Freund, FastTrack, 2009).
//!
//! Every thread's uses of memory carry the tick of its warp at the time. A clock says, for each thread, which ticks are
//! known to be over. Whoever arrives at a barrier hands over what it knows and has done; whoever waits there takes it.
//! Between clusters, releases hand over and acquires of the same place take.
//! Copies by the tensor memory accelerator count as uses by a thread of their own for each barrier that they complete.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::instruction::Scope;

/// For each thread, the first tick that is not known to be over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// The first tick of a thread that is not known to be over.
    pub(crate) fn of(&self, thread: u16) -> u32 {
        self.0.get(usize::from(thread)).copied().unwrap_or(0)
    }

    /// Learns that a thread's ticks before this one are over.
    pub(crate) fn learn(&mut self, thread: u16, tick: u32) {
        let index = usize::from(thread);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].max(tick);
    }

    /// Learns all that another clock knows.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, &theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// What is known of one cluster's threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// What is known to be over.
    pub over: Clock,
    /// What is known to be over and was followed by a `fence.proxy.async`.
    pub fenced: Clock,
    /// Uses of tensor memory that are known to be over, by the numbers that they have there.
    pub tensor: Clock,
}

impl Known {
    fn join(&mut self, other: &Known) {
        self.over.join(&other.over);
        self.fenced.join(&other.fenced);
        self.tensor.join(&other.tensor);
    }
}

/// What is known: of the threads of one's own cluster, and of those of others, as far as one of them told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// Of one's own cluster: what is known to be over.
    pub over: Clock,
    /// Of one's own cluster: what is known to be over and was followed by a `fence.proxy.async`.
    pub fenced: Clock,
    /// Of one's own block: uses of tensor memory that are known to be over, by the numbers that they have there.
    pub tensor: Clock,
    others: BTreeMap<u32, Arc<Known>>,
}

/// What a thread hands over to threads of any cluster.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    of: BTreeMap<u32, Arc<Known>>,
}

impl Knowledge {
    /// Learns all that another thread of the cluster knows.
    pub(crate) fn join(&mut self, other: &Knowledge) {
        self.over.join(&other.over);
        self.fenced.join(&other.fenced);
        self.tensor.join(&other.tensor);
        for (&cluster, known) in &other.others {
            learn(&mut self.others, cluster, known);
        }
    }

    /// The first tick of another cluster's thread that is not known to be over.
    pub(crate) fn of_other(&self, cluster: u32, thread: u16) -> u32 {
        let known = self.others.get(&cluster);
        known.map_or(0, |known| known.over.of(thread))
    }

    /// The same for what the asynchronous proxy sees.
    pub(crate) fn fenced_of_other(&self, cluster: u32, thread: u16) -> u32 {
        let known = self.others.get(&cluster);
        known.map_or(0, |known| known.fenced.of(thread))
    }

    /// All that is known of others becomes visible to the asynchronous proxy.
    pub(crate) fn fence_others(&mut self) {
        for known in self.others.values_mut() {
            let known = Arc::make_mut(known);
            known.fenced.join(&known.over);
        }
    }

    /// What a thread of this cluster can hand over to others.
    pub(crate) fn message(self, cluster: u32) -> Message {
        let mut of = self.others;
        let known = Known {
            over: self.over,
            fenced: self.fenced,
            tensor: self.tensor,
        };
        of.insert(cluster, Arc::new(known));
        Message { of }
    }

    /// Learns what someone handed over, as a thread of this cluster.
    pub(crate) fn receive(&mut self, cluster: u32, message: &Message) {
        for (&of, known) in &message.of {
            if of == cluster {
                self.over.join(&known.over);
                self.fenced.join(&known.fenced);
                self.tensor.join(&known.tensor);
            } else {
                learn(&mut self.others, of, known);
            }
        }
    }
}

impl Message {
    pub(crate) fn join(&mut self, other: &Message) {
        for (&cluster, known) in &other.of {
            learn(&mut self.of, cluster, known);
        }
    }
}

/// What was handed over at a place in memory: by whom, and to whom at most.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub scope: Scope,
    pub cluster: u32,
    /// The block in its cluster.
    pub rank: u32,
    pub message: Arc<Message>,
}

impl Part {
    /// Whether a use of this scope by a thread in this block takes it.
    pub(crate) fn reaches(&self, scope: Scope, (cluster, rank): (u32, u32)) -> bool {
        match scope.min(self.scope) {
            Scope::Device => true,
            Scope::Cluster => cluster == self.cluster,
            Scope::Block => (cluster, rank) == (self.cluster, self.rank),
        }
    }
}

fn learn(all: &mut BTreeMap<u32, Arc<Known>>, cluster: u32, known: &Arc<Known>) {
    match all.entry(cluster) {
        Entry::Vacant(entry) => {
            entry.insert(known.clone());
        }
        Entry::Occupied(mut entry) => {
            if !Arc::ptr_eq(entry.get(), known) {
                Arc::make_mut(entry.get_mut()).join(known);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_keeps_the_later_of_both() {
        let (mut one, mut other) = (Clock::default(), Clock::default());
        one.learn(2, 5);
        one.learn(2, 3);
        other.learn(2, 4);
        other.learn(7, 1);
        one.join(&other);
        assert_eq!([one.of(2), one.of(7), one.of(3), one.of(99)], [5, 1, 0, 0]);
    }

    #[test]
    fn messages_tell_of_third_clusters() {
        let mut first = Knowledge::default();
        first.over.learn(4, 9);
        let mut second = Knowledge::default();
        second.receive(1, &first.message(0));
        assert_eq!((second.of_other(0, 4), second.over.of(4)), (9, 0));
        second.over.learn(4, 2);
        let mut third = Knowledge::default();
        third.receive(2, &second.message(1));
        assert_eq!((third.of_other(0, 4), third.of_other(1, 4)), (9, 2));
        // What comes back is about one's own.
        let mut first = Knowledge::default();
        first.receive(0, &third.message(2));
        assert_eq!((first.over.of(4), first.of_other(1, 4)), (9, 2));
    }
}
