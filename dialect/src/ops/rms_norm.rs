//! Root-mean-square normalisation and its gradients.

use super::infer::{expect_float, expect_shape, same_type};
use super::normalisation::{ATTRS, check_features, rows, statistics_dtype};
use super::parts::{SECOND_ORDER, one, optional};
use super::rules::{LayoutCx, labels};
use super::{Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

/// `dist.rms_norm`
pub const RMS_NORM: OpDef = OpDef {
    name: "dist.rms_norm",
    summary: "root-mean-square normalisation",
    description: "\
`y = x · r · scale` with `r = 1/√(mean(x²) + epsilon)`, the mean over the dimensions from `begin_norm_axis` on (Zhang and Sennrich, \
2019). x is `[rows…, features…]`; r, the result `inverse_rms`, is `[rows…]`, in f32 if x is f16 or bf16; scale is `[features…]` or \
flattened to rank 1, and its element type may differ from x's. The normalised dimensions must not be sharded.",
    operands: &[
        one("x", "`[rows…, features…]`"),
        optional("scale", "`[features…]` or flat"),
    ],
    results: &[one("y", "x's type"), one("inverse_rms", "`[rows…]`")],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_rms_norm),
    eval: Some(reference::normalisation::rms_norm),
    gradient: Some(gradient_rms_norm),
    layout: Some(layout_rms_norm),
    ..OpDef::NONE
};

/// `dist.rms_norm_grad`
pub const RMS_NORM_GRAD: OpDef = OpDef {
    name: "dist.rms_norm_grad",
    summary: "gradients of root-mean-square normalisation",
    description: "\
With `x̂ = x · inverse_rms` and `g = dy · scale`: `dx = (g − x̂ · mean(g · x̂)) · inverse_rms`, means over the features; \
`dscale = Σ dy · x̂` over the rows. If the rows are sharded, dscale is partial.",
    operands: &[
        one("x", "as in the forward op"),
        optional("scale", "as in the forward op"),
        one("inverse_rms", "from the forward op"),
        one("dy", "gradient of y"),
    ],
    results: &[
        optional("dx", "x's type"),
        optional("dscale", "scale's type"),
    ],
    attrs: ATTRS,
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_rms_norm_grad),
    eval: Some(reference::normalisation::rms_norm_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_rms_norm_grad),
    ..OpDef::NONE
};

fn infer_rms_norm(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    let statistics = TensorType::new(rows(cx)?, statistics_dtype(x.dtype));
    Ok(vec![x.clone(), statistics])
}

fn infer_rms_norm_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let rows = rows(cx)?;
    same_type(cx, "x", "dy")?;
    expect_float("inverse_rms", cx.args.one("inverse_rms")?)?;
    expect_shape("inverse_rms", cx.args.one("inverse_rms")?, rows)?;
    cx.gradients(&[("x", "dx"), ("scale", "dscale")])
}

fn layout_rms_norm(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let axis = cx.results.one("inverse_rms")?.rank();
    cx.per_axis(|ax| {
        check_features(ax, axis)?;
        Ok(vec![ax.spread("x")?; 2])
    })
}

fn layout_rms_norm_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let axis = cx.args.one("inverse_rms")?.ty.rank();
    let all = labels(cx.args.one("x")?.ty.rank());
    cx.per_axis(|ax| {
        if ax.cx.args.has("scale") {
            ax.whole("scale")?;
        }
        let mut normal = ax.term("x", all.clone())?;
        let inverse = ax.term("inverse_rms", all[..axis].to_vec())?;
        normal.spread = ax.elementwise(&[&normal, &inverse], &all)?;
        if let Spread::Sharded(d) = normal.spread
            && d >= axis
        {
            return Err(ax.sharded_error("x", d));
        }
        let dy = ax.term("dy", all.clone())?;
        let mut spreads = Vec::new();
        if cx.results.has("dx") {
            spreads.push(ax.product(&dy, &normal, &all)?);
        }
        if cx.results.has("dscale") {
            spreads.push(ax.product(&dy, &normal, &all[axis..])?);
        }
        Ok(spreads)
    })
}

fn gradient_rms_norm(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    cx.unused(&["inverse_rms"])?;
    let (op, x, dy) = (cx.op(), cx.operand("x")?, cx.dout("y")?);
    let (scale, inverse) = (cx.optional("scale"), cx.result("inverse_rms")?);
    let wants = [cx.needs("x"), cx.needs("scale")];
    let gradients = cx
        .emit("dist.rms_norm_grad")?
        .one(x)
        .optional(scale)
        .each(&[inverse, dy])
        .like(op, &["begin_norm_axis", "epsilon"])
        .wants(&wants)
        .groups()?;
    let [dx, dscale] = gradients[..] else {
        return Ok(gradients);
    };
    Ok(cx.gradients(&[("x", dx), ("scale", dscale)]))
}

/// The family.
pub static OPS: &[OpDef] = &[RMS_NORM, RMS_NORM_GRAD];
