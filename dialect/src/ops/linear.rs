//! Linear layers: matrix products, their gradients, and the fused forms that one GPU kernel computes.

use super::parts::{attr, flag, one, optional};
use super::{AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

/// `dist.matmul`
pub const MATMUL: OpDef = OpDef {
    name: "dist.matmul",
    summary: "matrix product, batched",
    description: "\
`c = op(a) · op(b)` over the last two dimensions, where op transposes them if asked to: `[…, m, k] · […, k, n]` gives \
`[…, m, n]`. The leading dimensions are batch dimensions and broadcast as in numpy. Both operands have rank 2 or more. \
Sharding: batch dimensions, m and n carry over; if both operands cut k the result is partial.",
    operands: &[
        one("a", "`[…, m, k]`, or `[…, k, m]` if transposed"),
        one("b", "`[…, k, n]`, or `[…, n, k]` if transposed"),
    ],
    results: &[one("c", "`[…, m, n]`")],
    attrs: &[
        flag("transpose_a", "a is given transposed"),
        flag("transpose_b", "b is given transposed"),
    ],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature)),
    ..OpDef::NONE
};

/// `dist.matmul_grad`
pub const MATMUL_GRAD: OpDef = OpDef {
    name: "dist.matmul_grad",
    summary: "gradients of a matrix product",
    description: "\
For `c = op(a) · op(b)`: `d op(a) = dout · op(b)ᵀ` and `d op(b) = op(a)ᵀ · dout`, each transposed back if the operand was \
given transposed, and summed over the batch dimensions along which the operand was broadcast.",
    operands: &[
        one("a", "as in the forward op"),
        one("b", "as in the forward op"),
        one("dout", "gradient of the product, `[…, m, n]`"),
    ],
    results: &[
        optional("da", "gradient of a, a's type"),
        optional("db", "gradient of b, b's type"),
    ],
    attrs: &[
        flag("transpose_a", "as in the forward op"),
        flag("transpose_b", "as in the forward op"),
    ],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature)),
    ..OpDef::NONE
};

/// Activations of the fused linear ops.
pub const ACTIVATIONS: &[&str] = &["none", "relu", "gelu", "gelu_tanh"];

/// `dist.fused_linear`
pub const FUSED_LINEAR: OpDef = OpDef {
    name: "dist.fused_linear",
    summary: "matrix product, bias and activation in one kernel",
    description: "\
`aux = op(x) · op(w) + bias`, `out = activation(aux)`: x is `[…, m, k]`, w is `[k, n]`, bias is `[n]`, out and aux are \
`[…, m, n]`. `aux` keeps the pre-activation for the backward pass. This is cuBLASLt's matmul with the epilogues BIAS, \
RELU_AUX_BIAS, GELU_AUX_BIAS (`gelu_tanh`), and Paddle's `fused_gemm_epilogue`.",
    operands: &[
        one("x", "`[…, m, k]`, or `[…, k, m]` if transposed"),
        one("w", "`[k, n]`, or `[n, k]` if transposed"),
        optional("bias", "`[n]`; its element type may differ"),
    ],
    results: &[
        one("out", "`[…, m, n]`"),
        optional("aux", "pre-activation, `[…, m, n]`"),
    ],
    attrs: &[
        attr(
            "activation",
            AttrKind::Enum(ACTIVATIONS),
            "applied last; `gelu` is the erf form",
        ),
        flag("transpose_a", "x is given transposed"),
        flag("transpose_b", "w is given transposed"),
    ],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature).word("activation")),
    ..OpDef::NONE
};

/// `dist.fused_linear_grad`
pub const FUSED_LINEAR_GRAD: OpDef = OpDef {
    name: "dist.fused_linear_grad",
    summary: "gradients of a linear layer in fused kernels",
    description: "\
For `op(x) · op(w) + bias`: `dx = activation′(aux) ⊙ (dout · op(w)ᵀ)`, where aux is the pre-activation of the layer that \
produced x; `dw = op(x)ᵀ · dout`, summed over the batch dimensions, added to `acc` unless `overwrite`; `dbias` is the sum of \
dout over all dimensions but the last. dw and acc usually are f32 main gradients whatever x's type; the element types of dw \
and dbias are free. Without an activation there is no aux. Paddle's `fused_gemm_epilogue_grad`, cuBLASLt's epilogues DGELU, \
DRELU and BGRADB.",
    operands: &[
        one("x", "as in the forward op"),
        one("w", "as in the forward op"),
        one("dout", "gradient of the pre-activation, `[…, m, n]`"),
        optional("aux", "pre-activation behind x, x's shape"),
        optional("acc", "dw so far, dw's type"),
    ],
    results: &[
        optional("dx", "gradient of x (of aux, with an activation), x's type"),
        optional("dw", "gradient of w, w's shape"),
        optional("dbias", "gradient of bias, `[n]`"),
    ],
    attrs: &[
        attr(
            "activation",
            AttrKind::Enum(ACTIVATIONS),
            "whose derivative multiplies dx",
        ),
        flag("transpose_a", "as in the forward op"),
        flag("transpose_b", "as in the forward op"),
        flag("overwrite", "acc's value is ignored: the first micro-batch"),
    ],
    effects: Effects::Pure,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Signature).word("activation")),
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[MATMUL, MATMUL_GRAD, FUSED_LINEAR, FUSED_LINEAR_GRAD];
