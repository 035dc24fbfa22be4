//! Global memory: allocations far apart from each other, each byte with a mark whether it was written.

use crate::finding::FindingKind;
use crate::global::OpenMemory;

/// Where the first allocation lies.
const FIRST: u64 = 0x7f00_0000_0000;

/// From one allocation to the next; none is as large.
const STRIDE: u64 = 1 << 36;

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer(u64);

impl Pointer {
    /// The address of the allocation's first byte.
    pub const fn address(self) -> u64 {
        self.0
    }
}

/// A GPU's global memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    allocations: Vec<Allocation>,
}

#[derive(Clone, Debug)]
struct Allocation {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

/// Why an access failed: which kind of fault, and what to say.
pub(crate) type Fault = (FindingKind, String);

impl Memory {
    /// An empty memory.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Allocates memory with these contents, aligned to 256 bytes.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> Pointer {
        let written = vec![true; bytes.len()];
        self.push(Allocation { bytes, written })
    }

    /// Allocates memory that holds nothing: reading a byte before it is written is a finding. The bytes are 0xff until then,
    /// which is a NaN in every floating-point type.
    pub fn allocate_uninitialised(&mut self, size: usize) -> Pointer {
        self.push(Allocation {
            bytes: vec![0xff; size],
            written: vec![false; size],
        })
    }

    /// The contents of an allocation.
    pub fn bytes(&self, pointer: Pointer) -> &[u8] {
        &self.allocations[((pointer.0 - FIRST) / STRIDE) as usize].bytes
    }

    /// Whether every byte of an allocation was written.
    pub fn is_initialised(&self, pointer: Pointer) -> bool {
        self.allocations[((pointer.0 - FIRST) / STRIDE) as usize]
            .written
            .iter()
            .all(|&written| written)
    }

    /// Gives an allocation's memory back. Whatever is accessed there afterwards is out of bounds; no other allocation comes to lie
    /// there.
    pub fn free(&mut self, pointer: Pointer) {
        let allocation = &mut self.allocations[((pointer.0 - FIRST) / STRIDE) as usize];
        allocation.bytes = Vec::new();
        allocation.written = Vec::new();
    }

    fn push(&mut self, allocation: Allocation) -> Pointer {
        self.allocations.push(allocation);
        Pointer(FIRST + (self.allocations.len() as u64 - 1) * STRIDE)
    }

    /// Opens the memory to clusters that run at the same time, for as long as `work` takes. `apart` says that they never
    /// hear of each other.
    pub(crate) fn open<T>(&mut self, apart: bool, work: impl FnOnce(&OpenMemory) -> T) -> T {
        let taken = std::mem::take(&mut self.allocations);
        let open = OpenMemory::new(taken.into_iter().map(|one| (one.bytes, one.written)), apart);
        let result = work(&open);
        self.allocations = open
            .close()
            .map(|(bytes, written)| Allocation { bytes, written })
            .collect();
        result
    }
}

/// Where an address lies: the number of its allocation, and the bytes before it there.
pub(crate) fn locate(address: u64) -> Option<(usize, usize)> {
    let offset = address.checked_sub(FIRST)?;
    Some(((offset / STRIDE) as usize, (offset % STRIDE) as usize))
}

/// Whether an address is a multiple of an access's size.
pub(crate) fn check_alignment(address: u64, size: usize) -> Result<(), Fault> {
    if address.is_multiple_of(size as u64) {
        return Ok(());
    }
    Err((
        FindingKind::Misaligned,
        format!("{size} bytes at {address:#x}"),
    ))
}
