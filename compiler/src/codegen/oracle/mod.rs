//! What a kernel should compute: random inputs, the results in double precision, and how far a kernel may be off.
//!
//! Everything that runs kernels, with or without a GPU, compares with this. It knows nothing of tiles or of PTX.

mod activation;
mod compare;
mod matrix;
mod sample;

use super::Math;
use super::description::{ElementType, KernelDescription, KernelOp, MatrixLayout, NamedMatrix};

pub use compare::{Comparison, Results, bias_gradient, compare};
use matrix::Walk;
pub use matrix::{Matrix, Random};
pub use sample::{Gathered, Generated, Sample, Which, nans};

/// All that a kernel reads.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The op's first input.
    pub first: Matrix,
    /// The op's second input.
    pub second: Matrix,
    /// The bias, a row.
    pub bias: Matrix,
    /// The pre-activation that dX and dPre read, laid out like the result.
    pub auxiliary: Matrix,
    /// What the result holds before.
    pub existing: Matrix,
}

impl Inputs {
    /// Random inputs, which the seed decides. The pre-activation lies between −4 and 4, where activations bend. Where
    /// nothing is summed, numbers stay 1/16 away from zero: close to it, f16 has fewer digits than its roundoff says.
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
        let mut input = |named| {
            let mut matrix: Matrix = matrix(kernel.element, named);
            if kernel.op == KernelOp::ActivationGradient {
                matrix.keep_from_zero();
            }
            match kernel.math {
                Math::Tf32 => matrix.taken_as_tf32(),
                Math::Full | Math::ThreeTf32 => matrix,
            }
        };
        Inputs {
            first: input(first),
            second: input(second),
            existing: matrix(kernel.output, result),
            auxiliary,
            bias: Matrix::random(
                &mut random,
                kernel.bias.unwrap_or(ElementType::F32),
                MatrixLayout::ROW_MAJOR,
                [1, 1, kernel.bias_elements()],
            ),
        }
    }

    /// One of them.
    pub const fn matrix(&self, which: Which) -> &Matrix {
        match which {
            Which::First => &self.first,
            Which::Second => &self.second,
            Which::Bias => &self.bias,
            Which::Auxiliary => &self.auxiliary,
            Which::Existing => &self.existing,
        }
    }

    /// The product's sum for an element of the result, and the sum of the magnitudes of its terms.
    fn product(&self, kernel: &KernelDescription, [batch, row, column]: [usize; 3]) -> (f64, f64) {
        let (first, second) = (&self.first, &self.second);
        let (of_first, of_second) = match kernel.op {
            KernelOp::FusedLinear => (
                first.walk([batch, row, 0], Walk::Columns),
                second.walk([batch, 0, column], Walk::Rows),
            ),
            KernelOp::InputGradient => (
                first.walk([batch, row, 0], Walk::Columns),
                second.walk([batch, column, 0], Walk::Columns),
            ),
            KernelOp::WeightGradient => (
                first.walk([batch, 0, row], Walk::Rows),
                second.walk([batch, 0, column], Walk::Rows),
            ),
            // The sum of one matrix; the other factor is a one that stays.
            KernelOp::BiasGradient => (first.walk([batch, 0, column], Walk::Rows), (&[1.0][..], 0)),
            KernelOp::ActivationGradient => (
                first.walk([batch, row, column], Walk::Rows),
                (&[1.0][..], 0),
            ),
        };
        let ((first, first_step), (second, second_step)) = (of_first, of_second);
        let (mut sum, mut size) = (0.0, 0.0);
        let (mut left, mut right) = (0, 0);
        // A plain loop: this runs a thousand million times in tests, without optimisation.
        let mut terms = depth(kernel);
        while terms > 0 {
            let term: f64 = first[left] * second[right];
            sum += term;
            size += term.abs();
            left += first_step;
            right += second_step;
            terms -= 1;
        }
        (sum, size)
    }
}

/// Terms of each sum.
fn depth(kernel: &KernelDescription) -> u64 {
    match kernel.op {
        KernelOp::FusedLinear => kernel.k,
        KernelOp::InputGradient => kernel.n,
        KernelOp::WeightGradient | KernelOp::BiasGradient => kernel.m,
        KernelOp::ActivationGradient => 1,
    }
}
