//! Shared memory of one block, with a record of who used each word.
//!
//! Two uses of a byte by different threads, one of them a write, need an order: a barrier between them, of whatever kind.
//! Uses carry ticks, users bring what they know; see [`crate::clock`]. A record holds the last write and the reads since,
//! as far as none of them is known to the others. What the asynchronous proxy reads that a thread wrote also needs a
//! `fence.proxy.async` on the way.

use rustc_hash::FxHashMap;

use crate::clock::Knowledge;
use crate::finding::FindingKind;
use crate::memory::Fault;

/// Who uses shared memory, and what it knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User<'w> {
    pub thread: u16,
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
    pub reads_as: Option<u16>,
}

/// The thread of no use at all.
const NOBODY: u16 = u16::MAX;

/// The tick of a read that goes on until a wait ends it.
pub(crate) const UNDER_WAY: u32 = u32::MAX;

/// A read that no later use is known to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Reader {
    thread: u16,
    /// Whether other threads of its warp are meant too.
    several: bool,
    tick: u32,
}

/// The readers of a word in one number: none, one, or the number of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Readers(u64);

impl Readers {
    const NONE: Readers = Readers(0);
    const ONE: u64 = 1 << 62;
    const SET: u64 = 1 << 63;

    fn one(reader: Reader) -> Readers {
        let thread = u64::from(reader.thread) << 33;
        Readers(Self::ONE | thread | u64::from(reader.several) << 32 | u64::from(reader.tick))
    }
}

/// Threads of a block come first; then one for the products of each warp; then one for the copies to each barrier.
const MOST_WARPS: u32 = 32;

/// As which thread the reads of a warp's products count, in a block of so many threads.
pub(crate) const fn products_of(threads: u32, warp: u32) -> u16 {
    (threads + warp) as u16
}

/// As which thread the copies that complete a barrier count.
pub(crate) const fn copies_to(threads: u32, barrier: usize) -> u16 {
    (threads + MOST_WARPS) as u16 + barrier as u16
}

/// All bytes of a word.
const WHOLE: u8 = 0xf;

/// Four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    readers: Readers,
    write_tick: u32,
    writer: u16,
    /// Bytes that were ever written (low half), and those of the last write (high half).
    bytes: u8,
    /// Bytes that the readers read (low half); flags (high half).
    state: u8,
}

/// The last write came by the asynchronous proxy.
const ASYNCHRONOUS: u8 = 1 << 4;
/// A copy to the word is under way.
const IN_FLIGHT: u8 = 1 << 5;

const FRESH: Word = Word {
    readers: Readers::NONE,
    write_tick: 0,
    writer: NOBODY,
    bytes: 0,
    state: 0,
};

/// Shared memory of one block.
pub(crate) struct Shared {
    bytes: Vec<u8>,
    words: Vec<Word>,
    sets: Vec<Vec<Reader>>,
    numbers: FxHashMap<Vec<Reader>, u64>,
    /// Threads of the block; larger numbers stand for copies.
    threads: u32,
}

impl User<'_> {
    /// Whether a use of this thread at this tick is known to be over. `several` means uses by any thread of its warp.
    fn knows(&self, thread: u16, several: bool, tick: u32) -> bool {
        if tick == UNDER_WAY {
            return false;
        }
        if thread == self.thread && !several && !self.whole_warp {
            return true;
        }
        if thread / 32 == self.thread / 32 {
            return tick < self.synced;
        }
        if several {
            let first = thread / 32 * 32;
            return (first..first + 32).all(|lane| tick < self.knowledge.over.of(lane));
        }
        tick < self.knowledge.over.of(thread)
    }
}

impl Shared {
    pub(crate) fn new(size: u32, threads: u32) -> Shared {
        Shared {
            bytes: vec![0xff; size as usize],
            words: vec![FRESH; size.div_ceil(4) as usize],
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            threads,
        }
    }

    fn range(&self, address: u64, size: usize) -> Result<std::ops::Range<usize>, Fault> {
        let end = address.saturating_add(size as u64);
        if end > self.bytes.len() as u64 {
            let length = self.bytes.len();
            let message = format!("{size} bytes at {address} of {length} bytes of shared memory");
            return Err((FindingKind::OutOfBounds, message));
        }
        Ok(address as usize..end as usize)
    }

    /// The bytes, without any check or record. The range was checked when it was first used.
    pub(crate) fn peek(&self, address: u64, size: usize) -> &[u8] {
        &self.bytes[address as usize..address as usize + size]
    }

    /// Reads bytes. Faults that do not keep them from being read are added to `faults`.
    pub(crate) fn read(
        &mut self,
        user: User<'_>,
        address: u64,
        into: &mut [u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.bytes[range]);
        self.start_reads(user, user.tick, (&[address], into.len()), faults)
    }

