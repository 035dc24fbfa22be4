//! Softmax, and the loss that is made of it.

use super::infer::{expect_float, expect_ints, expect_shape, same_type};
use super::normalisation::statistics_dtype;
use super::parts::{SECOND_ORDER, attr, attr_or, one};
use super::rules::{AxisCx, LayoutCx, Term, labels};
use super::shape::dimension;
use super::{
    AttrDef, AttrDefault, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));
const OVER: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature).over("axes"));
const DIM: AttrDef = attr(
    "dim",
    AttrKind::I64,
    "the dimension whose elements add up to 1",
);

/// `dist.softmax`
pub const SOFTMAX: OpDef = OpDef {
    name: "dist.softmax",
    summary: "normalised exponentials along a dimension",
    description: "\
`y = e^(x − m) / Σ e^(x − m)` with `m = max x`, sum and maximum along `dim`, which must not be sharded.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    attrs: &[DIM],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_softmax),
    eval: Some(reference::softmax::softmax),
    gradient: Some(gradient_softmax),
    layout: Some(layout_softmax),
    ..OpDef::NONE
};

/// `dist.softmax_grad`
pub const SOFTMAX_GRAD: OpDef = OpDef {
    name: "dist.softmax_grad",
    summary: "gradient of softmax",
    description: "`dx = y · (dy − Σ dy · y)`, the sum along `dim`.",
    operands: &[
        one("y", "output of the forward op"),
        one("dy", "gradient of y"),
    ],
    results: &[one("dx", "y's type")],
    attrs: &[DIM],
    effects: Effects::Pure,
    pretty: SAME,
    infer: Some(infer_softmax_grad),
    eval: Some(reference::softmax::softmax_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_softmax_grad),
    ..OpDef::NONE
};

const LOSS: &[AttrDef] = &[
    attr_or(
        "axes",
        AttrKind::Axes,
        AttrDefault::EmptyArray,
        "the mesh axes that cut the vocabulary, none if every rank has all of it",
    ),
    attr_or(
        "ignore_index",
        AttrKind::I64,
        AttrDefault::I64(-100),
        "the label of positions that do not count",
    ),
];

/// `dist.softmax_cross_entropy`
pub const SOFTMAX_CROSS_ENTROPY: OpDef = OpDef {
    name: "dist.softmax_cross_entropy",
    summary: "negative logarithm of the softmax at the label",
    description: "\
`loss = ln Σ e^(x − m) + m − x[label]` with `m = max x` over the vocabulary, the last dimension of the logits x; 0 where the label is \
`ignore_index`. Any other label outside of the vocabulary is an error when it runs. Logits are `[…, vocabulary]`, labels and loss \
`[…]`; the loss is f32 if the logits are f16 or bf16. With `axes` each rank has its piece of the vocabulary, in group order, and \
the group reduces maximum, sum and the label's logit, so that logits are never gathered (Megatron-LM's vocab-parallel cross \
entropy; Shoeybi et al., 2019). Without them a group is one rank, and nothing is sent.",
    operands: &[
        one("logits", "`[…, vocabulary]`, floats"),
        one(
            "labels",
            "`[…]`, integers that count through the whole vocabulary",
        ),
    ],
    results: &[
        one("loss", "`[…]`"),
        one("softmax", "softmax of the logits, their type"),
    ],
    attrs: LOSS,
    effects: Effects::Communicates,
    pretty: OVER,
    infer: Some(infer_loss),
    eval: Some(reference::softmax::cross_entropy_alone),
    combine: Some(reference::softmax::cross_entropy),
    gradient: Some(gradient_cross_entropy),
    layout: Some(layout_loss),
    ..OpDef::NONE
};

/// `dist.softmax_cross_entropy_grad`
pub const SOFTMAX_CROSS_ENTROPY_GRAD: OpDef = OpDef {
    name: "dist.softmax_cross_entropy_grad",
    summary: "gradient of softmax_cross_entropy",
    description: "\
`dlogits = (softmax − 1[label]) · dloss`, 0 where the label is `ignore_index`. With `axes` the rank's coordinate says where its \
piece of the vocabulary begins; nothing is sent.",
    operands: &[
        one("softmax", "from the forward op"),
        one("labels", "as in the forward op"),
        one("dloss", "gradient of the loss, `[…]`"),
    ],
    results: &[one("dlogits", "softmax's type")],
    attrs: LOSS,
    effects: Effects::Pure,
    pretty: OVER,
    infer: Some(infer_loss_grad),
    eval: Some(reference::softmax::cross_entropy_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_loss_grad),
    ..OpDef::NONE
};

fn infer_softmax(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    dimension(cx.attrs, "dim", x.rank())?;
    Ok(vec![x.clone()])
}

fn infer_softmax_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let y = cx.args.one("y")?;
    expect_float("y", y)?;
    same_type(cx, "y", "dy")?;
    dimension(cx.attrs, "dim", y.rank())?;
    Ok(vec![y.clone()])
}

/// The mesh axes of `axes`, of which there may be none.
pub(super) fn check_axes(cx: &InferCx) -> Result<(), Error> {
    let axes = cx.attrs.strings("axes")?;
    if axes.is_empty() {
        return Ok(());
    }
    cx.mesh()?.axis_set(&axes).map(|_| ())
}

