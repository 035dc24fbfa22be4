//! Elementwise ops: arithmetic with broadcast, and functions of one tensor.

use super::parts::{attr, attr_or, flag, one, optional, variadic};
use super::{AttrDefault, AttrKind, Effects, OpDef, Pretty, Traits, TypeShape, Uniform};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));
const SAME: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Same));

/// What `add`, `sub`, `mul`, `div` and `maximum` share.
const BINARY: OpDef = OpDef {
    operands: &[
        one("a", "any shape"),
        one("b", "a shape that broadcasts with a's"),
    ],
    results: &[one("c", "the broadcast shape")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

const COMMUTATIVE: Traits = Traits {
    commutative: true,
    ..Traits::NONE
};

/// `dist.add`
pub const ADD: OpDef = OpDef {
    name: "dist.add",
    summary: "sum",
    description: "\
`c = a + b`. Shapes broadcast as in numpy: they are aligned at the last dimension, and extents agree or are 1. Two partial \
operands give a partial result; a partial and a replicated one do not go together, because the replicated one would be added \
once per rank.",
    traits: COMMUTATIVE,
    ..BINARY
};

/// `dist.sub`
pub const SUB: OpDef = OpDef {
    name: "dist.sub",
    summary: "difference",
    description: "`c = a − b`, with numpy broadcast; sharding as in `dist.add`.",
    ..BINARY
};

/// `dist.mul`
pub const MUL: OpDef = OpDef {
    name: "dist.mul",
    summary: "product",
    description: "`c = a · b`, with numpy broadcast. At most one operand may be partial.",
    traits: COMMUTATIVE,
    ..BINARY
};

/// `dist.div`
pub const DIV: OpDef = OpDef {
    name: "dist.div",
    summary: "quotient",
    description: "\
`c = a / b`, with numpy broadcast; integers round towards zero, and dividing by zero gives zero. Only a may be partial.",
    ..BINARY
};

/// `dist.maximum`
pub const MAXIMUM: OpDef = OpDef {
    name: "dist.maximum",
    summary: "the larger of two",
    description: "`c = max(a, b)`, with numpy broadcast; NaN if either is NaN.",
    traits: COMMUTATIVE,
    ..BINARY
};

/// `dist.add_grad`
pub const ADD_GRAD: OpDef = OpDef {
    name: "dist.add_grad",
    summary: "gradients of a sum",
    description: "\
da is dout summed over the dimensions along which a was broadcast, db likewise. The values of a and b are not read, only \
their shapes.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the sum"),
    ],
    results: &[
        optional("da", "gradient of a, a's type"),
        optional("db", "gradient of b, b's type"),
    ],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.mul_grad`
pub const MUL_GRAD: OpDef = OpDef {
    name: "dist.mul_grad",
    summary: "gradients of a product",
    description: "\
da is `dout · b` summed over the dimensions along which a was broadcast, db is `dout · a` summed likewise.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the product"),
    ],
    results: &[
        optional("da", "gradient of a, a's type"),
        optional("db", "gradient of b, b's type"),
    ],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.scale`
pub const SCALE: OpDef = OpDef {
    name: "dist.scale",
    summary: "multiplies by a constant and adds one",
    description: "\
`y = scale · x + bias`, or `scale · (x + bias)` if `bias_after_scale` is false. x may be partial if bias is 0.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's type")],
    attrs: &[
        attr("scale", AttrKind::F64, "the factor"),
        attr_or("bias", AttrKind::F64, AttrDefault::F64(0.0), "the summand"),
        attr_or(
            "bias_after_scale",
            AttrKind::Bool,
            AttrDefault::Bool(true),
            "whether the summand is added last",
        ),
    ],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.cast`
pub const CAST: OpDef = OpDef {
    name: "dist.cast",
    summary: "converts the elements",
    description: "\
The same shape with another element type: to nearest even between floats, towards zero from float to integer (saturating, \
NaN to 0), modulo the width between integers, `x ≠ 0` to `i1`, 0 or 1 from `i1`. A sum stays partial through a cast between \
floats (which ignores the order of rounding).",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's shape, any element type")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    ..OpDef::NONE
};

/// `dist.gelu`
pub const GELU: OpDef = OpDef {
    name: "dist.gelu",
    summary: "Gaussian error linear unit",
    description: "\
`y = x·½(1 + erf(x/√2))`, or with `approximate` `y = ½x(1 + tanh(√(2/π)(x + 0.044715x³)))` (Hendrycks and Gimpel, 2016).",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    attrs: &[flag("approximate", "the tanh form")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.gelu_grad`
pub const GELU_GRAD: OpDef = OpDef {
    name: "dist.gelu_grad",
    summary: "gradient of gelu",
    description: "\
`dx = dout · gelu′(x)`: `½(1 + erf(x/√2)) + x·exp(−x²/2)/√(2π)`, or the derivative of the tanh form.",
    operands: &[
        one("x", "input of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    attrs: &[flag("approximate", "as in the forward op")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.relu`
pub const RELU: OpDef = OpDef {
    name: "dist.relu",
    summary: "rectified linear unit",
    description: "`y = max(x, 0)`.",
    operands: &[one("x", "any numbers")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.relu_grad`
pub const RELU_GRAD: OpDef = OpDef {
    name: "dist.relu_grad",
    summary: "gradient of relu",
    description: "`dx = dout` where `x > 0`, else 0. The output of relu serves as x just as well.",
    operands: &[
        one("x", "input (or output) of the forward op"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.sqrt`
pub const SQRT: OpDef = OpDef {
    name: "dist.sqrt",
    summary: "square root",
    description: "`y = √x`; NaN for negative x.",
    operands: &[one("x", "floats")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.clip`
pub const CLIP: OpDef = OpDef {
    name: "dist.clip",
    summary: "limits each element",
    description: "`y = min(max(x, min), max)`; NaN stays NaN.",
    operands: &[one("x", "any numbers")],
    results: &[one("y", "x's type")],
    attrs: &[
        attr("min", AttrKind::F64, "the lower limit"),
        attr("max", AttrKind::F64, "the upper limit, not below `min`"),
    ],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.identity`
pub const IDENTITY: OpDef = OpDef {
    name: "dist.identity",
    summary: "the same value",
    description: "`y = x`: what remains of a copy in the imported program (Paddle's assign, nop, memcpy_d2h).",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's type")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.sum`
pub const SUM: OpDef = OpDef {
    name: "dist.sum",
    summary: "sum of several tensors",
    description: "`y = x₀ + x₁ + …`, all of one type; at least one.",
    operands: &[variadic("xs", "tensors of one type")],
    results: &[one("y", "their type")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// `dist.any_of`
pub const ANY_OF: OpDef = OpDef {
    name: "dist.any_of",
    summary: "whether any of several flags is set",
    description: "`y = x₀ or x₁ or …`, elementwise, on `i1` tensors of one type; at least one.",
    operands: &[variadic("xs", "`i1` tensors of one type")],
    results: &[one("y", "their type")],
    effects: Effects::Pure,
    pretty: SAME,
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[
    ADD, SUB, MUL, DIV, MAXIMUM, ADD_GRAD, MUL_GRAD, SCALE, CAST, GELU, GELU_GRAD, RELU, RELU_GRAD,
    SQRT, CLIP, IDENTITY, SUM, ANY_OF,
];
