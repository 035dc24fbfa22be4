//! Multiplying in single precision with fused multiply-adds.
//!
//! The lanes of a warp stand in 4 rows and 8 columns over the warp's tile. Four terms are taken at a time, with one
//! read of 16 bytes for each row or column and four terms, or for four rows or columns and one term, as the operand's
//! lines run. Where lines run along the depth a lane owns every fourth row (every eighth column), else groups of four
//! neighbours; either way the lanes of one read hit different banks or the same address.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::copy::permutation;
use super::mainloop::{Cell, ColumnSums, Fragments, Multiplier, Side};
use super::place::Place;
use crate::codegen::contraction::Major;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{OperandTile, SLAB_ROWS, TileSchedule};

/// Terms per step, and elements per read.
const STEP: u32 = 4;

/// A warp's share of a product in single precision.
pub(super) struct MultiplyAdd<'c> {
    left: Reader<'c>,
    right: Reader<'c>,
}

impl<'c> MultiplyAdd<'c> {
    /// `left` and `right` are the shared addresses of the two tiles in the first stage.
    pub(super) fn emit(
        e: &Emitter<'c>,
        schedule: &TileSchedule,
        place: &Place<'c>,
        (left, right): (IntValue<'c>, IntValue<'c>),
    ) -> MultiplyAdd<'c> {
        let rows = ReaderShape::of(Side::Left, schedule.left, schedule.warp_rows);
        let columns = ReaderShape::of(Side::Right, schedule.right, schedule.warp_columns);
        MultiplyAdd {
            left: Reader::emit(e, rows, row_lane(e, place.lane), (place.warp_row, left)),
            right: Reader::emit(
                e,
                columns,
                column_lane(e, place.lane),
                (place.warp_column, right),
            ),
        }
    }
}

impl<'c> Multiplier<'c> for MultiplyAdd<'c> {
    fn sums(&self) -> usize {
        (self.left.shape.owned() * self.right.shape.owned()) as usize
    }

    fn load(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Fragments<'c> {
        Fragments {
            left: self.left.read(e, stage, step),
            right: self.right.read(e, stage, step),
        }
    }

    fn registers(&self) -> (usize, usize) {
        let of = |reader: &Reader<'c>| (reader.shape.owned() * STEP) as usize;
        (of(&self.left), of(&self.right))
    }

    fn multiply(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>) {
        let (rows, columns) = (self.left.shape.owned(), self.right.shape.owned());
        for term in 0..STEP {
            for row in 0..rows {
                let left = fragments.left[(row * STEP + term) as usize].into_float_value();
                for column in 0..columns {
                    let right = fragments.right[(column * STEP + term) as usize].into_float_value();
                    let sum = &mut sums[(row * columns + column) as usize];
                    *sum = e.fma(left, right, *sum);
                }
            }
        }
    }

    fn column_sums(&self) -> usize {
        self.right.shape.owned() as usize
    }

    fn add_columns(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>) {
        for (sum, terms) in sums.iter_mut().zip(fragments.right.chunks(STEP as usize)) {
            for term in terms {
                *sum = e.add_float(*sum, term.into_float_value());
            }
        }
    }

    fn finish_columns(
        &self,
        e: &Emitter<'c>,
        lane: IntValue<'c>,
        sums: &[FloatValue<'c>],
    ) -> ColumnSums<'c> {
        // The lanes of one column all have the same sum.
        let columns = self.right.shape;
        ColumnSums {
            writes: e.compare(IntPredicate::EQ, row_lane(e, lane), e.i32(0)),
            first: self.lane_origin(e, lane).1,
            columns: sums
                .iter()
                .zip(0..)
                .map(|(&sum, index)| (columns.place(index), sum))
                .collect(),
        }
    }

    fn lane_origin(&self, e: &Emitter<'c>, lane: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        let origin = |reader: &Reader<'c>, lane| match reader.shape.tile.major {
            Major::Depth => lane,
            Major::Outer => e.mul_const(lane, STEP),
        };
        (
            origin(&self.left, row_lane(e, lane)),
            origin(&self.right, column_lane(e, lane)),
        )
    }

    fn cells(&self, slab: u32) -> Vec<Cell> {
        let (rows, columns) = (self.left.shape, self.right.shape);
        let mut cells = Vec::new();
        for row in 0..rows.owned() {
            let place = rows.place(row);
            if place / SLAB_ROWS != slab {
                continue;
            }
            let run = match columns.tile.major {
                Major::Depth => 1,
                Major::Outer => STEP,
            };
            for column in (0..columns.owned()).step_by(run as usize) {
                cells.push(Cell {
                    row: place % SLAB_ROWS,
                    column: columns.place(column),
                    first: (row * columns.owned() + column) as usize,
                    count: run,
                });
            }
        }
        cells
    }
}

