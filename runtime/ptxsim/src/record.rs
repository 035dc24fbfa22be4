//! A record of who used each word of a memory.
//!
//! Two uses of a byte by different threads, one of them a write, need an order: a barrier between them, or a release that
//! an acquire saw. Uses carry ticks, users bring what they know; see [`crate::clock`]. A record holds the last write and
//! the reads since, as far as none of them is known to the others. Strong uses, such as atomic ones, need no order among
//! themselves if their scopes cover both threads. What the asynchronous proxy reads that a thread wrote also needs a
//! `fence.proxy.async` on the way.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::agents::{Agent, Agents, NOBODY};
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

/// A read that no later use is known to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Reader {
    cluster: u32,
    agent: Agent,
    /// Whether other threads of its warp are meant too.
    several: bool,
    strong: Option<Scope>,
    tick: u32,
}

/// The readers of a word in one number: none, one, or the number of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Readers(u64);

impl Readers {
    const NONE: Readers = Readers(0);
    const ONE: u64 = 1 << 62;
    const SET: u64 = 1 << 63;
    const TICKS: u32 = 1 << 25;
    const CLUSTERS: u32 = 1 << 20;

    /// One reader, if its numbers are small enough.
    fn one(reader: Reader) -> Option<Readers> {
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
    fn reader(self) -> Reader {
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

/// All bytes of a word.
const WHOLE: u8 = 0xf;

/// Four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    readers: Readers,
    write_tick: u32,
    /// The writer's cluster.
    cluster: u32,
    writer: Agent,
    /// Bytes that were ever written (low half), and those of the last write (high half).
    bytes: u8,
    /// Bytes that the readers read (low half); flags (high half).
    state: u8,
}

/// The last write came by the asynchronous proxy.
const ASYNCHRONOUS: u8 = 1 << 4;
/// A copy to the word is under way.
const IN_FLIGHT: u8 = 1 << 5;
/// The scope of a last write that was strong, from this bit on.
const SCOPE: u32 = 6;

const FRESH: Word = Word {
    readers: Readers::NONE,
    write_tick: 0,
    cluster: 0,
    writer: NOBODY,
    bytes: 0,
    state: 0,
};

/// The records of words that lie together.
#[derive(Debug)]
pub(crate) struct Words {
    words: Vec<Word>,
    sets: Vec<Vec<Reader>>,
    numbers: FxHashMap<Vec<Reader>, u64>,
    /// Whether clusters never hear of each other, so that two of them that read a word stand for all.
    apart: bool,
}

impl User<'_> {
    /// Whether a use of this thread at this tick is known to be over. `several` means uses by any thread of its warp.
    fn knows(&self, cluster: u32, thread: Agent, several: bool, tick: u32) -> bool {
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
    fn suits(&self, cluster: u32, agent: Agent, strong: Option<Scope>) -> bool {
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

impl Words {
    /// Records of memory of which nothing was written.
    pub(crate) fn new(bytes: usize, apart: bool) -> Words {
        Words {
            words: vec![FRESH; bytes.div_ceil(4)],
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            apart,
        }
    }

    /// Marks a byte as written before anyone here could.
    pub(crate) fn set_existing(&mut self, byte: usize) {
        self.words[byte / 4].bytes |= 1 << (byte % 4);
    }

    /// Whether a byte was ever written.
    pub(crate) fn is_written(&self, byte: usize) -> bool {
        self.words[byte / 4].bytes >> (byte % 4) & 1 == 1
    }

    /// Records reads of ranges of bytes at a tick, which is [`UNDER_WAY`] for reads that a later [`Words::finish_reads`]
    /// ends. Tells of the first conflict of each range.
    pub(crate) fn start_reads(
        &mut self,
        user: User<'_>,
        tick: u32,
        ranges: impl Iterator<Item = Range<usize>>,
        mut found: impl FnMut(usize, Conflict),
    ) {
        let reader = Reader {
            cluster: user.cluster,
            agent: user.reads_as.unwrap_or(user.thread),
            several: user.whole_warp && user.reads_as.is_none(),
            strong: user.strong,
            tick,
        };
        // Words of one access mostly are alike: a word as it was, read without a fault, and as it is then.
        let mut alike: Option<(Word, Word)> = None;
        for range in ranges {
            if let Some((before, after)) = alike
                && range.start % 4 == 0
                && range.end % 4 == 0
            {
                let words = &mut self.words[range.start / 4..range.end / 4];
                if words.iter().all(|word| *word == before) {
                    words.fill(after);
                    continue;
                }
            }
            let mut worst = None;
            for index in range.start / 4..range.end.div_ceil(4) {
                let mask = mask_of(index, &range);
                let word = self.words[index];
                let conflict = word.conflict_of_read(user, mask);
                let after = Word {
                    readers: self.with_reader(word.readers, reader, user),
                    state: word.state | mask,
                    ..word
                };
                self.words[index] = after;
                if conflict.is_none() && mask == WHOLE {
                    alike = Some((word, after));
                }
                worst = worst.or(conflict);
            }
            if let Some(conflict) = worst {
                found(range.start, conflict);
            }
        }
    }

    /// Ends reads that were under way.
    pub(crate) fn finish_reads(
        &mut self,
        user: User<'_>,
        ranges: impl Iterator<Item = Range<usize>>,
    ) {
        let mut known = (Readers::NONE, Readers::NONE);
        for range in ranges {
            for index in range.start / 4..range.end.div_ceil(4) {
                let old = self.words[index].readers;
                if known.0 != old {
                    known = (old, self.with_finished(old, user));
                }
                self.words[index].readers = known.1;
            }
        }
    }

    /// Records a write.
    pub(crate) fn set_written(&mut self, user: User<'_>, range: &Range<usize>) {
        for index in range.start / 4..range.end.div_ceil(4) {
            let mask = mask_of(index, range);
            let word = &mut self.words[index];
            word.set_written((user.cluster, user.thread, user.tick), mask);
            word.state |= user.strong.map_or(0, |scope| (scope as u8) << SCOPE);
            if user.asynchronous {
                word.state |= ASYNCHRONOUS;
            }
        }
    }

    /// Records the start of a copy, by someone who will count as `writer`.
    pub(crate) fn start_copy(&mut self, user: User<'_>, range: &Range<usize>, writer: Agent) {
        for word in &mut self.words[range.start / 4..range.end.div_ceil(4)] {
            word.state |= IN_FLIGHT;
            word.cluster = user.cluster;
            word.writer = writer;
        }
    }

    /// Whether the last write of a byte's word is known to a user.
    pub(crate) fn is_known(&self, user: User<'_>, byte: usize) -> bool {
        let word = self.words.get(byte / 4);
        word.is_some_and(|word| {
            word.writer != NOBODY && user.knows(word.cluster, word.writer, false, word.write_tick)
        })
    }

    /// The first conflict of a write.
    pub(crate) fn conflict_of_write(
        &self,
        user: User<'_>,
        range: &Range<usize>,
    ) -> Option<Conflict> {
        // Words of one access mostly are alike.
        let mut alike = None;
        (range.start / 4..range.end.div_ceil(4)).find_map(|index| {
            let mask = mask_of(index, range);
            let place = (self.words[index], mask);
            if alike == Some(place) {
                return None;
            }
            alike = Some(place);
            self.conflict_in(user, &self.words[index], mask)
        })
    }

    fn conflict_in(&self, user: User<'_>, word: &Word, mask: u8) -> Option<Conflict> {
        if let Some(kind) = word.conflict_with_write(user, mask) {
            return Some(word.conflict(kind));
        }
        if word.state & mask & 0xf == 0 {
            return None;
        }
        let is_unknown = |reader: &Reader| {
            !user.knows(reader.cluster, reader.agent, reader.several, reader.tick)
                && !user.suits(reader.cluster, reader.agent, reader.strong)
        };
        let found = match word.readers {
            Readers::NONE => None,
            Readers(bits) if bits & Readers::SET != 0 => {
                let set = &self.sets[(bits & !Readers::SET) as usize];
                set.iter().copied().find(is_unknown)
            }
            one => Some(one.reader()).filter(is_unknown),
        };
        found.map(|reader| Conflict {
            kind: match reader.tick {
                UNDER_WAY => FindingKind::InFlight,
                _ => FindingKind::Race,
            },
            cluster: reader.cluster,
            agent: reader.agent,
        })
    }

    fn readers(&self, readers: Readers) -> Vec<Reader> {
        match readers {
            Readers::NONE => Vec::new(),
            Readers(bits) if bits & Readers::SET != 0 => {
                self.sets[(bits & !Readers::SET) as usize].clone()
            }
            one => vec![one.reader()],
        }
    }

    fn numbered(&mut self, mut list: Vec<Reader>) -> Readers {
        if list.is_empty() {
            return Readers::NONE;
        }
        if let [reader] = list.as_slice()
            && let Some(one) = Readers::one(*reader)
        {
            return one;
        }
        list.sort_unstable();
        let next = self.sets.len() as u64;
        let sets = &mut self.sets;
        let number = *self.numbers.entry(list).or_insert_with_key(|list| {
            sets.push(list.clone());
            next
        });
        Readers(Readers::SET | number)
    }

    /// The readers and one more; those that it knows of are left out.
    fn with_reader(&mut self, readers: Readers, reader: Reader, user: User<'_>) -> Readers {
        if readers == Readers::NONE
            && let Some(one) = Readers::one(reader)
        {
            return one;
        }
        let mut list = self.readers(readers);
        if self.apart
            && let Some(first) = list.first()
            && list.iter().any(|other| other.cluster != first.cluster)
        {
            return readers;
        }
        let mut new = reader;
        list.retain(|other| {
            if user.knows(other.cluster, other.agent, other.several, other.tick) {
                return false;
            }
            // Reads under way are ended one by one, so they stay apart from those that are not.
            let is_alike = other.cluster == new.cluster
                && other.strong == new.strong
                && (other.tick == UNDER_WAY) == (new.tick == UNDER_WAY);
            let same_warp = other.agent / 32 == new.agent / 32
                && user.agents.is_thread(new.agent)
                && new.tick != UNDER_WAY;
            if is_alike && (same_warp || other.agent == new.agent) {
                new.several |= other.several || other.agent != new.agent;
                new.tick = new.tick.max(other.tick);
                return false;
            }
            true
        });
        list.push(new);
        self.numbered(list)
    }

    fn with_finished(&mut self, readers: Readers, user: User<'_>) -> Readers {
        let mut list = self.readers(readers);
        let agent = user.reads_as.unwrap_or(user.thread);
        for reader in &mut list {
            if reader.tick == UNDER_WAY && reader.agent == agent && reader.cluster == user.cluster {
                reader.tick = user.tick;
            }
        }
        list.dedup();
        self.numbered(list)
    }
}

impl Word {
    fn conflict_of_read(&self, user: User<'_>, mask: u8) -> Option<Conflict> {
        let kind = if self.state & IN_FLIGHT == 0 && self.bytes & mask != mask {
            Some(FindingKind::Uninitialised)
        } else {
            self.conflict_with_write(user, mask)
        };
        kind.map(|kind| self.conflict(kind))
    }

    /// Whether a use meets the last write.
    fn conflict_with_write(&self, user: User<'_>, mask: u8) -> Option<FindingKind> {
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

    fn conflict(&self, kind: FindingKind) -> Conflict {
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

    fn set_written(&mut self, (cluster, writer, tick): (u32, Agent, u32), mask: u8) {
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
fn mask_of(index: usize, range: &Range<usize>) -> u8 {
    let first = range.start.saturating_sub(index * 4).min(4);
    let last = range.end.saturating_sub(index * 4).min(4);
    (0xf << first & 0xf >> (4 - last)) as u8
}
