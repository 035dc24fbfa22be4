//! Global memory while a launch runs: pages with a lock each, and a record of who used each word.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::clock::Part;
use crate::finding::FindingKind;
use crate::memory::{Fault, locate};
use crate::record::{Conflict, User, Words};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Memory that several clusters use at the same time.
pub(crate) struct OpenMemory {
    allocations: Vec<OpenAllocation>,
    /// Whether clusters never hear of each other.
    apart: bool,
    /// What was handed over, at which address.
    handed_over: Mutex<FxHashMap<u64, Vec<Part>>>,
}

struct OpenAllocation {
    length: usize,
    pages: Vec<Mutex<Page>>,
}

struct Page {
    bytes: Vec<u8>,
    /// What was written before the launch; all of it if there is nothing here.
    existing: Vec<bool>,
    /// Made when the page is first used.
    words: Option<Words>,
}

impl Page {
    fn words(&mut self, apart: bool) -> &mut Words {
        let Page {
            bytes,
            existing,
            words,
        } = self;
        words.get_or_insert_with(|| {
            let mut words = Words::new(bytes.len(), apart);
            if existing.is_empty() {
                words.set_all_existing();
            }
            for (byte, &written) in existing.iter().enumerate() {
                if written {
                    words.set_existing(byte);
                }
            }
            words
        })
    }
}

impl OpenMemory {
    /// Opens allocations: their bytes, and which of them were written.
    pub(crate) fn new(
        allocations: impl Iterator<Item = (Vec<u8>, Vec<bool>)>,
        apart: bool,
    ) -> OpenMemory {
        let allocations = allocations.map(|(bytes, written)| OpenAllocation {
            length: bytes.len(),
            pages: bytes
                .chunks(PAGE)
                .zip(written.chunks(PAGE))
                .map(|(bytes, written)| {
                    let is_whole = written.iter().all(|&written| written);
                    Mutex::new(Page {
                        bytes: bytes.to_vec(),
                        existing: if is_whole {
                            Vec::new()
                        } else {
                            written.to_vec()
                        },
                        words: None,
                    })
                })
                .collect(),
        });
        OpenMemory {
            allocations: allocations.collect(),
            apart,
            handed_over: Mutex::default(),
        }
    }

    /// What was handed over, at which address.
    pub(crate) fn handed_over(&self) -> MutexGuard<'_, FxHashMap<u64, Vec<Part>>> {
        let lock = self.handed_over.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// The allocations' bytes, and which of them are written now.
    pub(crate) fn close(self) -> impl Iterator<Item = (Vec<u8>, Vec<bool>)> {
        self.allocations.into_iter().map(|allocation| {
            let mut all = Vec::with_capacity(allocation.length);
            let mut written = Vec::with_capacity(allocation.length);
            for page in allocation.pages {
                let page = page.into_inner().unwrap_or_else(PoisonError::into_inner);
                let length = page.bytes.len();
                all.extend(page.bytes);
                match page.words {
                    // What was written stays so.
                    _ if page.existing.is_empty() => written.resize(all.len(), true),
                    Some(words) => written.extend((0..length).map(|byte| words.is_written(byte))),
                    None => written.extend(page.existing),
                }
            }
            (all, written)
        })
    }

    /// A place to use memory from, which keeps the page that was used last.
    pub(crate) fn window(&self) -> Window<'_> {
        Window {
            memory: self,
            held: None,
        }
    }

    /// Finds `size` bytes.
    fn locate(&self, address: u64, size: usize) -> Result<(usize, usize), Fault> {
        let outside = |message: String| (FindingKind::OutOfBounds, message);
        let found = locate(address)
            .and_then(|(number, offset)| Some((self.allocations.get(number)?, number, offset)));
        let Some((allocation, number, offset)) = found else {
            let message = format!("{size} bytes at {address:#x}, where nothing is allocated");
            return Err(outside(message));
        };
        if offset + size > allocation.length {
            let length = allocation.length;
            return Err(outside(format!(
                "{size} bytes at offset {offset} of an allocation of {length}"
            )));
        }
        Ok((number, offset))
    }
}

/// What uses memory, with the lock of the page that it used last: nobody else may be waited for meanwhile.
pub(crate) struct Window<'m> {
    memory: &'m OpenMemory,
    held: Option<(usize, usize, MutexGuard<'m, Page>)>,
}

