//! Elementwise ops, activations, and the gradients of broadcasting.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use raddle_dialect::ir::{Type, ValueId};

use super::call::{Call, Outcome, shape_of};
use super::emit::{Emit, Input, Reduction};

/// An activation function.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Activation {
    None,
    Relu,
    Gelu,
    GeluTanh,
    Silu,
}

impl Activation {
    pub fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "none" => Self::None,
            "relu" => Self::Relu,
            "gelu" => Self::Gelu,
            "gelu_tanh" => Self::GeluTanh,
            "silu" => Self::Silu,
            other => return Err(format!("the activation '{other}' is not known")),
        })
    }

    /// `f(x)`
    pub fn value(self, e: &mut Emit, x: ValueId) -> ValueId {
        match self {
            Self::None => x,
            Self::Relu => {
                let zero = e.like(0.0, x);
                e.max(x, zero)
            }
            Self::Gelu => {
                let half = half_one_plus_erf(e, x);
                e.mul(x, half)
            }
            Self::GeluTanh => {
                let (t, _) = tanh_inner(e, x);
                let t = e.add_number(t, 1.0);
                let half = e.mul_number(x, 0.5);
                e.mul(half, t)
            }
            Self::Silu => {
                let s = sigmoid(e, x);
                e.mul(x, s)
            }
        }
    }

    /// `f′(x)`
    pub fn derivative(self, e: &mut Emit, x: ValueId) -> ValueId {
        match self {
            Self::None => e.like(1.0, x),
            Self::Relu => {
                let (zero, one) = (e.like(0.0, x), e.like(1.0, x));
                let positive = e.greater(x, zero);
                e.select(positive, one, zero)
            }
            Self::Gelu => {
                let square = e.mul(x, x);
                let exponent = e.mul_number(square, -0.5);
                let bell = e.math("exp", exponent);
                let density = e.mul_number(bell, 1.0 / (2.0 * PI).sqrt());
                let slope = e.mul(x, density);
                let half = half_one_plus_erf(e, x);
                e.add(half, slope)
            }
            Self::GeluTanh => {
                // ½(1 + t) + ½x(1 − t²)·√(2/π)(1 + 3·0.044715 x²)
                let (t, square) = tanh_inner(e, x);
                let rise = e.add_number(t, 1.0);
                let rise = e.mul_number(rise, 0.5);
                let tt = e.mul(t, t);
                let tt = e.mul_number(tt, -1.0);
                let sech = e.add_number(tt, 1.0);
                let inner = e.mul_number(square, 3.0 * CUBIC);
                let inner = e.add_number(inner, 1.0);
                let inner = e.mul_number(inner, (2.0 / PI).sqrt());
                let half = e.mul_number(x, 0.5);
                let slope = e.mul(half, sech);
                let slope = e.mul(slope, inner);
                e.add(rise, slope)
            }
            Self::Silu => {
                // s(1 + x(1 − s))
                let s = sigmoid(e, x);
                let rest = e.mul_number(s, -1.0);
                let rest = e.add_number(rest, 1.0);
                let slope = e.mul(x, rest);
                let slope = e.add_number(slope, 1.0);
                e.mul(s, slope)
            }
        }
    }
}

/// The factor of x³ in the tanh form of gelu.
const CUBIC: f64 = 0.044715;

/// `1/(1 + e⁻ˣ)`
fn sigmoid(e: &mut Emit, x: ValueId) -> ValueId {
    let negative = e.mul_number(x, -1.0);
    let exp = e.math("exp", negative);
    let sum = e.add_number(exp, 1.0);
    let one = e.like(1.0, sum);
    e.div(one, sum)
}

fn half_one_plus_erf(e: &mut Emit, x: ValueId) -> ValueId {
    let scaled = e.mul_number(x, FRAC_1_SQRT_2);
    let erf = e.math("erf", scaled);
    let erf = e.add_number(erf, 1.0);
    e.mul_number(erf, 0.5)
}

/// `tanh(√(2/π)(x + 0.044715x³))` and `x²`.
fn tanh_inner(e: &mut Emit, x: ValueId) -> (ValueId, ValueId) {
    let square = e.mul(x, x);
    let cubic = e.mul_number(square, CUBIC);
    let cubic = e.add_number(cubic, 1.0);
    let inner = e.mul(x, cubic);
    let inner = e.mul_number(inner, (2.0 / PI).sqrt());
    (e.math("tanh", inner), square)
}

/// One result, computed element by element from the operands in order.
pub(super) fn map(
    e: &mut Emit,
    call: &Call,
    body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
) -> Outcome {
    let (shape, element) = call.result_shape(e);
    Ok(vec![e.map(&call.args, &shape, element, body)])
}

/// A global and what is added to it, in the global's type.
pub(super) fn accumulate(e: &mut Emit, global: ValueId, value: ValueId) -> ValueId {
    let (shape, element) = shape_of(e, e.rewriter.ty(global));
    e.map(&[global, value], &shape, element, |e, x| {
        let sum = e.element(x[0]);
        let value = e.convert(x[1], element);
        let value = e.convert(value, sum);
        e.add(x[0], value)
    })
}

pub(super) fn scale(e: &mut Emit, call: &Call) -> Outcome {
    let (scale, bias) = (call.float(e, "scale")?, call.float(e, "bias")?);
    let after = call.flag(e, "bias_after_scale")?;
    map(e, call, |e, x| {
        let before = if after {
            x[0]
        } else {
            e.add_number(x[0], bias)
        };
        let scaled = e.mul_number(before, scale);
        if after {
            e.add_number(scaled, bias)
        } else {
            scaled
        }
    })
}

