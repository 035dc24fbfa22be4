//! Reductions over dimensions.

use super::elementwise::{broadcast_to, element, larger};
use super::{EvalCx, Tensor, ravel, unravel};
use crate::error::Error;
use crate::ops::reduce::reduced_dims;

type Results = Result<Vec<Tensor>, Error>;

/// Combines elements along `dims`, which keep extent 1.
pub(crate) fn reduced(
    x: &Tensor,
    dims: &[bool],
    initial: f64,
    f: impl Fn(f64, f64) -> f64,
) -> Tensor {
    let shape = kept_shape(x, dims);
    let mut data = vec![initial; shape.iter().product()];
    for (at, &value) in x.data.iter().enumerate() {
        let mut index = unravel(at, &x.shape);
        for (i, &gone) in index.iter_mut().zip(dims) {
            if gone {
                *i = 0;
            }
        }
        let to = &mut data[ravel(&index, &shape)];
        *to = f(*to, value);
    }
    Tensor::new(shape, x.dtype, data)
}

fn kept_shape(x: &Tensor, dims: &[bool]) -> Vec<usize> {
    let extents = x.shape.iter().zip(dims);
    extents
        .map(|(&e, &gone)| if gone { 1 } else { e })
        .collect()
}

/// Number of elements that each result is made of.
fn count(x: &Tensor, dims: &[bool]) -> f64 {
    let extents = x.shape.iter().zip(dims);
    extents
        .map(|(&e, &gone)| if gone { e as f64 } else { 1.0 })
        .product()
}

fn reduction(cx: &EvalCx, initial: f64, f: impl Fn(f64, f64) -> f64) -> Result<Tensor, Error> {
    let x = cx.args.one("x")?;
    let dims = reduced_dims(cx.attrs, x.rank())?;
    let y = reduced(x, &dims, initial, f);
    if cx.attrs.bool("keep_dims")? {
        return Ok(y);
    }
    let kept = x.shape.iter().zip(&dims).filter(|(_, gone)| !**gone);
    let shape: Vec<usize> = kept.map(|(&e, _)| e).collect();
    y.reshaped(shape)
}

pub(crate) fn sum(cx: &EvalCx) -> Results {
    let y = reduction(cx, 0.0, |a, b| a + b)?;
    Ok(vec![y.map(|v| element(y.dtype, v))])
}

pub(crate) fn mean(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let n = count(x, &reduced_dims(cx.attrs, x.rank())?);
    Ok(vec![reduction(cx, 0.0, |a, b| a + b)?.map(|v| v / n)])
}

pub(crate) fn max(cx: &EvalCx) -> Results {
    let y = reduction(cx, f64::NEG_INFINITY, larger)?;
    Ok(vec![y.map(|v| element(y.dtype, v))])
}

pub(crate) fn any(cx: &EvalCx) -> Results {
    Ok(vec![reduction(cx, 0.0, |a, b| {
        f64::from(a != 0.0 || b != 0.0)
    })?])
}

pub(crate) fn sum_grad(cx: &EvalCx) -> Results {
    let (x, dout) = (cx.args.one("x")?, cx.args.one("dout")?);
    let dims = reduced_dims(cx.attrs, x.rank())?;
    let kept = dout.reshaped(kept_shape(x, &dims))?;
    Ok(vec![broadcast_to(&kept, &x.shape)])
}

pub(crate) fn mean_grad(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let n = count(x, &reduced_dims(cx.attrs, x.rank())?);
    Ok(vec![sum_grad(cx)?[0].map(|d| d / n)])
}

pub(crate) fn max_grad(cx: &EvalCx) -> Results {
    let (x, y) = (cx.args.one("x")?, cx.args.one("y")?);
    let dims = reduced_dims(cx.attrs, x.rank())?;
    let y = broadcast_to(&y.reshaped(kept_shape(x, &dims))?, &x.shape);
    let largest = x.zip(&y, |x, y| f64::from(x == y))?;
    let equals = reduced(&largest, &dims, 0.0, |a, b| a + b);
    let share = largest.zip(&broadcast_to(&equals, &x.shape), |l, n| {
        if l == 0.0 { 0.0 } else { 1.0 / n }
    })?;
    Ok(vec![sum_grad(cx)?[0].zip(&share, |d, s| d * s)?])
}
