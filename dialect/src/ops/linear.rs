//! Linear layers: matrix products, their gradients, and the fused forms that one GPU kernel computes.

use super::infer::{broadcast, expect_float, expect_shape, same_dtype, same_type, shape};
use super::parts::{attr, flag, one, optional};
use super::{AttrKind, Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::reference;
use crate::tensor_type::{DType, TensorType, extents_agree};

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
    infer: Some(infer_matmul),
    eval: Some(reference::linear::matmul),
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
    infer: Some(infer_matmul_grad),
    eval: Some(reference::linear::matmul_grad),
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
    infer: Some(infer_fused_linear),
    eval: Some(reference::linear::fused_linear),
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
    infer: Some(infer_fused_linear_grad),
    eval: Some(reference::linear::fused_linear_grad),
    ..OpDef::NONE
};

/// Batch dimensions, rows and columns of an operand, as it enters the product.
fn matrix<'a>(
    name: &str,
    ty: &'a TensorType,
    transpose: bool,
) -> Result<(&'a [i64], [i64; 2]), Error> {
    match &ty.shape[..] {
        [batch @ .., rows, columns] if transpose => Ok((batch, [*columns, *rows])),
        [batch @ .., rows, columns] => Ok((batch, [*rows, *columns])),
        short => Err(Error::op(
            "E0313",
            format!(
                "operand '{name}' must have rank 2 or more, but its shape is {}",
                shape(short)
            ),
        )),
    }
}

/// The shape of the product of operands `a` and `b`.
fn product(cx: &InferCx, a: &str, b: &str) -> Result<TensorType, Error> {
    same_dtype(cx, a, b)?;
    let (x, y) = (cx.args.one(a)?, cx.args.one(b)?);
    let (batch_a, [m, k]) = matrix(a, x, cx.attrs.bool("transpose_a")?)?;
    let (batch_b, [k2, n]) = matrix(b, y, cx.attrs.bool("transpose_b")?)?;
    if !extents_agree(k, k2) {
        return Err(Error::op(
            "E0314",
            format!(
                "contracts extent {} of '{a}' with extent {} of '{b}'",
                shape(&[k]),
                shape(&[k2])
            ),
        )
        .with_help("`transpose_a` and `transpose_b` swap the last two dimensions"));
    }
    let mut dims = broadcast(batch_a, batch_b)?;
    dims.extend([m, n]);
    Ok(TensorType::new(dims, x.dtype))
}

fn infer_matmul(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    Ok(vec![product(cx, "a", "b")?])
}

fn infer_matmul_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let c = product(cx, "a", "b")?;
    same_dtype(cx, "a", "dout")?;
    expect_shape("dout", cx.args.one("dout")?, &c.shape)?;
    let mut results = Vec::new();
    for (operand, result) in [("a", "da"), ("b", "db")] {
        if cx.wants(result) {
            results.push(cx.args.one(operand)?.clone());
        }
    }
    Ok(results)
}

/// The product of `x` and a weight of rank 2, in floats.
fn linear(cx: &InferCx) -> Result<TensorType, Error> {
    let (x, w) = (cx.args.one("x")?, cx.args.one("w")?);
    expect_float("x", x)?;
    if w.rank() != 2 {
        return Err(Error::op(
            "E0313",
            format!(
                "operand 'w' must have rank 2, but its shape is {}",
                shape(&w.shape)
            ),
        ));
    }
    product(cx, "x", "w")
}

fn infer_fused_linear(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let out = linear(cx)?;
    if let Some(bias) = cx.args.optional("bias") {
        expect_float("bias", bias)?;
        expect_shape("bias", bias, &out.shape[out.rank() - 1..])?;
    }
    Ok(vec![out; 1 + cx.count("aux")])
}

fn infer_fused_linear_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let out = linear(cx)?;
    let (x, w) = (cx.args.one("x")?, cx.args.one("w")?);
    same_dtype(cx, "x", "dout")?;
    expect_shape("dout", cx.args.one("dout")?, &out.shape)?;
    let activation = cx.attrs.string("activation")?;
    if cx.args.has("aux") {
        same_type(cx, "x", "aux")?;
    }
    if cx.args.has("aux") && activation == "none" {
        return Err(Error::op(
            "E0316",
            "has 'aux', but no activation that would read it",
        ));
    }
    if cx.wants("dx") && activation != "none" && !cx.args.has("aux") {
        return Err(Error::op(
            "E0303",
            format!("needs 'aux' for the derivative of {activation}"),
        ));
    }
    let dtype = |name: &str, default: DType| match &cx.declared {
        Some(declared) => declared.optional(name).map_or(default, |t| t.dtype),
        None => default,
    };
    let acc = cx.args.optional("acc");
    if let Some(acc) = acc {
        expect_float("acc", acc)?;
        expect_shape("acc", acc, &w.shape)?;
        if !cx.wants("dw") {
            return Err(Error::op(
                "E0303",
                "has 'acc', but no result 'dw' to add it to",
            ));
        }
    }
    let mut results = Vec::new();
    if cx.wants("dx") {
        results.push(x.clone());
    }
    if cx.wants("dw") {
        let dtype = acc.map_or_else(|| dtype("dw", w.dtype), |a| a.dtype);
        results.push(TensorType::new(&w.shape[..], dtype));
        expect_float("dw", &results[results.len() - 1])?;
    }
    if cx.wants("dbias") {
        let n = &out.shape[out.rank() - 1..];
        results.push(TensorType::new(n, dtype("dbias", x.dtype)));
        expect_float("dbias", &results[results.len() - 1])?;
    }
    Ok(results)
}

/// The family.
pub static OPS: &[OpDef] = &[MATMUL, MATMUL_GRAD, FUSED_LINEAR, FUSED_LINEAR_GRAD];
