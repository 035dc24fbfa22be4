//! Dropout. Its mask is counted, not drawn: a function of numbers that the program names, so that it is the same in every schedule
//! and when the forward pass is computed again.

use super::infer::{expect_flags, expect_float, same_shape};
use super::parts::{SECOND_ORDER, attr, attr_or, one};
use super::rules::{LayoutCx, labels};
use super::softmax::check_axes;
use super::{
    AttrDef, AttrDefault, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::{DType, TensorType};

/// The mesh axes along which ranks have masks of their own.
pub(super) const AXES: AttrDef = attr_or(
    "axes",
    AttrKind::Axes,
    AttrDefault::EmptyArray,
    "the mesh axes along which each rank has a mask of its own",
);

const RATE: AttrDef = attr(
    "rate",
    AttrKind::F64,
    "the probability that an element is dropped, in [0, 1)",
);

/// `dist.dropout`
pub const DROPOUT: OpDef = OpDef {
    name: "dist.dropout",
    summary: "zeroes elements at random",
    description: "\
`out = x / (1 − rate)` where mask is set, else 0 (Srivastava et al., 2014, scaled while training). The mask is a function of `seed`, \
the micro-batch's number since training began, the rank's coordinate on `axes` and the element's position in the rank's tensor, and \
of nothing else: neither of the schedule nor of where the op stands. Values that are whole along an axis need the same mask there, so that axis must not be in `axes`; \
along an axis that cuts x it should be.",
    operands: &[one("x", "floats")],
    results: &[
        one("out", "x's type"),
        one("mask", "`i1`, x's shape: set where an element is kept"),
    ],
    attrs: &[
        RATE,
        attr("seed", AttrKind::I64, "tells the program's masks apart"),
        AXES,
    ],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature).over("axes")),
    infer: Some(infer_dropout),
    eval: Some(reference::dropout::dropout),
    layout: Some(layout_dropout),
    gradient: Some(gradient_dropout),
    ..OpDef::NONE
};

/// `dist.dropout_grad`
pub const DROPOUT_GRAD: OpDef = OpDef {
    name: "dist.dropout_grad",
    summary: "gradient of dropout",
    description: "`dx = dout / (1 − rate)` where mask is set, else 0.",
    operands: &[
        one("dout", "gradient of the output"),
        one("mask", "from the forward op"),
    ],
    results: &[one("dx", "dout's type")],
    attrs: &[RATE],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature)),
    infer: Some(infer_dropout_grad),
    eval: Some(reference::dropout::dropout_grad),
    layout: Some(layout_dropout_grad),
    no_gradient: Some(SECOND_ORDER),
    ..OpDef::NONE
};

/// A probability of dropping, below 1.
pub(super) fn check_rate(cx: &InferCx, name: &str) -> Result<f64, Error> {
    let rate = cx.attrs.float(name)?;
    match (0.0..1.0).contains(&rate) {
        true => Ok(rate),
        false => Err(Error::op(
            "E0316",
            format!("has '{name}' {rate}, which is not in [0, 1)"),
        )),
    }
}

fn infer_dropout(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    check_rate(cx, "rate")?;
    check_axes(cx)?;
    Ok(vec![x.clone(), TensorType::new(&x.shape[..], DType::Bool)])
}

fn infer_dropout_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let dout = cx.args.one("dout")?;
    expect_float("dout", dout)?;
    expect_flags("mask", cx.args.one("mask")?)?;
    same_shape(cx, "dout", "mask")?;
    check_rate(cx, "rate")?;
    Ok(vec![dout.clone()])
}

fn layout_dropout(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let own = cx.group()?;
    cx.per_axis(|ax| {
        let mask = match own.contains(&ax.axis) {
            true => Spread::Own,
            false => Spread::Replicated,
        };
        Ok(match (ax.spread("x")?, mask) {
            (Spread::Sharded(d), _) => vec![Spread::Sharded(d); 2],
            (Spread::Partial(r), Spread::Replicated) if r.is_linear() => {
                vec![Spread::Partial(r), mask]
            }
            (Spread::Partial(r), _) => return Err(ax.partial_error("x", r)),
            (Spread::Own, _) => vec![Spread::Own, mask],
            (Spread::Replicated, _) => vec![mask; 2],
        })
    })
}

fn layout_dropout_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let all = labels(cx.args.one("dout")?.ty.rank());
    cx.per_axis(|ax| {
        let (dout, mask) = (ax.spread("dout")?, ax.spread("mask")?);
        if mask == Spread::Own && matches!(dout, Spread::Own | Spread::Replicated) {
            return Ok(vec![Spread::Own]);
        }
        let (dout, mask) = (ax.term("dout", all.clone())?, ax.term("mask", all.clone())?);
        Ok(vec![ax.product(&dout, &mask, &all)?])
    })
}

fn gradient_dropout(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (mask, op, dout) = (cx.result("mask")?, cx.op(), cx.dout("out")?);
    let dx = cx.emit("dist.dropout_grad")?.one(dout).one(mask);
    Ok(vec![Some(dx.like(op, &["rate"]).value()?)])
}

/// The family.
pub static OPS: &[OpDef] = &[DROPOUT, DROPOUT_GRAD];