    /// Records reads of so many bytes at each address, at a tick, which is [`UNDER_WAY`] for reads that a later
    /// [`Shared::finish_reads`] ends.
    pub(crate) fn start_reads(
        &mut self,
        user: User<'_>,
        tick: u32,
        (addresses, size): (&[u64], usize),
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let reader = Reader {
            thread: user.reads_as.unwrap_or(user.thread),
            several: user.whole_warp && user.reads_as.is_none(),
            tick,
        };
        // Words of one access mostly are alike: a word as it was, read without a fault, and as it is then.
        let mut alike: Option<(Word, Word)> = None;
        for &address in addresses {
            let range = self.range(address, size)?;
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
            if let Some((kind, other)) = worst {
                faults.push((kind, self.describe(kind, "read", address, other)));
            }
        }
        Ok(())
    }

    /// Ends reads that were under way.
    pub(crate) fn finish_reads(&mut self, user: User<'_>, (addresses, size): (&[u64], usize)) {
        let mut known = (Readers::NONE, Readers::NONE);
        for &address in addresses {
            let Ok(range) = self.range(address, size) else {
                return;
            };
            for index in range.start / 4..range.end.div_ceil(4) {
                let old = self.words[index].readers;
                if known.0 != old {
                    known = (old, self.with_finished(old, user));
                }
                self.words[index].readers = known.1;
            }
        }
    }

    /// Writes bytes. Faults that do not keep them from being written are added to `faults`.
    pub(crate) fn write(
        &mut self,
        user: User<'_>,
        address: u64,
        bytes: &[u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, bytes.len())?;
        self.bytes[range.clone()].copy_from_slice(bytes);
        let worst = self.worst_conflict(user, &range);
        for index in range.start / 4..range.end.div_ceil(4) {
            let mask = mask_of(index, &range);
            self.words[index].set_written(user.thread, user.tick, mask);
        }
        if let Some((kind, other)) = worst {
            faults.push((kind, self.describe(kind, "written", address, other)));
        }
        Ok(())
    }

