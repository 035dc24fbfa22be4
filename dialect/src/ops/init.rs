//! Where tensors come from: constants and random numbers.

use super::parts::{attr, one};
use super::{AttrDef, AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));
const SEED: AttrDef = attr("seed", AttrKind::I64, "0 lets the device choose");

/// `dist.fill`
pub const FILL: OpDef = OpDef {
    name: "dist.fill",
    summary: "a constant tensor",
    description: "Every element is `value`, rounded to the element type; for `i1`, whether it is not 0.",
    results: &[one("y", "any type with static shape")],
    attrs: &[attr("value", AttrKind::F64, "the value")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.uniform`
pub const UNIFORM: OpDef = OpDef {
    name: "dist.uniform",
    summary: "uniformly distributed random numbers",
    description: "Each element is drawn from `[min, max)`. Two ops draw different numbers even if they look alike.",
    results: &[one("y", "floats, static shape")],
    attrs: &[
        attr("min", AttrKind::F64, "lower bound"),
        attr("max", AttrKind::F64, "upper bound, not below `min`"),
        SEED,
    ],
    effects: Effects::Draws,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.gaussian`
pub const GAUSSIAN: OpDef = OpDef {
    name: "dist.gaussian",
    summary: "normally distributed random numbers",
    description: "Each element is drawn from a normal distribution. Two ops draw different numbers even if they look alike.",
    results: &[one("y", "floats, static shape")],
    attrs: &[
        attr("mean", AttrKind::F64, "mean"),
        attr("std", AttrKind::F64, "standard deviation, not negative"),
        SEED,
    ],
    effects: Effects::Draws,
    pretty: SAME,
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[FILL, UNIFORM, GAUSSIAN];
