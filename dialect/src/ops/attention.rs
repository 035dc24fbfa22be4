//! Attention.

use super::dropout::{AXES, check_rate};
use super::infer::{expect_float, expect_shape, same_dtype, same_type, shape};
use super::normalisation::statistics_dtype;
use super::parts::{SECOND_ORDER, attr, attr_or, flag, one, optional};
use super::rules::{AxisCx, LayoutCx, Term};
use super::softmax::check_axes;
use super::{
    AttrDef, AttrDefault, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::ir::{DYNAMIC, ValueId};
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::{TensorType, extents_agree};

const OVER: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature).over("axes"));

const ATTRS: &[AttrDef] = &[
    flag("causal", "query i of n sees keys up to i + m − n, of m"),
    attr(
        "scale",
        AttrKind::F64,
        "factor of the products of queries and keys, usually 1/√d",
    ),
    attr_or(
        "dropout",
        AttrKind::F64,
        AttrDefault::F64(0.0),
        "the probability that a weight is dropped, in [0, 1)",
    ),
    attr_or(
        "seed",
        AttrKind::I64,
        AttrDefault::I64(0),
        "tells the program's masks apart",
    ),
    AXES,
];

/// `dist.attention`
pub const ATTENTION: OpDef = OpDef {
    name: "dist.attention",
    summary: "scaled dot-product attention",
    description: "\
`out = dropout(softmax(scale · q·kᵀ + M)) · v` over the keys, where M is −∞ for the keys that a causal query does not see (Vaswani et \
al., 2017). q is `[batch, heads, n, d]`, k `[batch, groups, m, d]`, v `[batch, groups, m, e]`; groups divides heads, and heads/groups \
neighbouring heads share keys and values (Ainslie et al., 2023). `log_sum_exp` is what the backward pass needs to compute the \
weights again (Dao et al., 2022), in f32 for f16 and bf16. A causal query must see a key, so n ≤ m. Batch and heads may be cut, and \
the queries if the op is not causal. Dropout's mask is counted as in `dist.dropout`, over the weights `[batch, heads, n, m]`.",
    operands: &[
        one("q", "`[batch, heads, n, d]`"),
        one("k", "`[batch, groups, m, d]`"),
        one("v", "`[batch, groups, m, e]`"),
    ],
    results: &[
        one("out", "`[batch, heads, n, e]`"),
        one("log_sum_exp", "`[batch, heads, n]`"),
    ],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: OVER,
    infer: Some(infer_attention),
    eval: Some(reference::attention::attention),
    layout: Some(layout_attention),
    gradient: Some(gradient_attention),
    ..OpDef::NONE
};

/// `dist.attention_grad`
pub const ATTENTION_GRAD: OpDef = OpDef {
    name: "dist.attention_grad",
    summary: "gradients of attention",
    description: "\
With the weights `p = e^(scale · q·kᵀ + M − log_sum_exp)`, dropout's factors f and `δ = Σ dout · out`: `dv = (p·f)ᵀ · dout`, \
`ds = p · (f · (dout · vᵀ) − δ)`, `dq = scale · ds · k`, `dk = scale · dsᵀ · q`, the last and dv summed over the heads that share them \
(Dao et al., 2022, algorithm 4).",
    operands: &[
        one("q", "as in the forward op"),
        one("k", "as in the forward op"),
        one("v", "as in the forward op"),
        one("out", "from the forward op"),
        one("log_sum_exp", "from the forward op"),
        one("dout", "gradient of out"),
    ],
    results: &[
        optional("dq", "q's type"),
        optional("dk", "k's type"),
        optional("dv", "v's type"),
    ],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: OVER,
    infer: Some(infer_attention_grad),
    eval: Some(reference::attention::attention_grad),
    layout: Some(layout_attention_grad),
    no_gradient: Some(SECOND_ORDER),
    ..OpDef::NONE
};

/// The four extents of an operand.
fn extents(cx: &InferCx, name: &str) -> Result<[i64; 4], Error> {
    let ty = cx.args.one(name)?;
    expect_float(name, ty)?;
    <[i64; 4]>::try_from(&ty.shape[..]).map_err(|_| {
        Error::op(
            "E0313",
            format!(
                "operand '{name}' must be [batch, heads, sequence, features], but its shape is {}",
                shape(&ty.shape)
            ),
        )
    })
}

