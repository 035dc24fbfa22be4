//! Activations of single-precision numbers and their derivatives, in registers.

use inkwell::values::FloatValue;

use super::formula::{Formula, Term};
use crate::codegen::description::{Activation, ElementType};
use crate::codegen::llvm::Emitter;

/// Applies an activation. `stored_as` is the type that the result is rounded to: 16-bit results leave room for the
/// hardware's approximate tanh, others do not.
pub(super) fn apply<'c>(
    e: &Emitter<'c>,
    activation: Activation,
    x: FloatValue<'c>,
    stored_as: ElementType,
) -> FloatValue<'c> {
    let mut f = Formula::default();
    let result = match activation {
        Activation::None => return x,
        Activation::Relu => relu(&mut f),
        Activation::GeluTanh => {
            let inner = tanh_inner(&mut f, CUBIC);
            let argument = f.mul(X, inner);
            if stored_as.bytes() == 2 {
                let tanh = f.approximate_tanh(argument);
                let half = f.mul(X, HALF);
                f.fma(half, tanh, half)
            } else {
                // (1 + tanh y) / 2 = σ(2y)
                let twice = f.mul(argument, TWO);
                let share = logistic(&mut f, twice);
                f.mul(X, share)
            }
        }
        Activation::GeluErf => gelu_erf(&mut f),
        Activation::Silu => {
            let share = logistic(&mut f, X);
            f.mul(X, share)
        }
    };
    f.apply(e, result, x)
}

/// The derivative of an activation where it was applied.
pub(super) fn derivative<'c>(
    e: &Emitter<'c>,
    activation: Activation,
    x: FloatValue<'c>,
    stored_as: ElementType,
) -> FloatValue<'c> {
    let mut f = Formula::default();
    let result = match activation {
        Activation::None => return e.f32(1.0),
        Activation::Relu => f.if_less((ZERO, X), ONE, ZERO),
        Activation::GeluTanh => {
            // With t = tanh y: (1 + t)/2 + x/2 · (1 − t²) · y′. Written with s = (1 + t)/2, 1 − t² is 4 s (1 − s).
            let inner = tanh_inner(&mut f, CUBIC);
            let argument = f.mul(X, inner);
            let share = if stored_as.bytes() == 2 {
                let tanh = f.approximate_tanh(argument);
                f.fma(tanh, HALF, HALF)
            } else {
                let twice = f.mul(argument, TWO);
                logistic(&mut f, twice)
            };
            let slope = tanh_inner(&mut f, 3.0 * CUBIC);
            let rest = f.sub(ONE, share);
            let bell = f.mul(share, rest);
            let bounded = bounded(&mut f);
            let twice = f.mul(bounded, TWO);
            let bell = f.mul(bell, twice);
            f.fma(bell, slope, share)
        }
        Activation::GeluErf => {
            // Φ(x) + x φ(x)
            let tail = normal_tail(&mut f);
            let tail = f.mul(tail, HALF);
            let other = f.sub(ONE, tail);
            let distribution = f.if_less((X, ZERO), tail, other);
            let inner = bounded(&mut f);
            let square = f.mul(inner, inner);
            let exponent = f.mul(square, Term::Constant(-0.5));
            let power = exponential(&mut f, exponent);
            let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 0.5;
            let scaled = f.mul(inner, Term::Constant(scale));
            f.fma(scaled, power, distribution)
        }
        Activation::Silu => {
            // σ (1 + x (1 − σ))
            let share = logistic(&mut f, X);
            let rest = f.sub(ONE, share);
            let inner = bounded(&mut f);
            let slope = f.fma(inner, rest, ONE);
            f.mul(share, slope)
        }
    };
    f.apply(e, result, x)
}

const X: Term = Term::Input;
const ZERO: Term = Term::Constant(0.0);
const HALF: Term = Term::Constant(0.5);
const ONE: Term = Term::Constant(1.0);
const TWO: Term = Term::Constant(2.0);

/// The coefficient of the cube in the tanh form of gelu.
const CUBIC: f64 = 0.044715;

/// `√(2/π) (1 + c x²)`. With c = [`CUBIC`], tanh's argument is x times this; with three times as much it is the
/// argument's derivative.
fn tanh_inner(f: &mut Formula, c: f64) -> Term {
    let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    let inner = bounded(f);
    let square = f.mul(inner, inner);
    f.fma(square, Term::Constant(scale * c), Term::Constant(scale))
}

/// x between −30 and 30, beyond which every activation here is a line or zero to all digits. It keeps powers of x
/// finite, so that none meets a factor of zero. A NaN becomes a number: callers have x itself in a sum or product.
fn bounded(f: &mut Formula) -> Term {
    let low = f.max(X, Term::Constant(-30.0));
    f.min(low, Term::Constant(30.0))
}

/// `max(x, 0)`; a NaN stays one.
fn relu(f: &mut Formula) -> Term {
    f.if_less((X, ZERO), ZERO, X)
}

/// `1 / (1 + e⁻ˣ)`.
fn logistic(f: &mut Formula, x: Term) -> Term {
    let negative = f.negate(x);
    let power = exponential(f, negative);
    let sum = f.add(power, ONE);
    f.reciprocal(sum)
}

/// `x Φ(x)`, written `max(x, 0) − |x|/2 · erfc(|x|/√2)`: no digits cancel for negative x.
fn gelu_erf(f: &mut Formula) -> Term {
    let inner = bounded(f);
    let size = f.magnitude(inner);
    let half = f.mul(size, Term::Constant(-0.5));
    let tail = normal_tail(f);
    let positive = relu(f);
    f.fma(half, tail, positive)
}

/// `erfc(|x|/√2)`, the chance that a standard normal lies further from zero than x. Abramowitz and Stegun's 7.1.26: a
/// polynomial in `1 / (1 + p z)` times `e^(−z²)`, with an error below 1.5 · 10⁻⁷.
fn normal_tail(f: &mut Formula) -> Term {
    const P: f64 = 0.3275911;
    const COEFFICIENTS: [f64; 5] = [
        0.254829592,
        -0.284496736,
        1.421413741,
        -1.453152027,
        1.061405429,
    ];
    let size = f.magnitude(X);
    let z = f.mul(size, Term::Constant(std::f64::consts::FRAC_1_SQRT_2));
    let sum = f.fma(z, Term::Constant(P), ONE);
    let t = f.reciprocal(sum);
    let mut polynomial = Term::Constant(COEFFICIENTS[4]);
    for coefficient in COEFFICIENTS[..4].iter().rev() {
        polynomial = f.fma(polynomial, t, Term::Constant(*coefficient));
    }
    let negative = f.negate(z);
    let exponent = f.mul(negative, z);
    let power = exponential(f, exponent);
    let product = f.mul(polynomial, t);
    f.mul(product, power)
}

/// `eˣ`, by the hardware's power of two (absolute error of the exponent's fraction 2⁻²²).
fn exponential(f: &mut Formula, x: Term) -> Term {
    let exponent = f.mul(x, Term::Constant(std::f64::consts::LOG2_E));
    f.power_of_two(exponent)
}
