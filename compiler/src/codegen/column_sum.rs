//! How a sum over the rows of a matrix, such as the gradient of a bias, is cut, and what is made of the matrix on the way.
//!
//! A warp takes neighbouring columns and every so many rows; the warps of a block add up what they have in shared
//! memory, in order, so the result does not depend on which one is first. Where the matrix's lines run down the columns
//! instead, a warp takes whole columns and its lanes add up. Blocks share the rows, and hand each other their sums
//! ([`super::parts`]).
//!
//! The gradient of a layer's own pre-activation is such a pass too: each element is multiplied by a derivative and
//! written before it is added up.

use super::contraction::{Output, batch_stride};
use super::description::{Activation, ElementType, KernelDescription, KernelOp, MatrixOrder};
use super::error::CodegenError;
use super::math::Math;
use super::nvptx::LARGEST_GRID;
use super::parts::Parts;

/// What is made of each element before it is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivativeMap {
    /// Whose derivative multiplies it, taken where a matrix like the result says; the identity takes no such matrix.
    pub activation: Activation,
    /// The type of that matrix's elements.
    pub auxiliary: ElementType,
    /// The derivative is exact enough for elements of this type.
    pub stored_as: ElementType,
    /// Where the result goes.
    pub output: Output,
}

/// How the sums over the rows of one matrix are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSumSchedule {
    /// What the matrix's elements are.
    pub element: ElementType,
    /// Along which index its lines run.
    pub order: MatrixOrder,
    /// Matrices.
    pub batch: u32,
    /// Elements from one matrix to the next; 0 if there is one.
    pub batch_stride: u64,
    /// Rows of each, which are summed over.
    pub rows: u64,
    /// Columns, one sum each.
    pub columns: u64,
    /// Elements from one line to the next.
    pub leading: u64,
    /// Elements before the first.
    pub offset: u64,
    /// Whether elements are rounded to tf32 before anything is made of them.
    pub math: Math,
    /// Neighbouring elements that a lane takes at a time: of a row, or of a line where lines run down the columns and
    /// nothing is made of them.
    pub run: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Rows of a block; a multiple of what its warps take in one round.
    pub block_rows: u32,
    /// Blocks that share the rows of a matrix.
    pub row_blocks: u32,
    /// What is made of the elements on the way, if anything.
    pub map: Option<DerivativeMap>,
    /// What the sums are written as.
    pub sum_element: ElementType,
    /// What blocks hand each other.
    pub parts: Parts,
}

/// Warps of a block. Two blocks leave a thread 128 registers for loads under way and derivatives.
const WARPS: u32 = 8;

/// Rounds of a block's warps below which rows are not shared any further: a part of the sums costs about as much.
const FEWEST_ROUNDS: u64 = 64;

/// The same where every element is written too, which costs more than the parts do.
const FEWEST_MAP_ROUNDS: u64 = 8;

/// Blocks that fill any GPU.
const ENOUGH_BLOCKS: u64 = 1024;

impl ColumnSumSchedule {
    /// Cuts the sum that a description of dBias or dPre asks for.
    ///
    /// # Errors
    /// What [`KernelDescription::validate`] finds, and [`CodegenError::Unsupported`] if the grid would have more blocks
    /// than a launch takes.
    pub fn of(kernel: &KernelDescription) -> Result<ColumnSumSchedule, CodegenError> {
        kernel.validate()?;
        let [matrix, _, result] = kernel.matrices();
        let map = (kernel.op == KernelOp::ActivationGradient).then(|| DerivativeMap {
            activation: kernel.activation,
            auxiliary: kernel.element,
            stored_as: kernel.derivative_stored_as(),
            output: Output {
                element: kernel.output,
                leading: result.leading(),
                offset: result.layout.offset,
                batch_stride: batch_stride(kernel, &result),
            },
        });
        let order = matrix.layout.order;
        let run = run(kernel, map.as_ref());
        let warps = WARPS;
        let walks_lines = map.is_none() && order == MatrixOrder::ColumnMajor;
        let (block_columns, round_rows) = if walks_lines {
            (warps, 32 * run)
        } else {
            (32 * run, warps)
        };
        let column_blocks = matrix.columns.div_ceil(block_columns.into());
        let rounds = matrix.rows.div_ceil(round_rows.into());
        let fewest = if map.is_some() {
            FEWEST_MAP_ROUNDS
        } else {
            FEWEST_ROUNDS
        };
        let wanted = ENOUGH_BLOCKS / column_blocks.saturating_mul(kernel.batch);
        let wanted = wanted.clamp(1, rounds.div_ceil(fewest));
        let block_rows = rounds.div_ceil(wanted) * u64::from(round_rows);
        let row_blocks = matrix.rows.div_ceil(block_rows);
        let parts = row_blocks.saturating_mul(kernel.batch);
        if parts.saturating_mul(column_blocks) > u64::from(LARGEST_GRID) {
            return Err(CodegenError::Unsupported {
                what: format!("a batch of {} with {} sums", kernel.batch, matrix.columns),
                hint: format!("a launch takes at most {LARGEST_GRID} blocks"),
            });
        }
        // Extents are at most 2^30, so the numbers fit.
        Ok(ColumnSumSchedule {
            element: kernel.element,
            order,
            batch: kernel.batch as u32,
            batch_stride: batch_stride(kernel, &matrix),
            rows: matrix.rows,
            columns: matrix.columns,
            leading: matrix.leading(),
            offset: matrix.layout.offset,
            math: kernel.math,
            run,
            warps,
            block_rows: block_rows as u32,
            row_blocks: row_blocks as u32,
            map,
            sum_element: kernel.bias.unwrap_or(ElementType::F32),
            parts: Parts {
                tiles: 0,
                tile_elements: 0,
                splits: 1,
                column_parts: kernel.bias.map(|_| parts as u32),
                column_tiles: column_blocks as u32,
                tile_columns: block_columns,
            },
        })
    }

