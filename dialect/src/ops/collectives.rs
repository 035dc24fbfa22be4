//! Collectives: what ranks tell each other. They name mesh axes, never rings.
//!
//! The group of a rank over some axes is the set of ranks that agree with it on all other axes, in row-major order of the
//! named axes taken in mesh order.

use super::infer::{expect_flags, expect_float, expect_number};
use super::parts::{attr, attr_or, one};
use super::rules::LayoutCx;
use super::shape::dimension;
use super::{
    AttrDef, AttrDefault, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::ir::{DYNAMIC, ValueId};
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

/// Reductions that collectives know.
pub const REDUCTIONS: &[&str] = &["sum", "avg", "max", "min", "prod", "any"];

pub(super) const AXES: AttrDef = attr(
    "axes",
    AttrKind::Axes,
    "the mesh axes of the group, at least one",
);
const REDUCTION: AttrDef = attr(
    "reduction",
    AttrKind::Enum(REDUCTIONS),
    "how values are combined; `any` is for `i1`",
);

/// `dist.all_reduce`
pub const ALL_REDUCE: OpDef = OpDef {
    name: "dist.all_reduce",
    summary: "every rank of the group gets the reduction over the group",
    description: "`y = reduction over the group of x`. A partial sum becomes whole.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's type")],
    attrs: &[REDUCTION, AXES],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).word("reduction").over("axes")),
    infer: Some(infer_all_reduce),
    combine: Some(reference::collectives::all_reduce),
    layout: Some(layout_all_reduce),
    gradient: Some(gradient_all_reduce),
    ..OpDef::NONE
};

/// `dist.reduce_scatter`
pub const REDUCE_SCATTER: OpDef = OpDef {
    name: "dist.reduce_scatter",
    summary: "each rank of the group gets its piece of the reduction",
    description: "\
The reduction over the group, cut into as many equal pieces along `dim` as the group has ranks; rank i of the group gets piece i. \
A partial sum becomes sharded.",
    operands: &[one("x", "the group's size divides the extent of `dim`")],
    results: &[one("y", "`dim` shorter by the group's size")],
    attrs: &[
        REDUCTION,
        AXES,
        attr("dim", AttrKind::I64, "the dimension that is cut"),
    ],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(
        Uniform::new(TypeShape::Signature)
            .word("reduction")
            .over("axes"),
    ),
    infer: Some(infer_reduce_scatter),
    combine: Some(reference::collectives::reduce_scatter),
    layout: Some(layout_reduce_scatter),
    gradient: Some(gradient_reduce_scatter),
    ..OpDef::NONE
};

/// `dist.all_gather`
pub const ALL_GATHER: OpDef = OpDef {
    name: "dist.all_gather",
    summary: "every rank of the group gets the pieces of all",
    description: "The group's tensors joined along `dim`, in group order. A sharded value becomes replicated.",
    operands: &[one("x", "any tensor of rank 1 or more")],
    results: &[one("y", "`dim` longer by the group's size")],
    attrs: &[
        AXES,
        attr("dim", AttrKind::I64, "the dimension that is joined"),
    ],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature).over("axes")),
    infer: Some(infer_all_gather),
    combine: Some(reference::collectives::all_gather),
    layout: Some(layout_all_gather),
    gradient: Some(gradient_all_gather),
    ..OpDef::NONE
};

/// `dist.all_to_all`
pub const ALL_TO_ALL: OpDef = OpDef {
    name: "dist.all_to_all",
    summary: "each rank of the group sends one piece to each",
    description: "\
x is cut into as many equal pieces along `split_dim` as the group has ranks; piece i goes to rank i of the group, and what arrives \
is joined along `concat_dim` in group order. Moves the sharding from `concat_dim` to `split_dim`.",
    operands: &[one(
        "x",
        "the group's size divides the extent of `split_dim`",
    )],
    results: &[one(
        "y",
        "`split_dim` shorter and `concat_dim` longer by the group's size",
    )],
    attrs: &[
        AXES,
        attr("split_dim", AttrKind::I64, "the dimension that is cut"),
        attr("concat_dim", AttrKind::I64, "the dimension that is joined"),
    ],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature).over("axes")),
    infer: Some(infer_all_to_all),
    combine: Some(reference::collectives::all_to_all),
    layout: Some(layout_all_to_all),
    gradient: Some(gradient_all_to_all),
    ..OpDef::NONE
};

/// `dist.broadcast`
pub const BROADCAST: OpDef = OpDef {
    name: "dist.broadcast",
    summary: "every rank of the group gets the root's value",
    description: "`y` is x of the rank with index `root` in the group; the other ranks' x is ignored.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's type")],
    attrs: &[
        AXES,
        attr_or(
            "root",
            AttrKind::I64,
            AttrDefault::I64(0),
            "index within the group",
        ),
    ],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).over("axes")),
    infer: Some(infer_broadcast),
    combine: Some(reference::collectives::broadcast),
    gradient: Some(gradient_broadcast),
    layout: Some(layout_broadcast),
    ..OpDef::NONE
};

