//! The readers of a word since it was last written.

use crate::agents::Agent;
use crate::instruction::Scope;
use crate::user::{UNDER_WAY, User};

/// A read that no later use is known to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reader {
    pub(crate) cluster: u32,
    pub(crate) agent: Agent,
    /// Whether other threads of its warp are meant too.
    pub(crate) several: bool,
    pub(crate) strong: Option<Scope>,
    pub(crate) tick: u32,
}

/// The readers of a word in one number: none, one, or the number of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readers(pub(crate) u64);

impl Readers {
    pub(crate) const NONE: Readers = Readers(0);
    pub(crate) const ONE: u64 = 1 << 62;
    pub(crate) const SET: u64 = 1 << 63;
    const TICKS: u32 = 1 << 25;
    const CLUSTERS: u32 = 1 << 20;

    /// One reader, if its numbers are small enough.
    pub(crate) fn one(reader: Reader) -> Option<Readers> {
        let tick = match reader.tick {
            UNDER_WAY => Self::TICKS - 1,
            tick => tick,
        };
        let fits = (tick < Self::TICKS - 1 || reader.tick == UNDER_WAY)
            && reader.cluster < Self::CLUSTERS
            && reader.strong.is_none();
        fits.then(|| {
            let cluster = u64::from(reader.cluster) << 42;
            let agent = u64::from(reader.agent) << 26;
            let several = u64::from(reader.several) << 25;
            Readers(Self::ONE | cluster | agent | several | u64::from(tick))
        })
    }

    /// The one reader that this is, if it is no set.
    pub(crate) fn reader(self) -> Reader {
        let tick = self.0 as u32 & (Self::TICKS - 1);
        Reader {
            cluster: (self.0 >> 42) as u32 & (Self::CLUSTERS - 1),
            agent: (self.0 >> 26) as u16,
            several: self.0 >> 25 & 1 == 1,
            strong: None,
            tick: if tick == Self::TICKS - 1 {
                UNDER_WAY
            } else {
                tick
            },
        }
    }
}

/// A reader that stands for two, if one can: the user who reads knows the old one, or both are of one warp.
pub(crate) fn merged(old: Reader, new: Reader, user: User<'_>) -> Option<Reader> {
    if user.knows(old.cluster, old.agent, old.several, old.tick) {
        return Some(new);
    }
    // Reads under way are ended one by one, so they stay apart from those that are not.
    let is_alike = old.cluster == new.cluster
        && old.strong == new.strong
        && (old.tick == UNDER_WAY) == (new.tick == UNDER_WAY);
    let same_warp = old.agent / 32 == new.agent / 32
        && user.agents.is_thread(new.agent)
        && new.tick != UNDER_WAY;
    (is_alike && (same_warp || old.agent == new.agent)).then(|| Reader {
        several: new.several | old.several || old.agent != new.agent,
        tick: new.tick.max(old.tick),
        ..new
    })
}
