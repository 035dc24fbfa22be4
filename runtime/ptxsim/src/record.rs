//! A record of who used each word of a memory.
//!
//! Two uses of a byte by different threads, one of them a write, need an order: a barrier between them, or a release that
//! an acquire saw. Uses carry ticks, users bring what they know; see [`crate::clock`]. A record holds the last write and
//! the reads since, as far as none of them is known to the others. Strong uses, such as atomic ones, need no order among
//! themselves if their scopes cover both threads. What the asynchronous proxy reads that a thread wrote also needs a
//! `fence.proxy.async` on the way.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::agents::{Agent, NOBODY};
use crate::finding::FindingKind;
use crate::readers::{Reader, Readers, merged};
pub(crate) use crate::user::{Conflict, UNDER_WAY, User};
use crate::word::{ASYNCHRONOUS, FRESH, IN_FLIGHT, SCOPE, WHOLE, Word, mask_of};

/// Bytes that have one record as long as they are used together, and the words that they are otherwise.
const CHUNK: usize = 16;
const CHUNK_WORDS: usize = CHUNK / 4;

/// The records of words that lie together.
#[derive(Debug)]
pub(crate) struct Words {
    /// One record for each chunk, good for each of its words unless it is split; then, if any was ever split, one for each
    /// word.
    words: Vec<Word>,
    split: Vec<bool>,
    sets: Vec<Vec<Reader>>,
    numbers: FxHashMap<Vec<Reader>, u64>,
    /// Whether clusters never hear of each other, so that two of them that read a word stand for all.
    apart: bool,
    /// Readers that a warp was found to know all of, and the warp: what is known stays known.
    known: Vec<(Readers, u32, u32)>,
}

/// Reads on their way.
struct Reading<'w> {
    user: User<'w>,
    reader: Reader,
    /// Words of one access mostly are alike: a word as it was, read without a fault, and as it is then.
    alike: Option<(Word, Word)>,
    /// The same for its readers alone.
    last: Option<(Readers, Readers)>,
}

/// How many of those are kept.
const KNOWN: usize = 64;

impl Words {
    /// Records of memory of which nothing was written.
    pub(crate) fn new(bytes: usize, apart: bool) -> Words {
        Words {
            words: vec![FRESH; bytes.div_ceil(CHUNK)],
            split: vec![false; bytes.div_ceil(CHUNK)],
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            apart,
            known: Vec::new(),
        }
    }

    /// Marks all bytes as written before anyone here could.
    pub(crate) fn set_all_existing(&mut self) {
        self.words.fill(Word {
            bytes: WHOLE,
            ..FRESH
        });
    }

    /// Marks a byte as written before anyone here could.
    pub(crate) fn set_existing(&mut self, byte: usize) {
        let slot = self.slots(&(byte..byte + 1)).next().map(|(slot, _)| slot);
        if let Some(slot) = slot {
            self.words[slot].bytes |= 1 << (byte % 4);
        }
    }

    /// Whether a byte was ever written.
    pub(crate) fn is_written(&self, byte: usize) -> bool {
        self.words[self.slot_of(byte)].bytes >> (byte % 4) & 1 == 1
    }

    /// Where the record of a byte is.
    fn slot_of(&self, byte: usize) -> usize {
        match self.split[byte / CHUNK] {
            true => self.split.len() + byte / 4,
            false => byte / CHUNK,
        }
    }

    /// Where the record of a range is that is one chunk with one record.
    #[inline]
    fn slot_of_chunk(&self, range: &Range<usize>) -> Option<usize> {
        let chunk = range.start / CHUNK;
        let is_whole = range.start.is_multiple_of(CHUNK) && range.end - range.start == CHUNK;
        (is_whole && !self.split[chunk]).then_some(chunk)
    }

