//! Linear layers: matrix products, their gradients, and the fused forms that one GPU kernel computes.

use super::infer::{broadcast, expect_float, expect_shape, same_dtype, same_type, shape};
use super::parts::{SECOND_ORDER, attr, flag, one, optional};
use super::rules::{LayoutCx, Term, broadcast_labels};
use super::{AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Spread};
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
    layout: Some(layout_matmul),
    gradient: Some(gradient_matmul),
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
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_matmul_grad),
    ..OpDef::NONE
};

/// Activations of the fused linear ops.
pub const ACTIVATIONS: &[&str] = &["none", "relu", "gelu", "gelu_tanh", "silu"];

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
    gradient: Some(gradient_fused_linear),
    layout: Some(layout_fused_linear),
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
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_fused_linear_grad),
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
    cx.gradients(&[("a", "da"), ("b", "db")])
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

/// Labels of rows, contracted dimension and columns; batch dimensions are labelled from 0.
const M: usize = usize::MAX - 2;
const K: usize = usize::MAX - 1;
const N: usize = usize::MAX;

/// The three values of a product with their labels: `a`, `b` and the product.
struct Labels {
    a: Vec<Option<usize>>,
    b: Vec<Option<usize>>,
    out: Vec<Option<usize>>,
}

fn product_labels(cx: &LayoutCx, a: &str, b: &str) -> Result<Labels, Error> {
    let (x, y) = (cx.args.one(a)?.ty, cx.args.one(b)?.ty);
    let (batch_a, _) = matrix("a", x, false)?;
    let (batch_b, _) = matrix("b", y, false)?;
    let batch = broadcast(batch_a, batch_b)?;
    let operand = |shape: &[i64], transpose: bool, [rows, columns]: [usize; 2]| {
        let mut labels = broadcast_labels(shape, &batch);
        labels.extend(match transpose {
            true => [Some(columns), Some(rows)],
            false => [Some(rows), Some(columns)],
        });
        labels
    };
    Ok(Labels {
        a: operand(batch_a, cx.attrs.bool("transpose_a")?, [M, K]),
        b: operand(batch_b, cx.attrs.bool("transpose_b")?, [K, N]),
        out: operand(&batch, false, [M, N]),
    })
}

fn layout_matmul(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let labels = product_labels(cx, "a", "b")?;
    cx.per_axis(|ax| {
        let (a, b) = (
            ax.term("a", labels.a.clone())?,
            ax.term("b", labels.b.clone())?,
        );
        Ok(vec![ax.product(&a, &b, &labels.out)?])
    })
}

fn layout_matmul_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let labels = product_labels(cx, "a", "b")?;
    cx.per_axis(|ax| {
        let dout = ax.term("dout", labels.out.clone())?;
        let (a, b) = (
            ax.term("a", labels.a.clone())?,
            ax.term("b", labels.b.clone())?,
        );
        let mut spreads = Vec::new();
        for (operand, other, result) in [(&a, &b, "da"), (&b, &a, "db")] {
            if let Spread::Sharded(dim) = operand.spread
                && operand.labels[dim].is_none()
            {
                return Err(ax.sharded_error(operand.name, dim));
            }
            if cx.results.has(result) {
                spreads.push(ax.product(other, &dout, &operand.labels)?);
            }
        }
        Ok(spreads)
    })
}

fn layout_fused_linear(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let labels = product_labels(cx, "x", "w")?;
    let linear = cx.attrs.string("activation")? == "none";
    cx.per_axis(|ax| {
        let (x, w) = (
            ax.term("x", labels.a.clone())?,
            ax.term("w", labels.b.clone())?,
        );
        let mut aux = Term {
            name: "the product",
            spread: ax.product(&x, &w, &labels.out)?,
            labels: labels.out.clone(),
        };
        if cx.args.has("bias") {
            let bias = ax.term("bias", vec![Some(N)])?;
            aux.spread = ax.sum(&[&aux, &bias], &labels.out)?;
        }
        if let (Spread::Partial(reduction), false) = (aux.spread, linear) {
            return Err(ax.partial_error("the pre-activation", reduction));
        }
        Ok(vec![aux.spread; cx.results.all().len()])
    })
}

