//! Attention as products, exponentials and sums over the weights of all queries and keys.

use raddle_dialect::ir::{Type, ValueId};

use super::call::{Call, Outcome, shape_of};
use super::elementwise::store_as;
use super::emit::{Emit, Input, Reduction};

/// Labels of batch, groups of heads, heads in a group, queries, keys, and the features of keys and values.
const B: usize = 0;
const G: usize = 1;
const R: usize = 2;
const N: usize = 3;
const M: usize = 4;
const D: usize = 5;
const E: usize = 6;

/// Operands and extents of one attention.
struct Attention {
    q: Input,
    k: Input,
    v: Input,
    /// By label.
    extents: [i64; 7],
    causal: bool,
    scale: f64,
}

impl Attention {
    fn new(e: &mut Emit, call: &Call) -> Result<Self, String> {
        if call.float(e, "dropout")? != 0.0 {
            return Err(
                "its mask depends on the micro-batch, of which a compiled function knows nothing"
                    .into(),
            );
        }
        let [q, k, v] = [call.arg(e, "q")?, call.arg(e, "k")?, call.arg(e, "v")?];
        let (of_q, of_k, of_v) = (e.shape(q), e.shape(k), e.shape(v));
        let (heads, groups) = (of_q[1], of_k[1]);
        let extents = [
            of_q[0],
            groups,
            heads / groups.max(1),
            of_q[2],
            of_k[2],
            of_q[3],
            of_v[3],
        ];
        let mut attention = Self {
            q: input(q, &[]),
            k: input(k, &[B, G, M, D]),
            v: input(v, &[B, G, M, E]),
            extents,
            causal: call.flag(e, "causal")?,
            scale: call.float(e, "scale")?,
        };
        attention.q = attention.by_query(e, q, &[D]);
        Ok(attention)
    }

    fn shape(&self, labels: &[usize]) -> Vec<i64> {
        labels.iter().map(|&l| self.extents[l]).collect()
    }

    /// A tensor `[batch, heads, queries, …]` with its heads taken apart into groups.
    fn by_query(&self, e: &mut Emit, value: ValueId, rest: &[usize]) -> Input {
        let labels = [&[B, G, R, N], rest].concat();
        input(e.reshape(value, &self.shape(&labels)), &labels)
    }

    /// A sum of products over the labels that `out` lacks.
    fn contract(&self, e: &mut Emit, inputs: [&Input; 2], out: &[usize]) -> Input {
        let used: Vec<usize> = (0..self.extents.len())
            .filter(|l| inputs.iter().any(|i| i.labels.contains(&Some(*l))))
            .collect();
        // Loops are numbered without the labels that do not occur.
        let place = |label: usize| used.iter().position(|&u| u == label);
        let renamed = inputs.map(|i| Input {
            value: i.value,
            labels: i.labels.iter().map(|l| l.and_then(place)).collect(),
        });
        let extents = self.shape(&used);
        let output: Vec<usize> = out.iter().filter_map(|&l| place(l)).collect();
        let value = e.einsum(&renamed, &extents, &output, Reduction::Sum, |e, x| {
            e.mul(x[0], x[1])
        });
        input(value, out)
    }

    /// `scale · q·kᵀ`, −∞ where a causal query does not see the key.
    fn scores(&self, e: &mut Emit) -> Input {
        let scores = self.contract(e, [&self.q, &self.k], &[B, G, R, N, M]);
        let element = e.element(scores.value);
        let shape = self.shape(&[B, G, R, N, M]);
        let shift = self.extents[M] - self.extents[N];
        let value = e.map_inputs(&[scores], &shape, element, |e, x| {
            let score = e.mul_number(x[0], self.scale);
            if !self.causal {
                return score;
            }
            let index = e.cx.index_type();
            let [query, key] = [N, M].map(|label| {
                let dim = e.cx.i64_attr(label as i64);
                e.op("linalg.index", &[], &[index], &[("dim", dim)])
            });
            let last = e.add_number(query, shift as f64);
            let hidden = e.greater(key, last);
            let never = e.like(f64::NEG_INFINITY, score);
            e.select(hidden, never, score)
        });
        input(value, &[B, G, R, N, M])
    }

