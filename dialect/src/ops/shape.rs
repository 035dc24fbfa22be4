//! Ops that move elements without changing them.

use super::parts::{attr, one, variadic};
use super::{AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

/// `dist.reshape`
pub const RESHAPE: OpDef = OpDef {
    name: "dist.reshape",
    summary: "the same elements, in row-major order, in another shape",
    description: "\
The result type says which shape; the number of elements stays. A sharded dimension may be merged with those after it or be \
split, if it is (or stays) the outermost of its part.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "as many elements")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.transpose`
pub const TRANSPOSE: OpDef = OpDef {
    name: "dist.transpose",
    summary: "reorders the dimensions",
    description: "Dimension i of the result is dimension `perm[i]` of x.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "`y.shape[i] = x.shape[perm[i]]`")],
    attrs: &[attr(
        "perm",
        AttrKind::I64Array,
        "a permutation of x's dimensions",
    )],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.slice`
pub const SLICE: OpDef = OpDef {
    name: "dist.slice",
    summary: "a window of a tensor, perhaps a different one on each rank",
    description: "\
Keeps `sizes[i]` elements of dimension `dims[i]`, from `starts[i] + c·sizes[i]`, where c is the rank's row-major coordinate \
over the mesh axes `axes[i]` (0 if there are none). Cutting a replicated dimension over an axis gives a value sharded over \
that axis: the inverse of `dist.all_gather`.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's shape with `sizes` in `dims`")],
    attrs: &[
        attr("dims", AttrKind::I64Array, "distinct dimensions of x"),
        attr(
            "starts",
            AttrKind::I64Array,
            "first element kept, per entry of `dims`",
        ),
        attr(
            "sizes",
            AttrKind::I64Array,
            "number of elements kept, per entry of `dims`",
        ),
        attr(
            "axes",
            AttrKind::Array,
            "per entry of `dims`, the list of mesh axes that shift the window",
        ),
    ],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.concat`
pub const CONCAT: OpDef = OpDef {
    name: "dist.concat",
    summary: "joins tensors of one type along a dimension",
    description: "\
The extents along `dim` add up; all operands have one type. Unlike shapes are joined by a chain of `dist.concat_pair`.",
    operands: &[variadic("xs", "at least one tensor, all of one type")],
    results: &[one("y", "`dim` is as long as all operands together")],
    attrs: &[attr("dim", AttrKind::I64, "the dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.concat_pair`
pub const CONCAT_PAIR: OpDef = OpDef {
    name: "dist.concat_pair",
    summary: "joins two tensors whose extents along a dimension may differ",
    description: "As `dist.concat`, for two operands whose shapes differ only along `dim`.",
    operands: &[one("a", "comes first"), one("b", "comes second")],
    results: &[one("y", "`dim` is as long as both together")],
    attrs: &[attr("dim", AttrKind::I64, "the dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.split`
pub const SPLIT: OpDef = OpDef {
    name: "dist.split",
    summary: "cuts a tensor into equal parts along a dimension",
    description: "The number of results divides the extent of `dim`; part i is the i-th piece.",
    operands: &[one("x", "any tensor")],
    results: &[variadic("parts", "at least one, all of one type")],
    attrs: &[attr("dim", AttrKind::I64, "the dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.stack`
pub const STACK: OpDef = OpDef {
    name: "dist.stack",
    summary: "joins tensors along a new dimension",
    description: "n operands of one type `[…]` give a tensor with an extra dimension of extent n in front of dimension `dim`.",
    operands: &[variadic("xs", "at least one tensor, all of one type")],
    results: &[one("y", "one dimension more")],
    attrs: &[attr("dim", AttrKind::I64, "position of the new dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[RESHAPE, TRANSPOSE, SLICE, CONCAT, CONCAT_PAIR, SPLIT, STACK];
