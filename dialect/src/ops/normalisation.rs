//! Normalisation layers and their gradients.

use super::parts::{attr, one, optional};
use super::{AttrDef, AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

const ATTRS: &[AttrDef] = &[
    attr(
        "begin_norm_axis",
        AttrKind::I64,
        "the first of the dimensions that are normalised together",
    ),
    attr("epsilon", AttrKind::F64, "added to the variance"),
];

/// `dist.layer_norm`
pub const LAYER_NORM: OpDef = OpDef {
    name: "dist.layer_norm",
    summary: "layer normalisation",
    description: "\
`y = (x − mean) / √(variance + epsilon) · scale + bias`, where mean and (population) variance are taken over the dimensions from \
`begin_norm_axis` on (Ba, Kiros and Hinton, 2016). x is `[rows…, features…]`; mean and variance are `[rows…]`, in f32 if x is \
f16 or bf16; scale and bias are `[features…]` or flattened to rank 1, and their element type may differ from x's. The \
normalised dimensions must not be sharded.",
    operands: &[
        one("x", "`[rows…, features…]`"),
        optional("scale", "`[features…]` or flat"),
        optional("bias", "`[features…]` or flat"),
    ],
    results: &[
        one("y", "x's type"),
        one("mean", "`[rows…]`"),
        one("variance", "`[rows…]`"),
    ],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.layer_norm_grad`
pub const LAYER_NORM_GRAD: OpDef = OpDef {
    name: "dist.layer_norm_grad",
    summary: "gradients of layer normalisation",
    description: "\
With `x̂ = (x − mean)/√(variance + epsilon)` and `g = dy · scale`: `dx = (g − mean(g) − x̂ · mean(g · x̂))/√(variance + epsilon)`, \
means over the features; `dscale = Σ dy · x̂` and `dbias = Σ dy` over the rows. If the rows are sharded, dscale and dbias are \
partial.",
    operands: &[
        one("x", "as in the forward op"),
        optional("scale", "as in the forward op"),
        optional("bias", "as in the forward op; only its shape is read"),
        one("mean", "from the forward op"),
        one("variance", "from the forward op"),
        one("dy", "gradient of y"),
    ],
    results: &[
        optional("dx", "x's type"),
        optional("dscale", "scale's type"),
        optional("dbias", "bias's type"),
    ],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[LAYER_NORM, LAYER_NORM_GRAD];
