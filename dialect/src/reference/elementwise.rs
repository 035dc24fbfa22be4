//! Elementwise ops.

use super::activation::Activation;
use super::{EvalCx, Tensor, ravel, unravel};
use crate::error::Error;
use crate::tensor_type::DType;

type Results = Result<Vec<Tensor>, Error>;

/// A number as an element of a type: integers wrap around, flags are 0 or 1, floats stay unrounded.
pub(crate) fn element(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::Bool => f64::from(x != 0.0),
        d if d.is_int() => d.wrap(x.trunc()),
        _ => x,
    }
}

/// The shape that two shapes broadcast to, numpy's way.
pub(crate) fn broadcast_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, Error> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], d: usize| {
        let missing = rank - shape.len();
        if d < missing { 1 } else { shape[d - missing] }
    };
    (0..rank)
        .map(|d| match (extent(a, d), extent(b, d)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(Error::op(
                "E0311",
                format!("shapes {a:?} and {b:?} do not broadcast"),
            )),
        })
        .collect()
}

/// Row-major position in `shape` of the element that stands at `index` of a shape that `shape` broadcasts to.
fn source(index: &[usize], shape: &[usize]) -> usize {
    let index = &index[index.len() - shape.len()..];
    let clamped: Vec<usize> = index
        .iter()
        .zip(shape)
        .map(|(&i, &extent)| if extent == 1 { 0 } else { i })
        .collect();
    ravel(&clamped, shape)
}

/// Repeats a tensor to the shape that it broadcasts to.
pub(crate) fn broadcast_to(x: &Tensor, shape: &[usize]) -> Tensor {
    if x.shape == shape {
        return x.clone();
    }
    Tensor::from_fn(shape, x.dtype, |at| {
        x.data[source(&unravel(at, shape), &x.shape)]
    })
}

/// Sums a tensor over the dimensions along which `shape` was broadcast to its shape.
pub(crate) fn sum_to(x: &Tensor, shape: &[usize]) -> Tensor {
    if x.shape == shape {
        return x.clone();
    }
    let mut data = vec![0.0; shape.iter().product()];
    for (at, &value) in x.data.iter().enumerate() {
        data[source(&unravel(at, &x.shape), shape)] += value;
    }
    Tensor::new(shape, x.dtype, data)
}

fn binary(cx: &EvalCx, f: impl Fn(f64, f64) -> f64) -> Results {
    let (a, b) = (cx.args.one("a")?, cx.args.one("b")?);
    let shape = broadcast_shape(&a.shape, &b.shape)?;
    let c = broadcast_to(a, &shape).zip(&broadcast_to(b, &shape), f)?;
    Ok(vec![c.map(|x| element(a.dtype, x))])
}

fn unary(cx: &EvalCx, f: impl Fn(f64) -> f64) -> Results {
    let x = cx.args.one("x")?;
    Ok(vec![x.map(|v| element(x.dtype, f(v)))])
}

pub(crate) fn add(cx: &EvalCx) -> Results {
    binary(cx, |a, b| a + b)
}

pub(crate) fn sub(cx: &EvalCx) -> Results {
    binary(cx, |a, b| a - b)
}

pub(crate) fn mul(cx: &EvalCx) -> Results {
    binary(cx, |a, b| a * b)
}

pub(crate) fn div(cx: &EvalCx) -> Results {
    let int = cx.args.one("a")?.dtype.is_int();
    binary(cx, |a, b| if int && b == 0.0 { 0.0 } else { a / b })
}

pub(crate) fn maximum(cx: &EvalCx) -> Results {
    binary(cx, larger)
}

/// The larger of two numbers; NaN if either is.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

pub(crate) fn add_grad(cx: &EvalCx) -> Results {
    let dout = cx.args.one("dout")?;
    let mut results = Vec::new();
    for (operand, result) in [("a", "da"), ("b", "db")] {
        if cx.results.has(result) {
            results.push(sum_to(dout, &cx.args.one(operand)?.shape));
        }
    }
    Ok(results)
}

pub(crate) fn mul_grad(cx: &EvalCx) -> Results {
    let dout = cx.args.one("dout")?;
    let mut results = Vec::new();
    for (operand, other, result) in [("a", "b", "da"), ("b", "a", "db")] {
        if cx.results.has(result) {
            let other = broadcast_to(cx.args.one(other)?, &dout.shape);
            let product = dout.zip(&other, |d, o| d * o)?;
            results.push(sum_to(&product, &cx.args.one(operand)?.shape));
        }
    }
    Ok(results)
}

pub(crate) fn div_grad(cx: &EvalCx) -> Results {
    binary_grad(cx, |a, b| (1.0 / b, -a / (b * b)))
}

pub(crate) fn maximum_grad(cx: &EvalCx) -> Results {
    binary_grad(cx, |a, b| {
        let share = if a == b { 0.5 } else { f64::from(a > b) };
        (share, 1.0 - share)
    })
}

