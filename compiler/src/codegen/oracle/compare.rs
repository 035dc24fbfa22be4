//! What a kernel wrote against what it should have.
//!
//! A result may be off by `2u|r| + 1.2 (d + 8) · 2⁻²³ · s`: u is the unit roundoff of its type, r its exact value, d the number
//! of terms of the sum and s the sum of their magnitudes. Where the hardware's tanh serves a 16-bit result, 2⁻¹⁰ of the
//! activation's argument come on top. The sum of a column of results may be off by as much as its terms are together,
//! before they are rounded, and by what adding them up takes.

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
    let sums_input = matches!(kernel.op, KernelOp::WeightGradient | KernelOp::BiasGradient);
    if let Some(bytes) = results.bias_gradient.filter(|_| sums_input) {
        compare_bias_gradient(kernel, inputs, bytes, &mut comparison);
    }
    comparison
}

fn sum_allowance(depth: u64, size: f64) -> f64 {
    1.2 * (depth as f64 + 8.0) * 2f64.powi(-23) * size
}

/// A number as it should be, and how far one in single precision may be off.
#[derive(Clone, Copy)]
struct Expected {
    value: f64,
    allowance: f64,
}

/// Whether the hardware's tanh serves results that are kept in elements of this type.
fn is_approximate(kernel: &KernelDescription, stored_as: ElementType) -> bool {
    stored_as.bytes() == 2 && kernel.activation == Activation::GeluTanh
}

/// The sum that an element of the result starts from.
fn sum_of(kernel: &KernelDescription, inputs: &Inputs, place: [usize; 3]) -> Expected {
    let (mut value, mut size) = inputs.product(kernel, place);
    if kernel.op == KernelOp::FusedLinear && kernel.bias.is_some() {
        let bias = inputs.bias.at([0, 0, place[2]]);
        value += bias;
        size += bias.abs();
    }
    Expected {
        value,
        allowance: sum_allowance(depth(kernel), size),
    }
}

/// An element of the result before it is rounded.
fn result_of(
    kernel: &KernelDescription,
    inputs: &Inputs,
    (place, sum): ([usize; 3], Expected),
) -> Expected {
    let Expected {
        mut value,
        mut allowance,
    } = sum;
    let takes_derivative = matches!(
        kernel.op,
        KernelOp::InputGradient | KernelOp::ActivationGradient
    );
    if kernel.op == KernelOp::FusedLinear {
        value = activation::apply(kernel.activation, sum.value);
        if is_approximate(kernel, kernel.output) {
            allowance += 2f64.powi(-10) * sum.value.abs();
        }
    } else if takes_derivative && kernel.activation != Activation::None {
        let x = inputs.auxiliary.at(place);
        let slope = activation::derivative(kernel.activation, x);
        value *= slope;
        // The slope itself is computed in single precision, or from the hardware's tanh.
        let error = if is_approximate(kernel, kernel.derivative_stored_as()) {
            2f64.powi(-10)
        } else {
            1e-6
        };
        allowance = allowance * slope.abs() + error * sum.value.abs() * (1.0 + x.abs());
    }
    if kernel.accumulate {
        let existing = inputs.existing.at(place);
        value += existing;
        allowance += 2f64.powi(-23) * (existing.abs() + sum.value.abs());
    }
    Expected { value, allowance }
}

fn compare_product(
    kernel: &KernelDescription,
    inputs: &Inputs,
    results: &Results<'_>,
    comparison: &mut Comparison,
) {
    let result = &inputs.existing;
    let rounding = 2.0 * roundoff(kernel.output);
    let mut columns = vec![Column::default(); result.columns];
    for place in result.places() {
        let sum = sum_of(kernel, inputs, place);
        if let Some(bytes) = results.auxiliary {
            let found = result.found(bytes, place);
            let allowed = rounding * sum.value.abs() + sum.allowance;
            comparison.add("aux", place, (found, sum.value, allowed));
        }
        let expected = result_of(kernel, inputs, (place, sum));
        columns[place[2]].add(expected.value, expected.allowance);
        if let Some(bytes) = results.output {
            let found = result.found(bytes, place);
            let allowed = rounding * expected.value.abs() + expected.allowance;
            comparison.add("out", place, (found, expected.value, allowed));
        }
    }
    let sums_results = matches!(
        kernel.op,
        KernelOp::InputGradient | KernelOp::ActivationGradient
    );
    if let Some(bytes) = results.bias_gradient.filter(|_| sums_results) {
        compare_columns(kernel, (&columns, bytes), comparison);
    }
}

/// The sum of a column.
#[derive(Clone, Copy, Default)]
struct Column {
    sum: f64,
    /// The sum of the magnitudes of its terms.
    size: f64,
    /// How far the terms are off together.
    allowance: f64,
    terms: u64,
}

impl Column {
    fn add(&mut self, term: f64, allowance: f64) {
        self.sum += term;
        self.size += term.abs();
        self.allowance += allowance;
        self.terms += 1;
    }
}

/// The numbers that the bytes of a bias's gradient are.
pub fn bias_gradient(kernel: &KernelDescription, bytes: &[u8]) -> Vec<f64> {
    let element = kernel.bias.unwrap_or(ElementType::F32);
    let elements = bytes.chunks_exact(element.bytes() as usize);
    elements.map(|bytes| decode(element, bytes)).collect()
}

fn compare_columns(
    kernel: &KernelDescription,
    (columns, bytes): (&[Column], &[u8]),
    comparison: &mut Comparison,
) {
    let element = kernel.bias.unwrap_or(ElementType::F32);
    let found = bias_gradient(kernel, bytes);
    for (index, (column, found)) in columns.iter().zip(found).enumerate() {
        let allowed = 2.0 * roundoff(element) * column.sum.abs()
            + column.allowance
            + sum_allowance(column.terms, column.size);
        comparison.add("dbias", [0, 0, index], (found, column.sum, allowed));
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
    let mut columns = vec![Column::default(); gradient.columns];
    for place in gradient.places() {
        columns[place[2]].add(gradient.at(place), 0.0);
    }
    compare_columns(kernel, (&columns, bytes), comparison);
}
