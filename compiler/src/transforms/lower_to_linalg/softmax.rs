//! Softmax, the loss that is made of it, and tables of vectors: labels and ids are compared with positions.

use raddle_dialect::ir::ValueId;

use super::call::{Call, Outcome, shape_of};
use super::collectives::{coordinate, reduced_over};
use super::elementwise::store_as;
use super::emit::{Emit, Input, Reduction};

/// A tensor whose dimensions have the labels 0, 1, 2, …
fn whole(e: &Emit, value: ValueId) -> Input {
    Input {
        value,
        labels: (0..e.shape(value).len()).map(Some).collect(),
    }
}

/// Labels of a shape without one dimension.
fn others(rank: usize, dim: usize) -> Vec<usize> {
    (0..rank).filter(|&d| d != dim).collect()
}

/// A tensor that lacks a dimension of another.
fn without(e: &Emit, value: ValueId, dim: usize) -> Input {
    let rank = e.shape(value).len() + 1;
    Input {
        value,
        labels: others(rank, dim).into_iter().map(Some).collect(),
    }
}

/// Maximum, and sum of the exponentials of what is below it, along a dimension.
fn statistics(e: &mut Emit, x: ValueId, dim: usize) -> [ValueId; 2] {
    let max = maximum(e, x, dim);
    let sum = exponentials(e, x, max, dim);
    [max, sum]
}

/// The maximum along a dimension.
fn maximum(e: &mut Emit, x: ValueId, dim: usize) -> ValueId {
    let shape = e.shape(x);
    let kept = others(shape.len(), dim);
    let inputs = [whole(e, x)];
    e.einsum(&inputs, &shape, &kept, Reduction::Max, |_, x| x[0])
}

/// `Σ e^(x − max)` along a dimension.
fn exponentials(e: &mut Emit, x: ValueId, max: ValueId, dim: usize) -> ValueId {
    let shape = e.shape(x);
    let kept = others(shape.len(), dim);
    let inputs = [whole(e, x), without(e, max, dim)];
    e.einsum(&inputs, &shape, &kept, Reduction::Sum, |e, x| {
        let below = e.sub(x[0], x[1]);
        e.math("exp", below)
    })
}

/// `e^(x − max) / sum`
fn normalised(e: &mut Emit, x: ValueId, [max, sum]: [ValueId; 2], dim: usize) -> ValueId {
    let (shape, element) = (e.shape(x), e.element(x));
    let inputs = [whole(e, x), without(e, max, dim), without(e, sum, dim)];
    e.map_inputs(&inputs, &shape, element, |e, x| {
        let below = e.sub(x[0], x[1]);
        let exp = e.math("exp", below);
        e.div(exp, x[2])
    })
}

pub(super) fn softmax(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let dim = call.int(e, "dim")? as usize;
    let statistics = statistics(e, x, dim);
    Ok(vec![normalised(e, x, statistics, dim)])
}

pub(super) fn softmax_grad(e: &mut Emit, call: &Call) -> Outcome {
    let (y, dy) = (call.arg(e, "y")?, call.arg(e, "dy")?);
    let dim = call.int(e, "dim")? as usize;
    let (shape, element) = call.result_shape(e);
    let kept = others(shape.len(), dim);
    let inputs = [whole(e, y), whole(e, dy)];
    let sum = e.einsum(&inputs, &shape, &kept, Reduction::Sum, |e, x| {
        e.mul(x[0], x[1])
    });
    let inputs = [whole(e, y), whole(e, dy), without(e, sum, dim)];
    Ok(vec![e.map_inputs(&inputs, &shape, element, |e, x| {
        let difference = e.sub(x[1], x[2]);
        e.mul(x[0], difference)
    })])
}

