//! Structure: the mesh of devices, and the globals that hold what lives longer than one run of a function.

use super::parts::{attr, one, optional_attr};
use super::{AttrKind, Custom, Effects, OpDef, Pretty, Traits, TypeShape, Uniform};

/// `dist.mesh`
pub const MESH: OpDef = OpDef {
    name: "dist.mesh",
    summary: "names the axes of the device mesh",
    description: "\
A mesh is a grid of devices with named axes. `axes` and `sizes` have one entry per axis; the number of ranks is the product \
of the sizes. Ranks are numbered row-major: the last axis varies fastest. A `dist.mesh` stands in the top module; the rank \
classes beside it, nested modules with `dist.mesh = @name`, are disjoint and cover the mesh.",
    attrs: &[
        attr("sym_name", AttrKind::Str, "the mesh's name"),
        attr("axes", AttrKind::Axes, "names of the axes, slowest first"),
        attr(
            "sizes",
            AttrKind::I64Array,
            "devices along each axis, at least 1",
        ),
    ],
    traits: Traits {
        symbol: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Custom(Custom::Mesh),
    ..OpDef::NONE
};

/// `dist.global`
pub const GLOBAL: OpDef = OpDef {
    name: "dist.global",
    summary: "declares a tensor that outlives the functions",
    description: "\
A parameter, a piece of optimizer state or another buffer; every rank of the class holds one tensor of `type` (the local \
shape). `layout` says how the local tensors make up the whole: an axis in `dims[d]` cuts dimension d, an axis in `partial` \
means that the whole is the sum over that axis (a bias that only the first rank of an axis owns is partial over it: the \
others count as zero), and every other axis holds equal copies. State names its parameter with `of` and follows its layout.",
    attrs: &[
        attr("sym_name", AttrKind::Str, "the global's name"),
        attr(
            "kind",
            AttrKind::Enum(&["parameter", "state", "buffer"]),
            "what it is for",
        ),
        attr(
            "type",
            AttrKind::Type,
            "a ranked tensor with static shape, per rank",
        ),
        attr("layout", AttrKind::Layout, "how it is spread over the mesh"),
        optional_attr(
            "of",
            AttrKind::Symbol,
            "the parameter that a state belongs to",
        ),
    ],
    traits: Traits {
        symbol: true,
        ..Traits::NONE
    },
    effects: Effects::Opaque,
    pretty: Pretty::Uniform(
        Uniform::new(TypeShape::Attr("type"))
            .symbol("sym_name")
            .word("kind"),
    ),
    ..OpDef::NONE
};

/// `dist.load`
pub const LOAD: OpDef = OpDef {
    name: "dist.load",
    summary: "reads a global",
    description: "The value that the global has at this point of the function.",
    results: &[one("value", "the global's type")],
    attrs: &[attr(
        "global",
        AttrKind::Symbol,
        "a `dist.global` of the class",
    )],
    effects: Effects::Reads,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).symbol("global")),
    ..OpDef::NONE
};

/// `dist.store`
pub const STORE: OpDef = OpDef {
    name: "dist.store",
    summary: "writes a global",
    description: "Sets the global; later loads, and later runs, see the new value.",
    operands: &[one("value", "the global's type")],
    attrs: &[attr(
        "global",
        AttrKind::Symbol,
        "a `dist.global` of the class",
    )],
    effects: Effects::Writes,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same).symbol("global")),
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[MESH, GLOBAL, LOAD, STORE];
