//! Collectives over the tensors of one group, in group order.

use super::elementwise::{element, larger};
use super::shape::{joined, pieces};
use super::{CombineCx, Tensor};
use crate::error::Error;
use crate::ops::shape::dimension;

/// One result per rank.
type Results = Result<Vec<Vec<Tensor>>, Error>;

/// The only operand of each rank.
fn operands(cx: &CombineCx) -> Vec<Tensor> {
    cx.inputs.iter().map(|i| i[0].clone()).collect()
}

/// Each rank's only result.
fn one_each(results: Vec<Tensor>) -> Results {
    Ok(results.into_iter().map(|y| vec![y]).collect())
}

fn reduction(cx: &CombineCx) -> Result<Tensor, Error> {
    let name = cx.attrs.string("reduction")?;
    let f = match name.as_str() {
        "sum" | "avg" => |a: f64, b: f64| a + b,
        "max" => larger,
        "min" => |a: f64, b: f64| -larger(-a, -b),
        "prod" => |a: f64, b: f64| a * b,
        "any" => |a: f64, b: f64| f64::from(a != 0.0 || b != 0.0),
        _ => {
            let message = format!("has the unknown reduction '{name}'");
            return Err(Error::op("E0302", message));
        }
    };
    let mut xs = cx.inputs.iter().map(|i| &i[0]);
    let first = xs
        .next()
        .ok_or_else(|| Error::op("E0350", "has a group without ranks"))?;
    let total = xs.try_fold(first.clone(), |total, x| total.zip(x, f))?;
    let n = if name == "avg" {
        cx.inputs.len() as f64
    } else {
        1.0
    };
    Ok(total.map(|v| element(total.dtype, v / n)))
}

/// The dimension that an attribute names, if the group's size divides its extent.
fn cut_dimension(cx: &CombineCx, name: &str) -> Result<usize, Error> {
    let x = &cx.inputs[0][0];
    let dim = dimension(cx.attrs, name, x.rank())?;
    if !x.shape[dim].is_multiple_of(cx.inputs.len()) {
        let message = format!(
            "{} ranks do not divide extent {}",
            cx.inputs.len(),
            x.shape[dim]
        );
        return Err(Error::op("E0315", message));
    }
    Ok(dim)
}

pub(crate) fn all_reduce(cx: &CombineCx) -> Results {
    one_each(vec![reduction(cx)?; cx.inputs.len()])
}

pub(crate) fn reduce_scatter(cx: &CombineCx) -> Results {
    let dim = cut_dimension(cx, "dim")?;
    one_each(pieces(&reduction(cx)?, dim, cx.inputs.len()))
}

pub(crate) fn all_gather(cx: &CombineCx) -> Results {
    let xs = operands(cx);
    let dim = dimension(cx.attrs, "dim", xs[0].rank())?;
    one_each(vec![joined(&xs, dim); xs.len()])
}

pub(crate) fn all_to_all(cx: &CombineCx) -> Results {
    let split = cut_dimension(cx, "split_dim")?;
    let concat = dimension(cx.attrs, "concat_dim", cx.inputs[0][0].rank())?;
    let n = cx.inputs.len();
    let xs = operands(cx);
    let cut: Vec<Vec<Tensor>> = xs.iter().map(|x| pieces(x, split, n)).collect();
    let receive = |rank: usize| {
        let parts: Vec<Tensor> = cut.iter().map(|from| from[rank].clone()).collect();
        joined(&parts, concat)
    };
    one_each((0..n).map(receive).collect())
}

pub(crate) fn broadcast(cx: &CombineCx) -> Results {
    let root = cx.attrs.int("root")?;
    let value = usize::try_from(root)
        .ok()
        .and_then(|r| cx.inputs.get(r)?.first())
        .ok_or_else(|| {
            let message = format!("has root {root} in a group of {}", cx.inputs.len());
            Error::op("E0316", message)
        })?;
    one_each(vec![value.clone(); cx.inputs.len()])
}
