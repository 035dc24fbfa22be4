//! Tensor maps (PTX ISA, "Tensor-map"): tensors in global memory and the boxes of them that copies take.

use crate::error::Error;
use crate::memory::Pointer;

/// How the 16-byte chunks of a box's lines are permuted in shared memory: by an XOR with bits of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within 32 bytes, by bit 7.
    Bytes32,
    /// Within 64 bytes, by bits 7 and 8.
    Bytes64,
    /// Within 128 bytes, by bits 7 to 9.
    Bytes128,
}

impl Swizzle {
    /// Bytes within which chunks are permuted.
    pub(crate) const fn span(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Where a byte lies: bits 4 and up of its address, as many as the span leaves, are XORed with those from bit 7 on.
    pub(crate) const fn apply(self, address: u64) -> u64 {
        let mask = self.span() as u64 / 16 - 1;
        address ^ ((address >> 7 & mask) << 4)
    }
}

/// A tensor in global memory, the first dimension contiguous, and a box of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The allocation.
    pub pointer: Pointer,
    /// Bytes from its start to the first element; a multiple of 16.
    pub offset_bytes: u64,
    /// Bytes of an element: 1, 2, 4 or 8. Elements of four bytes are single-precision numbers where they are added up.
    pub element_bytes: u32,
    /// Elements along each dimension, 1 to 5 of them.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the first; multiples of 16.
    pub strides_bytes: Vec<u64>,
    /// Elements of a box along each dimension, at most 256.
    pub box_extents: Vec<u32>,
    /// How boxes lie in shared memory.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Bytes of a box.
    pub(crate) fn box_bytes(&self) -> usize {
        let elements: u32 = self.box_extents.iter().product();
        elements as usize * self.element_bytes as usize
    }

    /// Looks for what `cuTensorMapEncodeTiled` refuses.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let rank = self.extents.len();
        let refused = |message: &str| Err(Error::Launch(format!("a tensor map: {message}")));
        if !(1..=5).contains(&rank)
            || self.strides_bytes.len() + 1 != rank
            || self.box_extents.len() != rank
        {
            return refused("its dimensions do not go together");
        }
        if !matches!(self.element_bytes, 1 | 2 | 4 | 8) {
            return refused("elements have 1, 2, 4 or 8 bytes");
        }
        if !self.offset_bytes.is_multiple_of(16) {
            return refused("its start is no multiple of 16 bytes");
        }
        let limit = 1u64 << 40;
        if self
            .strides_bytes
            .iter()
            .any(|&stride| !stride.is_multiple_of(16) || stride >= limit)
        {
            return refused("a stride is no multiple of 16 bytes, or not below 2^40");
        }
        if self
            .extents
            .iter()
            .any(|&extent| extent == 0 || extent > 1 << 32)
        {
            return refused("an extent is not between 1 and 2^32");
        }
        if self
            .box_extents
            .iter()
            .any(|&extent| extent == 0 || extent > 256)
        {
            return refused("a box's extent is not between 1 and 256");
        }
        let line = self.box_extents[0] * self.element_bytes;
        if !line.is_multiple_of(16) {
            return refused("a box's line is no multiple of 16 bytes");
        }
        if self.swizzle != Swizzle::None && line != self.swizzle.span() {
            return refused("a box's line is not as long as what its chunks are permuted in");
        }
        Ok(())
    }

    /// The lines of the box at a place: for each, the address of its first element that lies within the tensor, how many
    /// elements come before that one, and how many lie within; no elements where the line lies outside.
    pub(crate) fn lines<'m>(&'m self, place: &'m [i64]) -> impl Iterator<Item = Line> + 'm {
        let count: u32 = self.box_extents[1..].iter().product();
        let base = self.pointer.address() + self.offset_bytes;
        let first = place[0].max(0);
        let end = (place[0] + i64::from(self.box_extents[0])).min(self.extents[0] as i64);
        let width = (end - first).max(0) as usize;
        (0..count).map(move |number| {
            let mut rest = number;
            let mut address = base + first as u64 * u64::from(self.element_bytes);
            let mut inside = width > 0;
            let others = place[1..].iter().zip(&self.extents[1..]);
            let steps = self.box_extents[1..].iter().zip(&self.strides_bytes);
            for ((&place, &extent), (&count, &stride)) in others.zip(steps) {
                let index = place + i64::from(rest % count);
                rest /= count;
                inside &= index >= 0 && index < extent as i64;
                address = address.wrapping_add((index as u64).wrapping_mul(stride));
            }
            Line {
                address,
                skipped: (first - place[0]) as usize,
                elements: if inside { width } else { 0 },
            }
        })
    }
}

/// A line of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub address: u64,
    pub skipped: usize,
    pub elements: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn boxes_are_cut_off_at_every_side() {
        let mut memory = Memory::new();
        let pointer = memory.allocate(vec![0; 512]);
        let map = TensorMap {
            pointer,
            offset_bytes: 16,
            element_bytes: 2,
            extents: vec![10, 3],
            strides_bytes: vec![32],
            box_extents: vec![8, 4],
            swizzle: Swizzle::None,
        };
        map.validate().unwrap();
        let lines: Vec<Line> = map.lines(&[6, -1]).collect();
        let base = pointer.address() + 16 + 12;
        let inside = |index: u64| Line {
            address: base + index * 32,
            skipped: 0,
            elements: 4,
        };
        assert_eq!(lines[0].elements, 0);
        assert_eq!(&lines[1..], [inside(0), inside(1), inside(2)]);
        let left: Vec<Line> = map.lines(&[-3, 2]).collect();
        assert_eq!((left[0].skipped, left[0].elements), (3, 5));
        assert_eq!(left[1].elements, 0);
        assert!(map.lines(&[10, 0]).all(|line| line.elements == 0));
    }

    #[test]
    fn chunks_are_permuted_by_the_line() {
        assert_eq!(Swizzle::Bytes128.apply(0x080), 0x090);
        assert_eq!(Swizzle::Bytes128.apply(0x3f0), 0x380);
        assert_eq!(Swizzle::Bytes64.apply(0x1b4), 0x184);
        assert_eq!(Swizzle::Bytes32.apply(0x094), 0x084);
        assert_eq!(Swizzle::None.apply(0x3f0), 0x3f0);
    }
}
