//! Reductions over dimensions of one tensor, and their gradients.

use super::attributes::Attrs;
use super::gradient::of_input;
use super::infer::{
    expect_flags, expect_float, expect_number, expect_shape, same_dtype, same_type,
};
use super::parts::{FLAGS, SECOND_ORDER, attr, flag, one};
use super::rules::LayoutCx;
use super::shape::distinct_dimensions;
use super::{AttrDef, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const ATTRS: &[AttrDef] = &[
    attr(
        "dims",
        AttrKind::I64Array,
        "the dimensions that go, distinct; all of them for a scalar",
    ),
    flag("keep_dims", "keep them with extent 1"),
];

/// What the forward ops share.
const REDUCTION: OpDef = OpDef {
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's shape without `dims`, or with extent 1 there")],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature)),
    ..OpDef::NONE
};

/// What the gradients share.
const GRADIENT: OpDef = OpDef {
    operands: &[
        one("x", "input of the forward op; only its shape is read"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    no_gradient: Some(SECOND_ORDER),
    ..REDUCTION
};

/// `dist.reduce_sum`
pub const REDUCE_SUM: OpDef = OpDef {
    name: "dist.reduce_sum",
    summary: "sum over dimensions",
    description: "`y = Σ x` over `dims`. Reducing a sharded dimension gives a partial sum.",
    infer: Some(infer_number),
    eval: Some(reference::reduce::sum),
    layout: Some(layout_sum),
    gradient: Some(gradient_sum),
    ..REDUCTION
};

/// `dist.reduce_mean`
pub const REDUCE_MEAN: OpDef = OpDef {
    name: "dist.reduce_mean",
    summary: "mean over dimensions",
    description: "`y = Σ x / n` over `dims`. Reducing a sharded dimension gives a partial mean.",
    infer: Some(infer_float),
    eval: Some(reference::reduce::mean),
    layout: Some(layout_mean),
    gradient: Some(gradient_mean),
    ..REDUCTION
};

/// `dist.reduce_max`
pub const REDUCE_MAX: OpDef = OpDef {
    name: "dist.reduce_max",
    summary: "maximum over dimensions",
    description: "`y = max x` over `dims`; NaN if any is NaN. Reducing a sharded dimension gives a partial maximum.",
    infer: Some(infer_number),
    eval: Some(reference::reduce::max),
    layout: Some(layout_max),
    gradient: Some(gradient_max),
    ..REDUCTION
};

/// `dist.reduce_any`
pub const REDUCE_ANY: OpDef = OpDef {
    name: "dist.reduce_any",
    summary: "whether any flag is set",
    description: "`y = x₀ or x₁ or …` over `dims`, on `i1`. Reducing a sharded dimension gives a partial or.",
    infer: Some(infer_flags),
    eval: Some(reference::reduce::any),
    no_gradient: Some(FLAGS),
    layout: Some(layout_any),
    ..REDUCTION
};

/// `dist.reduce_sum_grad`
pub const REDUCE_SUM_GRAD: OpDef = OpDef {
    name: "dist.reduce_sum_grad",
    summary: "gradient of reduce_sum",
    description: "dx is dout, repeated along `dims`.",
    infer: Some(infer_grad),
    eval: Some(reference::reduce::sum_grad),
    layout: Some(layout_grad),
    ..GRADIENT
};

/// `dist.reduce_mean_grad`
pub const REDUCE_MEAN_GRAD: OpDef = OpDef {
    name: "dist.reduce_mean_grad",
    summary: "gradient of reduce_mean",
    description: "dx is dout / n, repeated along `dims`, where n is the number of elements that each mean is taken of.",
    infer: Some(infer_grad),
    eval: Some(reference::reduce::mean_grad),
    layout: Some(layout_grad),
    ..GRADIENT
};

/// `dist.reduce_max_grad`
pub const REDUCE_MAX_GRAD: OpDef = OpDef {
    name: "dist.reduce_max_grad",
    summary: "gradient of reduce_max",
    description: "\
dx is dout where x is the maximum y, shared equally among equals, and 0 elsewhere. Where a reduced dimension is cut, equals on \
different ranks are not known to each other: each rank shares among its own.",
    operands: &[
        one("x", "input of the forward op"),
        one("y", "output of the forward op"),
        one("dout", "gradient of its output"),
    ],
    infer: Some(infer_max_grad),
    eval: Some(reference::reduce::max_grad),
    layout: Some(layout_max_grad),
    ..GRADIENT
};

/// Which dimensions of a value of this rank are reduced.
///
/// # Errors
/// `E0313` if `dims` names one that does not exist, or one twice.
pub(crate) fn reduced_dims(attrs: Attrs, rank: usize) -> Result<Vec<bool>, Error> {
    let mut reduced = vec![false; rank];
    for dim in distinct_dimensions(attrs, "dims", rank)? {
        reduced[dim] = true;
    }
    Ok(reduced)
}

/// The type of x without its reduced dimensions.
fn reduced(cx: &InferCx) -> Result<TensorType, Error> {
    let x = cx.args.one("x")?;
    let keep = cx.attrs.bool("keep_dims")?;
    let dims = reduced_dims(cx.attrs, x.rank())?;
    let extents = x.shape.iter().zip(dims);
    let kept = extents.filter_map(|(&extent, gone)| match gone {
        true => keep.then_some(1),
        false => Some(extent),
    });
    Ok(TensorType::new(kept.collect::<Vec<_>>(), x.dtype))
}

fn infer_number(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_number("x", cx.args.one("x")?)?;
    Ok(vec![reduced(cx)?])
}

fn infer_float(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_float("x", cx.args.one("x")?)?;
    Ok(vec![reduced(cx)?])
}

fn infer_flags(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_flags("x", cx.args.one("x")?)?;
    Ok(vec![reduced(cx)?])
}

fn infer_max_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    same_type(cx, "y", "dout")?;
    infer_grad(cx)
}

fn infer_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    same_dtype(cx, "x", "dout")?;
    expect_shape("dout", cx.args.one("dout")?, &reduced(cx)?.shape)?;
    Ok(vec![x.clone()])
}

/// Where each kept dimension of x goes; none for the reduced ones.
fn kept(cx: &LayoutCx) -> Result<Vec<Option<usize>>, Error> {
    let dims = reduced_dims(cx.attrs, cx.args.one("x")?.ty.rank())?;
    let keep = cx.attrs.bool("keep_dims")?;
    let mut next = 0;
    Ok(dims
        .into_iter()
        .map(|gone| {
            let at = (!gone).then_some(next);
            next += usize::from(keep || !gone);
            at
        })
        .collect())
}

/// Pieces become parts of the reduction; parts stay parts if `passes`.
fn layout_reduce(
    cx: &LayoutCx,
    reduction: Reduction,
    passes: impl Fn(Reduction) -> bool,
) -> Result<Vec<Layout>, Error> {
    let kept = kept(cx)?;
    cx.per_axis(|ax| match ax.spread("x")? {
        Spread::Sharded(d) => Ok(vec![match kept[d] {
            Some(to) => Spread::Sharded(to),
            None => Spread::Partial(reduction),
        }]),
        Spread::Partial(r) if !passes(r) => Err(ax.partial_error("x", r)),
        spread => Ok(vec![spread]),
    })
}

fn layout_sum(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_reduce(cx, Reduction::Sum, Reduction::is_linear)
}

fn layout_mean(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_reduce(cx, Reduction::Avg, Reduction::is_linear)
}

fn layout_max(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_reduce(cx, Reduction::Max, |r| r == Reduction::Max)
}

fn layout_any(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    layout_reduce(cx, Reduction::Any, |r| r == Reduction::Any)
}

/// dx is dout repeated; x says how the dimensions that come back are cut.
fn layout_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let kept = kept(cx)?;
    cx.per_axis(|ax| {
        let (x, dout) = (ax.spread("x")?, ax.spread("dout")?);
        Ok(vec![match (x, dout) {
            (_, Spread::Own) => return Err(ax.own_error("dout")),
            (Spread::Sharded(d), Spread::Replicated) if kept[d].is_none() => x,
            (Spread::Sharded(d), Spread::Sharded(e)) if kept[d] == Some(e) => x,
            (Spread::Sharded(_), Spread::Partial(r)) => return Err(ax.partial_error("dout", r)),
            (Spread::Sharded(d), _) => return Err(ax.sharded_error("x", d)),
            (_, Spread::Sharded(d)) => return Err(ax.sharded_error("dout", d)),
            (_, Spread::Partial(r)) if !r.is_linear() => return Err(ax.partial_error("dout", r)),
            (_, dout) => dout,
        }])
    })
}

