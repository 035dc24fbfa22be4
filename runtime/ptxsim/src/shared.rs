//! Shared memory of one block, with a record of who used each word; see [`crate::record`].

use std::ops::Range;

use crate::agents::Agent;
use crate::finding::FindingKind;
use crate::global::describe_use;
use crate::memory::Fault;
use crate::record::{Conflict, User, Words};

/// Shared memory of one block.
pub(crate) struct Shared {
    bytes: Vec<u8>,
    words: Words,
    /// How often its bytes were changed.
    version: u64,
}

impl Shared {
    pub(crate) fn new(size: u32) -> Shared {
        Shared {
            bytes: vec![0xff; size as usize],
            words: Words::new(size as usize, false),
            version: 0,
        }
    }

    fn range(&self, address: u64, size: usize) -> Result<Range<usize>, Fault> {
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

    /// How often its bytes were changed.
    pub(crate) const fn version(&self) -> u64 {
        self.version
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
    ///
    /// [`UNDER_WAY`]: crate::record::UNDER_WAY
    pub(crate) fn start_reads(
        &mut self,
        user: User<'_>,
        tick: u32,
        (addresses, size): (&[u64], usize),
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        for &address in addresses {
            self.range(address, size)?;
        }
        let ranges = addresses
            .iter()
            .map(|&address| address as usize..address as usize + size);
        self.words
            .start_reads(user, tick, ranges, |place, conflict| {
                faults.push(describe(user, "read", place, conflict));
            });
        Ok(())
    }

    /// Ends reads that were under way.
    pub(crate) fn finish_reads(&mut self, user: User<'_>, (addresses, size): (&[u64], usize)) {
        let length = self.bytes.len();
        let ranges = addresses
            .iter()
            .map(|&address| address as usize..address as usize + size)
            .take_while(|range| range.end <= length);
        self.words.finish_reads(user, ranges);
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
        self.version += 1;
        let worst = self.words.conflict_of_write(user, &range);
        self.words.set_written(user, &range);
        if let Some(conflict) = worst {
            faults.push(describe(user, "written", range.start, conflict));
        }
        Ok(())
    }

    /// Marks bytes as the target of a copy that starts now, by a user, who will count as `writer`.
    pub(crate) fn start_copy(
        &mut self,
        user: User<'_>,
        (address, size): (u64, usize),
        writer: Agent,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, size)?;
        let worst = self.words.conflict_of_write(user, &range);
        self.words.start_copy(user, &range, writer);
        if let Some(conflict) = worst {
            faults.push(describe(user, "copied to", range.start, conflict));
        }
        Ok(())
    }

    /// Puts bytes where a copy under way will bring them, without ending it.
    pub(crate) fn place(&mut self, address: u64, bytes: &[u8]) {
        let start = address as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.version += 1;
    }

    /// Ends a copy: from now on the bytes count as written by this user.
    pub(crate) fn finish_copy(&mut self, writer: User<'_>, (address, size): (u64, usize)) {
        let range = address as usize..address as usize + size;
        self.words.set_written(writer, &range);
    }

    /// Whether the last write of a word is known to a user.
    pub(crate) fn is_known(&self, user: User<'_>, address: u64) -> bool {
        self.words.is_known(user, address as usize)
    }
}

fn describe(user: User<'_>, verb: &str, address: usize, conflict: Conflict) -> Fault {
    let place = format!("shared memory at {address}");
    let message = describe_use(user, verb, &place, conflict, "barrier");
    (conflict.kind, message)
}
