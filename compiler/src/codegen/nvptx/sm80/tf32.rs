//! Multiplying single-precision elements on tensor cores: `mma.sync.m16n8k8` of tf32 numbers (PTX ISA, "Warp Level Matrix
//! Instructions").
//!
//! A warp's tile is cut into blocks of 16 rows, blocks of 16 columns, and steps of 8 terms. An operand whose lines run along
//! the depth is read by `ldmatrix`: 8 × 8 elements of 16 bits are 8 × 4 of 32 bits, and each lane gets the one that `mma` wants
//! of it. `ldmatrix` transposes only 16-bit elements, so where lines run along the outer index every lane loads its words by
//! itself; the permutation of the lines' chunks spreads four lines of eight words over all banks.
//!
//! Tensor cores cut operands off after 11 significant bits, so the registers are rounded by `cvt.rna.tf32.f32` first, or taken apart
//! into two tf32 numbers each ([`Math::ThreeTf32`](crate::codegen::Math)).

use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::super::elements::as_tf32;
use super::copy::permutation;
use super::mainloop::{Cell, ColumnSums, Fragments, Multiplier, Side};
use super::place::Place;
use super::tensor::{self, BLOCK, MatrixReader, REGISTERS, ReaderOrigin};
use crate::codegen::contraction::Major;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{Method, OperandTile, TileSchedule};

/// Terms of a step.
const STEP: u32 = 8;

/// A warp's share of a product of tf32 numbers.
pub(super) struct Tf32Cores<'c> {
    left: Reader<'c>,
    right: Reader<'c>,
    /// Whether every element is two tf32 numbers.
    in_parts: bool,
}

impl<'c> Tf32Cores<'c> {
    /// `left` and `right` are the shared addresses of the two tiles in the first stage.
    pub(super) fn emit(
        e: &Emitter<'c>,
        schedule: &TileSchedule,
        place: &Place<'c>,
        (left, right): (IntValue<'c>, IntValue<'c>),
    ) -> Tf32Cores<'c> {
        let reader = |side, tile: OperandTile, warp_first, address, extent| {
            let origin = ReaderOrigin {
                lane: place.lane,
                warp_first,
                address,
            };
            match tile.major {
                Major::Depth => {
                    Reader::Matrices(MatrixReader::emit(e, side, (tile, extent), &origin))
                }
                Major::Outer => Reader::Words(WordReader::emit(e, side, (tile, extent), &origin)),
            }
        };
        let (rows, columns) = (schedule.warp_rows, schedule.warp_columns);
        Tf32Cores {
            left: reader(Side::Left, schedule.left, place.warp_row, left, rows),
            right: reader(
                Side::Right,
                schedule.right,
                place.warp_column,
                right,
                columns,
            ),
            in_parts: schedule.method == Method::ThreeTf32,
        }
    }

    fn columns(&self) -> u32 {
        self.right.blocks() * 2
    }

    /// How many sums make up the lane's part of the product.
    fn total(&self) -> usize {
        (self.left.blocks() * self.right.blocks() * 8) as usize
    }

    /// The products of one step and one block of 8 columns, added to the sums; `left` are the operands of all blocks of rows. The
    /// products with small parts have sums of their own.
    fn multiply_column(
        &self,
        e: &Emitter<'c>,
        sums: &mut [FloatValue<'c>],
        (left, right): (&[Operand<'c>], &Operand<'c>),
        column: u32,
    ) {
        let (sums, small_sums) = sums.split_at_mut(self.total());
        for turn in 0..left.len() {
            // Back and forth, so that consecutive products share an operand.
            let row = if column.is_multiple_of(2) {
                turn
            } else {
                left.len() - 1 - turn
            };
            let first = (row as u32 * self.columns() + column) as usize * 4;
            let places = first..first + 4;
            if let (Some(left_small), Some(right_small)) = (&left[row].small, &right.small) {
                let sums = &mut small_sums[places.clone()];
                add_product(e, sums, (left_small, &right.big));
                add_product(e, sums, (&left[row].big, right_small));
            }
            add_product(e, &mut sums[places], (&left[row].big, &right.big));
        }
    }
}

/// The registers of one operand of `mma`: tf32 numbers, or two for each element.
struct Operand<'c> {
    big: Vec<BasicValueEnum<'c>>,
    small: Option<Vec<BasicValueEnum<'c>>>,
}

impl<'c> Operand<'c> {
    fn of(e: &Emitter<'c>, registers: &[BasicValueEnum<'c>], in_parts: bool) -> Operand<'c> {
        let numbers: Vec<FloatValue<'c>> = registers
            .iter()
            .map(|&register| e.bit_cast(register, e.f32_type()).into_float_value())
            .collect();
        let big: Vec<(IntValue<'c>, FloatValue<'c>)> =
            numbers.iter().map(|&number| as_tf32(e, number)).collect();
        let small = in_parts.then(|| {
            let rest = numbers.iter().zip(&big).map(|(&number, &(_, big))| {
                let rest = e.add_float(number, e.negate(big));
                as_tf32(e, rest).0.into()
            });
            rest.collect()
        });
        Operand {
            big: big.into_iter().map(|(big, _)| big.into()).collect(),
            small,
        }
    }
}

/// Adds a product of 16 rows, 8 columns and 8 terms to a lane's four sums of it.
fn add_product<'c>(
    e: &Emitter<'c>,
    sums: &mut [FloatValue<'c>],
    (left, right): (&[BasicValueEnum<'c>], &[BasicValueEnum<'c>]),
) {
    let name = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
    let mut arguments: Vec<BasicValueEnum<'c>> = left.iter().chain(right).copied().collect();
    arguments.extend(sums.iter().map(|&sum| BasicValueEnum::from(sum)));
    let result = e.call_value(name, &[], &arguments);
    for (sum, index) in sums.iter_mut().zip(0..) {
        *sum = e.field(result, index).into_float_value();
    }
}