/// As `layout_grad`; y is spread as what is left of x.
fn layout_max_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let kept = kept(cx)?;
    let layouts = layout_grad(cx)?;
    cx.per_axis(|ax| {
        let (x, y) = (ax.spread("x")?, ax.spread("y")?);
        let expected = match x {
            Spread::Partial(r) => return Err(ax.partial_error("x", r)),
            Spread::Own => return Err(ax.own_error("x")),
            Spread::Sharded(d) => kept[d].map_or(Spread::Replicated, Spread::Sharded),
            Spread::Replicated => x,
        };
        match y {
            _ if y == expected => Ok(vec![layouts[0].on(ax.axis)]),
            Spread::Partial(r) => Err(ax.partial_error("y", r)),
            Spread::Own => Err(ax.own_error("y")),
            Spread::Sharded(d) => Err(ax.sharded_error("y", d)),
            Spread::Replicated => Err(Error::op(
                "E0340",
                format!(
                    "reads 'x', which axis '{}' cuts, together with 'y', which is whole",
                    ax.axis_name()
                ),
            )),
        }
    })
}

fn gradient_sum(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.reduce_sum_grad", &["dims", "keep_dims"])
}

fn gradient_mean(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    of_input(cx, "dist.reduce_mean_grad", &["dims", "keep_dims"])
}

fn gradient_max(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, y, op) = (cx.operand("x")?, cx.result("y")?, cx.op());
    let dout = cx.dout("y")?;
    let dx = cx.emit("dist.reduce_max_grad")?.each(&[x, y, dout]);
    Ok(vec![Some(dx.like(op, &["dims", "keep_dims"]).value()?)])
}

/// The family.
pub static OPS: &[OpDef] = &[
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_ANY,
    REDUCE_SUM_GRAD,
    REDUCE_MEAN_GRAD,
    REDUCE_MAX_GRAD,
];
