//! What a kernel should compute: random inputs, the results in double precision, and how far a kernel may be off.
//!
//! Everything that runs kernels, with or without a GPU, compares with this. It knows nothing of tiles or of PTX.

mod activation;
mod compare;
mod matrix;

use super::description::{ElementType, KernelDescription, KernelOp, MatrixLayout, NamedMatrix};

pub use compare::{Comparison, Results, compare};
pub use matrix::{Matrix, Random};

/// All that a kernel reads.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The op's first input.
    pub first: Matrix,
    /// The op's second input.
    pub second: Matrix,
    /// The bias, a row.
    pub bias: Matrix,
    /// The pre-activation that dX reads, laid out like the result.
    pub auxiliary: Matrix,
    /// What the result holds before.
    pub existing: Matrix,
}

impl Inputs {
    /// Random inputs, which the seed decides. The pre-activation lies between −4 and 4, where activations bend.
    pub fn random(kernel: &KernelDescription, seed: u64) -> Inputs {
        let mut random = Random::new(seed);
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
    fn product(&self, kernel: &KernelDescription, [batch, row, column]: [usize; 3]) -> (f64, f64) {
        let (first, second) = (&self.first, &self.second);
        let term = |depth: usize| match kernel.op {
            KernelOp::FusedLinear => {
                first.at([batch, row, depth]) * second.at([batch, depth, column])
            }
            KernelOp::InputGradient => {
                first.at([batch, row, depth]) * second.at([batch, column, depth])
            }
            KernelOp::WeightGradient => {
                first.at([batch, depth, row]) * second.at([batch, depth, column])
            }
            KernelOp::BiasGradient => first.at([batch, depth, column]),
        };
        (0..depth(kernel) as usize)
            .map(term)
            .fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            })
    }
}

/// Terms of each sum.
fn depth(kernel: &KernelDescription) -> u64 {
    match kernel.op {
        KernelOp::FusedLinear => kernel.k,
        KernelOp::InputGradient => kernel.n,
        KernelOp::WeightGradient | KernelOp::BiasGradient => kernel.m,
    }
}