/// Gradients of a function of two numbers, whose partial derivatives `slopes` gives, with broadcast.
fn binary_grad(cx: &EvalCx, slopes: impl Fn(f64, f64) -> (f64, f64)) -> Results {
    let dout = cx.args.one("dout")?;
    let (a, b) = (cx.args.one("a")?, cx.args.one("b")?);
    let (wide_a, wide_b) = (broadcast_to(a, &dout.shape), broadcast_to(b, &dout.shape));
    let mut results = Vec::new();
    if cx.results.has("da") {
        let slope = wide_a.zip(&wide_b, |a, b| slopes(a, b).0)?;
        results.push(sum_to(&dout.zip(&slope, |d, s| d * s)?, &a.shape));
    }
    if cx.results.has("db") {
        let slope = wide_a.zip(&wide_b, |a, b| slopes(a, b).1)?;
        results.push(sum_to(&dout.zip(&slope, |d, s| d * s)?, &b.shape));
    }
    Ok(results)
}

pub(crate) fn scale(cx: &EvalCx) -> Results {
    let (scale, bias) = (cx.attrs.float("scale")?, cx.attrs.float("bias")?);
    if cx.attrs.bool("bias_after_scale")? {
        unary(cx, |x| scale * x + bias)
    } else {
        unary(cx, |x| scale * (x + bias))
    }
}

pub(crate) fn cast(cx: &EvalCx) -> Results {
    let (x, to) = (cx.args.one("x")?, cx.results.one("y")?.dtype);
    let y = x.map(|v| match to {
        DType::Bool => f64::from(v != 0.0),
        to if to.is_int() && x.dtype.is_int() => to.wrap(v),
        to if to.is_int() => to.round(v),
        _ => v,
    });
    Ok(vec![y.with_dtype(to)])
}

pub(crate) fn gelu(cx: &EvalCx) -> Results {
    let gelu = Activation::gelu(cx.attrs.bool("approximate")?);
    unary(cx, |x| gelu.value(x))
}

pub(crate) fn gelu_grad(cx: &EvalCx) -> Results {
    let gelu = Activation::gelu(cx.attrs.bool("approximate")?);
    activation_grad(cx, gelu)
}

pub(crate) fn relu(cx: &EvalCx) -> Results {
    unary(cx, |x| Activation::Relu.value(x))
}

pub(crate) fn relu_grad(cx: &EvalCx) -> Results {
    activation_grad(cx, Activation::Relu)
}

pub(crate) fn silu(cx: &EvalCx) -> Results {
    unary(cx, |x| Activation::Silu.value(x))
}

pub(crate) fn silu_grad(cx: &EvalCx) -> Results {
    activation_grad(cx, Activation::Silu)
}

pub(crate) fn tanh(cx: &EvalCx) -> Results {
    unary(cx, f64::tanh)
}

pub(crate) fn tanh_grad(cx: &EvalCx) -> Results {
    let (y, dout) = (cx.args.one("y")?, cx.args.one("dout")?);
    Ok(vec![y.zip(dout, |y, d| d * (1.0 - y * y))?])
}

fn activation_grad(cx: &EvalCx, activation: Activation) -> Results {
    let (x, dout) = (cx.args.one("x")?, cx.args.one("dout")?);
    Ok(vec![x.zip(dout, |x, d| d * activation.derivative(x))?])
}

pub(crate) fn sqrt(cx: &EvalCx) -> Results {
    unary(cx, f64::sqrt)
}

pub(crate) fn rsqrt(cx: &EvalCx) -> Results {
    unary(cx, |x| 1.0 / x.sqrt())
}

pub(crate) fn exp(cx: &EvalCx) -> Results {
    unary(cx, f64::exp)
}

pub(crate) fn log(cx: &EvalCx) -> Results {
    unary(cx, f64::ln)
}

pub(crate) fn clip(cx: &EvalCx) -> Results {
    let (min, max) = (cx.attrs.float("min")?, cx.attrs.float("max")?);
    unary(cx, |x| {
        if x < min {
            min
        } else if x > max {
            max
        } else {
            x
        }
    })
}

pub(crate) fn clip_grad(cx: &EvalCx) -> Results {
    let (min, max) = (cx.attrs.float("min")?, cx.attrs.float("max")?);
    let (x, dout) = (cx.args.one("x")?, cx.args.one("dout")?);
    let inside = |x: f64| x >= min && x <= max;
    Ok(vec![x.zip(dout, |x, d| if inside(x) { d } else { 0.0 })?])
}

pub(crate) fn identity(cx: &EvalCx) -> Results {
    Ok(vec![cx.args.one("x")?.clone()])
}

fn fold(cx: &EvalCx, f: impl Fn(f64, f64) -> f64) -> Results {
    let mut xs = cx.args.many("xs").iter();
    let first = xs
        .next()
        .ok_or_else(|| Error::op("E0303", "needs at least one operand"))?;
    let dtype = first.dtype;
    let sum = xs.try_fold(first.clone(), |sum, x| sum.zip(x, &f))?;
    Ok(vec![sum.map(|x| element(dtype, x))])
}

pub(crate) fn sum(cx: &EvalCx) -> Results {
    fold(cx, |a, b| a + b)
}

pub(crate) fn any_of(cx: &EvalCx) -> Results {
    fold(cx, |a, b| f64::from(a != 0.0 || b != 0.0))
}
