//! Any product of a linear layer as one matrix product with an epilogue.
//!
//! Targets see only this form: `R[r, c] = epilogue(Σ_d X[r, d] · Y[d, c])`. Each of the two operands is read along
//! lines of contiguous elements; a line runs either along the depth `d`, which is summed over, or along the outer
//! index `r` or `c`, which stays.

use super::description::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixOrder, NamedMatrix,
};
use super::error::CodegenError;
use super::math::Math;

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
    /// Elements from one matrix of the batch to the next; 0 if there is one.
    pub batch_stride: u64,
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
        let common = stride | ((self.offset | self.batch_stride) * bytes) | 16;
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
    /// Elements from one matrix of the batch to the next; 0 if there is one.
    pub batch_stride: u64,
}

/// What happens to a sum before it is written, in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epilogue {
    /// A vector over the columns is added, in single precision.
    pub bias: Option<ElementType>,
    /// The sum so far is also written, laid out like the result, as elements of this type.
    pub auxiliary_output: Option<ElementType>,
    /// This function is applied.
    pub activation: Activation,
    /// The derivative of a function is multiplied, taken where a matrix of this type and laid out like the result says.
    pub derivative: Option<(Activation, ElementType)>,
    /// The derivative is exact enough for elements of this type.
    pub derivative_stored_as: ElementType,
    /// What the result holds already is added.
    pub accumulate: bool,
    /// The results so far are also added up over the rows of all products of the batch, in single precision.
    pub result_sums: bool,
}

/// One matrix product with its epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// Independent products of this shape.
    pub batch: u64,
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
    /// How products of single-precision operands are computed.
    pub math: Math,
    /// The result.
    pub output: Output,
    /// What happens to the sums.
    pub epilogue: Epilogue,
    /// Whether the right operand's sums over the depth, and over the batch, are written too.
    pub column_sums: bool,
    /// What these sums, or those of the results, are written as.
    pub sum_element: ElementType,
}

impl Contraction {
    /// Writes a kernel as a matrix product; `None` if it is none.
    ///
    /// # Errors
    /// What [`KernelDescription::validate`] finds.
    pub fn of(kernel: &KernelDescription) -> Result<Option<Contraction>, CodegenError> {
        kernel.validate()?;
        let [first, second, result] = kernel.matrices();
        let (left, right) = match kernel.op {
            // The index that is summed over is the first input's column or row, and the second one's row or column.
            KernelOp::FusedLinear => (Index::Column, Index::Row),
            KernelOp::InputGradient => (Index::Column, Index::Column),
            KernelOp::WeightGradient => (Index::Row, Index::Row),
            KernelOp::BiasGradient | KernelOp::ActivationGradient => return Ok(None),
        };
        let left = operand(kernel, &first, left);
        let right = operand(kernel, &second, right);
        let is_forward = kernel.op == KernelOp::FusedLinear;
        let has_derivative =
            kernel.op == KernelOp::InputGradient && kernel.activation != Activation::None;
        Ok(Some(Contraction {
            batch: kernel.batch,
            rows: result.rows,
            columns: result.columns,
            depth: left.depth,
            left,
            right,
            math: kernel.math,
            output: Output {
                element: kernel.output,
                leading: result.leading(),
                offset: result.layout.offset,
                batch_stride: batch_stride(kernel, &result),
            },
            epilogue: Epilogue {
                bias: kernel.bias.filter(|_| is_forward),
                auxiliary_output: kernel.auxiliary.then_some(kernel.output),
                activation: if is_forward {
                    kernel.activation
                } else {
                    Activation::None
                },
                derivative: has_derivative.then_some((kernel.activation, kernel.element)),
                derivative_stored_as: kernel.derivative_stored_as(),
                accumulate: kernel.accumulate,
                result_sums: kernel.op == KernelOp::InputGradient && kernel.bias.is_some(),
            },
            column_sums: kernel.op == KernelOp::WeightGradient && kernel.bias.is_some(),
            sum_element: kernel.bias.unwrap_or(ElementType::F32),
        }))
    }

    /// Parts of the sums over columns, if there are such sums, where the result has so many tiles along the rows and so
    /// many blocks share a tile: the right operand is added up by each share of the depth, results by each row of tiles,
    /// and either by each product of the batch.
    ///
    /// # Errors
    /// [`CodegenError::Unsupported`] if there are more parts than 32 bits count.
    pub fn column_parts(&self, row_tiles: u64, splits: u32) -> Result<Option<u32>, CodegenError> {
        let each = match (self.column_sums, self.epilogue.result_sums) {
            (true, _) => u64::from(splits),
            (_, true) => row_tiles,
            (false, false) => return Ok(None),
        };
        let parts = u32::try_from(each.saturating_mul(self.batch));
        parts.map(Some).map_err(|_| CodegenError::Unsupported {
            what: format!("a batch of {} with the gradient of a bias", self.batch),
            hint: "sums of a column have at most 2^32 parts".to_owned(),
        })
    }