/// Where this rank's piece of a dimension begins: its index on `axes` times the piece's extent. `None` if it has all.
fn beginning(e: &mut Emit, axes: &[String], extent: i64) -> Option<ValueId> {
    if axes.is_empty() {
        return None;
    }
    let index = coordinate(e, axes);
    let i64 = e.cx.int_type(64);
    let index = e.op("arith.index_cast", &[index], &[i64], &[]);
    Some(e.mul_number(index, extent as f64))
}

/// The position along a loop as an `i64`, counted through all ranks' pieces.
fn position(e: &mut Emit, label: usize, beginning: Option<ValueId>) -> ValueId {
    let (index, i64) = (e.cx.index_type(), e.cx.int_type(64));
    let dim = e.cx.i64_attr(label as i64);
    let at = e.op("linalg.index", &[], &[index], &[("dim", dim)]);
    let at = e.op("arith.index_cast", &[at], &[i64], &[]);
    match beginning {
        Some(beginning) => e.add(at, beginning),
        None => at,
    }
}

/// Whether an integer names the position along a loop.
fn names(e: &mut Emit, id: ValueId, label: usize, beginning: Option<ValueId>) -> ValueId {
    let at = position(e, label, beginning);
    let i64 = e.cx.int_type(64);
    let id = e.convert(id, i64);
    e.equal_ints(id, at)
}

pub(super) fn cross_entropy(e: &mut Emit, call: &Call) -> Outcome {
    let (x, labels) = (call.arg(e, "logits")?, call.arg(e, "labels")?);
    let ignored = call.int(e, "ignore_index")?;
    let axes = call.axes(e, "axes");
    let (positions, element) = call.result_shape(e);
    let shape = e.shape(x);
    let dim = shape.len() - 1;
    let input = whole(e, x);
    let kept = others(shape.len(), dim);
    let max = maximum(e, x, dim);
    let max = reduced_over(e, max, "max", &axes)?;
    let sum = exponentials(e, x, max, dim);
    let sum = reduced_over(e, sum, "sum", &axes)?;
    let beginning = beginning(e, &axes, shape[dim]);
    let inputs = [input, without(e, labels, dim)];
    let chosen = e.einsum(&inputs, &shape, &kept, Reduction::Sum, |e, x| {
        let named = names(e, x[1], dim, beginning);
        let zero = e.like(0.0, x[0]);
        e.select(named, x[0], zero)
    });
    let chosen = reduced_over(e, chosen, "sum", &axes)?;
    let inputs = [sum, max, chosen, labels].map(|v| whole(e, v));
    let loss = e.map_inputs(&inputs, &positions, element, |e, x| {
        let log = e.math("log", x[0]);
        let all = e.add(log, x[1]);
        let loss = e.sub(all, x[2]);
        let none = e.like(ignored as f64, x[3]);
        let skip = e.equal_ints(x[3], none);
        let zero = e.like(0.0, loss);
        e.select(skip, zero, loss)
    });
    Ok(vec![loss, normalised(e, x, [max, sum], dim)])
}

pub(super) fn cross_entropy_grad(e: &mut Emit, call: &Call) -> Outcome {
    let softmax = call.arg(e, "softmax")?;
    let (labels, dloss) = (call.arg(e, "labels")?, call.arg(e, "dloss")?);
    let ignored = call.int(e, "ignore_index")?;
    let axes = call.axes(e, "axes");
    let (shape, element) = call.result_shape(e);
    let dim = shape.len() - 1;
    let beginning = beginning(e, &axes, shape[dim]);
    let inputs = [
        whole(e, softmax),
        without(e, labels, dim),
        without(e, dloss, dim),
    ];
    Ok(vec![e.map_inputs(&inputs, &shape, element, |e, x| {
        let (one, zero) = (e.like(1.0, x[0]), e.like(0.0, x[0]));
        let named = names(e, x[1], dim, beginning);
        let target = e.select(named, one, zero);
        let difference = e.sub(x[0], target);
        let ty = e.element(x[0]);
        let dloss = e.convert(x[2], ty);
        let gradient = e.mul(difference, dloss);
        let none = e.like(ignored as f64, x[1]);
        let skip = e.equal_ints(x[1], none);
        e.select(skip, zero, gradient)
    })])
}

