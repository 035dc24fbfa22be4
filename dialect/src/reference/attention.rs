//! Attention, weight by weight.

use super::dropout::Mask;
use super::{EvalCx, Tensor};
use crate::error::Error;
use crate::ops::normalisation::statistics_dtype;

type Results = Result<Vec<Tensor>, Error>;

/// The extents, and what the weights are made of.
struct Attention<'a> {
    q: &'a Tensor,
    k: &'a Tensor,
    v: &'a Tensor,
    batch: usize,
    heads: usize,
    /// Heads of keys and values.
    groups: usize,
    queries: usize,
    keys: usize,
    /// Features of queries and keys.
    d: usize,
    /// Features of values.
    e: usize,
    causal: bool,
    scale: f64,
    mask: Mask,
}

/// One query: its batch, head and position.
#[derive(Clone, Copy)]
struct Query {
    batch: usize,
    head: usize,
    at: usize,
}

impl<'a> Attention<'a> {
    fn new(cx: &EvalCx<'a>) -> Result<Self, Error> {
        let (q, k, v) = (cx.args.one("q")?, cx.args.one("k")?, cx.args.one("v")?);
        Ok(Self {
            q,
            k,
            v,
            batch: q.shape[0],
            heads: q.shape[1],
            groups: k.shape[1],
            queries: q.shape[2],
            keys: k.shape[2],
            d: q.shape[3],
            e: v.shape[3],
            causal: cx.attrs.bool("causal")?,
            scale: cx.attrs.float("scale")?,
            mask: Mask::of(cx, cx.attrs.float("dropout")?)?,
        })
    }

    fn queries(&self) -> impl Iterator<Item = Query> + use<> {
        let (heads, queries) = (self.heads, self.queries);
        (0..self.batch * heads * queries).map(move |row| Query {
            batch: row / queries / heads,
            head: row / queries % heads,
            at: row % queries,
        })
    }

    /// Position of a query among all.
    fn row(&self, q: Query) -> usize {
        (q.batch * self.heads + q.head) * self.queries + q.at
    }

    /// Position of a key that a query sees among all keys.
    fn key(&self, q: Query, key: usize) -> usize {
        let group = q.head / (self.heads / self.groups);
        (q.batch * self.groups + group) * self.keys + key
    }

    /// Number of keys that a query sees.
    fn seen(&self, q: Query) -> usize {
        match self.causal {
            true => q.at + 1 + self.keys - self.queries,
            false => self.keys,
        }
    }

    fn q_row(&self, q: Query) -> &[f64] {
        &self.q.data[self.row(q) * self.d..][..self.d]
    }

    fn k_row(&self, q: Query, key: usize) -> &[f64] {
        &self.k.data[self.key(q, key) * self.d..][..self.d]
    }

    fn v_row(&self, q: Query, key: usize) -> &[f64] {
        &self.v.data[self.key(q, key) * self.e..][..self.e]
    }

    fn score(&self, q: Query, key: usize) -> f64 {
        self.scale * dot(self.q_row(q), self.k_row(q, key))
    }

    /// Dropout's factor of a weight.
    fn factor(&self, q: Query, key: usize) -> f64 {
        self.mask.factor(self.row(q) * self.keys + key)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `to += factor · row`
fn add(to: &mut [f64], factor: f64, row: &[f64]) {
    for (to, x) in to.iter_mut().zip(row) {
        *to += factor * x;
    }
}

pub(crate) fn attention(cx: &EvalCx) -> Results {
    let a = Attention::new(cx)?;
    let rows = a.batch * a.heads * a.queries;
    let (mut out, mut sums) = (vec![0.0; rows * a.e], Vec::with_capacity(rows));
    for q in a.queries() {
        let scores: Vec<f64> = (0..a.seen(q)).map(|key| a.score(q, key)).collect();
        let max = scores.iter().fold(f64::NEG_INFINITY, |m, &s| m.max(s));
        let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
        let to = &mut out[a.row(q) * a.e..][..a.e];
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - max).exp() / sum * a.factor(q, key);
            add(to, weight, a.v_row(q, key));
        }
        sums.push(max + sum.ln());
    }
    let shape = [a.batch, a.heads, a.queries];
    Ok(vec![
        Tensor::new([&shape[..], &[a.e]].concat(), a.q.dtype, out),
        Tensor::new(shape, statistics_dtype(a.q.dtype), sums),
    ])
}

pub(crate) fn attention_grad(cx: &EvalCx) -> Results {
    let a = Attention::new(cx)?;
    let (out, sums) = (cx.args.one("out")?, cx.args.one("log_sum_exp")?);
    let dout = cx.args.one("dout")?;
    let mut dq = vec![0.0; a.q.len()];
    let mut dk = vec![0.0; a.k.len()];
    let mut dv = vec![0.0; a.v.len()];
    for q in a.queries() {
        let row = a.row(q);
        let own = row * a.e..(row + 1) * a.e;
        let (out, dout) = (&out.data[own.clone()], &dout.data[own]);
        let delta = dot(dout, out);
        for key in 0..a.seen(q) {
            let weight = (a.score(q, key) - sums.data[row]).exp();
            let factor = a.factor(q, key);
            let at = a.key(q, key);
            add(&mut dv[at * a.e..][..a.e], weight * factor, dout);
            let ds = weight * (factor * dot(dout, a.v_row(q, key)) - delta) * a.scale;
            add(&mut dq[row * a.d..][..a.d], ds, a.k_row(q, key));
            add(&mut dk[at * a.d..][..a.d], ds, a.q_row(q));
        }
    }
    let all = [(a.q, "dq", dq), (a.k, "dk", dk), (a.v, "dv", dv)];
    let wanted = all.into_iter().filter(|(_, name, _)| cx.results.has(name));
    Ok(wanted
        .map(|(like, _, data)| Tensor::new(like.shape.clone(), like.dtype, data))
        .collect())
}
