//! Global memory: allocations far apart from each other, each byte with a mark whether it was written.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::finding::FindingKind;

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

    /// Opens the memory to blocks that run at the same time, for as long as `work` takes.
    pub(crate) fn open<T>(&mut self, work: impl FnOnce(&OpenMemory) -> T) -> T {
        let open = OpenMemory {
            allocations: std::mem::take(&mut self.allocations)
                .into_iter()
                .map(|allocation| OpenAllocation {
                    bytes: allocation.bytes.into_iter().map(AtomicU8::new).collect(),
                    written: allocation
                        .written
                        .into_iter()
                        .map(AtomicBool::new)
                        .collect(),
                })
                .collect(),
        };
        let result = work(&open);
        self.allocations = open
            .allocations
            .into_iter()
            .map(|allocation| Allocation {
                bytes: allocation
                    .bytes
                    .into_iter()
                    .map(AtomicU8::into_inner)
                    .collect(),
                written: allocation
                    .written
                    .into_iter()
                    .map(AtomicBool::into_inner)
                    .collect(),
            })
            .collect();
        result
    }
}

/// Memory that several blocks use at the same time.
pub(crate) struct OpenMemory {
    allocations: Vec<OpenAllocation>,
}

struct OpenAllocation {
    bytes: Vec<AtomicU8>,
    written: Vec<AtomicBool>,
}

impl OpenMemory {
    /// Finds `size` bytes.
    fn locate(&self, address: u64, size: usize) -> Result<(&OpenAllocation, usize), Fault> {
        let outside = |message: String| (FindingKind::OutOfBounds, message);
        let index = address.wrapping_sub(FIRST) / STRIDE;
        let Some(allocation) = self
            .allocations
            .get(index as usize)
            .filter(|_| address >= FIRST)
        else {
            return Err(outside(format!(
                "{size} bytes at {address:#x}, where nothing is allocated"
            )));
        };
        let offset = ((address - FIRST) % STRIDE) as usize;
        if offset + size > allocation.bytes.len() {
            let length = allocation.bytes.len();
            return Err(outside(format!(
                "{size} bytes at offset {offset} of an allocation of {length}"
            )));
        }
        Ok((allocation, offset))
    }

    /// Reads bytes; says whether all of them were written before.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<bool, Fault> {
        let (allocation, offset) = self.locate(address, into.len())?;
        let range = offset..offset + into.len();
        for (byte, source) in into.iter_mut().zip(&allocation.bytes[range.clone()]) {
            *byte = source.load(Ordering::Relaxed);
        }
        let mut written = allocation.written[range].iter();
        Ok(written.all(|written| written.load(Ordering::Relaxed)))
    }

    /// Writes bytes.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let (allocation, offset) = self.locate(address, bytes.len())?;
        let range = offset..offset + bytes.len();
        for (target, &byte) in allocation.bytes[range.clone()].iter().zip(bytes) {
            target.store(byte, Ordering::Relaxed);
        }
        for written in &allocation.written[range] {
            written.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
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
