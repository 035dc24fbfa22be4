//! Multiplying on tensor cores: `ldmatrix` and `mma.sync.m16n8k16` (PTX ISA, "Warp Level Matrix Instructions").
//!
//! A warp's tile is cut into blocks of 16 rows, blocks of 16 columns, and steps of 16 terms. One `ldmatrix.x4` reads a
//! block's 16 × 16 elements: for the left operand the four registers of an `mma` operand, for the right one the two
//! registers of each of two. Operands whose lines run along the outer index are transposed on the way.

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::super::elements;
use super::copy::permutation;
use super::mainloop::{Cell, ColumnSums, Fragments, Multiplier, Side};
use super::place::Place;
use crate::codegen::contraction::Major;
use crate::codegen::description::ElementType;
use crate::codegen::llvm::{Emitter, Space};
use crate::codegen::tiling::{OperandTile, SLAB_ROWS, TileSchedule};

/// Rows, columns or terms of a block.
pub(super) const BLOCK: u32 = 16;

/// Registers that one `ldmatrix.x4` fills.
pub(super) const REGISTERS: u32 = 4;

/// A warp's share of a product on tensor cores.
pub(super) struct TensorCore<'c> {
    element: ElementType,
    left: MatrixReader<'c>,
    right: MatrixReader<'c>,
}

impl<'c> TensorCore<'c> {
    /// `left` and `right` are the shared addresses of the two tiles in the first stage.
    pub(super) fn emit(
        e: &Emitter<'c>,
        schedule: &TileSchedule,
        place: &Place<'c>,
        (left, right): (IntValue<'c>, IntValue<'c>),
    ) -> TensorCore<'c> {
        let reader = |side, tile, warp_first, address, extent| {
            let origin = ReaderOrigin {
                lane: place.lane,
                warp_first,
                address,
            };
            MatrixReader::emit(e, side, (tile, extent), &origin)
        };
        TensorCore {
            element: schedule.left.element,
            left: reader(
                Side::Left,
                schedule.left,
                place.warp_row,
                left,
                schedule.warp_rows,
            ),
            right: reader(
                Side::Right,
                schedule.right,
                place.warp_column,
                right,
                schedule.warp_columns,
            ),
        }
    }

    fn product(
        &self,
        e: &Emitter<'c>,
        sums: [FloatValue<'c>; 4],
        left: &[BasicValueEnum<'c>],
        right: &[BasicValueEnum<'c>],
    ) -> [FloatValue<'c>; 4] {
        let name = match self.element {
            ElementType::F16 => "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
            _ => "llvm.nvvm.mma.m16n8k16.row.col.bf16",
        };
        let mut arguments: Vec<BasicValueEnum<'c>> = Vec::with_capacity(10);
        for &register in left.iter().chain(right) {
            arguments.push(match self.element {
                ElementType::F16 => e.bit_cast(register, e.context().f16_type().vec_type(2)),
                _ => register,
            });
        }
        arguments.extend(sums.map(BasicValueEnum::from));
        let result = e.call_value(name, &[], &arguments);
        [0, 1, 2, 3].map(|index| e.field(result, index).into_float_value())
    }
}

impl<'c> Multiplier<'c> for TensorCore<'c> {
    fn sums(&self) -> usize {
        (self.left.blocks * self.right.blocks * 8) as usize
    }

    fn load(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Fragments<'c> {
        Fragments {
            left: self.left.read(e, stage, step),
            right: self.right.read(e, stage, step),
        }
    }

    fn registers(&self) -> (usize, usize) {
        let of = |reader: &MatrixReader<'c>| (reader.blocks * REGISTERS) as usize;
        (of(&self.left), of(&self.right))
    }

    fn multiply(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>) {
        let columns = self.right.blocks * 2;
        for column in 0..columns {
            let right = &fragments.right[(column * 2) as usize..][..2];
            for turn in 0..self.left.blocks {
                // Back and forth, so that consecutive products share an operand.
                let row = if column % 2 == 0 {
                    turn
                } else {
                    self.left.blocks - 1 - turn
                };
                let left = &fragments.left[(row * REGISTERS) as usize..][..REGISTERS as usize];
                let first = ((row * columns + column) * 4) as usize;
                let old = [0, 1, 2, 3].map(|index| sums[first + index]);
                sums[first..first + 4].copy_from_slice(&self.product(e, old, left, right));
            }
        }
    }

    fn column_sums(&self) -> usize {
        (self.right.blocks * 2) as usize
    }

    fn add_columns(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>) {
        for (sum, registers) in sums.iter_mut().zip(fragments.right.chunks(2)) {
            for register in registers {
                let (low, high) = elements::unpack(e, self.element, register.into_int_value());
                *sum = e.add_float(e.add_float(*sum, low), high);
            }
        }
    }

    fn finish_columns(
        &self,
        e: &Emitter<'c>,
        lane: IntValue<'c>,
        sums: &[FloatValue<'c>],
    ) -> ColumnSums<'c> {
        finish_columns(e, lane, sums)
    }

    fn lane_origin(&self, e: &Emitter<'c>, lane: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        lane_origin(e, lane)
    }

    fn cells(&self, slab: u32) -> Vec<Cell> {
        cells(slab, self.right.blocks * 2)
    }
}

/// Completes sums over the depth, of blocks of 8 columns: the four lanes of a group hold different terms of the same ones.
pub(super) fn finish_columns<'c>(
    e: &Emitter<'c>,
    lane: IntValue<'c>,
    sums: &[FloatValue<'c>],
) -> ColumnSums<'c> {
    let whole = |&sum| e.add_exchanged(e.add_exchanged(sum, 1), 2);
    let first_of_group = e.and_const(lane, 3);
    ColumnSums {
        writes: e.compare(IntPredicate::EQ, first_of_group, e.i32(0)),
        first: e.shr_const(lane, 2),
        columns: (0..).step_by(8).zip(sums.iter().map(whole)).collect(),
    }
}

