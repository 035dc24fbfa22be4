//! Reductions over dimensions, layer normalisation, and clipping, which rests on norms.

use raddle_dialect::ir::ValueId;

use super::call::{Call, Outcome, shape_of};
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

/// A layer norm's operands, labelled: rows first, then features.
struct Norm {
    shape: Vec<i64>,
    rows: usize,
    epsilon: f64,
}

impl Norm {
    fn new(e: &Emit, call: &Call, x: ValueId) -> Result<Self, String> {
        Ok(Self {
            shape: e.shape(x),
            rows: call.int(e, "begin_norm_axis")? as usize,
            epsilon: call.float(e, "epsilon")?,
        })
    }

    fn features(&self) -> f64 {
        self.shape[self.rows..].iter().product::<i64>() as f64
    }

    fn whole(&self, value: ValueId) -> Input {
        Input {
            value,
            labels: (0..self.shape.len()).map(Some).collect(),
        }
    }

    /// One value a row.
    fn row(&self, e: &mut Emit, value: ValueId) -> Input {
        Input {
            value: e.reshape(value, &self.shape[..self.rows]),
            labels: (0..self.rows).map(Some).collect(),
        }
    }

    /// One value a feature.
    fn feature(&self, e: &mut Emit, value: ValueId) -> Input {
        Input {
            value: e.reshape(value, &self.shape[self.rows..]),
            labels: (self.rows..self.shape.len()).map(Some).collect(),
        }
    }

    /// Mean over the features.
    fn mean(
        &self,
        e: &mut Emit,
        inputs: &[Input],
        body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let rows: Vec<usize> = (0..self.rows).collect();
        let n = self.features();
        e.einsum(inputs, &self.shape, &rows, Reduction::Sum, |e, args| {
            let value = body(e, args);
            e.mul_number(value, 1.0 / n)
        })
    }

    /// `(x − mean)/√(variance + epsilon)`, and the inverse standard deviation.
    fn normal(&self, e: &mut Emit, x: ValueId, mean: ValueId, variance: ValueId) -> [ValueId; 2] {
        let variance = e.add_number(variance, self.epsilon);
        let deviation = e.math("sqrt", variance);
        let one = e.like(1.0, deviation);
        let inverse = e.div(one, deviation);
        let difference = e.sub(x, mean);
        [e.mul(difference, inverse), inverse]
    }
}

pub(super) fn layer_norm(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let norm = Norm::new(e, call, x)?;
    let whole = norm.whole(x);
    let mean = norm.mean(e, std::slice::from_ref(&whole), |_, x| x[0]);
    let mean_row = norm.row(e, mean);
    let variance = norm.mean(e, &[whole.clone(), mean_row.clone()], |e, args| {
        let d = e.sub(args[0], args[1]);
        e.mul(d, d)
    });
    let variance_row = norm.row(e, variance);
    let mut inputs = vec![whole, mean_row, variance_row];
    let scale = call.optional(e, "scale");
    let bias = call.optional(e, "bias");
    for value in scale.iter().chain(&bias) {
        inputs.push(norm.feature(e, *value));
    }
    let element = e.element(x);
    let y = e.map_inputs(&inputs, &norm.shape.clone(), element, |e, args| {
        let [mut y, _] = norm.normal(e, args[0], args[1], args[2]);
        let ty = e.rewriter.ty(y);
        let mut rest = args[3..].iter();
        if scale.is_some()
            && let Some(&scale) = rest.next()
        {
            let scale = e.convert(scale, ty);
            y = e.mul(y, scale);
        }
        if bias.is_some()
            && let Some(&bias) = rest.next()
        {
            let bias = e.convert(bias, ty);
            y = e.add(y, bias);
        }
        y
    });
    let mut results = vec![y];
    for (group, value) in [("mean", mean), ("variance", variance)] {
        if let Some(ty) = call.result(e, group) {
            let (shape, element) = shape_of(e, ty);
            let value = store_as(e, value, element);
            results.push(e.reshape(value, &shape));
        }
    }
    Ok(results)
}

pub(super) fn layer_norm_grad(e: &mut Emit, call: &Call) -> Outcome {
    let (x, dy) = (call.arg(e, "x")?, call.arg(e, "dy")?);
    let norm = Norm::new(e, call, x)?;
    let (mean, variance) = (call.arg(e, "mean")?, call.arg(e, "variance")?);
    let rows = [norm.row(e, mean), norm.row(e, variance)];
    let [mean, variance] = rows;
    let base = vec![norm.whole(x), mean, variance, norm.whole(dy)];
    let mut inputs = base.clone();
    if let Some(scale) = call.optional(e, "scale") {
        inputs.push(norm.feature(e, scale));
    }
    // g = dy · scale
    let g = |e: &mut Emit, args: &[ValueId]| match args.get(4) {
        Some(&scale) => e.mul(args[3], scale),
        None => args[3],
    };
    let mut results = Vec::new();
    if let Some(ty) = call.result(e, "dx") {
        let mean_g = norm.mean(e, &inputs, |e, args| g(e, args));
        let mean_gx = norm.mean(e, &inputs, |e, args| {
            let [normal, _] = norm.normal(e, args[0], args[1], args[2]);
            let g = g(e, args);
            e.mul(g, normal)
        });
        let (shape, element) = shape_of(e, ty);
        let mut all = inputs.clone();
        all.push(norm.row(e, mean_g));
        all.push(norm.row(e, mean_gx));
        results.push(e.map_inputs(&all, &shape, element, |e, args| {
            let (args, means) = args.split_at(args.len() - 2);
            let [normal, inverse] = norm.normal(e, args[0], args[1], args[2]);
            let g = g(e, args);
            let along = e.mul(normal, means[1]);
            let d = e.sub(g, means[0]);
            let d = e.sub(d, along);
            e.mul(d, inverse)
        }));
    }
    let features: Vec<usize> = (norm.rows..norm.shape.len()).collect();
    for group in ["dscale", "dbias"] {
        let Some(ty) = call.result(e, group) else {
            continue;
        };
        let value = e.einsum(&base, &norm.shape, &features, Reduction::Sum, |e, args| {
            let [normal, _] = norm.normal(e, args[0], args[1], args[2]);
            match group {
                "dscale" => e.mul(args[3], normal),
                _ => args[3],
            }
        });
        let (shape, element) = shape_of(e, ty);
        let value = store_as(e, value, element);
        results.push(e.reshape(value, &shape));
    }
    Ok(results)
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