/// A lane's row among the lanes.
fn row_lane<'c>(e: &Emitter<'c>, lane: IntValue<'c>) -> IntValue<'c> {
    e.shr_const(lane, 3)
}

/// A lane's column among the lanes.
fn column_lane<'c>(e: &Emitter<'c>, lane: IntValue<'c>) -> IntValue<'c> {
    e.and_const(lane, 7)
}

/// Which rows, or columns, a lane owns.
#[derive(Clone, Copy)]
struct ReaderShape {
    tile: OperandTile,
    /// Lanes side by side.
    lanes: u32,
    /// Rows or columns of the warp's tile.
    extent: u32,
}

impl ReaderShape {
    fn of(side: Side, tile: OperandTile, extent: u32) -> ReaderShape {
        let lanes = match side {
            Side::Left => 4,
            Side::Right => 8,
        };
        ReaderShape {
            tile,
            lanes,
            extent,
        }
    }

    /// How many rows or columns a lane owns.
    fn owned(self) -> u32 {
        self.extent / self.lanes
    }

    /// Where the `index`-th of them lies, counted from the lane's first.
    fn place(self, index: u32) -> u32 {
        match self.tile.major {
            Major::Depth => index * self.lanes,
            Major::Outer => index / STEP * self.lanes * STEP + index % STEP,
        }
    }
}

/// Reads one operand's elements from shared memory.
struct Reader<'c> {
    shape: ReaderShape,
    /// Shared address in the first stage of the lane's line, its chunk number XORed with the index.
    bases: Vec<IntValue<'c>>,
}

impl<'c> Reader<'c> {
    fn emit(
        e: &Emitter<'c>,
        shape: ReaderShape,
        lane: IntValue<'c>,
        (warp_first, address): (IntValue<'c>, IntValue<'c>),
    ) -> Reader<'c> {
        let tile = shape.tile;
        let swizzle = tile.swizzle();
        let (start, permuted) = match tile.major {
            Major::Depth => {
                let line = e.add(warp_first, lane);
                (
                    e.add(address, e.mul_const(line, tile.line_bytes)),
                    permutation(e, swizzle, line),
                )
            }
            Major::Outer => (address, e.xor(e.shr_const(warp_first, 2), lane)),
        };
        let distinct = (tile.line_bytes / 16).min(8);
        let bases = (0..distinct)
            .map(|index| e.add(start, e.shl_const(e.xor_const(permuted, index), 4)))
            .collect();
        Reader { shape, bases }
    }

    /// The four terms of a step for every row or column: those of one after the other.
    fn read(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Vec<BasicValueEnum<'c>> {
        let mut values = vec![e.f32(0.0).into(); (self.shape.owned() * STEP) as usize];
        let swizzle = self.shape.tile.swizzle();
        match self.shape.tile.major {
            Major::Depth => {
                for index in 0..self.shape.owned() {
                    let lines = self.shape.place(index);
                    let chunk = step ^ swizzle.of_line(lines);
                    let read = self.read_chunk(e, stage, (chunk, lines));
                    for term in 0..STEP {
                        values[(index * STEP + term) as usize] = read[term as usize];
                    }
                }
            }
            Major::Outer => {
                for term in 0..STEP {
                    let line = step * STEP + term;
                    for group in 0..self.shape.owned() / STEP {
                        let chunk = (group * self.shape.lanes) ^ swizzle.of_line(line);
                        let read = self.read_chunk(e, stage, (chunk, line));
                        for within in 0..STEP {
                            values[((group * STEP + within) * STEP + term) as usize] =
                                read[within as usize];
                        }
                    }
                }
            }
        }
        values
    }

    /// 16 bytes of a line, `lines` after the lane's, whose chunk number is XORed with `chunk`.
    fn read_chunk(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
        (chunk, lines): (u32, u32),
    ) -> [BasicValueEnum<'c>; 4] {
        let base = self.bases[chunk as usize % self.bases.len()];
        let further = chunk / 8 * 128 + lines * self.shape.tile.line_bytes;
        let pointer = e.shared_pointer(e.add(stage, base));
        let pointer = e.offset(pointer, e.i64(further.into()));
        let vector = e
            .load(e.f32_type().vec_type(STEP), pointer, 16)
            .into_vector_value();
        [0, 1, 2, 3].map(|index| e.element(vector, index))
    }
}
