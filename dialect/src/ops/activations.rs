//! Activations: nonlinear functions of one tensor, element by element, and their gradients.

use super::gradient::of_input;
use super::parts::{SECOND_ORDER, flag, one};
use super::rules::LayoutCx;
use super::unary::{
    infer_float, infer_grad, infer_grad_at, infer_number, layout_grad, layout_grad_at,
    layout_monotone, layout_nonlinear,
};
use super::{Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::Layout;
use crate::reference;
use crate::tensor_type::TensorType;

const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));

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
    gradient: Some(gradient_gelu),
    layout: Some(layout_nonlinear),
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
    no_gradient: Some(SECOND_ORDER),
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
    gradient: Some(gradient_relu),
    layout: Some(layout_monotone),
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
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_grad),
    ..OpDef::NONE
};

/// `dist.silu`
pub const SILU: OpDef = OpDef {
    name: "dist.silu",
    summary: "sigmoid linear unit",
    description: "`y = x/(1 + e⁻ˣ)` (swish with β = 1; Hendrycks and Gimpel, 2016; Ramachandran, Zoph and Le, 2017).",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::silu),
    gradient: Some(gradient_silu),
    layout: Some(layout_nonlinear),
    ..OpDef::NONE
};

/// `dist.silu_grad`
pub const SILU_GRAD: OpDef = OpDef {
    name: "dist.silu_grad",
    summary: "gradient of silu",
    description: "`dx = dout · s(1 + x(1 − s))` with `s = 1/(1 + e⁻ˣ)`.",
    operands: &[
        one("x", "input of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::silu_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_grad),
    ..OpDef::NONE
};

/// `dist.tanh`
pub const TANH: OpDef = OpDef {
    name: "dist.tanh",
    summary: "hyperbolic tangent",
    description: "`y = tanh x`.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_float),
    eval: Some(reference::elementwise::tanh),
    gradient: Some(gradient_tanh),
    layout: Some(layout_monotone),
    ..OpDef::NONE
};

/// `dist.tanh_grad`
pub const TANH_GRAD: OpDef = OpDef {
    name: "dist.tanh_grad",
    summary: "gradient of tanh",
    description: "`dx = dout · (1 − y²)`, from the output of the forward op.",
    operands: &[
        one("y", "output of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "y's type")],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_output_grad),
    eval: Some(reference::elementwise::tanh_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_output_grad),
    ..OpDef::NONE
};

fn infer_output_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    infer_grad_at(cx, "y")
}

fn layout_output_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_grad_at(cx, "y")
}

fn gradient_gelu(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.gelu_grad", &["approximate"])
}

fn gradient_relu(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.relu_grad", &[])
}

fn gradient_silu(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.silu_grad", &[])
}

fn gradient_tanh(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (y, dout) = (cx.result("y")?, cx.dout("y")?);
    Ok(vec![Some(
        cx.emit("dist.tanh_grad")?.one(y).one(dout).value()?,
    )])
}

/// The family.
pub static OPS: &[OpDef] = &[
    GELU, GELU_GRAD, RELU, RELU_GRAD, SILU, SILU_GRAD, TANH, TANH_GRAD,
];
