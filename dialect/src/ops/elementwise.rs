//! Elementwise ops of several tensors: arithmetic with broadcast, sums and ors.

use super::infer::{broadcast, expect_flags, expect_number, same_dtype};
use super::parts::{FLAGS, one, variadic};
use super::rules::{AxisCx, LayoutCx, Term, labels};
use super::{Effects, GradientCx, InferCx, OpDef, Pretty, Traits, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));
const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));

/// What `add`, `sub`, `mul`, `div` and `maximum` share.
const BINARY: OpDef = OpDef {
    operands: &[
        one("a", "any shape"),
        one("b", "a shape that broadcasts with a's"),
    ],
    results: &[one("c", "the broadcast shape")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

const COMMUTATIVE: Traits = Traits {
    commutative: true,
    ..Traits::NONE
};

/// `dist.add`
pub const ADD: OpDef = OpDef {
    name: "dist.add",
    summary: "sum",
    description: "\
`c = a + b`. Shapes broadcast as in numpy: they are aligned at the last dimension, and extents agree or are 1. Two partial \
operands give a partial result; a partial and a replicated one do not go together, because the replicated one would be added \
once per rank.",
    traits: COMMUTATIVE,
    infer: Some(infer_binary),
    eval: Some(reference::elementwise::add),
    layout: Some(layout_add),
    gradient: Some(gradient_add),
    ..BINARY
};

/// `dist.sub`
pub const SUB: OpDef = OpDef {
    name: "dist.sub",
    summary: "difference",
    description: "`c = a − b`, with numpy broadcast; sharding as in `dist.add`.",
    infer: Some(infer_numbers),
    eval: Some(reference::elementwise::sub),
    gradient: Some(gradient_sub),
    layout: Some(layout_add),
    ..BINARY
};

/// `dist.mul`
pub const MUL: OpDef = OpDef {
    name: "dist.mul",
    summary: "product",
    description: "`c = a · b`, with numpy broadcast. At most one operand may be partial.",
    traits: COMMUTATIVE,
    infer: Some(infer_binary),
    eval: Some(reference::elementwise::mul),
    gradient: Some(gradient_mul),
    layout: Some(layout_mul),
    ..BINARY
};

/// `dist.div`
pub const DIV: OpDef = OpDef {
    name: "dist.div",
    summary: "quotient",
    description: "\
`c = a / b`, with numpy broadcast; integers round towards zero, and dividing by zero gives zero. Only a may be partial.",
    infer: Some(infer_numbers),
    eval: Some(reference::elementwise::div),
    gradient: Some(gradient_div),
    layout: Some(layout_div),
    ..BINARY
};

/// `dist.maximum`
pub const MAXIMUM: OpDef = OpDef {
    name: "dist.maximum",
    summary: "the larger of two",
    description: "`c = max(a, b)`, with numpy broadcast; NaN if either is NaN.",
    traits: COMMUTATIVE,
    infer: Some(infer_binary),
    eval: Some(reference::elementwise::maximum),
    gradient: Some(gradient_maximum),
    layout: Some(layout_maximum),
    ..BINARY
};

/// `dist.sum`
pub const SUM: OpDef = OpDef {
    name: "dist.sum",
    summary: "sum of several tensors",
    description: "`y = x₀ + x₁ + …`, all of one type; at least one.",
    operands: &[variadic("xs", "tensors of one type")],
    results: &[one("y", "their type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_sum),
    eval: Some(reference::elementwise::sum),
    gradient: Some(gradient_sum),
    layout: Some(layout_sum),
    ..OpDef::NONE
};

/// `dist.any_of`
pub const ANY_OF: OpDef = OpDef {
    name: "dist.any_of",
    summary: "whether any of several flags is set",
    description: "`y = x₀ or x₁ or …`, elementwise, on `i1` tensors of one type; at least one.",
    operands: &[variadic("xs", "`i1` tensors of one type")],
    results: &[one("y", "their type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_any_of),
    eval: Some(reference::elementwise::any_of),
    no_gradient: Some(FLAGS),
    layout: Some(layout_any_of),
    ..OpDef::NONE
};

pub(super) fn infer_binary(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    same_dtype(cx, "a", "b")?;
    let (a, b) = (cx.args.one("a")?, cx.args.one("b")?);
    Ok(vec![TensorType::new(
        broadcast(&a.shape, &b.shape)?,
        a.dtype,
    )])
}

fn infer_numbers(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_number("a", cx.args.one("a")?)?;
    infer_binary(cx)
}

/// All operands have one type.
pub(super) fn one_type(cx: &InferCx) -> Result<TensorType, Error> {
    let xs = cx.args.many("xs");
    let first = xs
        .first()
        .ok_or_else(|| Error::op("E0303", "needs at least one operand"))?;
    match xs.iter().find(|x| !x.agrees(first)) {
        None => Ok(first.clone()),
        Some(other) => Err(Error::op(
            "E0317",
            format!("has operands of different types, {first} and {other}"),
        )),
    }
}

fn infer_sum(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let ty = one_type(cx)?;
    expect_number("xs", &ty)?;
    Ok(vec![ty])
}

fn infer_any_of(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let ty = one_type(cx)?;
    expect_flags("xs", &ty)?;
    Ok(vec![ty])
}

/// A rule for `a`, `b` and their result, whose dimensions label everything.
fn layout_binary(
    cx: &LayoutCx,
    rule: impl Fn(&AxisCx, &Term, &Term, &[Option<usize>]) -> Result<Spread, Error>,
) -> Result<Vec<Layout>, Error> {
    let shape = broadcast(&cx.args.one("a")?.ty.shape, &cx.args.one("b")?.ty.shape)?;
    cx.per_axis(|ax| {
        let (a, b) = (ax.broadcast("a", &shape)?, ax.broadcast("b", &shape)?);
        Ok(vec![rule(ax, &a, &b, &labels(shape.len()))?])
    })
}

fn layout_add(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_binary(cx, |ax, a, b, out| ax.sum(&[a, b], out))
}

fn layout_mul(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_binary(cx, |ax, a, b, out| ax.product(a, b, out))
}

fn layout_div(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_binary(cx, |ax, a, b, out| match b.spread {
        Spread::Partial(reduction) => Err(ax.partial_error("b", reduction)),
        _ => ax.product(a, b, out),
    })
}

fn layout_maximum(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    const MAX: Spread = Spread::Partial(Reduction::Max);
    layout_binary(cx, |ax, a, b, out| match (a.spread, b.spread) {
        (MAX, MAX | Spread::Replicated) | (Spread::Replicated, MAX) => Ok(MAX),
        _ => ax.elementwise(&[a, b], out),
    })
}

/// One term for each of `xs`, dimensions labelled alike.
pub(super) fn terms(ax: &AxisCx) -> Vec<Term> {
    let xs = ax.cx.args.many("xs").iter();
    xs.map(|x| Term {
        name: "xs",
        spread: x.layout.on(ax.axis),
        labels: labels(x.ty.rank()),
    })
    .collect()
}

fn layout_sum(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|ax| {
        let terms = terms(ax);
        let rank = terms.first().map_or(0, |t| t.labels.len());
        Ok(vec![
            ax.sum(&terms.iter().collect::<Vec<_>>(), &labels(rank))?,
        ])
    })
}

fn layout_any_of(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    const ANY: Spread = Spread::Partial(Reduction::Any);
    cx.per_axis(|ax| {
        let terms = terms(ax);
        let or = |t: &Term| matches!(t.spread, ANY | Spread::Replicated);
        if terms.iter().any(|t| t.spread == ANY) && terms.iter().all(or) {
            return Ok(vec![ANY]);
        }
        let rank = terms.first().map_or(0, |t| t.labels.len());
        Ok(vec![ax.elementwise(
            &terms.iter().collect::<Vec<_>>(),
            &labels(rank),
        )?])
    })
}

/// Where nothing is broadcast the gradients are what comes in, and no op is needed.
fn gradient_add(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (a, b, c) = (cx.operand("a")?, cx.operand("b")?, cx.result("c")?);
    let dout = cx.dout("c")?;
    // A dimension of extent 1 may be repeated along an axis that cuts the result into pieces of extent 1.
    let like = |v| {
        let (of_v, of_c) = (cx.builder.layout(v)?, cx.builder.layout(c)?);
        let cut_alike = |axis: usize| {
            let cuts = [of_v, of_c].map(|l| matches!(l.on(axis), Spread::Sharded(_)));
            cx.mesh().sizes()[axis] == 1 || cuts[0] == cuts[1]
        };
        let cut_alike = (0..cx.mesh().axes().len()).all(cut_alike);
        Ok::<_, Error>(cut_alike && cx.builder.ty(v)? == cx.builder.ty(c)?)
    };
    if like(a)? && like(b)? {
        return Ok(vec![Some(dout); 2]);
    }
    let wants = [cx.needs("a"), cx.needs("b")];
    cx.emit("dist.add_grad")?
        .each(&[a, b, dout])
        .wants(&wants)
        .groups()
}

fn gradient_sub(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let gradients = gradient_add(cx)?;
    let [da, db] = gradients[..] else {
        return Ok(gradients);
    };
    let db = match db.filter(|_| cx.needs("b")) {
        Some(db) => Some(cx.builder.scaled(db, -1.0)?),
        None => None,
    };
    Ok(vec![da, db])
}

/// The rule of an op of a and b whose gradient op takes both.
fn of_both(cx: &mut GradientCx, gradient: &str) -> Result<Vec<Option<ValueId>>, Error> {
    let (a, b, dout) = (cx.operand("a")?, cx.operand("b")?, cx.dout("c")?);
    let wants = [cx.needs("a"), cx.needs("b")];
    cx.emit(gradient)?
        .each(&[a, b, dout])
        .wants(&wants)
        .groups()
}

fn gradient_mul(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_both(cx, "dist.mul_grad")
}

fn gradient_div(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_both(cx, "dist.div_grad")
}

fn gradient_maximum(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_both(cx, "dist.maximum_grad")
}

fn gradient_sum(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let dout = cx.dout("y")?;
    Ok(vec![Some(dout); cx.operands("xs").len()])
}

/// The family.
pub static OPS: &[OpDef] = &[ADD, SUB, MUL, DIV, MAXIMUM, SUM, ANY_OF];