    /// Where the records of a range are, each with the bytes of its words that lie in the range. Chunks of which only a
    /// part is meant are split.
    fn slots(&mut self, range: &Range<usize>) -> impl Iterator<Item = (usize, u8)> + use<> {
        let chunks = self.split.len();
        let is_whole =
            |chunk: usize| range.start <= chunk * CHUNK && (chunk + 1) * CHUNK <= range.end;
        let (first, last) = (range.start / CHUNK, range.end.saturating_sub(1) / CHUNK);
        let mut all_whole = is_whole(first) && is_whole(last);
        for chunk in [first, last] {
            if !is_whole(chunk) && !self.split[chunk] {
                self.split[chunk] = true;
                self.words.resize(chunks * (1 + CHUNK_WORDS), FRESH);
                let start = chunks + chunk * CHUNK_WORDS;
                let record = self.words[chunk];
                self.words[start..start + CHUNK_WORDS].fill(record);
            }
        }
        all_whole = all_whole && !self.split[first..=last].contains(&true);
        let range = range.clone();
        // Those in between may have been split before.
        let split: Vec<bool> = match all_whole || first == last {
            true => Vec::new(),
            false => self.split[first..=last].to_vec(),
        };
        let (from, to) = match all_whole {
            true => (first, last + 1),
            false => (range.start / 4, range.end.div_ceil(4)),
        };
        (from..to).filter_map(move |index| {
            if all_whole {
                return Some((index, WHOLE));
            }
            let chunk = index / CHUNK_WORDS;
            match split.get(chunk - first) {
                Some(false) => (index % CHUNK_WORDS == 0).then_some((chunk, WHOLE)),
                _ => Some((chunks + index, mask_of(index, &range))),
            }
        })
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
        let mut reading = Reading {
            user,
            reader,
            alike: None,
            last: None,
        };
        for range in ranges {
            let worst = match self.slot_of_chunk(&range) {
                Some(slot) => self.read_slot(&mut reading, (slot, WHOLE)),
                None => {
                    let mut worst = None;
                    for slot in self.slots(&range) {
                        let conflict = self.read_slot(&mut reading, slot);
                        worst = worst.or(conflict);
                    }
                    worst
                }
            };
            if let Some(conflict) = worst {
                found(range.start, conflict);
            }
        }
    }

    /// Records a read of bytes of a word, or of each word of a chunk.
    #[inline]
    fn read_slot(
        &mut self,
        reading: &mut Reading<'_>,
        (slot, mask): (usize, u8),
    ) -> Option<Conflict> {
        let word = self.words[slot];
        if let Some((before, after)) = reading.alike
            && mask == WHOLE
            && before == word
        {
            self.words[slot] = after;
            return None;
        }
        let conflict = word.conflict_of_read(reading.user, mask);
        let readers = match reading.last {
            Some((before, after)) if before == word.readers => after,
            _ => self.with_reader(word.readers, reading.reader, reading.user),
        };
        reading.last = Some((word.readers, readers));
        let after = Word {
            readers,
            state: word.state | mask,
            ..word
        };
        self.words[slot] = after;
        if conflict.is_none() && mask == WHOLE {
            reading.alike = Some((word, after));
        }
        conflict
    }

    /// Ends reads that were under way.
    pub(crate) fn finish_reads(
        &mut self,
        user: User<'_>,
        ranges: impl Iterator<Item = Range<usize>>,
    ) {
        let mut known = (Readers::NONE, Readers::NONE);
        for range in ranges {
            if let Some(slot) = self.slot_of_chunk(&range)
                && self.words[slot].readers == known.0
            {
                self.words[slot].readers = known.1;
                continue;
            }
            for (slot, _) in self.slots(&range) {
                let old = self.words[slot].readers;
                if known.0 != old {
                    known = (old, self.with_finished(old, user));
                }
                self.words[slot].readers = known.1;
            }
        }
    }