/// Each id's row is read where it stands; ids of other ranks' pieces give zeros. Ids are not checked.
pub(super) fn embedding(e: &mut Emit, call: &Call) -> Outcome {
    let (ids, table) = (call.arg(e, "ids")?, call.arg(e, "table")?);
    let axes = call.axes(e, "axes");
    let (shape, element) = call.result_shape(e);
    let rows = e.shape(table)[0];
    let dim = shape.len() - 1;
    let beginning = beginning(e, &axes, rows);
    let inputs = [without(e, ids, dim)];
    Ok(vec![e.map_inputs(&inputs, &shape, element, |e, x| {
        let (index, i64) = (e.cx.index_type(), e.cx.int_type(64));
        let id = e.convert(x[0], i64);
        let own = match beginning {
            Some(beginning) => e.sub(id, beginning),
            None => id,
        };
        // Inside of the piece the row is the clamped one.
        let (first, last) = (e.like(0.0, own), e.like((rows - 1) as f64, own));
        let row = e.max(own, first);
        let row = e.min(row, last);
        let inside = e.equal_ints(row, own);
        let row = e.op("arith.index_cast", &[row], &[index], &[]);
        let at = e.cx.i64_attr(dim as i64);
        let feature = e.op("linalg.index", &[], &[index], &[("dim", at)]);
        let value = e.op("tensor.extract", &[table, row, feature], &[element], &[]);
        let zero = e.zero(element);
        e.select(inside, value, zero)
    })])
}

/// Each row sums the gradients of the positions that name it.
pub(super) fn embedding_grad(e: &mut Emit, call: &Call) -> Outcome {
    let (ids, dout) = (call.arg(e, "ids")?, call.arg(e, "dout")?);
    let axes = call.axes(e, "axes");
    let (table, element) = call.result_shape(e);
    let positions = e.shape(ids);
    let beginning = beginning(e, &axes, table[0]);
    let (row, feature) = (positions.len(), positions.len() + 1);
    let extents = [&positions[..], &table].concat();
    let labels = || (0..positions.len()).map(Some);
    let inputs = [
        Input {
            value: dout,
            labels: labels().chain([Some(feature)]).collect(),
        },
        Input {
            value: ids,
            labels: labels().collect(),
        },
    ];
    let sum = e.einsum(
        &inputs,
        &extents,
        &[row, feature],
        Reduction::Sum,
        |e, x| {
            let named = names(e, x[1], row, beginning);
            let zero = e.like(0.0, x[0]);
            e.select(named, x[0], zero)
        },
    );
    Ok(vec![store_as(e, sum, element)])
}

/// Without dropping anything; a mask that changes from one micro-batch to the next is nothing that a function can compute.
pub(super) fn dropout(e: &mut Emit, call: &Call) -> Outcome {
    if call.float(e, "rate")? != 0.0 {
        return Err(
            "its mask depends on the micro-batch, of which a compiled function knows nothing"
                .into(),
        );
    }
    let x = call.arg(e, "x")?;
    let (shape, flag) = (e.shape(x), e.cx.int_type(1));
    let kept = e.splat(1.0, &shape, flag);
    Ok(vec![x, kept])
}

pub(super) fn dropout_grad(e: &mut Emit, call: &Call) -> Outcome {
    let inputs = [call.arg(e, "dout")?, call.arg(e, "mask")?];
    let factor = 1.0 / (1.0 - call.float(e, "rate")?);
    let (shape, element) = shape_of(e, call.result_type(e));
    Ok(vec![e.map(&inputs, &shape, element, |e, x| {
        let zero = e.like(0.0, x[0]);
        let kept = e.mul_number(x[0], factor);
        e.select(x[1], kept, zero)
    })])
}
