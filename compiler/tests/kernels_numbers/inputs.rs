//! What a kernel reads: random matrices, as numbers and as bytes.

use half::{bf16, f16};
use raddle_compiler::codegen::description::NamedMatrix;
use raddle_compiler::codegen::{
    ElementType, KernelDescription, KernelOp, MatrixLayout, MatrixOrder,
};

/// A matrix of numbers that its element type can hold, and its bytes as they lie in memory.
pub struct Matrix {
    pub element: ElementType,
    pub layout: MatrixLayout,
    pub batch: usize,
    pub columns: usize,
    pub rows: usize,
    pub values: Vec<f64>,
}

/// Random numbers between −1 and 1: a linear congruence (Knuth, TAOCP 2, 3.3.4) is random enough for sums.
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }
}

pub fn encode(element: ElementType, value: f32) -> Vec<u8> {
    match element {
        ElementType::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::F32 => value.to_le_bytes().to_vec(),
    }
}

pub fn decode(element: ElementType, bytes: &[u8]) -> f64 {
    match element {
        ElementType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        ElementType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        ElementType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
    }
}

/// Half the distance from 1 to the next number.
pub fn roundoff(element: ElementType) -> f64 {
    match element {
        ElementType::Bf16 => 2f64.powi(-8),
        ElementType::F16 => 2f64.powi(-11),
        ElementType::F32 => 2f64.powi(-24),
    }
}

impl Matrix {
    pub fn random(
        random: &mut Random,
        element: ElementType,
        layout: MatrixLayout,
        [batch, rows, columns]: [u64; 3],
    ) -> Matrix {
        let values = (0..batch * rows * columns)
            .map(|_| decode(element, &encode(element, random.next())))
            .collect();
        Matrix {
            element,
            layout,
            batch: batch as usize,
            columns: columns as usize,
            rows: rows as usize,
            values,
        }
    }

    pub fn at(&self, batch: usize, row: usize, column: usize) -> f64 {
        let batch = match self.layout.batch_stride {
            Some(0) => 0,
            _ => batch,
        };
        self.values[(batch * self.rows + row) * self.columns + column]
    }

    /// Where an element lies, in elements from the start.
    pub fn place(&self, batch: usize, row: usize, column: usize) -> usize {
        let (line, within, length, lines) = match self.layout.order {
            MatrixOrder::RowMajor => (row, column, self.columns, self.rows),
            MatrixOrder::ColumnMajor => (column, row, self.rows, self.columns),
        };
        let leading = self
            .layout
            .leading
            .map_or(length, |leading| leading as usize);
        let whole = (lines - 1) * leading + length;
        let stride = self
            .layout
            .batch_stride
            .map_or(whole, |stride| stride as usize);
        self.layout.offset as usize + batch * stride + line * leading + within
    }

    /// Bytes up to the last element.
    pub fn size(&self) -> usize {
        (self.place(self.batch - 1, self.rows - 1, self.columns - 1) + 1)
            * self.element.bytes() as usize
    }

    /// The matrix in memory, NaN where it has gaps.
    pub fn bytes(&self) -> Vec<u8> {
        let width = self.element.bytes() as usize;
        let mut bytes = vec![0xff; self.size()];
        for [batch, row, column] in self.places() {
            let start = self.place(batch, row, column) * width;
            let value = encode(self.element, self.at(batch, row, column) as f32);
            bytes[start..start + width].copy_from_slice(&value);
        }
        bytes
    }

    /// Batch, row and column of every element.
    pub fn places(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let (batch, rows, columns) = (self.batch, self.rows, self.columns);
        (0..batch * rows * columns).map(move |index| {
            [
                index / columns / rows,
                index / columns % rows,
                index % columns,
            ]
        })
    }

    /// The element at a place of some bytes that are laid out like this matrix.
    pub fn found(&self, bytes: &[u8], [batch, row, column]: [usize; 3]) -> f64 {
        let width = self.element.bytes() as usize;
        decode(
            self.element,
            &bytes[self.place(batch, row, column) * width..][..width],
        )
    }
}

/// All that a kernel reads.
pub struct Inputs {
    pub first: Matrix,
    pub second: Matrix,
    pub bias: Matrix,
    /// The pre-activation that dX reads, or what dW adds to.
    pub auxiliary: Matrix,
    pub existing: Matrix,
}

impl Inputs {
    pub fn random(kernel: &KernelDescription) -> Inputs {
        let mut random = Random(kernel.m * 31 + kernel.n * 17 + kernel.k);
        let [first, second, result] = kernel.matrices();
        let mut matrix = |element, named: NamedMatrix| {
            Matrix::random(
                &mut random,
                element,
                named.layout,
                [kernel.batch, named.rows, named.columns],
            )
        };
        let auxiliary = {
            let mut auxiliary = matrix(kernel.element, result);
            for value in &mut auxiliary.values {
                *value *= 4.0;
            }
            auxiliary
        };
        Inputs {
            first: matrix(kernel.element, first),
            second: matrix(kernel.element, second),
            existing: matrix(kernel.output, result),
            auxiliary,
            bias: Matrix::random(
                &mut random,
                kernel.bias.unwrap_or(ElementType::F32),
                MatrixLayout::ROW_MAJOR,
                [1, 1, kernel.n],
            ),
        }
    }

    /// The product's sum for an element of the result, and the sum of the magnitudes of its terms.
    pub fn product(
        &self,
        kernel: &KernelDescription,
        [batch, row, column]: [usize; 3],
    ) -> (f64, f64) {
        let (first, second) = (&self.first, &self.second);
        let term = |depth: usize| match kernel.op {
            KernelOp::FusedLinear => first.at(batch, row, depth) * second.at(batch, depth, column),
            KernelOp::InputGradient => {
                first.at(batch, row, depth) * second.at(batch, column, depth)
            }
            KernelOp::WeightGradient => {
                first.at(batch, depth, row) * second.at(batch, depth, column)
            }
            KernelOp::BiasGradient => first.at(batch, depth, column),
        };
        (0..depth(kernel) as usize)
            .map(term)
            .fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            })
    }
}

/// Terms of each sum.
pub fn depth(kernel: &KernelDescription) -> u64 {
    match kernel.op {
        KernelOp::FusedLinear => kernel.k,
        KernelOp::InputGradient => kernel.n,
        KernelOp::WeightGradient | KernelOp::BiasGradient => kernel.m,
    }
}
