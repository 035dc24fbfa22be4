//! Normalisation layers and their gradients.

use super::infer::{expect_float, expect_shape, same_type, shape};
use super::parts::{SECOND_ORDER, attr, one, optional};
use super::rules::{AxisCx, LayoutCx, labels};
use super::{AttrDef, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::{DType, TensorType, extents_agree, shapes_agree};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

/// Attributes of all normalisations.
pub(super) const ATTRS: &[AttrDef] = &[
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
    infer: Some(infer_layer_norm),
    eval: Some(reference::normalisation::layer_norm),
    gradient: Some(gradient_layer_norm),
    layout: Some(layout_layer_norm),
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
    infer: Some(infer_layer_norm_grad),
    eval: Some(reference::normalisation::layer_norm_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_layer_norm_grad),
    ..OpDef::NONE
};

/// The element type in which mean and variance of such elements are kept.
pub(crate) fn statistics_dtype(x: DType) -> DType {
    match x {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The shape of the rows of x; scale and bias fit its features.
pub(super) fn rows<'a>(cx: &InferCx<'a>) -> Result<&'a [i64], Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    let axis = cx.attrs.int("begin_norm_axis")?;
    let axis = usize::try_from(axis)
        .ok()
        .filter(|&a| a < x.rank())
        .ok_or_else(|| {
            let message = format!(
                "has 'begin_norm_axis' {axis}, but its operand has rank {}",
                x.rank()
            );
            Error::op("E0313", message)
        })?;
    let (rows, features) = x.shape.split_at(axis);
    let count = TensorType::new(features, x.dtype).elements();
    for name in ["scale", "bias"] {
        let Some(ty) = cx.args.optional(name) else {
            continue;
        };
        expect_float(name, ty)?;
        let flat = ty.rank() == 1 && count.is_none_or(|n| extents_agree(n, ty.shape[0]));
        if !flat && !shapes_agree(&ty.shape, features) {
            return Err(Error::op(
                "E0317",
                format!(
                    "operand '{name}' has shape {}, but the normalised dimensions are {}",
                    shape(&ty.shape),
                    shape(features)
                ),
            ));
        }
    }
    Ok(rows)
}

fn infer_layer_norm(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    let statistics = TensorType::new(rows(cx)?, statistics_dtype(x.dtype));
    Ok(vec![x.clone(), statistics.clone(), statistics])
}

fn infer_layer_norm_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let rows = rows(cx)?;
    same_type(cx, "x", "dy")?;
    for name in ["mean", "variance"] {
        expect_float(name, cx.args.one(name)?)?;
        expect_shape(name, cx.args.one(name)?, rows)?;
    }
    cx.gradients(&[("x", "dx"), ("scale", "dscale"), ("bias", "dbias")])
}

/// The features are whole, and so are scale and bias.
pub(super) fn check_features(ax: &AxisCx, axis: usize) -> Result<(), Error> {
    for name in ["scale", "bias"] {
        if ax.cx.args.has(name) {
            ax.whole(name)?;
        }
    }
    match ax.spread("x")? {
        Spread::Sharded(d) if d >= axis => Err(ax.sharded_error("x", d)),
        Spread::Partial(r) => Err(ax.partial_error("x", r)),
        Spread::Own => Err(ax.own_error("x")),
        _ => Ok(()),
    }
}

fn layout_layer_norm(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let axis = cx.results.one("mean")?.rank();
    cx.per_axis(|ax| {
        check_features(ax, axis)?;
        Ok(vec![ax.spread("x")?; 3])
    })
}

fn layout_layer_norm_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let axis = cx.args.one("mean")?.ty.rank();
    let all = labels(cx.args.one("x")?.ty.rank());
    cx.per_axis(|ax| {
        // The bias is not read, so it may be anything.
        if ax.cx.args.has("scale") {
            ax.whole("scale")?;
        }
        let x = ax.term("x", all.clone())?;
        let rows = all[..axis].to_vec();
        let (mean, variance) = (ax.term("mean", rows.clone())?, ax.term("variance", rows)?);
        let mut normal = x;
        normal.spread = ax.elementwise(&[&normal, &mean, &variance], &all)?;
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
        let features = &all[axis..];
        if cx.results.has("dscale") {
            spreads.push(ax.product(&dy, &normal, features)?);
        }
        if cx.results.has("dbias") {
            spreads.push(ax.sum_of(&dy, features)?);
        }
        Ok(spreads)
    })
}

fn gradient_layer_norm(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    cx.unused(&["mean", "variance"])?;
    let (op, x, dy) = (cx.op(), cx.operand("x")?, cx.dout("y")?);
    let (scale, bias) = (cx.optional("scale"), cx.optional("bias"));
    let saved = [cx.result("mean")?, cx.result("variance")?, dy];
    let wants = ["x", "scale", "bias"].map(|name| cx.needs(name));
    let gradients = cx
        .emit("dist.layer_norm_grad")?
        .one(x)
        .optional(scale)
        .optional(bias)
        .each(&saved)
        .like(op, &["begin_norm_axis", "epsilon"])
        .wants(&wants)
        .groups()?;
    let [dx, dscale, dbias] = gradients[..] else {
        return Ok(gradients);
    };
    Ok(cx.gradients(&[("x", dx), ("scale", dscale), ("bias", dbias)]))
}

/// The family.
pub static OPS: &[OpDef] = &[LAYER_NORM, LAYER_NORM_GRAD];
