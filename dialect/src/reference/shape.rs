//! Ops that move elements.

use super::{EvalCx, Tensor, ravel, unravel};
use crate::error::Error;
use crate::ops::shape::{dimension, static_shape};

type Results = Result<Vec<Tensor>, Error>;

/// Dimension i of the result is dimension `perm[i]` of x.
pub(crate) fn permuted(x: &Tensor, perm: &[usize]) -> Tensor {
    let shape: Vec<usize> = perm.iter().map(|&d| x.shape[d]).collect();
    Tensor::from_fn(shape.clone(), x.dtype, |at| {
        let index = unravel(at, &shape);
        let mut from = vec![0; index.len()];
        for (&d, &i) in perm.iter().zip(&index) {
            from[d] = i;
        }
        x.data[ravel(&from, &x.shape)]
    })
}

/// The window of this shape that begins at `start`.
pub(crate) fn window(x: &Tensor, start: &[usize], shape: &[usize]) -> Tensor {
    Tensor::from_fn(shape, x.dtype, |at| {
        let index = unravel(at, shape);
        let from: Vec<usize> = index.iter().zip(start).map(|(&i, &s)| i + s).collect();
        x.data[ravel(&from, &x.shape)]
    })
}

/// Equal pieces along a dimension whose extent `parts` divides.
pub(crate) fn pieces(x: &Tensor, dim: usize, parts: usize) -> Vec<Tensor> {
    let mut shape = x.shape.clone();
    shape[dim] /= parts;
    let piece = |part| {
        let mut start = vec![0; shape.len()];
        start[dim] = part * shape[dim];
        window(x, &start, &shape)
    };
    (0..parts).map(piece).collect()
}

/// Tensors, at least one, whose shapes differ at most along `dim`, one behind the other.
pub(crate) fn joined(xs: &[Tensor], dim: usize) -> Tensor {
    let mut shape = xs[0].shape.clone();
    shape[dim] = xs.iter().map(|x| x.shape[dim]).sum();
    let outer: usize = shape[..dim].iter().product();
    let inner: usize = shape[dim + 1..].iter().product();
    let mut data = Vec::with_capacity(shape.iter().product());
    for row in 0..outer {
        for x in xs {
            let length = x.shape[dim] * inner;
            data.extend_from_slice(&x.data[row * length..(row + 1) * length]);
        }
    }
    Tensor::new(shape, xs[0].dtype, data)
}

pub(crate) fn reshape(cx: &EvalCx) -> Results {
    let shape = static_shape(cx.results.one("y")?)?;
    Ok(vec![cx.args.one("x")?.reshaped(shape)?])
}

pub(crate) fn transpose(cx: &EvalCx) -> Results {
    let perm = cx.attrs.ints("perm")?;
    let perm: Vec<usize> = perm.iter().map(|&d| d as usize).collect();
    Ok(vec![permuted(cx.args.one("x")?, &perm)])
}

/// Where the window of a slice of a tensor of this shape begins, and its shape.
fn slice_window(cx: &EvalCx, of: &[usize]) -> Result<(Vec<usize>, Vec<usize>), Error> {
    let (starts, sizes) = (cx.attrs.ints("starts")?, cx.attrs.ints("sizes")?);
    let axes = cx.attrs.string_lists("axes")?;
    let mut start = vec![0; of.len()];
    let mut shape = of.to_vec();
    for (i, &dim) in cx.attrs.ints("dims")?.iter().enumerate() {
        let mut first = starts[i] as usize;
        if !axes[i].is_empty() {
            let place = cx.place.ok_or(Error::NoMesh)?;
            let axes = place.mesh.axis_set(&axes[i])?;
            first += place.mesh.index_in_group(place.coordinate, &axes) * sizes[i] as usize;
        }
        start[dim as usize] = first;
        shape[dim as usize] = sizes[i] as usize;
    }
    let inside = |d: usize| start[d] + shape[d] <= of[d];
    if !(0..of.len()).all(inside) {
        return Err(Error::op("E0316", "reaches beyond the end of its operand"));
    }
    Ok((start, shape))
}

pub(crate) fn slice(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let (start, shape) = slice_window(cx, &x.shape)?;
    Ok(vec![window(x, &start, &shape)])
}

pub(crate) fn slice_grad(cx: &EvalCx) -> Results {
    let (x, dout) = (cx.args.one("x")?, cx.args.one("dout")?);
    let (start, shape) = slice_window(cx, &x.shape)?;
    let mut data = vec![0.0; x.len()];
    for (at, &value) in dout.data.iter().enumerate() {
        let index = unravel(at, &shape);
        let to: Vec<usize> = index.iter().zip(&start).map(|(&i, &s)| i + s).collect();
        data[ravel(&to, &x.shape)] = value;
    }
    Ok(vec![Tensor::new(x.shape.clone(), x.dtype, data)])
}

pub(crate) fn concat(cx: &EvalCx) -> Results {
    let xs = cx.args.many("xs");
    let dim = dimension(cx.attrs, "dim", xs[0].rank())?;
    Ok(vec![joined(xs, dim)])
}

pub(crate) fn concat_pair(cx: &EvalCx) -> Results {
    let xs = cx.args.all();
    let dim = dimension(cx.attrs, "dim", xs[0].rank())?;
    Ok(vec![joined(xs, dim)])
}

pub(crate) fn split(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let dim = dimension(cx.attrs, "dim", x.rank())?;
    Ok(pieces(x, dim, cx.results.all().len()))
}

pub(crate) fn stack(cx: &EvalCx) -> Results {
    let xs = cx.args.many("xs");
    let dim = dimension(cx.attrs, "dim", xs[0].rank() + 1)?;
    let mut shape = xs[0].shape.clone();
    shape.insert(dim, 1);
    let xs: Vec<Tensor> = xs
        .iter()
        .map(|x| x.reshaped(shape.clone()))
        .collect::<Result<_, _>>()?;
    Ok(vec![joined(&xs, dim)])
}