    /// Tiles of so many rows and columns that all products of the batch take.
    pub fn tiles(&self, rows: u32, columns: u32) -> u64 {
        let tiles = self.rows.div_ceil(rows.into()) * self.columns.div_ceil(columns.into());
        tiles.saturating_mul(self.batch)
    }

    /// Elements of a row that one access can take: a power of two that divides the row's length, its stride and its
    /// start, and is at most `limit`.
    pub const fn row_run(&self, limit: u32) -> u32 {
        let stride = if self.rows > 1 {
            self.output.leading
        } else {
            0
        };
        let output = &self.output;
        let common = self.columns | stride | output.offset | output.batch_stride | limit as u64;
        1 << common.trailing_zeros()
    }
}

/// One of a matrix's two indices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Row,
    Column,
}

/// A matrix as an operand whose `summed` index is summed over.
fn operand(kernel: &KernelDescription, matrix: &NamedMatrix, summed: Index) -> Operand {
    let (depth, outer) = match summed {
        Index::Row => (matrix.rows, matrix.columns),
        Index::Column => (matrix.columns, matrix.rows),
    };
    let along = match matrix.layout.order {
        MatrixOrder::RowMajor => Index::Column,
        MatrixOrder::ColumnMajor => Index::Row,
    };
    Operand {
        element: kernel.element,
        batch_stride: batch_stride(kernel, matrix),
        major: if along == summed {
            Major::Depth
        } else {
            Major::Outer
        },
        leading: matrix.leading(),
        offset: matrix.layout.offset,
        outer,
        depth,
    }
}

/// Elements from one matrix of a kernel's batch to the next; 0 if there is one.
pub(super) fn batch_stride(kernel: &KernelDescription, matrix: &NamedMatrix) -> u64 {
    match kernel.batch {
        1 => 0,
        _ => matrix.batch_stride(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::description::MatrixLayout;

    fn contraction(op: KernelOp, a: MatrixLayout, b: MatrixLayout) -> Contraction {
        let kernel = KernelDescription {
            op,
            a,
            b,
            ..KernelDescription::product(ElementType::Bf16, 2, 3, 5)
        };
        Contraction::of(&kernel).unwrap().expect("a product")
    }

    #[test]
    fn each_op_sums_over_its_own_index() {
        let (row, column) = (MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR);
        for (op, shape, majors) in [
            (
                KernelOp::FusedLinear,
                (2, 3, 5),
                (Major::Depth, Major::Outer),
            ),
            (
                KernelOp::InputGradient,
                (2, 5, 3),
                (Major::Depth, Major::Depth),
            ),
            (
                KernelOp::WeightGradient,
                (5, 3, 2),
                (Major::Outer, Major::Outer),
            ),
        ] {
            let plain = contraction(op, row, row);
            assert_eq!((plain.rows, plain.columns, plain.depth), shape, "{op:?}");
            assert_eq!(
                (plain.left.outer, plain.right.outer),
                (shape.0, shape.1),
                "{op:?}"
            );
            assert_eq!(
                (plain.left.depth, plain.right.depth),
                (shape.2, shape.2),
                "{op:?}"
            );
            assert_eq!((plain.left.major, plain.right.major), majors, "{op:?}");
            let other = contraction(op, column, column);
            assert_ne!(other.left.major, majors.0, "{op:?}");
            assert_ne!(other.right.major, majors.1, "{op:?}");
        }
    }

    #[test]
    fn alignment_is_that_of_every_line() {
        let aligned = |leading, offset, lines| {
            let operand = Operand {
                element: ElementType::Bf16,
                major: Major::Depth,
                leading,
                offset,
                batch_stride: 0,
                outer: lines,
                depth: 1,
            };
            operand.alignment_bytes()
        };
        assert_eq!(aligned(64, 0, 4), 16);
        assert_eq!(aligned(12, 0, 4), 8);
        assert_eq!(aligned(6, 0, 4), 4);
        assert_eq!(aligned(7, 0, 4), 2);
        assert_eq!(aligned(7, 0, 1), 16);
        assert_eq!(aligned(64, 2, 4), 4);
    }
}