/// The reduction is one that x's elements have.
fn check_reduction(cx: &InferCx) -> Result<(), Error> {
    let x = cx.args.one("x")?;
    match cx.attrs.string("reduction")?.as_str() {
        "any" => expect_flags("x", x),
        "avg" => expect_float("x", x),
        _ => expect_number("x", x),
    }
}

fn infer_all_reduce(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    cx.group_size()?;
    check_reduction(cx)?;
    Ok(vec![cx.args.one("x")?.clone()])
}

/// x with a dimension shorter by the group's size.
fn cut(cx: &InferCx, x: &TensorType, name: &str) -> Result<TensorType, Error> {
    let n = cx.group_size()?;
    let dim = dimension(cx.attrs, name, x.rank())?;
    let mut y = x.clone();
    if y.shape[dim] != DYNAMIC {
        if y.shape[dim] % n != 0 {
            return Err(Error::op(
                "E0315",
                format!(
                    "cannot cut extent {} of dimension {dim} among {n} ranks",
                    y.shape[dim]
                ),
            ));
        }
        y.shape[dim] /= n;
    }
    Ok(y)
}

/// x with a dimension longer by the group's size.
fn grown(cx: &InferCx, x: &TensorType, name: &str) -> Result<TensorType, Error> {
    let n = cx.group_size()?;
    let dim = dimension(cx.attrs, name, x.rank())?;
    let mut y = x.clone();
    if y.shape[dim] != DYNAMIC {
        y.shape[dim] = y.shape[dim]
            .checked_mul(n)
            .ok_or_else(|| Error::op("E0317", "has too large a result"))?;
    }
    Ok(y)
}

fn infer_reduce_scatter(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_reduction(cx)?;
    Ok(vec![cut(cx, cx.args.one("x")?, "dim")?])
}

fn infer_all_gather(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    Ok(vec![grown(cx, cx.args.one("x")?, "dim")?])
}

fn infer_all_to_all(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let piece = cut(cx, cx.args.one("x")?, "split_dim")?;
    Ok(vec![grown(cx, &piece, "concat_dim")?])
}

fn infer_broadcast(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let (n, root) = (cx.group_size()?, cx.attrs.int("root")?);
    if !(0..n).contains(&root) {
        return Err(
            Error::op("E0316", format!("has root {root} in a group of {n}"))
                .with_help("the root is an index within the group, not a rank"),
        );
    }
    Ok(vec![cx.args.one("x")?.clone()])
}

fn misused(cx: &LayoutCx, axis: usize, what: &str) -> Error {
    Error::op(
        "E0344",
        format!("{what} along axis '{}'", cx.mesh.axes()[axis]),
    )
}

/// The layout of x after a reduction over the group: along its axes x is whole or partial in the same way. Along the other axes
/// it may be partial only in a way that goes with the reduction.
fn reduced(cx: &LayoutCx) -> Result<Layout, Error> {
    let name = cx.attrs.string("reduction")?;
    let reduction = Reduction::parse(&name)
        .ok_or_else(|| Error::op("E0302", format!("has the unknown reduction '{name}'")))?;
    let group = cx.group()?;
    let mut layout = cx.args.one("x")?.layout.clone();
    for (axis, &size) in cx.mesh.sizes().iter().enumerate() {
        let grouped = group.contains(&axis);
        match layout.on(axis) {
            _ if size == 1 => {}
            Spread::Partial(r) if r != reduction && !(r.is_linear() && reduction.is_linear()) => {
                let (what, by) = (r.name(), reduction.name());
                let what = format!("reduces by {by} a value that is partial ({what})");
                return Err(misused(cx, axis, &what));
            }
            Spread::Sharded(d) if grouped => {
                let what = format!("reduces unlike pieces of dimension {d}");
                return Err(misused(cx, axis, &what));
            }
            _ => {}
        }
        if grouped {
            layout.set(axis, Spread::Replicated);
        }
    }
    Ok(layout)
}

fn layout_all_reduce(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    Ok(vec![reduced(cx)?])
}

fn layout_reduce_scatter(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let mut layout = reduced(cx)?;
    let dim = dimension(cx.attrs, "dim", layout.dims.len())?;
    for axis in cx.group()? {
        if cx.mesh.sizes()[axis] > 1 {
            layout.set(axis, Spread::Sharded(dim));
        }
    }
    Ok(vec![layout])
}

/// Afterwards every rank of the group has the same, whichever way the pieces were cut.
fn layout_all_gather(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let mut layout = cx.args.one("x")?.layout.clone();
    for axis in cx.group()? {
        if let (Spread::Partial(_), true) = (layout.on(axis), cx.mesh.sizes()[axis] > 1) {
            return Err(misused(cx, axis, "gathers a value that is partial")
                .with_help("reduce it instead, with `dist.all_reduce` or `dist.reduce_scatter`"));
        }
        layout.set(axis, Spread::Replicated);
    }
    Ok(vec![layout])
}