/// A lane's first row and column in an `mma`'s result.
pub(super) fn lane_origin<'c>(e: &Emitter<'c>, lane: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
    (e.shr_const(lane, 2), e.shl_const(e.and_const(lane, 3), 1))
}

/// A lane's sums in a slab of rows, over so many blocks of 8 columns.
pub(super) fn cells(slab: u32, columns: u32) -> Vec<Cell> {
    debug_assert_eq!(BLOCK, SLAB_ROWS, "a slab is one block of rows");
    let mut cells = Vec::new();
    for column in 0..columns {
        for half in 0..2 {
            cells.push(Cell {
                row: half * 8,
                column: column * 8,
                first: ((slab * columns + column) * 4 + half * 2) as usize,
                count: 2,
            });
        }
    }
    cells
}

/// Reads one operand's blocks from shared memory, four registers each.
pub(super) struct MatrixReader<'c> {
    tile: OperandTile,
    pub blocks: u32,
    /// Shared address, in the first stage, of the lane's row of a block whose chunk number is XORed with the index
    /// times two: blocks, or steps, that differ in those bits of the chunk number need addresses of their own.
    bases: Vec<IntValue<'c>>,
}

/// Where a reader stands.
pub(super) struct ReaderOrigin<'c> {
    pub lane: IntValue<'c>,
    /// The warp's first row or column.
    pub warp_first: IntValue<'c>,
    /// Shared address of the operand's tile in the first stage.
    pub address: IntValue<'c>,
}

impl<'c> MatrixReader<'c> {
    pub(super) fn emit(
        e: &Emitter<'c>,
        side: Side,
        (tile, extent): (OperandTile, u32),
        origin: &ReaderOrigin<'c>,
    ) -> MatrixReader<'c> {
        // Lanes 0 to 7, 8 to 15, 16 to 23 and 24 to 31 address the rows of the four 8 × 8 matrices. The order of the
        // registers in `mma` has the second matrix further along the outer index on the left, along the depth on the
        // right.
        let bit = |index| e.and_const(e.shr_const(origin.lane, index), 1);
        let (outer_half, depth_half) = match side {
            Side::Left => (bit(3), bit(4)),
            Side::Right => (bit(4), bit(3)),
        };
        let row = e.and_const(origin.lane, 7);
        let swizzle = tile.swizzle();
        let (line, chunk) = match tile.major {
            Major::Depth => {
                let line = e.add(e.add(row, e.shl_const(outer_half, 3)), origin.warp_first);
                (line, depth_half)
            }
            Major::Outer => {
                let line = e.add(row, e.shl_const(depth_half, 3));
                (line, e.xor(outer_half, e.shr_const(origin.warp_first, 3)))
            }
        };
        let permuted = e.xor(chunk, permutation(e, swizzle, line));
        let start = e.add(origin.address, e.mul_const(line, tile.line_bytes));
        let distinct = (tile.line_bytes / 16).min(8) / 2;
        let bases = (0..distinct)
            .map(|index| e.add(start, e.shl_const(e.xor_const(permuted, index * 2), 4)))
            .collect();
        MatrixReader {
            tile,
            blocks: extent / BLOCK,
            bases,
        }
    }

    pub(super) fn read(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
        step: u32,
    ) -> Vec<BasicValueEnum<'c>> {
        let transpose = match self.tile.major {
            Major::Depth => "",
            Major::Outer => ".trans",
        };
        let name = format!("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{transpose}.b16");
        let shared = e.pointer_type(Space::Shared).as_basic_type_enum();
        let mut registers = Vec::with_capacity((self.blocks * REGISTERS) as usize);
        for block in 0..self.blocks {
            let (chunk, lines) = match self.tile.major {
                Major::Depth => (step * 2, block * BLOCK),
                Major::Outer => (block * 2, step * BLOCK),
            };
            let base = self.bases[(chunk % 8) as usize / 2];
            let further = chunk / 8 * 128 + lines * self.tile.line_bytes;
            let pointer = e.shared_pointer(e.add(stage, base));
            let pointer = e.offset(pointer, e.i64(further.into()));
            let result = e.call_value(&name, &[shared], &[pointer.into()]);
            registers.extend((0..REGISTERS).map(|index| e.field(result, index)));
        }
        registers
    }
}