/// Types of out and log_sum_exp.
fn infer_attention(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_axes(cx)?;
    check_rate(cx, "dropout")?;
    same_dtype(cx, "q", "k")?;
    same_dtype(cx, "q", "v")?;
    let ([b, h, n, d], [_, groups, m, _], [_, _, _, e]) =
        (extents(cx, "q")?, extents(cx, "k")?, extents(cx, "v")?);
    expect_shape("k", cx.args.one("k")?, &[b, groups, m, d])?;
    expect_shape("v", cx.args.one("v")?, &[b, groups, m, e])?;
    let divides = match (h, groups) {
        (DYNAMIC, _) | (_, DYNAMIC) => true,
        (h, 0) => h == 0,
        (h, groups) => h % groups == 0,
    };
    if !divides {
        return Err(Error::op(
            "E0315",
            format!("has {h} heads of queries for {groups} of keys, which does not divide them"),
        ));
    }
    if cx.attrs.bool("causal")? && n > m && !extents_agree(n, m) {
        return Err(Error::op(
            "E0317",
            format!("is causal with {n} queries, but only {m} keys"),
        ));
    }
    let q = cx.args.one("q")?;
    Ok(vec![
        TensorType::new([b, h, n, e], q.dtype),
        TensorType::new([b, h, n], statistics_dtype(q.dtype)),
    ])
}

fn infer_attention_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let forward = infer_attention(cx)?;
    for (name, expected) in ["out", "log_sum_exp"].into_iter().zip(&forward) {
        expect_float(name, cx.args.one(name)?)?;
        expect_shape(name, cx.args.one(name)?, &expected.shape)?;
    }
    same_dtype(cx, "q", "out")?;
    same_type(cx, "out", "dout")?;
    cx.gradients(&[("q", "dq"), ("k", "dk"), ("v", "dv")])
}

/// Labels of batch, heads, queries, keys and the two features.
const LABELS: [Option<usize>; 6] = [B, H, N, M, D, E];
const B: Option<usize> = Some(0);
const H: Option<usize> = Some(1);
const N: Option<usize> = Some(2);
const M: Option<usize> = Some(3);
const D: Option<usize> = Some(4);
const E: Option<usize> = Some(5);

/// q, k and v along an axis, and how what is made of all three is cut.
fn inputs(ax: &AxisCx) -> Result<([Term; 3], Term), Error> {
    let q = ax.term("q", vec![B, H, N, D])?;
    let k = ax.term("k", vec![B, H, M, D])?;
    let v = ax.term("v", vec![B, H, M, E])?;
    let spread = ax.elementwise(&[&q, &k, &v], &LABELS)?;
    let causal = ax.cx.attrs.bool("causal")?;
    for term in [&q, &k, &v] {
        match term.spread {
            Spread::Sharded(3) => return Err(ax.sharded_error(term.name, 3)),
            Spread::Sharded(2) if causal || term.name != "q" => {
                return Err(ax.sharded_error(term.name, 2));
            }
            _ => {}
        }
    }
    let all = Term {
        name: "the weights",
        spread,
        labels: LABELS.to_vec(),
    };
    Ok(([q, k, v], all))
}

/// The axes along which dropout gives each rank a mask of its own.
fn masked(cx: &LayoutCx) -> Result<Vec<usize>, Error> {
    match cx.attrs.float("dropout")? == 0.0 {
        true => Ok(vec![]),
        false => cx.group(),
    }
}

fn layout_attention(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let masked = masked(cx)?;
    cx.per_axis(|ax| {
        let (_, all) = inputs(ax)?;
        Ok(match all.spread {
            Spread::Replicated if masked.contains(&ax.axis) => {
                vec![Spread::Own, Spread::Replicated]
            }
            spread => vec![spread; 2],
        })
    })
}

fn layout_attention_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let masked = masked(cx)?;
    cx.per_axis(|ax| {
        let (operands, mut all) = inputs(ax)?;
        let lse = ax.term("log_sum_exp", vec![B, H, N])?;
        let saved = ax.elementwise(&[&all, &lse], &LABELS)?;
        if saved == Spread::Replicated && masked.contains(&ax.axis) {
            // Every rank has weights of its own, so it has gradients of its own.
            return Ok(vec![Spread::Own; cx.results.all().len()]);
        }
        let out = ax.term("out", vec![B, H, N, E])?;
        all.spread = ax.elementwise(&[&all, &lse, &out], &LABELS)?;
        let dout = ax.term("dout", vec![B, H, N, E])?;
        let mut spreads = Vec::new();
        for (operand, result) in operands.iter().zip(["dq", "dk", "dv"]) {
            if cx.results.has(result) {
                spreads.push(ax.product(&all, &dout, &operand.labels)?);
            }
        }
        Ok(spreads)
    })
}

fn gradient_attention(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    cx.unused(&["log_sum_exp"])?;
    let (op, dout) = (cx.op(), cx.dout("out")?);
    let operands = [cx.operand("q")?, cx.operand("k")?, cx.operand("v")?];
    let results = [cx.result("out")?, cx.result("log_sum_exp")?, dout];
    let wants = ["q", "k", "v"].map(|name| cx.needs(name));
    cx.emit("dist.attention_grad")?
        .each(&operands)
        .each(&results)
        .like(op, &["causal", "scale", "dropout", "seed", "axes"])
        .wants(&wants)
        .groups()
}

/// The family.
pub static OPS: &[OpDef] = &[ATTENTION, ATTENTION_GRAD];