fn layout_fused_linear_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let labels = product_labels(cx, "x", "w")?;
    let overwrite = cx.attrs.bool("overwrite")?;
    cx.per_axis(|ax| {
        let dout = ax.term("dout", labels.out.clone())?;
        let mut spreads = Vec::new();
        if cx.results.has("dx") {
            let w = ax.term("w", labels.b.clone())?;
            let mut dx = Term {
                name: "the gradient of x",
                spread: ax.product(&dout, &w, &labels.a)?,
                labels: labels.a.clone(),
            };
            if cx.args.has("aux") {
                let aux = ax.term("aux", labels.a.clone())?;
                if let Spread::Partial(reduction) = aux.spread {
                    return Err(ax.partial_error("aux", reduction));
                }
                dx.spread = ax.product(&dx, &aux, &labels.a)?;
            }
            spreads.push(dx.spread);
        }
        if cx.results.has("dw") {
            let x = ax.term("x", labels.a.clone())?;
            let mut dw = Term {
                name: "the gradient of w",
                spread: ax.product(&x, &dout, &labels.b)?,
                labels: labels.b.clone(),
            };
            if cx.args.has("acc") && !overwrite {
                let acc = ax.term("acc", labels.b.clone())?;
                dw.spread = ax.sum(&[&dw, &acc], &labels.b)?;
            }
            spreads.push(dw.spread);
        }
        if cx.results.has("dbias") {
            spreads.push(ax.sum_of(&dout, &[Some(N)])?);
        }
        Ok(spreads)
    })
}

fn gradient_matmul(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (a, b, op) = (cx.operand("a")?, cx.operand("b")?, cx.op());
    let wants = [cx.needs("a"), cx.needs("b")];
    let dout = cx.dout("c")?;
    cx.emit("dist.matmul_grad")?
        .each(&[a, b, dout])
        .like(op, &["transpose_a", "transpose_b"])
        .wants(&wants)
        .groups()
}

/// First the gradient of the pre-activation, then that of a layer without activation.
fn gradient_fused_linear(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, mut dout) = (cx.op(), cx.dout_optional("out")?);
    let (x, w) = (cx.operand("x")?, cx.operand("w")?);
    let bias = cx.optional("bias");
    let activation = cx.attrs(|a| a.string("activation"))?;
    if let (Some(given), false) = (dout, activation == "none") {
        let aux = match cx.result("aux") {
            Ok(aux) => aux,
            Err(_) => {
                let none = cx.cx().string("none");
                let again = cx.emit("dist.fused_linear")?.one(x).one(w).optional(bias);
                again
                    .like(op, &["transpose_a", "transpose_b"])
                    .attr("activation", none)
                    .wants(&[true, false])
                    .value()?
            }
        };
        let gradient = match activation.as_str() {
            "relu" => cx.emit("dist.relu_grad")?,
            "silu" => cx.emit("dist.silu_grad")?,
            "gelu" => cx.emit("dist.gelu_grad")?.bool("approximate", false),
            "gelu_tanh" => cx.emit("dist.gelu_grad")?.bool("approximate", true),
            other => {
                let message = format!("has no gradient with the activation {other}");
                return Err(Error::op("E0319", message));
            }
        };
        dout = Some(gradient.one(aux).one(given).value()?);
    }
    if cx.raw_douts("aux").iter().any(Option::is_some) {
        let direct = cx.dout("aux")?;
        dout = Some(match dout {
            Some(dout) => cx.emit("dist.add")?.one(dout).one(direct).value()?,
            None => direct,
        });
    }
    let Some(dout) = dout else {
        return Ok(vec![]);
    };
    let none = cx.cx().string("none");
    let wants = [cx.needs("x"), cx.needs("w"), cx.needs("bias")];
    let mut gradients = cx
        .emit("dist.fused_linear_grad")?
        .each(&[x, w, dout])
        .many(&[])
        .many(&[])
        .like(op, &["transpose_a", "transpose_b"])
        .attr("activation", none)
        .wants(&wants)
        .groups()?;
    for (gradient, of) in gradients.iter_mut().zip([Some(x), Some(w), bias]) {
        if let (Some(value), Some(of)) = (*gradient, of) {
            let dtype = cx.builder.ty(of)?.dtype;
            *gradient = Some(cx.builder.cast(value, dtype)?);
        }
    }
    gradients.truncate(2 + usize::from(bias.is_some()));
    Ok(gradients)
}

/// The family.
pub static OPS: &[OpDef] = &[MATMUL, MATMUL_GRAD, FUSED_LINEAR, FUSED_LINEAR_GRAD];