/// Shape of the labels: that of the logits without the vocabulary.
fn positions<'a>(cx: &InferCx<'a>, logits: &str) -> Result<&'a [i64], Error> {
    check_axes(cx)?;
    let ty = cx.args.one(logits)?;
    expect_float(logits, ty)?;
    let [positions @ .., _] = &ty.shape[..] else {
        let message = format!("operand '{logits}' has no dimension for the vocabulary");
        return Err(Error::op("E0313", message));
    };
    let labels = cx.args.one("labels")?;
    expect_ints("labels", labels)?;
    expect_shape("labels", labels, positions)?;
    Ok(positions)
}

fn infer_loss(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let positions = positions(cx, "logits")?;
    let logits = cx.args.one("logits")?;
    Ok(vec![
        TensorType::new(positions, statistics_dtype(logits.dtype)),
        logits.clone(),
    ])
}

fn infer_loss_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let positions = positions(cx, "softmax")?;
    expect_float("dloss", cx.args.one("dloss")?)?;
    expect_shape("dloss", cx.args.one("dloss")?, positions)?;
    Ok(vec![cx.args.one("softmax")?.clone()])
}

/// The normalised dimension is not cut.
fn whole_along(ax: &AxisCx, name: &'static str, dim: usize) -> Result<(), Error> {
    match ax.spread(name)? {
        Spread::Sharded(d) if d == dim => Err(ax.sharded_error(name, d)),
        _ => Ok(()),
    }
}

fn layout_softmax(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let rank = cx.args.one("x")?.ty.rank();
    let dim = dimension(cx.attrs, "dim", rank)?;
    cx.per_axis(|ax| {
        whole_along(ax, "x", dim)?;
        match ax.spread("x")? {
            Spread::Partial(reduction) => Err(ax.partial_error("x", reduction)),
            spread => Ok(vec![spread]),
        }
    })
}

fn layout_softmax_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let rank = cx.args.one("y")?.ty.rank();
    let dim = dimension(cx.attrs, "dim", rank)?;
    let out = labels(rank);
    cx.per_axis(|ax| {
        whole_along(ax, "y", dim)?;
        let (y, dy) = (ax.term("y", out.clone())?, ax.term("dy", out.clone())?);
        match y.spread {
            Spread::Partial(reduction) => Err(ax.partial_error("y", reduction)),
            _ => Ok(vec![ax.product(&y, &dy, &out)?]),
        }
    })
}

/// Along an axis that cuts the vocabulary the logits are cut and all else is whole; along others they are cut alike or not at all,
/// and never along the vocabulary. Gives the spread of logits and labels.
fn vocabulary(ax: &AxisCx, group: &[usize], logits: &'static str) -> Result<Term, Error> {
    let rank = ax.cx.args.one(logits)?.ty.rank();
    let vocabulary = rank - 1;
    let mut x = ax.term(logits, labels(rank))?;
    if group.contains(&ax.axis) {
        ax.whole("labels")?;
        return match x.spread {
            Spread::Sharded(d) if d == vocabulary => Ok(x),
            Spread::Partial(reduction) => Err(ax.partial_error(logits, reduction)),
            Spread::Own => Err(ax.own_error(logits)),
            _ => Err(Error::op(
                "E0344",
                format!(
                    "meets over axis '{}', which does not cut the vocabulary of '{logits}'",
                    ax.axis_name()
                ),
            )
            .with_help("`axes` names the mesh axes that cut the last dimension of the logits")),
        };
    }
    if x.spread == Spread::Sharded(vocabulary) {
        return Err(ax.sharded_error(logits, vocabulary).with_help(format!(
            "`over [\"{}\"]` computes the loss from pieces of the vocabulary",
            ax.axis_name()
        )));
    }
    let given = ax.term("labels", labels(vocabulary))?;
    x.spread = ax.elementwise(&[&x, &given], &labels(rank))?;
    Ok(x)
}

fn layout_loss(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let group = cx.group()?;
    let last = cx.args.one("logits")?.ty.rank() - 1;
    cx.counts_pieces("logits", last, &group)?;
    cx.per_axis(|ax| {
        let logits = vocabulary(ax, &group, "logits")?.spread;
        let loss = match group.contains(&ax.axis) {
            true => Spread::Replicated,
            false => logits,
        };
        Ok(vec![loss, logits])
    })
}

fn layout_loss_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let group = cx.group()?;
    let out = labels(cx.args.one("softmax")?.ty.rank());
    cx.counts_pieces("softmax", out.len() - 1, &group)?;
    cx.per_axis(|ax| {
        let softmax = vocabulary(ax, &group, "softmax")?;
        let dloss = ax.term("dloss", out[..out.len() - 1].to_vec())?;
        Ok(vec![ax.product(&softmax, &dloss, &out)?])
    })
}

fn gradient_softmax(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, y, dy) = (cx.op(), cx.result("y")?, cx.dout("y")?);
    let dx = cx.emit("dist.softmax_grad")?.one(y).one(dy);
    Ok(vec![Some(dx.like(op, &["dim"]).value()?)])
}

fn gradient_cross_entropy(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    cx.unused(&["softmax"])?;
    let (op, dloss) = (cx.op(), cx.dout("loss")?);
    let (softmax, labels) = (cx.result("softmax")?, cx.operand("labels")?);
    let dlogits = cx
        .emit("dist.softmax_cross_entropy_grad")?
        .each(&[softmax, labels, dloss])
        .like(op, &["axes", "ignore_index"])
        .value()?;
    Ok(vec![Some(dlogits), None])
}

/// The family.
pub static OPS: &[OpDef] = &[
    SOFTMAX,
    SOFTMAX_GRAD,
    SOFTMAX_CROSS_ENTROPY,
    SOFTMAX_CROSS_ENTROPY_GRAD,
];