impl<'c> Multiplier<'c> for Tf32Cores<'c> {
    fn sums(&self) -> usize {
        self.total() * if self.in_parts { 2 } else { 1 }
    }

    fn load(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Fragments<'c> {
        Fragments {
            left: self.left.read(e, stage, step),
            right: self.right.read(e, stage, step),
        }
    }

    fn registers(&self) -> (usize, usize) {
        let of = |reader: &Reader<'c>| (reader.blocks() * REGISTERS) as usize;
        (of(&self.left), of(&self.right))
    }

    fn multiply(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>) {
        let left: Vec<Operand<'c>> = fragments
            .left
            .chunks(REGISTERS as usize)
            .map(|registers| Operand::of(e, registers, self.in_parts))
            .collect();
        for (column, registers) in (0..).zip(fragments.right.chunks(2)) {
            let right = Operand::of(e, registers, self.in_parts);
            self.multiply_column(e, sums, (&left, &right), column);
        }
    }

    fn finish(&self, e: &Emitter<'c>, mut sums: Vec<FloatValue<'c>>) -> Vec<FloatValue<'c>> {
        let small = sums.split_off(self.total());
        for (sum, small) in sums.iter_mut().zip(small) {
            *sum = e.add_float(*sum, small);
        }
        sums
    }

    fn column_sums(&self) -> usize {
        self.columns() as usize
    }

    fn add_columns(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>) {
        for (sum, registers) in sums.iter_mut().zip(fragments.right.chunks(2)) {
            for &register in registers {
                let number = e.bit_cast(register, e.f32_type()).into_float_value();
                // What is rounded is rounded for every use.
                let term = if self.in_parts {
                    number
                } else {
                    as_tf32(e, number).1
                };
                *sum = e.add_float(*sum, term);
            }
        }
    }

    fn finish_columns(
        &self,
        e: &Emitter<'c>,
        lane: IntValue<'c>,
        sums: &[FloatValue<'c>],
    ) -> ColumnSums<'c> {
        tensor::finish_columns(e, lane, sums)
    }

    fn lane_origin(&self, e: &Emitter<'c>, lane: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        tensor::lane_origin(e, lane)
    }

    fn cells(&self, slab: u32) -> Vec<Cell> {
        tensor::cells(slab, self.columns())
    }
}

/// Reads one operand's blocks from shared memory, four registers each.
enum Reader<'c> {
    Matrices(MatrixReader<'c>),
    Words(WordReader<'c>),
}

impl<'c> Reader<'c> {
    fn blocks(&self) -> u32 {
        match self {
            Reader::Matrices(reader) => reader.blocks,
            Reader::Words(reader) => reader.blocks,
        }
    }

    fn read(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Vec<BasicValueEnum<'c>> {
        match self {
            Reader::Matrices(reader) => reader.read(e, stage, step),
            Reader::Words(reader) => reader.read(e, stage, step),
        }
    }
}

/// Reads an operand whose lines run along the outer index, word by word: a lane wants terms `lane mod 4` and four more, at rows or
/// columns `lane / 4` and eight more.
struct WordReader<'c> {
    side: Side,
    tile: OperandTile,
    blocks: u32,
    /// Shared address, in the first stage, of the lane's word whose chunk number is XORed with the index times two.
    bases: Vec<IntValue<'c>>,
}

impl<'c> WordReader<'c> {
    fn emit(
        e: &Emitter<'c>,
        side: Side,
        (tile, extent): (OperandTile, u32),
        origin: &ReaderOrigin<'c>,
    ) -> WordReader<'c> {
        let line = e.and_const(origin.lane, 3);
        let within = e.shr_const(origin.lane, 2);
        let chunk = e.xor(e.shr_const(origin.warp_first, 2), e.shr_const(within, 2));
        // Four and eight lines further on the permutation is the same.
        let permuted = e.xor(chunk, permutation(e, tile.swizzle(), line));
        let start = e.add(origin.address, e.mul_const(line, tile.line_bytes));
        let start = e.add(start, e.shl_const(e.and_const(within, 3), 2));
        let distinct = (tile.line_bytes / 16).min(8) / 2;
        let bases = (0..distinct)
            .map(|index| e.add(start, e.shl_const(e.xor_const(permuted, index * 2), 4)))
            .collect();
        WordReader {
            side,
            tile,
            blocks: extent / BLOCK,
            bases,
        }
    }

    fn read(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Vec<BasicValueEnum<'c>> {
        let mut registers = Vec::with_capacity((self.blocks * REGISTERS) as usize);
        for block in 0..self.blocks {
            for index in 0..REGISTERS {
                // The second register is further along the outer index on the left, along the depth on the right.
                let (outer_half, depth_half) = match self.side {
                    Side::Left => (index % 2, index / 2),
                    Side::Right => (index / 2, index % 2),
                };
                let chunk = block * 4 + outer_half * 2;
                let line = step * STEP + depth_half * 4;
                let base = self.bases[(chunk % 8) as usize / 2];
                let further = chunk / 8 * 128 + line * self.tile.line_bytes;
                let pointer = e.shared_pointer(e.add(stage, base));
                let pointer = e.offset(pointer, e.i64(further.into()));
                registers.push(e.load(e.i32_type(), pointer, 4));
            }
        }
        registers
    }
}
