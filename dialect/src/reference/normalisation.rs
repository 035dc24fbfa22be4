//! Normalisation layers.

use super::{EvalCx, Tensor};
use crate::error::Error;
use crate::ops::normalisation::statistics_dtype;

type Results = Result<Vec<Tensor>, Error>;

/// Number of rows, and of features in each.
fn extents(cx: &EvalCx, x: &Tensor) -> Result<(usize, usize), Error> {
    let axis = cx.attrs.int("begin_norm_axis")? as usize;
    let (rows, features) = x.shape.split_at(axis);
    Ok((rows.iter().product(), features.iter().product()))
}

pub(crate) fn layer_norm(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let epsilon = cx.attrs.float("epsilon")?;
    let (rows, features) = extents(cx, x)?;
    let scale = cx.args.optional("scale");
    let bias = cx.args.optional("bias");
    let n = features as f64;
    let mut y = Vec::with_capacity(x.len());
    let (mut means, mut variances) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for r in 0..rows {
        let row = &x.data[r * features..(r + 1) * features];
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        for (f, v) in row.iter().enumerate() {
            let normal = (v - mean) / (variance + epsilon).sqrt();
            y.push(normal * scale.map_or(1.0, |s| s.data[f]) + bias.map_or(0.0, |b| b.data[f]));
        }
        means.push(mean);
        variances.push(variance);
    }
    let axis = cx.attrs.int("begin_norm_axis")? as usize;
    let dtype = statistics_dtype(x.dtype);
    Ok(vec![
        Tensor::new(x.shape.clone(), x.dtype, y),
        Tensor::new(&x.shape[..axis], dtype, means),
        Tensor::new(&x.shape[..axis], dtype, variances),
    ])
}

pub(crate) fn layer_norm_grad(cx: &EvalCx) -> Results {
    let (x, dy) = (cx.args.one("x")?, cx.args.one("dy")?);
    let (mean, variance) = (cx.args.one("mean")?, cx.args.one("variance")?);
    let scale = cx.args.optional("scale");
    let epsilon = cx.attrs.float("epsilon")?;
    let (rows, features) = extents(cx, x)?;
    let n = features as f64;
    let mut dx = Vec::with_capacity(x.len());
    let (mut dscale, mut dbias) = (vec![0.0; features], vec![0.0; features]);
    for r in 0..rows {
        let at = |f: usize| r * features + f;
        let deviation = (variance.data[r] + epsilon).sqrt();
        let normal = |f: usize| (x.data[at(f)] - mean.data[r]) / deviation;
        let g = |f: usize| dy.data[at(f)] * scale.map_or(1.0, |s| s.data[f]);
        let mean_g = (0..features).map(g).sum::<f64>() / n;
        let mean_gx = (0..features).map(|f| g(f) * normal(f)).sum::<f64>() / n;
        for f in 0..features {
            dx.push((g(f) - mean_g - normal(f) * mean_gx) / deviation);
            dscale[f] += dy.data[at(f)] * normal(f);
            dbias[f] += dy.data[at(f)];
        }
    }
    let mut results = Vec::new();
    if cx.results.has("dx") {
        results.push(Tensor::new(x.shape.clone(), x.dtype, dx));
    }
    for (operand, result, data) in [("scale", "dscale", dscale), ("bias", "dbias", dbias)] {
        if cx.results.has(result) {
            let like = cx.args.one(operand)?;
            results.push(Tensor::new(like.shape.clone(), like.dtype, data));
        }
    }
    Ok(results)
}

pub(crate) fn rms_norm(cx: &EvalCx) -> Results {
    let x = cx.args.one("x")?;
    let epsilon = cx.attrs.float("epsilon")?;
    let (rows, features) = extents(cx, x)?;
    let scale = cx.args.optional("scale");
    let n = features as f64;
    let mut y = Vec::with_capacity(x.len());
    let mut inverses = Vec::with_capacity(rows);
    for r in 0..rows {
        let row = &x.data[r * features..(r + 1) * features];
        let mean = row.iter().map(|v| v * v).sum::<f64>() / n;
        let inverse = 1.0 / (mean + epsilon).sqrt();
        for (f, v) in row.iter().enumerate() {
            y.push(v * inverse * scale.map_or(1.0, |s| s.data[f]));
        }
        inverses.push(inverse);
    }
    let axis = cx.attrs.int("begin_norm_axis")? as usize;
    Ok(vec![
        Tensor::new(x.shape.clone(), x.dtype, y),
        Tensor::new(&x.shape[..axis], statistics_dtype(x.dtype), inverses),
    ])
}

pub(crate) fn rms_norm_grad(cx: &EvalCx) -> Results {
    let (x, dy) = (cx.args.one("x")?, cx.args.one("dy")?);
    let inverse = cx.args.one("inverse_rms")?;
    let scale = cx.args.optional("scale");
    let (rows, features) = extents(cx, x)?;
    let n = features as f64;
    let mut dx = Vec::with_capacity(x.len());
    let mut dscale = vec![0.0; features];
    for r in 0..rows {
        let at = |f: usize| r * features + f;
        let normal = |f: usize| x.data[at(f)] * inverse.data[r];
        let g = |f: usize| dy.data[at(f)] * scale.map_or(1.0, |s| s.data[f]);
        let mean = (0..features).map(|f| g(f) * normal(f)).sum::<f64>() / n;
        for (f, dscale) in dscale.iter_mut().enumerate() {
            dx.push((g(f) - normal(f) * mean) * inverse.data[r]);
            *dscale += dy.data[at(f)] * normal(f);
        }
    }
    let mut results = Vec::new();
    if cx.results.has("dx") {
        results.push(Tensor::new(x.shape.clone(), x.dtype, dx));
    }
    if cx.results.has("dscale") {
        let like = cx.args.one("scale")?;
        results.push(Tensor::new(like.shape.clone(), like.dtype, dscale));
    }
    Ok(results)
}
