//! Who uses memory, and whether that is in order with other uses.

use std::ops::Range;

use crate::agents::{Agent, Agents};
use crate::clock::Knowledge;
use crate::finding::FindingKind;
use crate::instruction::Scope;

/// Who uses memory, and what it knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User<'w> {
    /// The number of its cluster.
    pub cluster: u32,
    pub agents: Agents,
    pub thread: Agent,
    /// Whether all threads of the thread's warp are meant.
    pub whole_warp: bool,
    /// Whether the thread knows more than its warp.
    pub is_apart: bool,
    /// The tick of the thread's warp.
    pub tick: u32,
    /// The first tick whose uses by other lanes of the warp are not known.
    pub synced: u32,
    pub knowledge: &'w Knowledge,
    /// Whether it is the asynchronous proxy that acts for the thread.
    pub asynchronous: bool,
    /// As whom its reads count, if not as the thread.
    pub reads_as: Option<Agent>,
    /// The scope of a use that is strong: atomic, or an ordered load or store.
    pub strong: Option<Scope>,
}

/// The tick of a use that goes on until a wait ends it.
pub(crate) const UNDER_WAY: u32 = u32::MAX;

/// A use that cannot be: of which kind, and whose use it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub kind: FindingKind,
    pub cluster: u32,
    pub agent: Agent,
}

impl User<'_> {
    /// Whether a use of this thread at this tick is known to be over. `several` means uses by any thread of its warp.
    pub(crate) fn knows(&self, cluster: u32, thread: Agent, several: bool, tick: u32) -> bool {
        if tick == UNDER_WAY {
            return false;
        }
        if cluster != self.cluster {
            let over = |thread| tick < self.knowledge.of_other(cluster, thread);
            return match several {
                true => warp_of(thread).all(over),
                false => over(thread),
            };
        }
        if thread == self.thread && !several && !self.whole_warp {
            return true;
        }
        if thread / 32 == self.thread / 32 && self.agents.is_thread(thread) {
            return tick < self.synced;
        }
        if several {
            return warp_of(thread).all(|lane| tick < self.knowledge.over.of(lane));
        }
        tick < self.knowledge.over.of(thread)
    }

    /// Whether two strong uses need no order: their scopes cover both users.
    pub(crate) fn suits(&self, cluster: u32, agent: Agent, strong: Option<Scope>) -> bool {
        let (Some(mine), Some(theirs)) = (self.strong, strong) else {
            return false;
        };
        match mine.min(theirs) {
            Scope::Device => true,
            Scope::Cluster => cluster == self.cluster,
            Scope::Block => {
                cluster == self.cluster && self.agents.rank(agent) == self.agents.rank(self.thread)
            }
        }
    }
}

fn warp_of(thread: Agent) -> Range<Agent> {
    let first = thread / 32 * 32;
    first..first + 32
}
