//! Gradients of arithmetic with broadcast.

use super::elementwise::infer_binary;
use super::infer::{expect_number, expect_shape, same_dtype};
use super::parts::{SECOND_ORDER, one, optional};
use super::rules::{AxisCx, LayoutCx, labels};
use super::{Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

/// What all share.
const GRADIENT: OpDef = OpDef {
    results: &[
        optional("da", "gradient of a, a's type"),
        optional("db", "gradient of b, b's type"),
    ],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature)),
    no_gradient: Some(SECOND_ORDER),
    ..OpDef::NONE
};

/// `dist.add_grad`
pub const ADD_GRAD: OpDef = OpDef {
    name: "dist.add_grad",
    summary: "gradients of a sum",
    description: "\
da is dout summed over the dimensions along which a was broadcast, db likewise. The values of a and b are not read, only \
their shapes.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the sum"),
    ],
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::add_grad),
    layout: Some(layout_add_grad),
    ..GRADIENT
};

/// `dist.mul_grad`
pub const MUL_GRAD: OpDef = OpDef {
    name: "dist.mul_grad",
    summary: "gradients of a product",
    description: "\
da is `dout · b` summed over the dimensions along which a was broadcast, db is `dout · a` summed likewise.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the product"),
    ],
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::mul_grad),
    layout: Some(layout_mul_grad),
    ..GRADIENT
};

/// `dist.div_grad`
pub const DIV_GRAD: OpDef = OpDef {
    name: "dist.div_grad",
    summary: "gradients of a quotient",
    description: "\
da is `dout / b` summed over the dimensions along which a was broadcast, db is `−dout · a / b²` summed likewise.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the quotient"),
    ],
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::div_grad),
    layout: Some(layout_div_grad),
    ..GRADIENT
};

/// `dist.maximum_grad`
pub const MAXIMUM_GRAD: OpDef = OpDef {
    name: "dist.maximum_grad",
    summary: "gradients of a maximum",
    description: "\
dout goes to the larger operand, and half to each where both are equal; da and db are summed over the dimensions along which \
their operand was broadcast.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the maximum"),
    ],
    infer: Some(infer_grad),
    eval: Some(reference::elementwise::maximum_grad),
    layout: Some(layout_nonlinear_grad),
    ..GRADIENT
};

fn infer_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_number("a", cx.args.one("a")?)?;
    let c = &infer_binary(cx)?[0];
    same_dtype(cx, "a", "dout")?;
    expect_shape("dout", cx.args.one("dout")?, &c.shape)?;
    cx.gradients(&[("a", "da"), ("b", "db")])
}

fn layout_add_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let shape = &cx.args.one("dout")?.ty.shape;
    cx.per_axis(|ax| {
        let dout = ax.broadcast("dout", shape)?;
        let mut spreads = Vec::new();
        for (operand, result) in [("a", "da"), ("b", "db")] {
            let operand = ax.broadcast(operand, shape)?;
            ax.shape_of(&operand, &dout)?;
            if cx.results.has(result) {
                spreads.push(ax.sum_of(&dout, &operand.labels)?);
            }
        }
        Ok(spreads)
    })
}

fn layout_mul_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let shape = &cx.args.one("dout")?.ty.shape;
    cx.per_axis(|ax| {
        let dout = ax.broadcast("dout", shape)?;
        let (a, b) = (ax.broadcast("a", shape)?, ax.broadcast("b", shape)?);
        let mut spreads = Vec::new();
        for (operand, other, result) in [(&a, &b, "da"), (&b, &a, "db")] {
            ax.shape_of(operand, &dout)?;
            if cx.results.has(result) {
                spreads.push(ax.product(&dout, other, &operand.labels)?);
            }
        }
        Ok(spreads)
    })
}

/// As for the forward op a may be partial: da does not depend on it, and db is linear in it.
fn layout_div_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let layouts = layout_mul_grad(cx)?;
    for (axis, &size) in cx.mesh.sizes().iter().enumerate() {
        if let Spread::Partial(reduction) = cx.args.one("b")?.layout.on(axis)
            && size > 1
        {
            let ax = AxisCx { cx, axis };
            return Err(ax.partial_error("b", reduction));
        }
    }
    Ok(layouts)
}

/// `dout` times a function of both operands, neither of which is partial.
fn layout_nonlinear_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let shape = &cx.args.one("dout")?.ty.shape;
    let out = labels(shape.len());
    cx.per_axis(|ax| {
        let dout = ax.broadcast("dout", shape)?;
        let (a, b) = (ax.broadcast("a", shape)?, ax.broadcast("b", shape)?);
        let mut slope = dout.clone();
        slope.name = "the operands";
        slope.labels = out.clone();
        slope.spread = ax.elementwise(&[&a, &b], &out)?;
        let mut spreads = Vec::new();
        for (operand, result) in [(&a, "da"), (&b, "db")] {
            if let Spread::Sharded(dim) = operand.spread
                && operand.labels[dim].is_none()
            {
                return Err(ax.sharded_error(operand.name, dim));
            }
            if cx.results.has(result) {
                spreads.push(ax.product(&dout, &slope, &operand.labels)?);
            }
        }
        Ok(spreads)
    })
}

/// The family.
pub static OPS: &[OpDef] = &[ADD_GRAD, MUL_GRAD, DIV_GRAD, MAXIMUM_GRAD];
