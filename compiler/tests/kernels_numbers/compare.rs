//! What a kernel should have written, in double precision, and how far it may be off.

use raddle_compiler::codegen::nvptx::Parameter;
use raddle_compiler::codegen::{Activation, ElementType, KernelDescription, KernelOp};

use super::inputs::{Inputs, decode, depth, roundoff};
use super::run::Ran;

pub fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluTanh => x / 2.0 * (1.0 + tanh_argument(x).tanh()),
        Activation::GeluErf => x * normal_distribution(x),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

pub fn tanh_argument(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))
}

/// The standard normal's distribution function, by Simpson's rule over its density.
pub fn normal_distribution(x: f64) -> f64 {
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let steps = 200;
    let width = x / f64::from(steps);
    let inner: f64 = (1..steps)
        .map(|step| density(f64::from(step) * width) * if step % 2 == 1 { 4.0 } else { 2.0 })
        .sum();
    0.5 + (density(0.0) + inner + density(x)) * width / 3.0
}

/// The slope of an activation, by a difference of its values.
pub fn slope(activation: Activation, x: f64) -> f64 {
    if activation == Activation::Relu {
        return f64::from(x > 0.0);
    }
    let step = 1e-4;
    (activate(activation, x + step) - activate(activation, x - step)) / (2.0 * step)
}

/// The error that rounding `depth` products of magnitude `size` in single precision allows.
pub fn sum_tolerance(depth: u64, size: f64) -> f64 {
    1.2 * (depth as f64 + 8.0) * 2f64.powi(-23) * size
}

pub fn compare_result(kernel: &KernelDescription, inputs: &Inputs, ran: &Ran) {
    let output = ran
        .bytes(Parameter::Output)
        .expect("a product has a result");
    let auxiliary = ran.bytes(Parameter::AuxiliaryOutput);
    let is_short = kernel.output.bytes() == 2;
    let result = &inputs.existing;
    let approximate = is_short && kernel.activation == Activation::GeluTanh;
    for place in result.places() {
        let [batch, row, column] = place;
        let (mut sum, mut size) = inputs.product(kernel, place);
        if kernel.op == KernelOp::FusedLinear && kernel.bias.is_some() {
            sum += inputs.bias.at(0, 0, column);
            size += inputs.bias.at(0, 0, column).abs();
        }
        let mut tolerance = sum_tolerance(depth(kernel), size);
        if let Some(bytes) = auxiliary {
            let allowed = 2.0 * roundoff(kernel.output) * sum.abs() + tolerance;
            let found = result.found(bytes, place);
            assert!(
                (found - sum).abs() <= allowed,
                "aux {found} for {sum} ± {allowed}: {kernel:?}"
            );
        }
        let mut expected = sum;
        if kernel.op == KernelOp::FusedLinear {
            expected = activate(kernel.activation, sum);
            if approximate {
                tolerance += 2f64.powi(-10) * sum.abs();
            }
        } else if kernel.op == KernelOp::InputGradient && kernel.activation != Activation::None {
            let x = inputs.auxiliary.at(batch, row, column);
            let error = if approximate { 2f64.powi(-10) } else { 1e-6 };
            expected *= slope(kernel.activation, x);
            tolerance = tolerance * 1.2 + error * sum.abs() * (1.0 + x.abs());
        }
        if kernel.accumulate {
            expected += inputs.existing.at(batch, row, column);
            tolerance += 2f64.powi(-22);
        }
        let allowed = 2.0 * roundoff(kernel.output) * expected.abs() + tolerance;
        let found = result.found(output, place);
        assert!(
            (found - expected).abs() <= allowed,
            "{place:?}: {found} for {expected} ± {allowed}: {kernel:?}"
        );
    }
}

pub fn compare_bias_gradient(kernel: &KernelDescription, inputs: &Inputs, bytes: &[u8]) {
    let gradient = match kernel.op {
        KernelOp::WeightGradient => &inputs.second,
        _ => &inputs.first,
    };
    for column in 0..kernel.n as usize {
        let terms = (0..kernel.m as usize).map(|row| gradient.at(0, row, column));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
            (sum + term, size + term.abs())
        });
        let found = decode(ElementType::F32, &bytes[column * 4..][..4]);
        let allowed = sum_tolerance(kernel.m, size);
        assert!(
            (found - sum).abs() <= allowed,
            "dbias {found} for {sum} ± {allowed}: {kernel:?}"
        );
    }
}
