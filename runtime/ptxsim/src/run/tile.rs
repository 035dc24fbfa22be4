//! Operands of products that lie in shared memory, as numbers.

use std::sync::Arc;

use super::arithmetic::widen_all;
use super::block::Block;
use super::warpgroup::{CHUNK, CHUNK_BYTES, TERMS};
use crate::instruction::Element;

/// An operand in shared memory: the addresses of its chunks.
#[derive(Clone, PartialEq)]
pub(super) struct Tile {
    /// Whether chunks run along the terms.
    pub(super) along_terms: bool,
    /// Along the terms: two for each row or column. Otherwise: for each term, one for eight rows or columns.
    pub(super) chunks: Vec<u64>,
}

/// An operand that was decoded before, and what shared memory held then.
pub(super) struct Decoded {
    tile: Tile,
    element: Element,
    rank: u32,
    version: u64,
    elements: Arc<Vec<f32>>,
}

/// How many of those are kept: the parts of a stage or two.
const KEPT: usize = 8;

/// One row of a product's left operand.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    /// The operand, term after term.
    pub(super) left: &'t [f32],
    /// How many rows it has, and which one is meant.
    pub(super) rows: usize,
    pub(super) row: usize,
    /// 1 or −1, which multiplies it.
    pub(super) sign: f32,
}

/// Adds the row's product with the right operand to its sums, four terms at a time.
pub(super) fn add_product(sums: &mut [f32], of: Row<'_>, right: &[f32]) {
    let columns = sums.len();
    for term in (0..TERMS).step_by(4) {
        let factor = |further: usize| of.sign * of.left[(term + further) * of.rows + of.row];
        let line = |further: usize| &right[(term + further) * columns..][..columns];
        let (a, b, c, d) = (factor(0), factor(1), factor(2), factor(3));
        let lines = line(0).iter().zip(line(1)).zip(line(2)).zip(line(3));
        for (sum, (((w, x), y), z)) in sums.iter_mut().zip(lines) {
            *sum += a * w + b * x + c * y + d * z;
        }
    }
}

impl Block<'_> {
    /// An operand's elements, term after term.
    pub(super) fn decode(&self, element: Element, tile: &Tile, extent: usize) -> Vec<f32> {
        let mut elements = vec![0.0; TERMS * extent];
        for (number, &address) in tile.chunks.iter().enumerate() {
            let bytes = self.shared.peek(address, CHUNK_BYTES);
            let mut bits = [0; CHUNK];
            for (bits, bytes) in bits.iter_mut().zip(bytes.chunks_exact(2)) {
                *bits = u16::from_le_bytes([bytes[0], bytes[1]]);
            }
            let values = widen_all(element, bits);
            if tile.along_terms {
                let (outer, first) = (number / 2, number % 2 * CHUNK);
                for (index, value) in values.into_iter().enumerate() {
                    elements[(first + index) * extent + outer] = value;
                }
            } else {
                let start = number * CHUNK;
                elements[start..start + CHUNK].copy_from_slice(&values);
            }
        }
        elements
    }

    /// The same, decoded once for all who use it while shared memory stays as it is.
    pub(super) fn decode_once(
        &mut self,
        element: Element,
        tile: &Tile,
        extent: usize,
    ) -> Arc<Vec<f32>> {
        let (rank, version) = (self.rank, self.shared.version());
        let found = self.decoded.iter().find(|one| {
            (one.element, one.rank, one.version) == (element, rank, version) && one.tile == *tile
        });
        if let Some(found) = found {
            return found.elements.clone();
        }
        let elements = Arc::new(self.decode(element, tile, extent));
        if self.decoded.len() == KEPT {
            self.decoded.remove(0);
        }
        self.decoded.push(Decoded {
            tile: tile.clone(),
            element,
            rank,
            version,
            elements: elements.clone(),
        });
        elements
    }
}