impl<'m> Window<'m> {
    fn page(&mut self, number: usize, page: usize) -> &mut Page {
        let is_held =
            matches!(&self.held, Some((held, other, _)) if (*held, *other) == (number, page));
        if !is_held {
            // One lock at a time.
            self.held = None;
        }
        let memory = self.memory;
        let (_, _, guard) = self.held.get_or_insert_with(|| {
            let lock = &memory.allocations[number].pages[page];
            (
                number,
                page,
                lock.lock().unwrap_or_else(PoisonError::into_inner),
            )
        });
        guard
    }

    /// The parts of a range of an allocation's bytes that lie in one page each: the page, the part's place in it, and its
    /// place in the range.
    fn parts(
        offset: usize,
        size: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        (offset / PAGE..(offset + size).div_ceil(PAGE)).map(move |page| {
            let start = offset.max(page * PAGE);
            let end = (offset + size).min((page + 1) * PAGE);
            let place = start - page * PAGE..end - page * PAGE;
            (page, place, start - offset..end - offset)
        })
    }

    /// Reads bytes. Faults that do not keep them from being read are added to `faults`.
    pub(crate) fn read(
        &mut self,
        user: User<'_>,
        address: u64,
        into: &mut [u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let apart = self.memory.apart;
        let (number, offset) = self.memory.locate(address, into.len())?;
        let mut worst = None;
        for (page, place, part) in Self::parts(offset, into.len()) {
            let page = self.page(number, page);
            into[part].copy_from_slice(&page.bytes[place.clone()]);
            let ranges = std::iter::once(place);
            page.words(apart)
                .start_reads(user, user.tick, ranges, |_, conflict| {
                    worst = worst.or(Some(conflict));
                });
        }
        if let Some(conflict) = worst {
            faults.push(describe(user, "read", (number, offset), conflict));
        }
        Ok(())
    }

    /// Reads bytes with no record of it.
    pub(crate) fn peek(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if into.is_empty() {
            return Ok(());
        }
        let (number, offset) = self.memory.locate(address, into.len())?;
        for (page, place, part) in Self::parts(offset, into.len()) {
            into[part].copy_from_slice(&self.page(number, page).bytes[place]);
        }
        Ok(())
    }

    /// Whether other bytes than these lie there.
    pub(crate) fn differs(&mut self, address: u64, bytes: &[u8]) -> Result<bool, Fault> {
        let (number, offset) = self.memory.locate(address, bytes.len())?;
        let mut parts = Self::parts(offset, bytes.len());
        Ok(parts.any(|(page, place, part)| self.page(number, page).bytes[place] != bytes[part]))
    }

    /// Writes bytes. Faults that do not keep them from being written are added to `faults`.
    pub(crate) fn write(
        &mut self,
        user: User<'_>,
        address: u64,
        bytes: &[u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let apart = self.memory.apart;
        let (number, offset) = self.memory.locate(address, bytes.len())?;
        let mut worst = None;
        for (page, place, part) in Self::parts(offset, bytes.len()) {
            let page = self.page(number, page);
            page.bytes[place.clone()].copy_from_slice(&bytes[part]);
            let words = page.words(apart);
            worst = worst.or_else(|| words.conflict_of_write(user, &place));
            words.set_written(user, &place);
        }
        if let Some(conflict) = worst {
            faults.push(describe(user, "written", (number, offset), conflict));
        }
        Ok(())
    }
}

fn describe(
    user: User<'_>,
    verb: &str,
    (number, offset): (usize, usize),
    conflict: Conflict,
) -> Fault {
    let place = format!("global memory at offset {offset} of allocation {number}");
    (
        conflict.kind,
        describe_use(user, verb, &place, conflict, "order"),
    )
}

/// A use that cannot be, in words. `order` is what would have made it right.
pub(crate) fn describe_use(
    user: User<'_>,
    verb: &str,
    place: &str,
    conflict: Conflict,
    order: &str,
) -> String {
    let rank = user.agents.rank(user.thread).unwrap_or(0);
    let block = user.cluster * user.agents.ranks + rank;
    let who = user
        .agents
        .describe(conflict.cluster, conflict.agent, block);
    match conflict.kind {
        FindingKind::InFlight => {
            format!("{place} is {verb} while an operation by {who} is under way")
        }
        FindingKind::Uninitialised => {
            format!("{place} is {verb} before anything is written there")
        }
        FindingKind::Fence => format!(
            "{place} is {verb} by the asynchronous proxy with no fence.proxy.async after {who} wrote it"
        ),
        _ => format!("{place} is {verb} with no {order} after its use by {who}"),
    }
}
