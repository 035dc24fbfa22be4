//! The record of one word: its last write, and the reads since.

use std::ops::Range;

use crate::agents::{Agent, NOBODY};
use crate::finding::FindingKind;
use crate::instruction::Scope;
use crate::readers::Readers;
use crate::user::{Conflict, UNDER_WAY, User};

/// All bytes of a word.
pub(crate) const WHOLE: u8 = 0xf;

/// Four bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) readers: Readers,
    pub(crate) write_tick: u32,
    /// The writer's cluster.
    pub(crate) cluster: u32,
    pub(crate) writer: Agent,
    /// Bytes that were ever written (low half), and those of the last write (high half).
    pub(crate) bytes: u8,
    /// Bytes that the readers read (low half); flags (high half).
    pub(crate) state: u8,
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        // All at once: words are compared far more often than they differ.
        (self.readers.0 == other.readers.0)
            & (self.write_tick == other.write_tick)
            & (self.cluster == other.cluster)
            & (self.writer == other.writer)
            & (self.bytes == other.bytes)
            & (self.state == other.state)
    }
}

/// The last write came by the asynchronous proxy.
pub(crate) const ASYNCHRONOUS: u8 = 1 << 4;
/// A copy to the word is under way.
pub(crate) const IN_FLIGHT: u8 = 1 << 5;
/// The scope of a last write that was strong, from this bit on.
pub(crate) const SCOPE: u32 = 6;

pub(crate) const FRESH: Word = Word {
    readers: Readers::NONE,
    write_tick: 0,
    cluster: 0,
    writer: NOBODY,
    bytes: 0,
    state: 0,
};

impl Word {
    pub(crate) fn conflict_of_read(&self, user: User<'_>, mask: u8) -> Option<Conflict> {
        let kind = if self.state & IN_FLIGHT == 0 && self.bytes & mask != mask {
            Some(FindingKind::Uninitialised)
        } else {
            self.conflict_with_write(user, mask)
        };
        kind.map(|kind| self.conflict(kind))
    }

    /// Whether a use meets the last write.
    pub(crate) fn conflict_with_write(&self, user: User<'_>, mask: u8) -> Option<FindingKind> {
        if self.state & IN_FLIGHT != 0 || self.write_tick == UNDER_WAY {
            Some(FindingKind::InFlight)
        } else if self.bytes >> 4 & mask == 0 || self.writer == NOBODY {
            // The last write was to other bytes of the word.
            None
        } else if !user.knows(self.cluster, self.writer, false, self.write_tick) {
            let is_right = user.suits(self.cluster, self.writer, self.strong());
            (!is_right).then_some(FindingKind::Race)
        } else if user.asynchronous && !self.is_visible(user) {
            Some(FindingKind::Fence)
        } else {
            None
        }
    }

    pub(crate) fn conflict(&self, kind: FindingKind) -> Conflict {
        Conflict {
            kind,
            cluster: self.cluster,
            agent: self.writer,
        }
    }

    fn strong(&self) -> Option<Scope> {
        match self.state >> SCOPE {
            0 => None,
            1 => Some(Scope::Block),
            2 => Some(Scope::Cluster),
            _ => Some(Scope::Device),
        }
    }

    /// Whether the last write is visible to the asynchronous proxy of a user.
    fn is_visible(&self, user: User<'_>) -> bool {
        let fenced = if self.cluster == user.cluster {
            user.knowledge.fenced.of(self.writer)
        } else {
            user.knowledge.fenced_of_other(self.cluster, self.writer)
        };
        self.state & ASYNCHRONOUS != 0 || self.write_tick < fenced
    }

    pub(crate) fn set_written(&mut self, (cluster, writer, tick): (u32, Agent, u32), mask: u8) {
        // Neighbours in a word by the same thread at the same time are one write.
        let together = self.writer == writer
            && self.cluster == cluster
            && self.write_tick == tick
            && self.state & 0xf0 == 0;
        let last = if together {
            self.bytes >> 4 | mask
        } else {
            mask
        };
        self.bytes = self.bytes & 0xf | mask | last << 4;
        self.cluster = cluster;
        self.writer = writer;
        self.write_tick = tick;
        self.state = 0;
        self.readers = Readers::NONE;
    }
}

/// The bytes of a word that lie in a range.
pub(crate) fn mask_of(index: usize, range: &Range<usize>) -> u8 {
    let first = range.start.saturating_sub(index * 4).min(4);
    let last = range.end.saturating_sub(index * 4).min(4);
    (0xf << first & 0xf >> (4 - last)) as u8
}
