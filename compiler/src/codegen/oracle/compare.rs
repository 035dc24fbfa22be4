//! What a kernel wrote against what it should have.
//!
//! A result may be off by `2u|r| + 1.2 (d + 8) · 2⁻²³ · s`: u is the unit roundoff of its type, r its exact value, d the number
//! of terms of the sum and s the sum of their magnitudes. Where the hardware's tanh serves a 16-bit result, 2⁻¹⁰ of the
//! activation's argument come on top.

use super::activation;
use super::matrix::{decode, roundoff};
use super::{Inputs, depth};
use crate::codegen::description::{Activation, ElementType, KernelDescription, KernelOp};

/// The bytes that a kernel wrote, as far as it writes them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Results<'b> {
    /// The result.
    pub output: Option<&'b [u8]>,
    /// The biased product before the activation.
    pub auxiliary: Option<&'b [u8]>,
    /// The gradient of the bias.
    pub bias_gradient: Option<&'b [u8]>,
}

/// How far a kernel is off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Numbers that were compared.
    pub compared: u64,
    /// The largest error, as a share of what is allowed.
    pub worst: f64,
    /// Numbers that are off by more than is allowed.
    pub wrong: u64,
    /// What the first of them is, and should be.
    pub first_wrong: Option<String>,
}

impl Comparison {
    /// Whether every number is as exact as it must be.
    pub const fn is_right(&self) -> bool {
        self.wrong == 0
    }

    fn add(&mut self, name: &str, place: [usize; 3], (found, expected, allowed): (f64, f64, f64)) {
        self.compared += 1;
        let error = (found - expected).abs();
        // A NaN is wrong, and no larger than anything.
        if error <= allowed {
            self.worst = self
                .worst
                .max(if error == 0.0 { 0.0 } else { error / allowed });
            return;
        }
        self.worst = f64::INFINITY.min(self.worst.max(error / allowed));
        self.wrong += 1;
        if self.first_wrong.is_none() {
            self.first_wrong = Some(format!(
                "{name}{place:?} is {found}, not {expected} ± {allowed}"
            ));
        }
    }
}

/// Compares all that a kernel wrote.
pub fn compare(kernel: &KernelDescription, inputs: &Inputs, results: &Results<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    if kernel.op != KernelOp::BiasGradient {
        compare_product(kernel, inputs, results, &mut comparison);
    }
    if let Some(bytes) = results.bias_gradient {
        compare_bias_gradient(kernel, inputs, bytes, &mut comparison);
    }
    comparison
}

fn sum_allowance(depth: u64, size: f64) -> f64 {
    1.2 * (depth as f64 + 8.0) * 2f64.powi(-23) * size
}

fn compare_product(
    kernel: &KernelDescription,
    inputs: &Inputs,
    results: &Results<'_>,
    comparison: &mut Comparison,
) {
    let result = &inputs.existing;
    let rounding = 2.0 * roundoff(kernel.output);
    let approximate = kernel.output.bytes() == 2 && kernel.activation == Activation::GeluTanh;
    let is_forward = kernel.op == KernelOp::FusedLinear;
    for place in result.places() {
        let (mut sum, mut size) = inputs.product(kernel, place);
        if is_forward && kernel.bias.is_some() {
            let bias = inputs.bias.at([0, 0, place[2]]);
            sum += bias;
            size += bias.abs();
        }
        let mut allowance = sum_allowance(depth(kernel), size);
        if let Some(bytes) = results.auxiliary {
            let found = result.found(bytes, place);
            comparison.add("aux", place, (found, sum, rounding * sum.abs() + allowance));
        }
        let mut expected = sum;
        if is_forward {
            expected = activation::apply(kernel.activation, sum);
            if approximate {
                allowance += 2f64.powi(-10) * sum.abs();
            }
        } else if kernel.op == KernelOp::InputGradient && kernel.activation != Activation::None {
            let x = inputs.auxiliary.at(place);
            let slope = activation::derivative(kernel.activation, x);
            expected *= slope;
            // The slope itself is computed in single precision, or from the hardware's tanh.
            let error = if approximate { 2f64.powi(-10) } else { 1e-6 };
            allowance = allowance * slope.abs() + error * sum.abs() * (1.0 + x.abs());
        }
        if kernel.accumulate {
            let existing = result.at(place);
            expected += existing;
            allowance += 2f64.powi(-23) * (existing.abs() + sum.abs());
        }
        if let Some(bytes) = results.output {
            let found = result.found(bytes, place);
            let allowed = rounding * expected.abs() + allowance;
            comparison.add("out", place, (found, expected, allowed));
        }
    }
}

fn compare_bias_gradient(
    kernel: &KernelDescription,
    inputs: &Inputs,
    bytes: &[u8],
    comparison: &mut Comparison,
) {
    let gradient = match kernel.op {
        KernelOp::WeightGradient => &inputs.second,
        _ => &inputs.first,
    };
    for (column, found) in bytes.chunks_exact(4).enumerate() {
        let terms = (0..gradient.rows).map(|row| gradient.at([0, row, column]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
            (sum + term, size + term.abs())
        });
        let found = decode(ElementType::F32, found);
        let allowed = 2.0 * roundoff(ElementType::F32) * sum.abs() + sum_allowance(kernel.m, size);
        comparison.add("dbias", [0, 0, column], (found, sum, allowed));
    }
}
