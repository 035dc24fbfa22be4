//! What is known to have happened before: vector clocks (Mattern, 1989; Flanagan and Freund, FastTrack, 2009).
//!
//! Every thread's uses of memory carry the tick of its warp at the time. A clock says, for each thread, which ticks are
//! known to be over. Whoever arrives at a barrier hands over what it knows and has done; whoever waits there takes it.
//! Copies by the tensor memory accelerator count as uses by a thread of their own for each barrier that they complete.

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

/// What is known: of everything, and of what is also visible to the asynchronous proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// What is known to be over.
    pub over: Clock,
    /// What is known to be over and was followed by a `fence.proxy.async`.
    pub fenced: Clock,
}

impl Knowledge {
    pub(crate) fn join(&mut self, other: &Knowledge) {
        self.over.join(&other.over);
        self.fenced.join(&other.fenced);
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
}
