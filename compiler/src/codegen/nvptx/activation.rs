//! Activations of single-precision numbers and their derivatives, in registers.

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
            let argument = e.mul_float(x, tanh_inner(e, x, CUBIC));
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

/// The derivative of an activation where it was applied.
pub(super) fn derivative<'c>(
    e: &Emitter<'c>,
    activation: Activation,
    x: FloatValue<'c>,
    stored_as: ElementType,
) -> FloatValue<'c> {
    let one = e.f32(1.0);
    match activation {
        Activation::None => one,
        Activation::Relu => {
            let positive = e.compare_float(FloatPredicate::OGT, x, e.f32(0.0));
            e.select(positive, one, e.f32(0.0)).into_float_value()
        }
        Activation::GeluTanh => {
            // With t = tanh y: (1 + t)/2 + x/2 · (1 − t²) · y′. Written with s = (1 + t)/2, 1 − t² is 4 s (1 − s).
            let argument = e.mul_float(x, tanh_inner(e, x, CUBIC));
            let share = if stored_as.bytes() == 2 {
                let tanh = e.float_assembly("tanh.approx.f32 $0, $1;", argument);
                e.fma(tanh, e.f32(0.5), e.f32(0.5))
            } else {
                logistic(e, e.mul_float(argument, e.f32(2.0)))
            };
            let slope = tanh_inner(e, x, 3.0 * CUBIC);
            let rest = e.add_float(one, e.negate(share));
            let bell = e.mul_float(
                e.mul_float(share, rest),
                e.mul_float(bounded(e, x), e.f32(2.0)),
            );
            e.fma(bell, slope, share)
        }
        Activation::GeluErf => {
            // Φ(x) + x φ(x)
            let tail = e.mul_float(normal_tail(e, x), e.f32(0.5));
            let negative = e.compare_float(FloatPredicate::OLT, x, e.f32(0.0));
            let other = e.add_float(one, e.negate(tail));
            let distribution = e.select(negative, tail, other).into_float_value();
            let inner = bounded(e, x);
            let power = exponential(e, e.mul_float(e.mul_float(inner, inner), e.f32(-0.5)));
            let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 0.5;
            e.fma(e.mul_float(inner, e.f32(scale)), power, distribution)
        }
        Activation::Silu => {
            // σ (1 + x (1 − σ))
            let share = logistic(e, x);
            let rest = e.add_float(one, e.negate(share));
            e.mul_float(share, e.fma(bounded(e, x), rest, one))
        }
    }
}

/// The coefficient of the cube in the tanh form of gelu.
const CUBIC: f64 = 0.044715;

/// `√(2/π) (1 + c x²)`. With c = [`CUBIC`], tanh's argument is x times this; with three times as much it is the
/// argument's derivative.
fn tanh_inner<'c>(e: &Emitter<'c>, x: FloatValue<'c>, c: f64) -> FloatValue<'c> {
    let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    let inner = bounded(e, x);
    e.fma(e.mul_float(inner, inner), e.f32(scale * c), e.f32(scale))
}

/// x between −30 and 30, beyond which every activation here is a line or zero to all digits. It keeps powers of x
/// finite, so that none meets a factor of zero. A NaN becomes a number: callers have x itself in a sum or product.
fn bounded<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    let overload = [x.get_type().into()];
    let low = e.call_value("llvm.maxnum", &overload, &[x.into(), e.f32(-30.0).into()]);
    e.call_value("llvm.minnum", &overload, &[low, e.f32(30.0).into()])
        .into_float_value()
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

/// `x Φ(x)`, written `max(x, 0) − |x|/2 · erfc(|x|/√2)`: no digits cancel for negative x.
fn gelu_erf<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    let half = e.mul_float(magnitude(e, bounded(e, x)), e.f32(-0.5));
    e.fma(half, normal_tail(e, x), relu(e, x))
}

/// `erfc(|x|/√2)`, the chance that a standard normal lies further from zero than x. Abramowitz and Stegun's 7.1.26: a
/// polynomial in `1 / (1 + p z)` times `e^(−z²)`, with an error below 1.5 · 10⁻⁷.
fn normal_tail<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    const P: f64 = 0.3275911;
    const COEFFICIENTS: [f64; 5] = [
        0.254829592,
        -0.284496736,
        1.421413741,
        -1.453152027,
        1.061405429,
    ];
    let z = e.mul_float(magnitude(e, x), e.f32(std::f64::consts::FRAC_1_SQRT_2));
    let t = reciprocal(e, e.fma(z, e.f32(P), e.f32(1.0)));
    let mut polynomial = e.f32(COEFFICIENTS[4]);
    for coefficient in COEFFICIENTS[..4].iter().rev() {
        polynomial = e.fma(polynomial, t, e.f32(*coefficient));
    }
    let power = exponential(e, e.mul_float(e.negate(z), z));
    e.mul_float(e.mul_float(polynomial, t), power)
}

fn magnitude<'c>(e: &Emitter<'c>, x: FloatValue<'c>) -> FloatValue<'c> {
    e.call_value("llvm.fabs", &[x.get_type().into()], &[x.into()])
        .into_float_value()
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
