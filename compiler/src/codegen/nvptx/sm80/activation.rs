//! Activations of single-precision numbers, in registers.

use inkwell::FloatPredicate;
use inkwell::values::FloatValue;

use crate::codegen::description::{Activation, ElementType};
use crate::codegen::llvm::Emitter;

/// Applies an activation. `stored_as` is the type that the result is rounded to: 16-bit results leave room for the
/// hardware's approximate tanh (relative error 2⁻¹¹, PTX ISA "tanh"), others do not.
pub(super) fn apply<'c>(
    e: &Emitter<'c>,
    activation: Activation,
    x: FloatValue<'c>,
    stored_as: ElementType,
) -> FloatValue<'c> {
    match activation {
        Activation::None => x,
        Activation::Relu => relu(e, x),
        Activation::GeluTanh => {
            // √(2/π) (x + 0.044715 x³)
            let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
            let square = e.mul_float(x, x);
            let inner = e.fma(square, e.f32(scale * 0.044715), e.f32(scale));
            let argument = e.mul_float(x, inner);
            if stored_as.bytes() == 2 {
                let tanh = e.float_assembly("tanh.approx.f32 $0, $1;", argument);
                let half = e.mul_float(x, e.f32(0.5));
                e.fma(half, tanh, half)
            } else {
                // (1 + tanh y) / 2 = σ(2y)
                e.mul_float(x, logistic(e, e.mul_float(argument, e.f32(2.0))))
            }
        }
        Activation::GeluErf => gelu_erf(e, x),
        Activation::Silu => e.mul_float(x, logistic(e, x)),
    }
}

/// `max(x, 0)`; a NaN stays one.
fn relu<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    let zero = e.f32(0.0);
    let negative = e.compare_float(FloatPredicate::OLT, x, zero);
    e.select(negative, zero, x).into_float_value()
}

/// `1 / (1 + e⁻ˣ)`.
fn logistic<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    let power = exponential(e, e.negate(x));
    reciprocal(e, e.add_float(power, e.f32(1.0)))
}

/// `x Φ(x)`, written `max(x, 0) − |x|/2 · erfc(|x|/√2)`: no digits cancel for negative x. The complement of the error
/// function is Abramowitz and Stegun's 7.1.26, a polynomial in `1 / (1 + p z)` times `e^(−z²)` with an error below
/// 1.5 · 10⁻⁷.
fn gelu_erf<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    const P: f64 = 0.3275911;
    const COEFFICIENTS: [f64; 5] = [
        0.254829592,
        -0.284496736,
        1.421413741,
        -1.453152027,
        1.061405429,
    ];
    let magnitude = e
        .call_value("llvm.fabs", &[x.get_type().into()], &[x.into()])
        .into_float_value();
    let z = e.mul_float(magnitude, e.f32(std::f64::consts::FRAC_1_SQRT_2));
    let t = reciprocal(e, e.fma(z, e.f32(P), e.f32(1.0)));
    let mut polynomial = e.f32(COEFFICIENTS[4]);
    for coefficient in COEFFICIENTS[..4].iter().rev() {
        polynomial = e.fma(polynomial, t, e.f32(*coefficient));
    }
    let power = exponential(e, e.mul_float(e.negate(z), z));
    let complement = e.mul_float(e.mul_float(polynomial, t), power);
    // Beyond 30 the complement is zero; the bound keeps an infinity from meeting it.
    let bounded = e
        .call_value(
            "llvm.minnum",
            &[x.get_type().into()],
            &[magnitude.into(), e.f32(30.0).into()],
        )
        .into_float_value();
    let half = e.mul_float(bounded, e.f32(-0.5));
    e.fma(half, complement, relu(e, x))
}

/// `eˣ`, by the hardware's power of two (absolute error of the exponent's fraction 2⁻²², PTX ISA "ex2").
fn exponential<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    let exponent = e.mul_float(x, e.f32(std::f64::consts::LOG2_E));
    e.call_value(
        "llvm.nvvm.ex2.approx.ftz",
        &[exponent.get_type().into()],
        &[exponent.into()],
    )
    .into_float_value()
}

/// `1 / x`, by the hardware's approximation (one unit in the last place, PTX ISA "rcp").
fn reciprocal<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    e.call_value("llvm.nvvm.rcp.approx.ftz.f", &[], &[x.into()])
        .into_float_value()
}
