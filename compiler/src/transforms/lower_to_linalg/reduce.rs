//! Reductions over dimensions, and clipping, which rests on norms.

use raddle_dialect::ir::ValueId;

use super::call::{Call, Outcome};
use super::elementwise::store_as;
use super::emit::{Emit, Input, Reduction};

/// The labels of the dimensions that stay.
fn kept(rank: usize, dims: &[i64]) -> Vec<usize> {
    (0..rank)
        .filter(|&dim| !dims.contains(&(dim as i64)))
        .collect()
}

/// What a reduction over dimensions computes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Sum,
    Mean,
    Max,
    Any,
}

pub(super) fn reduce(e: &mut Emit, call: &Call, kind: Kind) -> Outcome {
    let x = call.arg(e, "x")?;
    let dims = call.ints(e, "dims")?;
    let shape = e.shape(x);
    let input = e.aligned(x, &shape);
    let output = kept(shape.len(), &dims);
    let reduction = match kind {
        Kind::Sum | Kind::Mean => Reduction::Sum,
        Kind::Max => Reduction::Max,
        Kind::Any => Reduction::Any,
    };
    let count: i64 = dims.iter().map(|&dim| shape[dim as usize]).product();
    let value = e.einsum(&[input], &shape, &output, reduction, |e, x| match kind {
        Kind::Mean => e.mul_number(x[0], 1.0 / count as f64),
        _ => x[0],
    });
    let (shape, element) = call.result_shape(e);
    let value = store_as(e, value, element);
    Ok(vec![e.reshape(value, &shape)])
}

pub(super) fn reduce_grad(e: &mut Emit, call: &Call, mean: bool) -> Outcome {
    let (x, dout) = (call.arg(e, "x")?, call.arg(e, "dout")?);
    let dims = call.ints(e, "dims")?;
    let shape = e.shape(x);
    let output = kept(shape.len(), &dims);
    let reduced: Vec<i64> = output.iter().map(|&dim| shape[dim]).collect();
    let input = Input {
        value: e.reshape(dout, &reduced),
        labels: output.iter().copied().map(Some).collect(),
    };
    let count: i64 = dims.iter().map(|&dim| shape[dim as usize]).product();
    let factor = if mean { 1.0 / count as f64 } else { 1.0 };
    let element = e.element(x);
    Ok(vec![e.map_inputs(&[input], &shape, element, |e, x| {
        e.mul_number(x[0], factor)
    })])
}

/// dout where x is the maximum, shared among equals.
pub(super) fn reduce_max_grad(e: &mut Emit, call: &Call) -> Outcome {
    let (x, y, dout) = (call.arg(e, "x")?, call.arg(e, "y")?, call.arg(e, "dout")?);
    let dims = call.ints(e, "dims")?;
    let (shape, element) = call.result_shape(e);
    let output = kept(shape.len(), &dims);
    let reduced: Vec<i64> = output.iter().map(|&dim| shape[dim]).collect();
    let labels: Vec<_> = output.iter().copied().map(Some).collect();
    let row = |value: ValueId| Input {
        value,
        labels: labels.clone(),
    };
    let whole = e.aligned(x, &shape);
    let (y, dout) = (e.reshape(y, &reduced), e.reshape(dout, &reduced));
    let is_largest = |e: &mut Emit, x: ValueId, y: ValueId| {
        let (one, zero) = (e.like(1.0, x), e.like(0.0, x));
        let smaller = e.greater(y, x);
        e.select(smaller, zero, one)
    };
    let inputs = [whole.clone(), row(y)];
    let equals = e.einsum(&inputs, &shape, &output, Reduction::Sum, |e, x| {
        is_largest(e, x[0], x[1])
    });
    let inputs = [whole, row(y), row(dout), row(equals)];
    Ok(vec![e.map_inputs(&inputs, &shape, element, |e, x| {
        let largest = is_largest(e, x[0], x[1]);
        let share = e.div(x[2], x[3]);
        e.mul(largest, share)
    })])
}

/// Sum of squares as a tensor without dimensions, in the type that it is computed in.
pub(super) fn squares(e: &mut Emit, x: ValueId) -> ValueId {
    let shape = e.shape(x);
    let input = e.aligned(x, &shape);
    e.einsum(&[input], &shape, &[], Reduction::Sum, |e, x| {
        e.mul(x[0], x[0])
    })
}

pub(super) fn squared_l2_norm(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let sum = squares(e, x);
    let (shape, element) = call.result_shape(e);
    let sum = store_as(e, sum, element);
    Ok(vec![e.reshape(sum, &shape)])
}

pub(super) fn clip_by_norm(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let max = call.float(e, "max_norm")?;
    let sum = squares(e, x);
    let (shape, element) = call.result_shape(e);
    Ok(vec![e.map(&[x, sum], &shape, element, |e, args| {
        let norm = e.math("sqrt", args[1]);
        let limit = e.like(max, norm);
        let over = e.greater(norm, limit);
        let shrunk = e.div(limit, norm);
        let one = e.like(1.0, norm);
        let factor = e.select(over, shrunk, one);
        e.mul(args[0], factor)
    })])
}
