//! Functions of one tensor, element by element, and their gradients.

use super::gradient::of_input;
use super::infer::{expect_float, expect_number, same_type};
use super::parts::{SECOND_ORDER, attr, attr_or, one};
use super::rules::{LayoutCx, is_monotone, labels, pointwise};
use super::{
    AttrDefault, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::{DType, TensorType};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));
const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));

/// `dist.scale`
pub const SCALE: OpDef = OpDef {
    name: "dist.scale",
    summary: "multiplies by a constant and adds one",
    description: "\
`y = scale · x + bias`, or `scale · (x + bias)` if `bias_after_scale` is false. x may be partial if bias is 0.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's type")],
    attrs: &[
        attr("scale", AttrKind::F64, "the factor"),
        attr_or("bias", AttrKind::F64, AttrDefault::F64(0.0), "the summand"),
        attr_or(
            "bias_after_scale",
            AttrKind::Bool,
            AttrDefault::Bool(true),
            "whether the summand is added last",
        ),
    ],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_number),
    eval: Some(reference::elementwise::scale),
    gradient: Some(gradient_scale),
    layout: Some(layout_scale),
    ..OpDef::NONE
};

/// `dist.cast`
pub const CAST: OpDef = OpDef {
    name: "dist.cast",
    summary: "converts the elements",
    description: "\
The same shape with another element type: to nearest even between floats, towards zero from float to integer (saturating, \
NaN to 0), modulo the width between integers, `x ≠ 0` to `i1`, 0 or 1 from `i1`. A sum stays partial through a cast between \
floats (which ignores the order of rounding).",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's shape, any element type")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_cast),
    eval: Some(reference::elementwise::cast),
    gradient: Some(gradient_cast),
    layout: Some(layout_cast),
    ..OpDef::NONE
};

/// `dist.sqrt`
pub const SQRT: OpDef = OpDef {
    name: "dist.sqrt",
    summary: "square root",
    description: "`y = √x`; NaN for negative x.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::sqrt),
    gradient: Some(gradient_sqrt),
    layout: Some(layout_monotone),
    ..OpDef::NONE
};

/// `dist.rsqrt`
pub const RSQRT: OpDef = OpDef {
    name: "dist.rsqrt",
    summary: "reciprocal of the square root",
    description: "`y = 1/√x`; infinite at 0, NaN for negative x.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::rsqrt),
    gradient: Some(gradient_rsqrt),
    layout: Some(layout_nonlinear),
    ..OpDef::NONE
};

/// `dist.exp`
pub const EXP: OpDef = OpDef {
    name: "dist.exp",
    summary: "exponential",
    description: "`y = eˣ`.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::exp),
    gradient: Some(gradient_exp),
    layout: Some(layout_monotone),
    ..OpDef::NONE
};

/// `dist.log`
pub const LOG: OpDef = OpDef {
    name: "dist.log",
    summary: "natural logarithm",
    description: "`y = ln x`; −∞ at 0, NaN for negative x.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::log),
    gradient: Some(gradient_log),
    layout: Some(layout_monotone),
    ..OpDef::NONE
};

/// `dist.clip`
pub const CLIP: OpDef = OpDef {
    name: "dist.clip",
    summary: "limits each element",
    description: "`y = min(max(x, min), max)`; NaN stays NaN.",
    operands: &[one("x", "any numbers")],
    results: &[one("y", "x's type")],
    attrs: &[
        attr("min", AttrKind::F64, "the lower limit"),
        attr("max", AttrKind::F64, "the upper limit, not below `min`"),
    ],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_clip),
    eval: Some(reference::elementwise::clip),
    gradient: Some(gradient_clip),
    layout: Some(layout_monotone),
    ..OpDef::NONE
};

/// `dist.clip_grad`
pub const CLIP_GRAD: OpDef = OpDef {
    name: "dist.clip_grad",
    summary: "gradient of clip",
    description: "`dx = dout` where `min ≤ x ≤ max`, else 0.",
    operands: &[
        one("x", "input of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    attrs: CLIP.attrs,
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_clip_grad),
    eval: Some(reference::elementwise::clip_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_grad),
    ..OpDef::NONE
};

/// `dist.identity`
pub const IDENTITY: OpDef = OpDef {
    name: "dist.identity",
    summary: "the same value",
    description: "`y = x`: what remains of a copy in the imported program (Paddle's assign, nop, memcpy_d2h).",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_identity),
    eval: Some(reference::elementwise::identity),
    gradient: Some(gradient_identity),
    layout: Some(layout_identity),
    ..OpDef::NONE
};

fn infer_identity(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    Ok(vec![cx.args.one("x")?.clone()])
}

pub(super) fn infer_number(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_number("x", cx.args.one("x")?)?;
    infer_identity(cx)
}

pub(super) fn infer_float(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_float("x", cx.args.one("x")?)?;
    infer_identity(cx)
}

pub(super) fn infer_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    infer_grad_at(cx, "x")
}