fn layout_all_to_all(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let mut layout = cx.args.one("x")?.layout.clone();
    let rank = layout.dims.len();
    let (split, concat) = (
        dimension(cx.attrs, "split_dim", rank)?,
        dimension(cx.attrs, "concat_dim", rank)?,
    );
    for axis in cx.group()? {
        if cx.mesh.sizes()[axis] == 1 {
            continue;
        }
        if layout.on(axis) != Spread::Sharded(concat) {
            return Err(misused(
                cx,
                axis,
                &format!("joins dimension {concat}, which is not cut"),
            ));
        }
        layout.set(axis, Spread::Sharded(split));
    }
    Ok(vec![layout])
}

fn layout_broadcast(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let mut layout = cx.args.one("x")?.layout.clone();
    for axis in cx.group()? {
        layout.set(axis, Spread::Replicated);
    }
    Ok(vec![layout])
}

/// What a reduction over the group multiplies the gradient of the result by. A part of a sum has the gradient of the sum; a
/// replicated operand is summed once per rank, so its gradient counts as often.
fn reduction_factor(cx: &GradientCx) -> Result<f64, Error> {
    let (x, name) = (cx.operand("x")?, cx.attrs(|a| a.string("reduction"))?);
    let average = match Reduction::parse(&name) {
        Some(Reduction::Sum) => false,
        Some(Reduction::Avg) => true,
        _ => {
            let message = format!("has no gradient with reduction '{name}'");
            return Err(Error::op("E0319", message));
        }
    };
    let mut factor = 1.0;
    for axis in cx.group()? {
        let size = cx.mesh().sizes()[axis] as f64;
        match (cx.spread(x, axis)?, average) {
            (Spread::Replicated, false) => factor *= size,
            (Spread::Replicated, true) | (_, false) => {}
            (_, true) => factor /= size,
        }
    }
    Ok(factor)
}

/// The gradient of a partial value is whole: what comes in passes on.
fn gradient_all_reduce(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (factor, dout) = (reduction_factor(cx)?, cx.dout("y")?);
    Ok(vec![Some(cx.builder.scaled(dout, factor)?)])
}

/// Every part of the sum has the gradient of the whole: the pieces, gathered.
fn gradient_reduce_scatter(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (factor, op, dout) = (reduction_factor(cx)?, cx.op(), cx.dout("y")?);
    let dout = cx.builder.scaled(dout, factor)?;
    let gather = cx.emit("dist.all_gather")?.one(dout);
    let dx = gather.like(op, &["axes", "dim"]).value()?;
    Ok(vec![Some(dx)])
}

/// A piece has its piece of the gradient. If that is partial, reducing and cutting it is one reduce_scatter.
fn gradient_all_gather(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, group) = (cx.op(), cx.group()?);
    let raw = cx.raw_douts("y")[0].ok_or_else(|| Error::op("E0319", "has no gradient"))?;
    let partial = cx.builder.partial_axes(raw)?;
    if !group.is_empty() && partial == group {
        let sum = cx.cx().string("sum");
        let scatter = cx.emit("dist.reduce_scatter")?.one(raw);
        let scatter = scatter.attr("reduction", sum).like(op, &["axes", "dim"]);
        return Ok(vec![Some(scatter.value()?)]);
    }
    let dout = cx.dout("y")?;
    let dim = cx.attrs(|a| a.int("dim"))?;
    let extent = cx.builder.ty(cx.operand("x")?)?.shape[dim as usize];
    let axes = cx.cx().array(&[cx.attr("axes")?]);
    let slice = cx.emit("dist.slice")?.one(dout).ints("dims", &[dim]);
    let slice = slice.ints("starts", &[0]).ints("sizes", &[extent]);
    Ok(vec![Some(slice.attr("axes", axes).value()?)])
}

/// The way back.
fn gradient_all_to_all(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, dout) = (cx.op(), cx.dout("y")?);
    let (split, concat) = (cx.attr("split_dim")?, cx.attr("concat_dim")?);
    let back = cx.emit("dist.all_to_all")?.one(dout).like(op, &["axes"]);
    let back = back.attr("split_dim", concat).attr("concat_dim", split);
    Ok(vec![Some(back.value()?)])
}

/// Where all ranks have the same, a broadcast changes nothing. Where they do not, only the root's value counts.
fn gradient_broadcast(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let x = cx.operand("x")?;
    for axis in cx.group()? {
        if cx.spread(x, axis)? != Spread::Replicated {
            let message = format!(
                "has a gradient only if its operand is the same on all ranks along axis '{}'",
                cx.mesh().axes()[axis]
            );
            return Err(Error::op("E0319", message));
        }
    }
    Ok(vec![Some(cx.dout("y")?)])
}

/// The family.
pub static OPS: &[OpDef] = &[
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
];
