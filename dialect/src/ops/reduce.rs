//! Reductions over dimensions of one tensor, and their gradients.

use super::parts::{attr, flag, one};
use super::{AttrDef, AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

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
    ..REDUCTION
};

/// `dist.reduce_sum`
pub const REDUCE_SUM: OpDef = OpDef {
    name: "dist.reduce_sum",
    summary: "sum over dimensions",
    description: "`y = Σ x` over `dims`. Reducing a sharded dimension gives a partial sum.",
    ..REDUCTION
};

/// `dist.reduce_mean`
pub const REDUCE_MEAN: OpDef = OpDef {
    name: "dist.reduce_mean",
    summary: "mean over dimensions",
    description: "`y = Σ x / n` over `dims`. Reducing a sharded dimension gives a partial mean.",
    ..REDUCTION
};

/// `dist.reduce_max`
pub const REDUCE_MAX: OpDef = OpDef {
    name: "dist.reduce_max",
    summary: "maximum over dimensions",
    description: "`y = max x` over `dims`; NaN if any is NaN. Reducing a sharded dimension gives a partial maximum.",
    ..REDUCTION
};

/// `dist.reduce_any`
pub const REDUCE_ANY: OpDef = OpDef {
    name: "dist.reduce_any",
    summary: "whether any flag is set",
    description: "`y = x₀ or x₁ or …` over `dims`, on `i1`. Reducing a sharded dimension gives a partial or.",
    ..REDUCTION
};

/// `dist.reduce_sum_grad`
pub const REDUCE_SUM_GRAD: OpDef = OpDef {
    name: "dist.reduce_sum_grad",
    summary: "gradient of reduce_sum",
    description: "dx is dout, repeated along `dims`.",
    ..GRADIENT
};

/// `dist.reduce_mean_grad`
pub const REDUCE_MEAN_GRAD: OpDef = OpDef {
    name: "dist.reduce_mean_grad",
    summary: "gradient of reduce_mean",
    description: "dx is dout / n, repeated along `dims`, where n is the number of elements that each mean is taken of.",
    ..GRADIENT
};

/// The family.
pub static OPS: &[OpDef] = &[
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_ANY,
    REDUCE_SUM_GRAD,
    REDUCE_MEAN_GRAD,
];
