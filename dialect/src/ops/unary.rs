//! Functions of one tensor, element by element, and their gradients.

use super::gradient::of_input;
use super::infer::{expect_float, expect_number, same_type};
use super::parts::{attr, attr_or, flag, one};
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
    layout: Some(layout_cast),
    ..OpDef::NONE
};

/// `dist.gelu`
pub const GELU: OpDef = OpDef {
    name: "dist.gelu",
    summary: "Gaussian error linear unit",
    description: "\
`y = x·½(1 + erf(x/√2))`, or with `approximate` `y = ½x(1 + tanh(√(2/π)(x + 0.044715x³)))` (Hendrycks and Gimpel, 2016).",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    attrs: &[flag("approximate", "the tanh form")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::gelu),
    layout: Some(layout_nonlinear),
    gradient: Some(gradient_gelu),
    ..OpDef::NONE
};

/// `dist.gelu_grad`
pub const GELU_GRAD: OpDef = OpDef {
    name: "dist.gelu_grad",
    summary: "gradient of gelu",
    description: "\
`dx = dout · gelu′(x)`: `½(1 + erf(x/√2)) + x·exp(−x²/2)/√(2π)`, or the derivative of the tanh form.",
    operands: &[
        one("x", "input of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    attrs: &[flag("approximate", "as in the forward op")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::gelu_grad),
    layout: Some(layout_grad),
    ..OpDef::NONE
};

/// `dist.relu`
pub const RELU: OpDef = OpDef {
    name: "dist.relu",
    summary: "rectified linear unit",
    description: "`y = max(x, 0)`.",
    operands: &[one("x", "any numbers")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_number),
    eval: Some(reference::elementwise::relu),
    layout: Some(layout_monotone),
    gradient: Some(gradient_relu),
    ..OpDef::NONE
};

/// `dist.relu_grad`
pub const RELU_GRAD: OpDef = OpDef {
    name: "dist.relu_grad",
    summary: "gradient of relu",
    description: "`dx = dout` where `x > 0`, else 0. The output of relu serves as x just as well.",
    operands: &[
        one("x", "input (or output) of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::relu_grad),
    layout: Some(layout_grad),
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
    layout: Some(layout_monotone),
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
    layout: Some(layout_identity),
    ..OpDef::NONE
};

fn infer_identity(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    Ok(vec![cx.args.one("x")?.clone()])
}

fn infer_number(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_number("x", cx.args.one("x")?)?;
    infer_identity(cx)
}

fn infer_float(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_float("x", cx.args.one("x")?)?;
    infer_identity(cx)
}

fn infer_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    same_type(cx, "x", "dout")?;
    infer_float(cx)
}

fn infer_cast(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let dtype = cx.given("y")?.dtype;
    Ok(vec![TensorType::new(&cx.args.one("x")?.shape[..], dtype)])
}

fn infer_clip(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let (min, max) = (cx.attrs.float("min")?, cx.attrs.float("max")?);
    if min <= max {
        infer_number(cx)
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

fn layout_nonlinear(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    pointwise(cx, |_| false)
}

fn layout_monotone(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
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
fn layout_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let out = labels(cx.args.one("x")?.ty.rank());
    cx.per_axis(|ax| {
        let (x, dout) = (ax.term("x", out.clone())?, ax.term("dout", out.clone())?);
        match x.spread {
            Spread::Partial(reduction) => Err(ax.partial_error("x", reduction)),
            _ => Ok(vec![ax.product(&x, &dout, &out)?]),
        }
    })
}

fn gradient_gelu(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.gelu_grad", &["approximate"])
}

fn gradient_relu(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.relu_grad", &[])
}

/// The family.
pub static OPS: &[OpDef] = &[
    SCALE, CAST, GELU, GELU_GRAD, RELU, RELU_GRAD, SQRT, CLIP, IDENTITY,
];
