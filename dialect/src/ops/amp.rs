//! Mixed precision (loss scaling) and gradient clipping.
//!
//! Paddle's ops take all gradients at once; here each tensor has an op of its own, and `group` says which belong together.

use super::infer::{expect_flags, expect_float, expect_ints, expect_one_element};
use super::parts::{attr, flag, one};
use super::rules::{LayoutCx, pointwise};
use super::{AttrDef, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::{DType, TensorType};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));
const ON_GRADIENTS: &str = "it works on gradients, after they are taken";
const GROUP: AttrDef = attr(
    "group",
    AttrKind::I64,
    "ops with the same number were one op of the imported program",
);

/// `dist.check_finite_and_unscale`
pub const CHECK_FINITE_AND_UNSCALE: OpDef = OpDef {
    name: "dist.check_finite_and_unscale",
    summary: "divides a gradient by the loss scale and reports infinities",
    description: "\
`out = x · (1/scale)`; `found_inf` is set if any element of x is infinite or NaN. One op per tensor; the flags of a group are \
joined by `dist.any_of`.",
    operands: &[one("x", "a gradient"), one("scale", "one element, f32")],
    results: &[one("out", "x's type"), one("found_inf", "`tensor<1xi1>`")],
    attrs: &[GROUP],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_check_finite_and_unscale),
    eval: Some(reference::amp::check_finite_and_unscale),
    no_gradient: Some(ON_GRADIENTS),
    layout: Some(layout_check_finite_and_unscale),
    ..OpDef::NONE
};

/// `dist.update_loss_scaling`
pub const UPDATE_LOSS_SCALING: OpDef = OpDef {
    name: "dist.update_loss_scaling",
    summary: "zeroes a gradient after an overflow and adapts the loss scale",
    description: "\
If `found_inf`: out is 0, good becomes 0 and bad one more; when bad reaches `decr_every_n_nan_or_inf`, the scale is multiplied by \
`decr_ratio` (but not below 1) and bad becomes 0. Otherwise out is x, bad becomes 0 and good one more; when good reaches \
`incr_every_n_steps`, the scale is multiplied by `incr_ratio` (unless that is infinite) and good becomes 0. With `stop_update` the \
scale and counters stay. One op per tensor: those of a group compute the same scale and counters.",
    operands: &[
        one("x", "a gradient"),
        one("found_inf", "one `i1` element"),
        one("scale", "one element"),
        one("good", "one integer: steps since the last overflow"),
        one("bad", "one integer: overflows in a row"),
    ],
    results: &[
        one("out", "x's type"),
        one("new_scale", "scale's type"),
        one("new_good", "good's type"),
        one("new_bad", "bad's type"),
    ],
    attrs: &[
        GROUP,
        attr(
            "incr_every_n_steps",
            AttrKind::I64,
            "good steps before the scale grows",
        ),
        attr(
            "decr_every_n_nan_or_inf",
            AttrKind::I64,
            "overflows before the scale shrinks",
        ),
        attr("incr_ratio", AttrKind::F64, "growth factor, above 1"),
        attr(
            "decr_ratio",
            AttrKind::F64,
            "shrink factor, between 0 and 1",
        ),
        flag("stop_update", "leave scale and counters"),
    ],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_update_loss_scaling),
    eval: Some(reference::amp::update_loss_scaling),
    no_gradient: Some(ON_GRADIENTS),
    layout: Some(layout_update_loss_scaling),
    ..OpDef::NONE
};

/// `dist.squared_l2_norm`
pub const SQUARED_L2_NORM: OpDef = OpDef {
    name: "dist.squared_l2_norm",
    summary: "sum of squares",
    description: "`y = Σ x²`, one element. Over sharded dimensions it is a partial sum.",
    operands: &[one("x", "floats")],
    results: &[one("y", "`tensor<1x…>` of x's element type")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_squared_l2_norm),
    eval: Some(reference::amp::squared_l2_norm),
    gradient: Some(gradient_squared_l2_norm),
    layout: Some(layout_squared_l2_norm),
    ..OpDef::NONE
};