/// A gradient made of `dout` and another operand of its type.
pub(super) fn infer_grad_at(cx: &InferCx, operand: &str) -> Result<Vec<TensorType>, Error> {
    same_type(cx, operand, "dout")?;
    let ty = cx.args.one(operand)?;
    expect_float(operand, ty)?;
    Ok(vec![ty.clone()])
}

fn infer_cast(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let dtype = cx.given("y")?.dtype;
    Ok(vec![TensorType::new(&cx.args.one("x")?.shape[..], dtype)])
}

fn infer_clip(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_limits(cx)?;
    infer_number(cx)
}

fn infer_clip_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_limits(cx)?;
    infer_grad(cx)
}

fn check_limits(cx: &InferCx) -> Result<(), Error> {
    let (min, max) = (cx.attrs.float("min")?, cx.attrs.float("max")?);
    if min <= max {
        Ok(())
    } else {
        Err(Error::op(
            "E0316",
            format!("has limits {min} and {max} in the wrong order"),
        ))
    }
}

fn layout_identity(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    pointwise(cx, |_| true)
}

pub(super) fn layout_nonlinear(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    pointwise(cx, |_| false)
}

pub(super) fn layout_monotone(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    pointwise(cx, is_monotone)
}

fn layout_scale(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let (scale, bias) = (cx.attrs.float("scale")?, cx.attrs.float("bias")?);
    pointwise(cx, |reduction| match reduction {
        Reduction::Sum => bias == 0.0,
        Reduction::Avg => true,
        reduction => is_monotone(reduction) && scale >= 0.0,
    })
}

fn layout_cast(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let from = cx.args.one("x")?.ty.dtype;
    let to = cx.results.one("y")?.dtype;
    cx.per_axis(|ax| {
        let spread = ax.spread("x")?;
        let Spread::Partial(reduction) = spread else {
            return Ok(vec![spread]);
        };
        // A flag that is set somewhere is a number whose maximum is 1, and the other way round.
        if from == DType::Bool && to != DType::Bool && reduction == Reduction::Any {
            return Ok(vec![Spread::Partial(Reduction::Max)]);
        }
        let passes = match (from, to) {
            (a, b) if a == b => true,
            (_, DType::Bool) => false,
            (a, b) if a.is_float() && !b.is_float() => is_monotone(reduction),
            _ => reduction.is_linear() || is_monotone(reduction),
        };
        match passes {
            true => Ok(vec![spread]),
            false => Err(ax.partial_error("x", reduction)),
        }
    })
}

/// `dout` times a function of `x`.
pub(super) fn layout_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_grad_at(cx, "x")
}

/// `dout` times a function of another operand.
pub(super) fn layout_grad_at(cx: &LayoutCx, operand: &'static str) -> Result<Vec<Layout>, Error> {
    let out = labels(cx.args.one(operand)?.ty.rank());
    cx.per_axis(|ax| {
        let x = ax.term(operand, out.clone())?;
        let dout = ax.term("dout", out.clone())?;
        match x.spread {
            Spread::Partial(reduction) => Err(ax.partial_error(operand, reduction)),
            _ => Ok(vec![ax.product(&x, &dout, &out)?]),
        }
    })
}

fn gradient_scale(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (factor, dout) = (cx.attrs(|a| a.float("scale"))?, cx.dout("y")?);
    Ok(vec![Some(cx.builder.scaled(dout, factor)?)])
}

/// Only what is a float on both sides varies.
fn gradient_cast(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, dout) = (cx.operand("x")?, cx.dout("y")?);
    let (from, to) = (cx.builder.ty(x)?.dtype, cx.builder.ty(dout)?.dtype);
    if !from.is_float() || !to.is_float() {
        return Ok(vec![None]);
    }
    Ok(vec![Some(cx.builder.cast(dout, from)?)])
}

/// `dx = ½ · dout / y`
fn gradient_sqrt(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (y, dout) = (cx.result("y")?, cx.dout("y")?);
    let half = cx.builder.scaled(dout, 0.5)?;
    Ok(vec![Some(cx.emit("dist.div")?.one(half).one(y).value()?)])
}

/// `dx = −½ · dout · y / x`
fn gradient_rsqrt(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, y, dout) = (cx.operand("x")?, cx.result("y")?, cx.dout("y")?);
    let half = cx.builder.scaled(dout, -0.5)?;
    let product = cx.emit("dist.mul")?.one(half).one(y).value()?;
    let dx = cx.emit("dist.div")?.one(product).one(x).value()?;
    Ok(vec![Some(dx)])
}

fn gradient_exp(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (y, dout) = (cx.result("y")?, cx.dout("y")?);
    Ok(vec![Some(cx.emit("dist.mul")?.one(dout).one(y).value()?)])
}

fn gradient_log(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, dout) = (cx.operand("x")?, cx.dout("y")?);
    Ok(vec![Some(cx.emit("dist.div")?.one(dout).one(x).value()?)])
}

fn gradient_clip(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.clip_grad", &["min", "max"])
}

fn gradient_identity(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    Ok(vec![Some(cx.dout("y")?)])
}

/// The family.
pub static OPS: &[OpDef] = &[
    SCALE, CAST, SQRT, RSQRT, EXP, LOG, CLIP, CLIP_GRAD, IDENTITY,
];
