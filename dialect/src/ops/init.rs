//! Where tensors come from: constants and random numbers.

use super::infer::{expect_float, expect_static};
use super::parts::{attr, one};
use super::rules::{LayoutCx, replicated};
use super::{AttrDef, AttrKind, Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));
const SEED: AttrDef = attr("seed", AttrKind::I64, "0 lets the device choose");

/// `dist.fill`
pub const FILL: OpDef = OpDef {
    name: "dist.fill",
    summary: "a constant tensor",
    description: "Every element is `value`, rounded to the element type; for `i1`, whether it is not 0.",
    results: &[one("y", "any type with static shape")],
    attrs: &[attr("value", AttrKind::F64, "the value")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_fill),
    eval: Some(reference::random::fill),
    layout: Some(replicated),
    ..OpDef::NONE
};

/// `dist.uniform`
pub const UNIFORM: OpDef = OpDef {
    name: "dist.uniform",
    summary: "uniformly distributed random numbers",
    description: "\
Each element is drawn from `[min, max)`. With a seed the numbers are a function of it and of their position; with seed 0 \
every op draws anew, on every rank.",
    results: &[one("y", "floats, static shape")],
    attrs: &[
        attr("min", AttrKind::F64, "lower bound"),
        attr("max", AttrKind::F64, "upper bound, not below `min`"),
        SEED,
    ],
    effects: Effects::Draws,
    pretty: SAME,
    infer: Some(infer_uniform),
    eval: Some(reference::random::uniform),
    layout: Some(layout_random),
    ..OpDef::NONE
};

/// `dist.gaussian`
pub const GAUSSIAN: OpDef = OpDef {
    name: "dist.gaussian",
    summary: "normally distributed random numbers",
    description: "\
Each element is drawn from a normal distribution. With a seed the numbers are a function of it and of their position; with \
seed 0 every op draws anew, on every rank.",
    results: &[one("y", "floats, static shape")],
    attrs: &[
        attr("mean", AttrKind::F64, "mean"),
        attr("std", AttrKind::F64, "standard deviation, not negative"),
        SEED,
    ],
    effects: Effects::Draws,
    pretty: SAME,
    infer: Some(infer_gaussian),
    eval: Some(reference::random::gaussian),
    layout: Some(layout_random),
    ..OpDef::NONE
};

fn infer_fill(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let y = cx.given("y")?;
    expect_static("y", y)?;
    Ok(vec![y.clone()])
}

fn infer_random(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_float("y", cx.given("y")?)?;
    infer_fill(cx)
}

fn infer_uniform(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let (min, max) = (cx.attrs.float("min")?, cx.attrs.float("max")?);
    if min <= max {
        infer_random(cx)
    } else {
        Err(Error::op(
            "E0316",
            format!("has bounds {min} and {max} in the wrong order"),
        ))
    }
}

fn infer_gaussian(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let std = cx.attrs.float("std")?;
    if std >= 0.0 {
        infer_random(cx)
    } else {
        Err(Error::op(
            "E0316",
            format!("has the standard deviation {std}"),
        ))
    }
}

/// Without a seed every rank draws numbers of its own.
fn layout_random(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let spread = match cx.attrs.int("seed")? {
        0 => Spread::Own,
        _ => Spread::Replicated,
    };
    cx.per_axis(|_| Ok(vec![spread]))
}

/// The family.
pub static OPS: &[OpDef] = &[FILL, UNIFORM, GAUSSIAN];
