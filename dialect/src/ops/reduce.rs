//! Reductions over dimensions of one tensor, and their gradients.

use super::attributes::Attrs;
use super::infer::{expect_flags, expect_float, expect_number, expect_shape, same_dtype};
use super::parts::{attr, flag, one};
use super::shape::distinct_dimensions;
use super::{AttrDef, AttrKind, Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::reference;
use crate::tensor_type::TensorType;

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
    infer: Some(infer_number),
    eval: Some(reference::reduce::sum),
    ..REDUCTION
};

/// `dist.reduce_mean`
pub const REDUCE_MEAN: OpDef = OpDef {
    name: "dist.reduce_mean",
    summary: "mean over dimensions",
    description: "`y = Σ x / n` over `dims`. Reducing a sharded dimension gives a partial mean.",
    infer: Some(infer_float),
    eval: Some(reference::reduce::mean),
    ..REDUCTION
};

/// `dist.reduce_max`
pub const REDUCE_MAX: OpDef = OpDef {
    name: "dist.reduce_max",
    summary: "maximum over dimensions",
    description: "`y = max x` over `dims`; NaN if any is NaN. Reducing a sharded dimension gives a partial maximum.",
    infer: Some(infer_number),
    eval: Some(reference::reduce::max),
    ..REDUCTION
};

/// `dist.reduce_any`
pub const REDUCE_ANY: OpDef = OpDef {
    name: "dist.reduce_any",
    summary: "whether any flag is set",
    description: "`y = x₀ or x₁ or …` over `dims`, on `i1`. Reducing a sharded dimension gives a partial or.",
    infer: Some(infer_flags),
    eval: Some(reference::reduce::any),
    ..REDUCTION
};

/// `dist.reduce_sum_grad`
pub const REDUCE_SUM_GRAD: OpDef = OpDef {
    name: "dist.reduce_sum_grad",
    summary: "gradient of reduce_sum",
    description: "dx is dout, repeated along `dims`.",
    infer: Some(infer_grad),
    eval: Some(reference::reduce::sum_grad),
    ..GRADIENT
};

/// `dist.reduce_mean_grad`
pub const REDUCE_MEAN_GRAD: OpDef = OpDef {
    name: "dist.reduce_mean_grad",
    summary: "gradient of reduce_mean",
    description: "dx is dout / n, repeated along `dims`, where n is the number of elements that each mean is taken of.",
    infer: Some(infer_grad),
    eval: Some(reference::reduce::mean_grad),
    ..GRADIENT
};

/// Which dimensions of a value of this rank are reduced.
///
/// # Errors
/// `E0313` if `dims` names one that does not exist, or one twice.
pub(crate) fn reduced_dims(attrs: Attrs, rank: usize) -> Result<Vec<bool>, Error> {
    let mut reduced = vec![false; rank];
    for dim in distinct_dimensions(attrs, "dims", rank)? {
        reduced[dim] = true;
    }
    Ok(reduced)
}

/// The type of x without its reduced dimensions.
fn reduced(cx: &InferCx) -> Result<TensorType, Error> {
    let x = cx.args.one("x")?;
    let keep = cx.attrs.bool("keep_dims")?;
    let dims = reduced_dims(cx.attrs, x.rank())?;
    let extents = x.shape.iter().zip(dims);
    let kept = extents.filter_map(|(&extent, gone)| match gone {
        true => keep.then_some(1),
        false => Some(extent),
    });
    Ok(TensorType::new(kept.collect::<Vec<_>>(), x.dtype))
}

fn infer_number(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_number("x", cx.args.one("x")?)?;
    Ok(vec![reduced(cx)?])
}

fn infer_float(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_float("x", cx.args.one("x")?)?;
    Ok(vec![reduced(cx)?])
}

fn infer_flags(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    expect_flags("x", cx.args.one("x")?)?;
    Ok(vec![reduced(cx)?])
}

fn infer_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    expect_float("x", x)?;
    same_dtype(cx, "x", "dout")?;
    expect_shape("dout", cx.args.one("dout")?, &reduced(cx)?.shape)?;
    Ok(vec![x.clone()])
}

/// The family.
pub static OPS: &[OpDef] = &[
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_ANY,
    REDUCE_SUM_GRAD,
    REDUCE_MEAN_GRAD,
];