/// `dist.clip_by_norm`
pub const CLIP_BY_NORM: OpDef = OpDef {
    name: "dist.clip_by_norm",
    summary: "limits a tensor's norm",
    description: "`y = x · max_norm / ‖x‖₂` if the norm exceeds `max_norm`, else x. The norm is of the local tensor.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    attrs: &[attr("max_norm", AttrKind::F64, "the largest norm, above 0")],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same)),
    infer: Some(infer_clip_by_norm),
    eval: Some(reference::amp::clip_by_norm),
    no_gradient: Some(ON_GRADIENTS),
    layout: Some(layout_clip_by_norm),
    ..OpDef::NONE
};

fn infer_check_finite_and_unscale(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let (x, scale) = (cx.args.one("x")?, cx.args.one("scale")?);
    expect_float("x", x)?;
    expect_float("scale", scale)?;
    expect_one_element("scale", scale)?;
    Ok(vec![x.clone(), TensorType::new([1], DType::Bool)])
}

fn infer_update_loss_scaling(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let [x, scale, good, bad] = [
        cx.args.one("x")?,
        cx.args.one("scale")?,
        cx.args.one("good")?,
        cx.args.one("bad")?,
    ];
    expect_float("x", x)?;
    expect_flags("found_inf", cx.args.one("found_inf")?)?;
    expect_float("scale", scale)?;
    expect_ints("good", good)?;
    expect_ints("bad", bad)?;
    for name in ["found_inf", "scale", "good", "bad"] {
        expect_one_element(name, cx.args.one(name)?)?;
    }
    Ok([x, scale, good, bad].map(Clone::clone).to_vec())
}

fn infer_squared_l2_norm(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    Ok(vec![TensorType::new([1], x.dtype)])
}

fn infer_clip_by_norm(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    let max = cx.attrs.float("max_norm")?;
    if max > 0.0 {
        Ok(vec![x.clone()])
    } else {
        Err(Error::op(
            "E0316",
            format!("has 'max_norm' {max}, which is not above 0"),
        ))
    }
}

fn layout_check_finite_and_unscale(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|ax| {
        ax.whole("scale")?;
        let x = ax.spread("x")?;
        let found = match x {
            Spread::Replicated => x,
            Spread::Sharded(_) => Spread::Partial(Reduction::Any),
            Spread::Partial(r) => return Err(ax.partial_error("x", r)),
            Spread::Own => return Err(ax.own_error("x")),
        };
        Ok(vec![x, found])
    })
}

fn layout_update_loss_scaling(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|ax| {
        for name in ["found_inf", "scale", "good", "bad"] {
            ax.whole(name)?;
        }
        let whole = Spread::Replicated;
        Ok(vec![ax.spread("x")?, whole, whole, whole])
    })
}

fn layout_squared_l2_norm(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|ax| match ax.spread("x")? {
        Spread::Sharded(_) => Ok(vec![Spread::Partial(Reduction::Sum)]),
        Spread::Partial(r) => Err(ax.partial_error("x", r)),
        spread => Ok(vec![spread]),
    })
}

/// The norm is that of the local tensor, so pieces stay pieces.
fn layout_clip_by_norm(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    pointwise(cx, |_| false)
}

/// `dx = 2 · dout · x`
fn gradient_squared_l2_norm(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, dout) = (cx.operand("x")?, cx.dout("y")?);
    let mut twice = cx.builder.scaled(dout, 2.0)?;
    let ty = cx.builder.ty(x)?;
    if ty.rank() == 0 {
        let scalar = cx.emit("dist.reshape")?.one(twice);
        twice = scalar.tensor(&[], ty.dtype).value()?;
    }
    let dx = cx.emit("dist.mul")?.one(x).one(twice).value()?;
    Ok(vec![Some(dx)])
}

/// The family.
pub static OPS: &[OpDef] = &[
    CHECK_FINITE_AND_UNSCALE,
    UPDATE_LOSS_SCALING,
    SQUARED_L2_NORM,
    CLIP_BY_NORM,
];
