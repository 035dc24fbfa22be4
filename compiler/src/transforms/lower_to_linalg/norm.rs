//! Normalisation layers.

use raddle_dialect::ir::ValueId;

use super::call::{Call, Outcome, shape_of};
use super::elementwise::store_as;
use super::emit::{Emit, Input, Reduction};

/// A normalisation's operands, labelled: rows first, then features.
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

pub(super) fn rms_norm(e: &mut Emit, call: &Call) -> Outcome {
    let x = call.arg(e, "x")?;
    let norm = Norm::new(e, call, x)?;
    let whole = norm.whole(x);
    let square = norm.mean(e, std::slice::from_ref(&whole), |e, x| e.mul(x[0], x[0]));
    let (rows, wide) = (e.shape(square), e.element(square));
    let inverse = e.map(&[square], &rows, wide, |e, x| {
        let sum = e.add_number(x[0], norm.epsilon);
        let root = e.math("sqrt", sum);
        let one = e.like(1.0, root);
        e.div(one, root)
    });
    let mut inputs = vec![whole, norm.row(e, inverse)];
    if let Some(scale) = call.optional(e, "scale") {
        inputs.push(norm.feature(e, scale));
    }
    let element = e.element(x);
    let y = e.map_inputs(&inputs, &norm.shape.clone(), element, |e, args| {
        let normal = e.mul(args[0], args[1]);
        scaled(e, normal, args.get(2))
    });
    let mut results = vec![y];
    if let Some(ty) = call.result(e, "inverse_rms") {
        let (shape, element) = shape_of(e, ty);
        let value = store_as(e, inverse, element);
        results.push(e.reshape(value, &shape));
    }
    Ok(results)
}

/// A value times a scale, if there is one.
fn scaled(e: &mut Emit, value: ValueId, scale: Option<&ValueId>) -> ValueId {
    let ty = e.rewriter.ty(value);
    match scale {
        Some(&scale) => {
            let scale = e.convert(scale, ty);
            e.mul(value, scale)
        }
        None => value,
    }
}

pub(super) fn rms_norm_grad(e: &mut Emit, call: &Call) -> Outcome {
    let (x, dy) = (call.arg(e, "x")?, call.arg(e, "dy")?);
    let norm = Norm::new(e, call, x)?;
    let inverse = call.arg(e, "inverse_rms")?;
    let base = vec![norm.whole(x), norm.row(e, inverse), norm.whole(dy)];
    let mut inputs = base.clone();
    if let Some(scale) = call.optional(e, "scale") {
        inputs.push(norm.feature(e, scale));
    }
    // x · r, r and dy · scale, in the type that x is computed in.
    let terms = |e: &mut Emit, args: &[ValueId]| {
        let ty = e.rewriter.ty(args[0]);
        let inverse = e.convert(args[1], ty);
        let normal = e.mul(args[0], inverse);
        [normal, inverse, scaled(e, args[2], args.get(3))]
    };
    let mut results = Vec::new();
    if let Some(ty) = call.result(e, "dx") {
        let along = norm.mean(e, &inputs, |e, args| {
            let [normal, _, g] = terms(e, args);
            e.mul(g, normal)
        });
        let (shape, element) = shape_of(e, ty);
        let mut all = inputs.clone();
        all.push(norm.row(e, along));
        results.push(e.map_inputs(&all, &shape, element, |e, args| {
            let (args, mean) = args.split_at(args.len() - 1);
            let [normal, inverse, g] = terms(e, args);
            let along = e.mul(normal, mean[0]);
            let rest = e.sub(g, along);
            e.mul(rest, inverse)
        }));
    }
    if let Some(ty) = call.result(e, "dscale") {
        let features: Vec<usize> = (norm.rows..norm.shape.len()).collect();
        let value = e.einsum(&base, &norm.shape, &features, Reduction::Sum, |e, args| {
            let [normal, _, dy] = terms(e, args);
            e.mul(dy, normal)
        });
        let (shape, element) = shape_of(e, ty);
        let value = store_as(e, value, element);
        results.push(e.reshape(value, &shape));
    }
    Ok(results)
}
