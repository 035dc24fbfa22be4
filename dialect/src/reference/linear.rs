//! Matrix products and linear layers.

use super::activation::Activation;
use super::elementwise::{broadcast_shape, broadcast_to, sum_to};
use super::shape::permuted;
use super::{EvalCx, Tensor};
use crate::error::Error;

type Results = Result<Vec<Tensor>, Error>;

/// Swaps the last two dimensions if asked to.
pub(crate) fn oriented(x: &Tensor, transpose: bool) -> Tensor {
    if !transpose {
        return x.clone();
    }
    let mut perm: Vec<usize> = (0..x.rank()).collect();
    perm.swap(x.rank() - 2, x.rank() - 1);
    permuted(x, &perm)
}

/// `[…, m, k] · […, k, n]`; batch dimensions broadcast.
pub(crate) fn product(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let (batch_a, rows) = a.shape.split_at(a.rank() - 2);
    let (batch_b, columns) = b.shape.split_at(b.rank() - 2);
    let ([m, k], [k2, n]) = (rows, columns) else {
        return Err(Error::op("E0314", "needs operands of rank 2 or more"));
    };
    if k != k2 {
        return Err(Error::op(
            "E0314",
            format!("contracts extents {k} and {k2}"),
        ));
    }
    let (m, k, n) = (*m, *k, *n);
    let batch = broadcast_shape(batch_a, batch_b)?;
    let a = broadcast_to(a, &[&batch[..], &[m, k]].concat());
    let b = broadcast_to(b, &[&batch[..], &[k, n]].concat());
    let c = Tensor::from_fn([&batch[..], &[m, n]].concat(), a.dtype, |at| {
        let (row, column) = (at / n, at % n);
        let first = row / m * k * n;
        (0..k)
            .map(|i| a.data[row * k + i] * b.data[first + i * n + column])
            .sum()
    });
    Ok(c)
}

pub(crate) fn matmul(cx: &EvalCx) -> Results {
    let a = oriented(cx.args.one("a")?, cx.attrs.bool("transpose_a")?);
    let b = oriented(cx.args.one("b")?, cx.attrs.bool("transpose_b")?);
    Ok(vec![product(&a, &b)?])
}

pub(crate) fn matmul_grad(cx: &EvalCx) -> Results {
    let (transpose_a, transpose_b) = (cx.attrs.bool("transpose_a")?, cx.attrs.bool("transpose_b")?);
    let a = oriented(cx.args.one("a")?, transpose_a);
    let b = oriented(cx.args.one("b")?, transpose_b);
    let dout = cx.args.one("dout")?;
    let mut results = Vec::new();
    if cx.results.has("da") {
        let da = product(dout, &oriented(&b, true))?;
        results.push(oriented(&sum_to(&da, &a.shape), transpose_a));
    }
    if cx.results.has("db") {
        let db = product(&oriented(&a, true), dout)?;
        let db = oriented(&sum_to(&db, &b.shape), transpose_b);
        results.push(db.with_dtype(b.dtype));
    }
    Ok(results)
}

fn activation(cx: &EvalCx) -> Result<Activation, Error> {
    let name = cx.attrs.string("activation")?;
    Activation::parse(&name)
        .ok_or_else(|| Error::op("E0302", format!("has the unknown activation '{name}'")))
}

pub(crate) fn fused_linear(cx: &EvalCx) -> Results {
    let activation = activation(cx)?;
    let x = oriented(cx.args.one("x")?, cx.attrs.bool("transpose_a")?);
    let w = oriented(cx.args.one("w")?, cx.attrs.bool("transpose_b")?);
    let mut aux = product(&x, &w)?.with_dtype(x.dtype);
    if let Some(bias) = cx.args.optional("bias") {
        aux = aux.zip(&broadcast_to(bias, &aux.shape), |a, b| a + b)?;
    }
    let mut results = vec![aux.map(|v| activation.value(v))];
    if cx.results.has("aux") {
        results.push(aux);
    }
    Ok(results)
}

pub(crate) fn fused_linear_grad(cx: &EvalCx) -> Results {
    let activation = activation(cx)?;
    let (transpose_a, transpose_b) = (cx.attrs.bool("transpose_a")?, cx.attrs.bool("transpose_b")?);
    let x = oriented(cx.args.one("x")?, transpose_a);
    let w = oriented(cx.args.one("w")?, transpose_b);
    let dout = cx.args.one("dout")?;
    let mut results = Vec::new();
    if cx.results.has("dx") {
        let mut dx = oriented(&product(dout, &oriented(&w, true))?, transpose_a);
        if let Some(aux) = cx.args.optional("aux") {
            dx = dx.zip(aux, |d, a| d * activation.derivative(a))?;
        }
        results.push(dx.with_dtype(x.dtype));
    }
    if let Some(ty) = cx.results.optional("dw") {
        let dw = product(&oriented(&x, true), dout)?;
        let mut dw = oriented(&sum_to(&dw, &w.shape), transpose_b);
        if let (Some(acc), false) = (cx.args.optional("acc"), cx.attrs.bool("overwrite")?) {
            dw = dw.zip(acc, |d, a| d + a)?;
        }
        results.push(dw.with_dtype(ty.dtype));
    }
    if let Some(ty) = cx.results.optional("dbias") {
        let n = dout.shape[dout.rank() - 1];
        results.push(sum_to(dout, &[n]).with_dtype(ty.dtype));
    }
    Ok(results)
}
