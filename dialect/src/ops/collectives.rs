//! Collectives: what ranks tell each other. They name mesh axes, never rings.
//!
//! The group of a rank over some axes is the set of ranks that agree with it on all other axes, in row-major order of the
//! named axes taken in mesh order.

use super::parts::{attr, attr_or, one};
use super::{AttrDef, AttrDefault, AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

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
    ..OpDef::NONE
};

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