pub(super) fn clip(e: &mut Emit, call: &Call) -> Outcome {
    let (min, max) = (call.float(e, "min")?, call.float(e, "max")?);
    map(e, call, |e, x| {
        let (low, high) = (e.like(min, x[0]), e.like(max, x[0]));
        let x = e.max(x[0], low);
        e.min(x, high)
    })
}

pub(super) fn gelu(e: &Emit, call: &Call) -> Result<Activation, String> {
    Ok(match call.flag(e, "approximate")? {
        true => Activation::GeluTanh,
        false => Activation::Gelu,
    })
}

pub(super) fn activation_grad(e: &mut Emit, call: &Call, activation: Activation) -> Outcome {
    map(e, call, |e, args| {
        let slope = activation.derivative(e, args[0]);
        e.mul(args[1], slope)
    })
}

/// `dout · (1 − y²)`
pub(super) fn tanh_grad(e: &mut Emit, call: &Call) -> Outcome {
    map(e, call, |e, args| {
        let square = e.mul(args[0], args[0]);
        let rest = e.mul_number(square, -1.0);
        let slope = e.add_number(rest, 1.0);
        e.mul(args[1], slope)
    })
}

pub(super) fn clip_grad(e: &mut Emit, call: &Call) -> Outcome {
    let (min, max) = (call.float(e, "min")?, call.float(e, "max")?);
    map(e, call, |e, args| {
        let (low, high) = (e.like(min, args[0]), e.like(max, args[0]));
        let zero = e.like(0.0, args[0]);
        let below = e.greater(low, args[0]);
        let above = e.greater(args[0], high);
        let not_below = e.select(below, zero, args[1]);
        e.select(above, zero, not_below)
    })
}

pub(super) fn sum(e: &mut Emit, call: &Call) -> Outcome {
    map(e, call, |e, xs| {
        let mut total = xs[0];
        for &x in &xs[1..] {
            total = e.add(total, x);
        }
        total
    })
}

pub(super) fn any_of(e: &mut Emit, call: &Call) -> Outcome {
    map(e, call, |e, xs| {
        let flag = e.rewriter.ty(xs[0]);
        let mut any = xs[0];
        for &x in &xs[1..] {
            any = e.op("arith.ori", &[any, x], &[flag], &[]);
        }
        any
    })
}

/// Which arithmetic op a gradient is of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Arithmetic {
    Sum,
    Product,
    Quotient,
    Maximum,
}

impl Arithmetic {
    /// The derivative by one operand, for the values of both; of the first operand if `first`. None where it is 1.
    fn slope(self, e: &mut Emit, [a, b]: [ValueId; 2], first: bool) -> Option<ValueId> {
        match self {
            Self::Sum => None,
            Self::Product => Some(if first { b } else { a }),
            Self::Quotient => {
                let one = e.like(1.0, b);
                let inverse = e.div(one, b);
                if first {
                    return Some(inverse);
                }
                let quotient = e.div(a, b);
                let slope = e.mul(quotient, inverse);
                Some(e.mul_number(slope, -1.0))
            }
            Self::Maximum => {
                let (one, zero, half) = (e.like(1.0, a), e.like(0.0, a), e.like(0.5, a));
                let (own, other) = if first { (a, b) } else { (b, a) };
                let (larger, smaller) = (e.greater(own, other), e.greater(other, own));
                let rest = e.select(smaller, zero, half);
                Some(e.select(larger, one, rest))
            }
        }
    }
}

/// Gradients of arithmetic: dout times the derivative, summed where the operand was broadcast.
pub(super) fn binary_grad(e: &mut Emit, call: &Call, op: Arithmetic) -> Outcome {
    let (a, b, dout) = (call.arg(e, "a")?, call.arg(e, "b")?, call.arg(e, "dout")?);
    let shape = e.shape(dout);
    let mut results = Vec::new();
    for (group, first) in [("da", true), ("db", false)] {
        let Some(ty) = call.result(e, group) else {
            continue;
        };
        let inputs: &[ValueId] = match op {
            Arithmetic::Sum => &[dout],
            _ => &[dout, a, b],
        };
        let inputs: Vec<_> = inputs.iter().map(|&v| e.aligned(v, &shape)).collect();
        results.push(unbroadcast(e, &inputs, &shape, ty, |e, args| match *args {
            [dout, a, b] => match op.slope(e, [a, b], first) {
                Some(slope) => e.mul(dout, slope),
                None => dout,
            },
            _ => args[0],
        }));
    }
    Ok(results)
}

/// `body` of the inputs over `shape`, summed down to a type that broadcasts to `shape`.
pub(super) fn unbroadcast(
    e: &mut Emit,
    inputs: &[Input],
    shape: &[i64],
    ty: Type,
    body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
) -> ValueId {
    let (target, element) = shape_of(e, ty);
    let skip = shape.len() - target.len();
    let kept: Vec<usize> = (skip..shape.len())
        .filter(|&dim| target[dim - skip] == shape[dim])
        .collect();
    let value = e.einsum(inputs, shape, &kept, Reduction::Sum, body);
    let value = store_as(e, value, element);
    e.reshape(value, &target)
}

/// The tensor with its elements converted to the type that they are stored in.
pub(super) fn store_as(e: &mut Emit, value: ValueId, element: Type) -> ValueId {
    if e.element(value) == element {
        return value;
    }
    let shape = e.shape(value);
    e.map(&[value], &shape, element, |_, x| x[0])
}