    /// Whether a warp takes whole lines that run down the columns.
    pub fn walks_lines(&self) -> bool {
        self.map.is_none() && self.order == MatrixOrder::ColumnMajor
    }

    /// Columns of a block.
    pub const fn block_columns(&self) -> u32 {
        self.parts.tile_columns
    }

    /// Blocks of the whole kernel.
    pub const fn blocks(&self) -> u64 {
        self.batch as u64 * self.row_blocks as u64 * self.parts.column_tiles as u64
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Bytes of shared memory that a block needs: one number for each warp and column, or for each column, and a word
    /// that says whether it came last.
    pub const fn shared_bytes(&self) -> u32 {
        (self.warps * self.block_columns() + FLAG_ELEMENTS) * 4
    }
}

/// Elements of 4 bytes after the sums in shared memory.
const FLAG_ELEMENTS: u32 = 4;

/// Neighbouring elements that one access of a lane can take.
fn run(kernel: &KernelDescription, map: Option<&DerivativeMap>) -> u32 {
    let [matrix, _, result] = kernel.matrices();
    let (lines, line) = match matrix.layout.order {
        MatrixOrder::RowMajor => (matrix.rows, matrix.columns),
        MatrixOrder::ColumnMajor => (matrix.columns, matrix.rows),
    };
    let apart = |lines: u64, leading| if lines > 1 { leading } else { 0 };
    let places = line
        | apart(lines, matrix.leading())
        | matrix.layout.offset
        | batch_stride(kernel, &matrix);
    let Some(map) = map else {
        let widest = u64::from(4 / kernel.element.bytes());
        return 1 << (places | widest).trailing_zeros();
    };
    let output = map.output;
    let widest = kernel.element.bytes().max(output.element.bytes());
    let mut common = u64::from(16 / widest)
        | result.columns
        | apart(result.rows, output.leading)
        | output.offset
        | output.batch_stride;
    if matrix.layout.order == MatrixOrder::RowMajor {
        common |= places;
    }
    1 << common.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::description::MatrixLayout;

    fn of(kernel: KernelDescription) -> ColumnSumSchedule {
        ColumnSumSchedule::of(&kernel).unwrap()
    }

    #[test]
    fn blocks_cover_all_rows_and_none_is_empty() {
        for op in [KernelOp::BiasGradient, KernelOp::ActivationGradient] {
            for a in [MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR] {
                for (m, n) in [(1, 1), (1025, 64), (70_000, 3), (8192, 8192), (99, 100_000)] {
                    for batch in [1, 3] {
                        let schedule = of(KernelDescription {
                            op,
                            a,
                            batch,
                            bias: Some(ElementType::F32),
                            ..KernelDescription::product(ElementType::Bf16, m, n, 1)
                        });
                        let rows = u64::from(schedule.block_rows);
                        let blocks = u64::from(schedule.row_blocks);
                        assert!(
                            rows * blocks >= m && rows * (blocks - 1) < m,
                            "{schedule:?}"
                        );
                        assert!(schedule.shared_bytes() <= 48 * 1024);
                    }
                }
            }
        }
    }

    #[test]
    fn long_columns_are_shared() {
        let kernel = KernelDescription {
            op: KernelOp::BiasGradient,
            bias: Some(ElementType::Bf16),
            ..KernelDescription::product(ElementType::Bf16, 65536, 1024, 1)
        };
        let schedule = of(kernel);
        assert!(schedule.row_blocks > 1 && schedule.parts.splits_columns());
        let short = of(KernelDescription { m: 512, ..kernel });
        assert_eq!(
            (short.row_blocks, short.parts.scratch().counter_bytes),
            (1, 0)
        );
    }
}
