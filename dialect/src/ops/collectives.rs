//! Collectives: what ranks tell each other. They name mesh axes, never rings.
//!
//! The group of a rank over some axes is the set of ranks that agree with it on all other axes, in row-major order of the
//! named axes taken in mesh order.

use super::infer::{expect_flags, expect_float, expect_number};
use super::parts::{attr, attr_or, one};
use super::shape::dimension;
use super::{AttrDef, AttrDefault, AttrKind, Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::DYNAMIC;
use crate::reference;
use crate::tensor_type::TensorType;

/// Reductions that collectives know.
pub const REDUCTIONS: &[&str] = &["sum", "avg", "max", "min", "prod", "any"];

const AXES: AttrDef = attr(
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
    ..OpDef::NONE
};

const PEER: AttrDef = attr(
    "peer",
    AttrKind::Dict,
    "axis = index: the other rank's coordinate on these axes; on the others it is this rank's own",
);
const TAG: AttrDef = attr(
    "tag",
    AttrKind::I64,
    "pairs a send with its receive among those between the same two ranks",
);

/// `dist.send`
pub const SEND: OpDef = OpDef {
    name: "dist.send",
    summary: "gives a tensor to another rank",
    description: "Meets the `dist.recv` of the peer that names this rank and carries the same tag; type and shape agree.",
    operands: &[one("x", "any tensor")],
    attrs: &[PEER, TAG],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same)),
    infer: Some(infer_send),
    ..OpDef::NONE
};

/// `dist.recv`
pub const RECV: OpDef = OpDef {
    name: "dist.recv",
    summary: "takes a tensor from another rank",
    description: "Meets the `dist.send` of the peer that names this rank and carries the same tag; type and shape agree.",
    results: &[one("y", "the sent type")],
    attrs: &[PEER, TAG],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same)),
    infer: Some(infer_recv),
    ..OpDef::NONE
};

/// `dist.barrier`
pub const BARRIER: OpDef = OpDef {
    name: "dist.barrier",
    summary: "waits for the whole group",
    description: "No rank of the group passes before all have arrived.",
    attrs: &[AXES],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Nothing).over("axes")),
    infer: Some(infer_barrier),
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

/// The peer is a rank of the mesh.
fn check_peer(cx: &InferCx) -> Result<(), Error> {
    let mesh = cx.mesh()?;
    for (axis, index) in cx.attrs.int_dict("peer")? {
        let size = mesh.sizes()[mesh.axis_set(&[&axis])?[0]];
        if !(0..size as i64).contains(&index) {
            return Err(Error::IndexOutside { axis, index, size });
        }
    }
    Ok(())
}

fn infer_send(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_peer(cx)?;
    Ok(vec![])
}

fn infer_recv(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_peer(cx)?;
    Ok(vec![cx.given("y")?.clone()])
}

fn infer_barrier(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    cx.group_size()?;
    Ok(vec![])
}

/// The family.
pub static OPS: &[OpDef] = &[
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    SEND,
    RECV,
    BARRIER,
];
