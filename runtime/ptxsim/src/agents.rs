//! Who uses memory: the threads of a cluster, and what counts as a thread of its own.
//!
//! Numbers are given to all threads, block after block; then to the products of each warp, to its bulk copies out of shared
//! memory, and to the copies that complete each barrier.

use std::fmt;

/// Warps of a block at most.
const MOST_WARPS: u32 = 32;

/// How the users of memory in a cluster are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agents {
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster.
    pub ranks: u32,
}

/// A user's number.
pub(crate) type Agent = u16;

impl Agents {
    /// A block's thread.
    pub(crate) const fn thread(self, rank: u32, thread: u32) -> Agent {
        (rank * self.threads + thread) as Agent
    }

    /// A warp's products.
    pub(crate) const fn products(self, rank: u32, warp: u32) -> Agent {
        (self.ranks * self.threads + rank * MOST_WARPS + warp) as Agent
    }

    /// A warp's bulk copies out of shared memory.
    pub(crate) const fn stores(self, rank: u32, warp: u32) -> Agent {
        (self.ranks * (self.threads + MOST_WARPS) + rank * MOST_WARPS + warp) as Agent
    }

    /// The copies that complete the barrier that was made as this one.
    pub(crate) const fn copies(self, made: u32) -> Agent {
        let number = self.ranks * (self.threads + 2 * MOST_WARPS) + made;
        if number < NOBODY as u32 {
            number as Agent
        } else {
            NOBODY - 1
        }
    }

    /// Whether it is a thread.
    pub(crate) fn is_thread(self, agent: Agent) -> bool {
        u32::from(agent) < self.ranks * self.threads
    }

    /// The block of a thread, or of what belongs to one.
    pub(crate) fn rank(self, agent: Agent) -> Option<u32> {
        let agent = u32::from(agent);
        let threads = self.ranks * self.threads;
        match agent.checked_sub(threads) {
            None => Some(agent / self.threads),
            Some(warp) if warp < self.ranks * MOST_WARPS * 2 => {
                Some(warp % (self.ranks * MOST_WARPS) / MOST_WARPS)
            }
            Some(_) => None,
        }
    }

    /// Who that is, in words, to someone in a block of the cluster of this number.
    pub(crate) fn describe(self, cluster: u32, agent: Agent, block: u32) -> Description {
        Description {
            agents: self,
            agent,
            cluster,
            block,
        }
    }
}

/// The user of no use at all.
pub(crate) const NOBODY: Agent = Agent::MAX;

/// A user in words.
pub(crate) struct Description {
    agents: Agents,
    agent: Agent,
    cluster: u32,
    /// The block that need not be named.
    block: u32,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agents { threads, ranks } = self.agents;
        let agent = u32::from(self.agent);
        let warps = ranks * MOST_WARPS;
        match agent.checked_sub(ranks * threads) {
            None => write!(f, "thread {}", agent % threads)?,
            Some(warp) if warp < warps => write!(f, "a product of warp {}", warp % MOST_WARPS)?,
            Some(warp) if warp < 2 * warps => write!(f, "a store of warp {}", warp % MOST_WARPS)?,
            Some(copies) => write!(f, "a copy to barrier {}", copies - 2 * warps)?,
        }
        match self.agents.rank(self.agent) {
            Some(rank) if self.cluster * ranks + rank != self.block => {
                write!(f, " of block {}", self.cluster * ranks + rank)
            }
            None if self.cluster != self.block / ranks => write!(f, " of cluster {}", self.cluster),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_number_and_a_name() {
        let agents = Agents {
            threads: 64,
            ranks: 2,
        };
        let name = |agent| agents.describe(3, agent, 7).to_string();
        assert_eq!(name(agents.thread(0, 5)), "thread 5 of block 6");
        assert_eq!(name(agents.thread(1, 5)), "thread 5");
        assert_eq!(name(agents.products(1, 1)), "a product of warp 1");
        assert_eq!(name(agents.stores(0, 1)), "a store of warp 1 of block 6");
        assert_eq!(name(agents.copies(4)), "a copy to barrier 4");
        assert_eq!(agents.rank(agents.stores(1, 31)), Some(1));
        assert_eq!(agents.rank(agents.copies(0)), None);
    }
}
