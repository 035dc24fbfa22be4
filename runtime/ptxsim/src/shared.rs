//! Shared memory of one block, with a record of who used each byte.
//!
//! Two uses of a byte by different threads, one of them a write, need a barrier between them: `bar.sync` for any two threads,
//! `bar.warp.sync` for two of one warp. Barriers are counted; a use remembers the counts at its time. Of the reads of a byte
//! the last one of each kind is remembered: by one warp, or by several.

use crate::finding::FindingKind;
use crate::memory::Fault;

/// Who uses shared memory, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub thread: u32,
    /// `bar.sync` so far in the block.
    pub block_round: u32,
    /// `bar.warp.sync` so far in the thread's warp.
    pub warp_round: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    /// The thread; [`MANY`] for several of different warps.
    thread: u32,
    /// Whether other threads of its warp are meant too.
    several: bool,
    block_round: u32,
    warp_round: u32,
}

const NOBODY: Use = Use {
    thread: u32::MAX,
    several: false,
    block_round: 0,
    warp_round: 0,
};

/// A thread's number that stands for threads of several warps.
const MANY: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Record {
    write: Use,
    read: Use,
    /// The thread whose asynchronous copy is under way; `u32::MAX` for none.
    copying: u32,
}

/// Shared memory of one block.
pub(crate) struct Shared {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Use {
    fn of(user: User) -> Use {
        Use {
            thread: user.thread,
            several: false,
            block_round: user.block_round,
            warp_round: user.warp_round,
        }
    }

    /// What to remember of this read and one by a user.
    fn and_read_by(self, user: User) -> Use {
        let mut latest = Use::of(user);
        if self.thread == u32::MAX
            || self.block_round < user.block_round
            || self.thread == user.thread
        {
            latest.several = self.several && self.block_round == user.block_round;
        } else if self.thread == MANY || self.thread / 32 != user.thread / 32 {
            latest.thread = MANY;
        } else {
            latest.several = self.several || self.warp_round == user.warp_round;
        }
        latest
    }

    /// Whether a use is ordered before one by this user.
    fn is_before(self, user: User) -> bool {
        let same_warp = self.thread != MANY && self.thread / 32 == user.thread / 32;
        self.thread == u32::MAX
            || (self.thread == user.thread && !self.several)
            || self.block_round < user.block_round
            || (same_warp && self.warp_round < user.warp_round)
    }
}

impl Shared {
    pub(crate) fn new(size: u32) -> Shared {
        let record = Record {
            write: NOBODY,
            read: NOBODY,
            copying: u32::MAX,
        };
        Shared {
            bytes: vec![0xff; size as usize],
            records: vec![record; size as usize],
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

    /// Reads bytes. Faults that do not keep them from being read are added to `faults`.
    pub(crate) fn read(
        &mut self,
        user: User,
        address: u64,
        into: &mut [u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.bytes[range.clone()]);
        let mut worst = None;
        for record in &mut self.records[range] {
            if record.copying != u32::MAX {
                worst = worst.or(Some((FindingKind::InFlight, record.copying)));
            } else if record.write.thread == u32::MAX {
                worst = worst.or(Some((FindingKind::Uninitialised, user.thread)));
            } else if !record.write.is_before(user) {
                worst = worst.or(Some((FindingKind::Race, record.write.thread)));
            }
            record.read = record.read.and_read_by(user);
        }
        if let Some((kind, other)) = worst {
            faults.push((kind, describe(kind, "read", address, other)));
        }
        Ok(())
    }

    /// Writes bytes. Faults that do not keep them from being written are added to `faults`.
    pub(crate) fn write(
        &mut self,
        user: User,
        address: u64,
        bytes: &[u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, bytes.len())?;
        self.bytes[range.clone()].copy_from_slice(bytes);
        let mut worst = None;
        for record in &mut self.records[range] {
            worst = worst.or(record.conflict_of_write(user));
            record.write = Use::of(user);
        }
        if let Some((kind, other)) = worst {
            faults.push((kind, describe(kind, "written", address, other)));
        }
        Ok(())
    }

    /// Marks bytes as the target of a copy that starts now.
    pub(crate) fn start_copy(
        &mut self,
        user: User,
        address: u64,
        size: usize,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let range = self.range(address, size)?;
        let mut worst = None;
        for record in &mut self.records[range] {
            worst = worst.or(record.conflict_of_write(user));
            record.copying = user.thread;
        }
        if let Some((kind, other)) = worst {
            faults.push((kind, describe(kind, "copied to", address, other)));
        }
        Ok(())
    }

    /// Puts bytes where a copy under way will bring them, without ending it.
    pub(crate) fn place(&mut self, address: u64, bytes: &[u8]) {
        let start = address as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Ends a copy: from now on the bytes count as written by the thread that waited.
    pub(crate) fn finish_copy(&mut self, user: User, address: u64, size: usize) {
        let start = address as usize;
        for record in &mut self.records[start..start + size] {
            record.copying = u32::MAX;
            record.write = Use::of(user);
        }
    }
}

impl Record {
    fn conflict_of_write(&self, user: User) -> Option<(FindingKind, u32)> {
        if self.copying != u32::MAX {
            Some((FindingKind::InFlight, self.copying))
        } else if !self.write.is_before(user) {
            Some((FindingKind::Race, self.write.thread))
        } else if !self.read.is_before(user) {
            Some((FindingKind::Race, self.read.thread))
        } else {
            None
        }
    }
}

fn describe(kind: FindingKind, verb: &str, address: u64, other: u32) -> String {
    let who = match other {
        MANY => "several threads".to_owned(),
        thread => format!("thread {thread}"),
    };
    match kind {
        FindingKind::InFlight => {
            format!("shared memory at {address} is {verb} while a copy by {who} is under way")
        }
        FindingKind::Uninitialised => {
            format!("shared memory at {address} is {verb} before anything is written there")
        }
        _ => format!("shared memory at {address} is {verb} with no barrier after its use by {who}"),
    }
}
