//! How operands of `wgmma` and `tcgen05.mma` may lie in shared memory (PTX ISA, "Canonical layouts"), shared by the tests of both.

use raddle_ptxsim::Swizzle;

/// One operand's layout in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub swizzle: Swizzle,
    pub along_terms: bool,
}

impl Layout {
    pub fn span(self) -> usize {
        match self.swizzle {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Bytes between patterns along the lines, and between groups of eight lines.
    pub fn offsets(self) -> (usize, usize) {
        match (self.swizzle, self.along_terms) {
            // Cores of 8 lines of 16 bytes: those along the terms 4096 bytes apart, those along the rows 128.
            (Swizzle::None, true) => (4096, 128),
            // And the other way round: the leading offset goes along the terms.
            (Swizzle::None, false) => (2048, 128),
            (_, true) => (16, 8 * self.span()),
            // Two groups of eight terms, then the next pattern along the rows.
            (_, false) => (2 * 8 * self.span(), 8 * self.span()),
        }
    }

    /// Where an element lies, in bytes from an address that is a multiple of 1024.
    pub fn place(self, outer: usize, term: usize) -> usize {
        let (leading, stride) = self.offsets();
        let span = self.span();
        let line = |line: usize, along: usize| line % 8 * span + line / 8 * stride + along;
        let address = match (self.swizzle, self.along_terms) {
            (Swizzle::None, true) => line(outer, term % 8 * 2) + term / 8 * leading,
            (Swizzle::None, false) => {
                term % 8 * 16 + term / 8 * leading + outer / 8 * stride + outer % 8 * 2
            }
            (_, true) => line(outer, term * 2),
            (_, false) => {
                let per_pattern = span / 2;
                line(term, outer % per_pattern * 2) + outer / per_pattern * leading
            }
        };
        let mask = span / 16 - 1;
        address ^ ((address >> 7 & mask) << 4)
    }

    /// The part of a descriptor that says where the operand starts and how far its patterns are apart, in units of 16 bytes.
    pub fn places(self, start: usize) -> u64 {
        let (leading, stride) = self.offsets();
        let field = |bytes: usize| bytes as u64 >> 4;
        field(start) | field(leading) << 16 | field(stride) << 32
    }
}