    /// Something of the scores and one number per query, reduced over the keys.
    fn over_keys(
        &self,
        e: &mut Emit,
        inputs: &[Input],
        reduction: Reduction,
        body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
    ) -> Input {
        let extents = self.shape(&[B, G, R, N, M]);
        let value = e.einsum(inputs, &extents, &[B, G, R, N], reduction, body);
        input(value, &[B, G, R, N])
    }

    /// A function of every weight.
    fn weights(
        &self,
        e: &mut Emit,
        inputs: &[Input],
        body: impl FnOnce(&mut Emit, &[ValueId]) -> ValueId,
    ) -> Input {
        let shape = self.shape(&[B, G, R, N, M]);
        let element = e.wide(e.element(inputs[0].value));
        let value = e.map_inputs(inputs, &shape, element, body);
        input(value, &[B, G, R, N, M])
    }
}

fn input(value: ValueId, labels: &[usize]) -> Input {
    Input {
        value,
        labels: labels.iter().copied().map(Some).collect(),
    }
}

/// A value in the type of a result.
fn result(e: &mut Emit, value: ValueId, ty: Type) -> ValueId {
    let (shape, element) = shape_of(e, ty);
    let value = store_as(e, value, element);
    e.reshape(value, &shape)
}

pub(super) fn attention(e: &mut Emit, call: &Call) -> Outcome {
    let a = Attention::new(e, call)?;
    let scores = a.scores(e);
    let max = a.over_keys(e, std::slice::from_ref(&scores), Reduction::Max, |_, x| {
        x[0]
    });
    let inputs = [scores.clone(), max.clone()];
    let sum = a.over_keys(e, &inputs, Reduction::Sum, |e, x| {
        let below = e.sub(x[0], x[1]);
        e.math("exp", below)
    });
    let weights = a.weights(e, &[scores, max.clone(), sum.clone()], |e, x| {
        let below = e.sub(x[0], x[1]);
        let exp = e.math("exp", below);
        e.div(exp, x[2])
    });
    let out = a.contract(e, [&weights, &a.v], &[B, G, R, N, E]);
    let (shape, element) = (e.shape(max.value), e.element(max.value));
    let logarithm = e.map(&[max.value, sum.value], &shape, element, |e, x| {
        let log = e.math("log", x[1]);
        e.add(x[0], log)
    });
    let mut results = vec![result(e, out.value, call.result_type(e))];
    if let Some(ty) = call.result(e, "log_sum_exp") {
        results.push(result(e, logarithm, ty));
    }
    Ok(results)
}

pub(super) fn attention_grad(e: &mut Emit, call: &Call) -> Outcome {
    let a = Attention::new(e, call)?;
    let out = call.arg(e, "out")?;
    let out = a.by_query(e, out, &[E]);
    let dout = call.arg(e, "dout")?;
    let dout = a.by_query(e, dout, &[E]);
    let sums = call.arg(e, "log_sum_exp")?;
    let sums = a.by_query(e, sums, &[]);
    let scores = a.scores(e);
    let weights = a.weights(e, &[scores, sums], |e, x| {
        let sum = e.rewriter.ty(x[0]);
        let sum = e.convert(x[1], sum);
        let below = e.sub(x[0], sum);
        e.math("exp", below)
    });
    let delta = a.contract(e, [&dout, &out], &[B, G, R, N]);
    let slopes = a.contract(e, [&dout, &a.v], &[B, G, R, N, M]);
    let ds = a.weights(e, &[weights.clone(), slopes, delta], |e, x| {
        let difference = e.sub(x[1], x[2]);
        let ds = e.mul(x[0], difference);
        e.mul_number(ds, a.scale)
    });
    let mut results = Vec::new();
    if let Some(ty) = call.result(e, "dq") {
        let dq = a.contract(e, [&ds, &a.k], &[B, G, R, N, D]);
        results.push(result(e, dq.value, ty));
    }
    if let Some(ty) = call.result(e, "dk") {
        let dk = a.contract(e, [&ds, &a.q], &[B, G, M, D]);
        results.push(result(e, dk.value, ty));
    }
    if let Some(ty) = call.result(e, "dv") {
        let dv = a.contract(e, [&weights, &dout], &[B, G, M, E]);
        results.push(result(e, dv.value, ty));
    }
    Ok(results)
}