    /// Records a write.
    pub(crate) fn set_written(&mut self, user: User<'_>, range: &Range<usize>) {
        let strong = user.strong.map_or(0, |scope| (scope as u8) << SCOPE);
        let asynchronous = if user.asynchronous { ASYNCHRONOUS } else { 0 };
        if range.start.is_multiple_of(CHUNK) && range.end.is_multiple_of(CHUNK) {
            let chunks = range.start / CHUNK..range.end / CHUNK;
            self.split[chunks.clone()].fill(false);
            self.words[chunks].fill(Word {
                readers: Readers::NONE,
                write_tick: user.tick,
                cluster: user.cluster,
                writer: user.thread,
                bytes: WHOLE | WHOLE << 4,
                state: strong | asynchronous,
            });
            return;
        }
        for (slot, mask) in self.slots(range) {
            let word = &mut self.words[slot];
            word.set_written((user.cluster, user.thread, user.tick), mask);
            word.state |= strong | asynchronous;
        }
    }

    /// Records the start of a copy, by someone who will count as `writer`.
    pub(crate) fn start_copy(&mut self, user: User<'_>, range: &Range<usize>, writer: Agent) {
        if let Some(slot) = self.slot_of_chunk(range) {
            let word = &mut self.words[slot];
            word.state |= IN_FLIGHT;
            word.cluster = user.cluster;
            word.writer = writer;
            return;
        }
        for (slot, _) in self.slots(range) {
            let word = &mut self.words[slot];
            word.state |= IN_FLIGHT;
            word.cluster = user.cluster;
            word.writer = writer;
        }
    }

    /// Whether the last write of a byte's word is known to a user.
    pub(crate) fn is_known(&self, user: User<'_>, byte: usize) -> bool {
        if byte / CHUNK >= self.split.len() {
            return false;
        }
        let word = self.words[self.slot_of(byte)];
        word.writer != NOBODY && user.knows(word.cluster, word.writer, false, word.write_tick)
    }

    /// The first conflict of a write.
    pub(crate) fn conflict_of_write(
        &mut self,
        user: User<'_>,
        range: &Range<usize>,
    ) -> Option<Conflict> {
        if let Some(slot) = self.slot_of_chunk(range) {
            return self.conflict_in(user, self.words[slot], WHOLE);
        }
        // Words of one access mostly are alike.
        let mut alike = None;
        self.slots(range).find_map(|(slot, mask)| {
            let place = (self.words[slot], mask);
            if alike == Some(place) {
                return None;
            }
            alike = Some(place);
            self.conflict_in(user, place.0, mask)
        })
    }

    /// Whether all readers are known to the whole warp of a user; if not, they may still be to the user.
    fn are_known(&mut self, readers: Readers, user: User<'_>) -> bool {
        let warp = match user.agents.is_thread(user.thread) {
            true => u32::from(user.thread) / 32,
            // Others are told apart one by one.
            false => 1 << 16 | u32::from(user.thread),
        };
        let entry = (readers, user.cluster, warp);
        let mixed = (readers.0 ^ u64::from(warp) << 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> 32) as usize % KNOWN;
        if self.known.get(slot) == Some(&entry) {
            return true;
        }
        let strict = User {
            whole_warp: true,
            ..user
        };
        let knows = |reader: &Reader| {
            strict.knows(reader.cluster, reader.agent, reader.several, reader.tick)
        };
        let known = match readers {
            Readers(bits) if bits & Readers::SET != 0 => {
                let set = &self.sets[(bits & !Readers::SET) as usize];
                set.iter().all(knows)
            }
            one => knows(&one.reader()),
        };
        if known && !user.is_apart {
            if self.known.is_empty() {
                self.known = vec![(Readers::NONE, 0, 0); KNOWN];
            }
            self.known[slot] = entry;
        }
        known
    }

    fn conflict_in(&mut self, user: User<'_>, word: Word, mask: u8) -> Option<Conflict> {
        if let Some(kind) = word.conflict_with_write(user, mask) {
            return Some(word.conflict(kind));
        }
        if word.state & mask & 0xf == 0
            || word.readers == Readers::NONE
            || self.are_known(word.readers, user)
        {
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
        if readers.0 & Readers::ONE != 0
            && let Some(one) = merged(readers.reader(), reader, user).and_then(Readers::one)
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
        list.retain(|&other| match merged(other, new, user) {
            Some(both) => {
                new = both;
                false
            }
            None => true,
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
