//! Any kernel of a linear layer as one matrix product with an epilogue.
//!
//! Targets see only this form: `R[r, c] = epilogue(Σ_d X[r, d] · Y[d, c])`. Each of the two operands is read along
//! lines of contiguous elements; a line runs either along the depth `d`, which is summed over, or along the outer
//! index `r` or `c`, which stays.

use super::description::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, MatrixOrder,
};
use super::error::CodegenError;

/// Along which index an operand's lines run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// Along the index that is summed over.
    Depth,
    /// Along the index that stays.
    Outer,
}

/// One operand of the product in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// What its elements are.
    pub element: ElementType,
    /// Along which index its lines run.
    pub major: Major,
    /// Elements from one line to the next.
    pub leading: u64,
    /// Elements before the first.
    pub offset: u64,
    /// Extent of the index that stays.
    pub outer: u64,
    /// Extent of the index that is summed over.
    pub depth: u64,
}

impl Operand {
    /// How many lines there are.
    pub const fn lines(&self) -> u64 {
        match self.major {
            Major::Depth => self.outer,
            Major::Outer => self.depth,
        }
    }

    /// The largest power of two, at most 16, that divides the byte address of the start of every line.
    pub const fn alignment_bytes(&self) -> u32 {
        let bytes = self.element.bytes() as u64;
        let stride = if self.lines() > 1 {
            self.leading * bytes
        } else {
            0
        };
        let common = (stride | (self.offset * bytes)) | 16;
        1 << common.trailing_zeros()
    }
}

/// The row-major result in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// What its elements are.
    pub element: ElementType,
    /// Elements from one row to the next.
    pub leading: u64,
    /// Elements before the first.
    pub offset: u64,
}

/// What happens to a sum before it is written, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epilogue {
    /// A vector over the columns is added, in single precision.
    pub bias: Option<ElementType>,
    /// The sum so far is also written, laid out like the result.
    pub auxiliary: bool,
    /// This function is applied.
    pub activation: Activation,
}

/// One matrix product with its epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// Rows of the result.
    pub rows: u64,
    /// Columns of the result.
    pub columns: u64,
    /// Terms of each sum.
    pub depth: u64,
    /// The operand indexed by row and depth.
    pub left: Operand,
    /// The operand indexed by depth and column.
    pub right: Operand,
    /// The result.
    pub output: Output,
    /// What happens to the sums.
    pub epilogue: Epilogue,
}

impl Contraction {
    /// Writes a kernel as a matrix product.
    ///
    /// # Errors
    /// What [`KernelDescription::validate`] finds.
    pub fn of(kernel: &KernelDescription) -> Result<Contraction, CodegenError> {
        kernel.validate()?;
        match kernel.op {
            KernelOp::FusedLinear => Ok(Contraction {
                rows: kernel.m,
                columns: kernel.n,
                depth: kernel.k,
                left: left(kernel.element, kernel.a, kernel.m, kernel.k),
                right: right(kernel.element, kernel.b, kernel.k, kernel.n),
                output: Output {
                    element: kernel.element,
                    leading: kernel.c.leading.unwrap_or(kernel.n),
                    offset: kernel.c.offset,
                },
                epilogue: Epilogue {
                    bias: kernel.bias,
                    auxiliary: kernel.auxiliary,
                    activation: kernel.activation,
                },
            }),
        }
    }

    /// Elements of a row that one store can write: a power of two that divides the row's length, its stride and its
    /// start, and is at most `limit`.
    pub const fn store_width(&self, limit: u32) -> u32 {
        let stride = if self.rows > 1 {
            self.output.leading
        } else {
            0
        };
        let common = self.columns | stride | self.output.offset | limit as u64;
        1 << common.trailing_zeros()
    }
}

fn left(element: ElementType, layout: MatrixLayout, rows: u64, depth: u64) -> Operand {
    let (major, line) = match layout.order {
        MatrixOrder::RowMajor => (Major::Depth, depth),
        MatrixOrder::ColumnMajor => (Major::Outer, rows),
    };
    Operand {
        element,
        major,
        leading: layout.leading.unwrap_or(line),
        offset: layout.offset,
        outer: rows,
        depth,
    }
}

fn right(element: ElementType, layout: MatrixLayout, depth: u64, columns: u64) -> Operand {
    let (major, line) = match layout.order {
        MatrixOrder::RowMajor => (Major::Outer, columns),
        MatrixOrder::ColumnMajor => (Major::Depth, depth),
    };
    Operand {
        element,
        major,
        leading: layout.leading.unwrap_or(line),
        offset: layout.offset,
        outer: columns,
        depth,
    }
}
