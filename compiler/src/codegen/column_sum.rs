//! How a sum over the rows of a matrix, such as the gradient of a bias, is cut.
//!
//! A warp takes neighbouring columns and every so many rows; the warps of a block add up what they have in shared
//! memory, in order, so the result does not depend on which one is first. Where the matrix's lines run down the columns
//! instead, a warp takes whole columns and its lanes add up.

use super::description::{ElementType, KernelDescription, MatrixOrder};
use super::error::CodegenError;
use super::nvptx::LARGEST_GRID;

/// How the sums over the rows of one matrix are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSumSchedule {
    /// What the matrix's elements are.
    pub element: ElementType,
    /// Along which index its lines run.
    pub order: MatrixOrder,
    /// Rows, which are summed over.
    pub rows: u64,
    /// Columns, one sum each.
    pub columns: u64,
    /// Elements from one line to the next.
    pub leading: u64,
    /// Elements before the first.
    pub offset: u64,
    /// Elements of a line that a lane takes at a time.
    pub run: u32,
    /// Warps of a block.
    pub warps: u32,
}

/// Warps of a block: enough to hide the latency of one load each.
const WARPS: u32 = 16;

impl ColumnSumSchedule {
    /// Cuts the sum that a description of dBias asks for.
    ///
    /// # Errors
    /// What [`KernelDescription::validate`] finds, and [`CodegenError::Unsupported`] if the grid would have more blocks
    /// than a launch takes.
    pub fn of(kernel: &KernelDescription) -> Result<ColumnSumSchedule, CodegenError> {
        kernel.validate()?;
        let [matrix, ..] = kernel.matrices();
        let leading = matrix.leading();
        let lines = match matrix.layout.order {
            MatrixOrder::RowMajor => matrix.rows,
            MatrixOrder::ColumnMajor => matrix.columns,
        };
        let line = match matrix.layout.order {
            MatrixOrder::RowMajor => matrix.columns,
            MatrixOrder::ColumnMajor => matrix.rows,
        };
        let stride = if lines > 1 { leading } else { 0 };
        let limit = u64::from(4 / kernel.element.bytes());
        let run = 1 << (line | stride | matrix.layout.offset | limit).trailing_zeros();
        let schedule = ColumnSumSchedule {
            element: kernel.element,
            order: matrix.layout.order,
            rows: matrix.rows,
            columns: matrix.columns,
            leading,
            offset: matrix.layout.offset,
            run,
            warps: WARPS,
        };
        if schedule.blocks() > u64::from(LARGEST_GRID) {
            return Err(CodegenError::Unsupported {
                what: format!("{} sums", matrix.columns),
                hint: format!("a launch takes at most {LARGEST_GRID} blocks"),
            });
        }
        Ok(schedule)
    }

    /// Columns of a block.
    pub const fn block_columns(&self) -> u32 {
        match self.order {
            MatrixOrder::RowMajor => 32 * self.run,
            MatrixOrder::ColumnMajor => self.warps,
        }
    }

    /// Blocks of the whole kernel.
    pub const fn blocks(&self) -> u64 {
        self.columns.div_ceil(self.block_columns() as u64)
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Bytes of shared memory that a block needs: one number for each warp and column.
    pub const fn shared_bytes(&self) -> u32 {
        match self.order {
            MatrixOrder::RowMajor => self.warps * self.block_columns() * 4,
            MatrixOrder::ColumnMajor => 0,
        }
    }
}