    /// Marks bytes as the target of a copy that starts now, by a user, who will count as `writer`.
    pub(crate) fn start_copy(
        &mut self,
        user: User<'_>,
        (address, size): (u64, usize),
        writer: u16,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, size)?;
        let worst = self.worst_conflict(user, &range);
        for word in &mut self.words[range.start / 4..range.end.div_ceil(4)] {
            word.state |= IN_FLIGHT;
            word.writer = writer;
        }
        if let Some((kind, other)) = worst {
            faults.push((kind, self.describe(kind, "copied to", address, other)));
        }
        Ok(())
    }

    /// Puts bytes where a copy under way will bring them, without ending it.
    pub(crate) fn place(&mut self, address: u64, bytes: &[u8]) {
        let start = address as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Ends a copy: from now on the bytes count as written by this thread at this tick.
    pub(crate) fn finish_copy(
        &mut self,
        (writer, tick): (u16, u32),
        (address, size): (u64, usize),
        asynchronous: bool,
    ) {
        let range = address as usize..address as usize + size;
        for index in range.start / 4..range.end.div_ceil(4) {
            let mask = mask_of(index, &range);
            let word = &mut self.words[index];
            word.set_written(writer, tick, mask);
            if asynchronous {
                word.state |= ASYNCHRONOUS;
            }
        }
    }

    /// Whether the last write of a word is known to a user.
    pub(crate) fn is_known(&self, user: User<'_>, address: u64) -> bool {
        let word = self.words.get(address as usize / 4);
        word.is_some_and(|word| {
            word.writer != NOBODY && user.knows(word.writer, false, word.write_tick)
        })
    }

    fn worst_conflict(
        &self,
        user: User<'_>,
        range: &std::ops::Range<usize>,
    ) -> Option<(FindingKind, u16)> {
        // Words of one access mostly are alike.
        let mut alike = None;
        (range.start / 4..range.end.div_ceil(4)).find_map(|index| {
            let mask = mask_of(index, range);
            let place = (self.words[index], mask);
            if alike == Some(place) {
                return None;
            }
            alike = Some(place);
            self.conflict_of_write(user, index, mask)
        })
    }

    fn conflict_of_write(
        &self,
        user: User<'_>,
        index: usize,
        mask: u8,
    ) -> Option<(FindingKind, u16)> {
        let word = &self.words[index];
        if word.state & IN_FLIGHT != 0 {
            return Some((FindingKind::InFlight, word.writer));
        }
        if word.writer != NOBODY && word.bytes >> 4 & mask != 0 {
            if !user.knows(word.writer, false, word.write_tick) {
                return Some((FindingKind::Race, word.writer));
            }
            if user.asynchronous && !word.is_visible(user) {
                return Some((FindingKind::Fence, word.writer));
            }
        }
        if word.state & mask & 0xf == 0 {
            return None;
        }
        self.readers(word.readers)
            .into_iter()
            .find(|reader| !user.knows(reader.thread, reader.several, reader.tick))
            .map(|reader| match reader.tick {
                UNDER_WAY => (FindingKind::InFlight, reader.thread),
                _ => (FindingKind::Race, reader.thread),
            })
    }

    fn readers(&self, readers: Readers) -> Vec<Reader> {
        match readers {
            Readers::NONE => Vec::new(),
            Readers(bits) if bits & Readers::SET != 0 => {
                self.sets[(bits & !Readers::SET) as usize].clone()
            }
            Readers(bits) => vec![Reader {
                thread: (bits >> 33) as u16,
                several: bits >> 32 & 1 == 1,
                tick: bits as u32,
            }],
        }
    }

    fn numbered(&mut self, mut list: Vec<Reader>) -> Readers {
        match list.as_slice() {
            [] => Readers::NONE,
            [reader] => Readers::one(*reader),
            _ => {
                list.sort_unstable();
                let next = self.sets.len() as u64;
                let sets = &mut self.sets;
                let number = *self.numbers.entry(list).or_insert_with_key(|list| {
                    sets.push(list.clone());
                    next
                });
                Readers(Readers::SET | number)
            }
        }
    }

    /// The readers and one more; those that it knows of are left out.
    fn with_reader(&mut self, readers: Readers, reader: Reader, user: User<'_>) -> Readers {
        let threads = self.threads;
        let mut list = self.readers(readers);
        let mut new = reader;
        list.retain(|other| {
            if user.knows(other.thread, other.several, other.tick) {
                return false;
            }
            // Reads under way are ended one by one, so they stay apart from those that are not.
            let is_alike = (other.tick == UNDER_WAY) == (new.tick == UNDER_WAY);
            let same_warp = other.thread / 32 == new.thread / 32
                && u32::from(new.thread) < threads
                && new.tick != UNDER_WAY;
            if is_alike && (same_warp || other.thread == new.thread) {
                new.several |= other.several || other.thread != new.thread;
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
        for reader in &mut list {
            if reader.tick == UNDER_WAY && reader.thread == user.reads_as.unwrap_or(user.thread) {
                reader.tick = user.tick;
            }
        }
        list.dedup();
        self.numbered(list)
    }

    fn describe(&self, kind: FindingKind, verb: &str, address: u64, other: u16) -> String {
        let who = match u32::from(other).checked_sub(self.threads) {
            None => format!("thread {other}"),
            Some(warp @ 0..MOST_WARPS) => format!("a product of warp {warp}"),
            Some(copies) => format!("a copy to barrier {}", copies - MOST_WARPS),
        };
        match kind {
            FindingKind::InFlight => {
                format!(
                    "shared memory at {address} is {verb} while an operation by {who} is under way"
                )
            }
            FindingKind::Uninitialised => {
                format!("shared memory at {address} is {verb} before anything is written there")
            }
            FindingKind::Fence => format!(
                "shared memory at {address} is {verb} by the asynchronous proxy with no fence.proxy.async after {who} wrote it"
            ),
            _ => {
                format!(
                    "shared memory at {address} is {verb} with no barrier after its use by {who}"
                )
            }
        }
    }
}

impl Word {
    fn conflict_of_read(&self, user: User<'_>, mask: u8) -> Option<(FindingKind, u16)> {
        if self.state & IN_FLIGHT != 0 {
            Some((FindingKind::InFlight, self.writer))
        } else if self.bytes & mask != mask {
            Some((FindingKind::Uninitialised, user.thread))
        } else if self.bytes >> 4 & mask == 0 {
            // The last write was to other bytes of the word.
            None
        } else if !user.knows(self.writer, false, self.write_tick) {
            Some((FindingKind::Race, self.writer))
        } else if user.asynchronous && !self.is_visible(user) {
            Some((FindingKind::Fence, self.writer))
        } else {
            None
        }
    }

    /// Whether the last write is visible to the asynchronous proxy of a user.
    fn is_visible(&self, user: User<'_>) -> bool {
        self.state & ASYNCHRONOUS != 0 || self.write_tick < user.knowledge.fenced.of(self.writer)
    }

    fn set_written(&mut self, writer: u16, tick: u32, mask: u8) {
        // Neighbours in a word by the same thread at the same time are one write.
        let together = self.writer == writer && self.write_tick == tick && self.state & 0xf0 == 0;
        let last = if together {
            self.bytes >> 4 | mask
        } else {
            mask
        };
        self.bytes = self.bytes & 0xf | mask | last << 4;
        self.writer = writer;
        self.write_tick = tick;
        self.state = 0;
        self.readers = Readers::NONE;
    }
}

/// The bytes of a word that lie in a range.
fn mask_of(index: usize, range: &std::ops::Range<usize>) -> u8 {
    let first = range.start.saturating_sub(index * 4).min(4);
    let last = range.end.saturating_sub(index * 4).min(4);
    (0xf << first & 0xf >> (4 - last)) as u8
}
