//! Ops that move elements without changing them.

use super::attributes::Attrs;
use super::elementwise::one_type;
use super::infer::{expect_static, same_dtype, shape};
use super::parts::{attr, one, variadic};
use super::{AttrKind, Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::DYNAMIC;
use crate::reference;
use crate::tensor_type::{TensorType, shapes_agree};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

/// `dist.reshape`
pub const RESHAPE: OpDef = OpDef {
    name: "dist.reshape",
    summary: "the same elements, in row-major order, in another shape",
    description: "\
The result type says which shape; the number of elements stays. A sharded dimension may be merged with those after it or be \
split, if it is (or stays) the outermost of its part.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "as many elements")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_reshape),
    eval: Some(reference::shape::reshape),
    ..OpDef::NONE
};

/// `dist.transpose`
pub const TRANSPOSE: OpDef = OpDef {
    name: "dist.transpose",
    summary: "reorders the dimensions",
    description: "Dimension i of the result is dimension `perm[i]` of x.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "`y.shape[i] = x.shape[perm[i]]`")],
    attrs: &[attr(
        "perm",
        AttrKind::I64Array,
        "a permutation of x's dimensions",
    )],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_transpose),
    eval: Some(reference::shape::transpose),
    ..OpDef::NONE
};

/// `dist.slice`
pub const SLICE: OpDef = OpDef {
    name: "dist.slice",
    summary: "a window of a tensor, perhaps a different one on each rank",
    description: "\
Keeps `sizes[i]` elements of dimension `dims[i]`, from `starts[i] + c·sizes[i]`, where c is the rank's row-major coordinate \
over the mesh axes `axes[i]` (0 if there are none). Cutting a replicated dimension over an axis gives a value sharded over \
that axis: the inverse of `dist.all_gather`.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "x's shape with `sizes` in `dims`")],
    attrs: &[
        attr("dims", AttrKind::I64Array, "distinct dimensions of x"),
        attr(
            "starts",
            AttrKind::I64Array,
            "first element kept, per entry of `dims`",
        ),
        attr(
            "sizes",
            AttrKind::I64Array,
            "number of elements kept, per entry of `dims`",
        ),
        attr(
            "axes",
            AttrKind::Array,
            "per entry of `dims`, the list of mesh axes that shift the window",
        ),
    ],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_slice),
    eval: Some(reference::shape::slice),
    ..OpDef::NONE
};

/// `dist.concat`
pub const CONCAT: OpDef = OpDef {
    name: "dist.concat",
    summary: "joins tensors of one type along a dimension",
    description: "\
The extents along `dim` add up; all operands have one type. Unlike shapes are joined by a chain of `dist.concat_pair`.",
    operands: &[variadic("xs", "at least one tensor, all of one type")],
    results: &[one("y", "`dim` is as long as all operands together")],
    attrs: &[attr("dim", AttrKind::I64, "the dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_concat),
    eval: Some(reference::shape::concat),
    ..OpDef::NONE
};

/// `dist.concat_pair`
pub const CONCAT_PAIR: OpDef = OpDef {
    name: "dist.concat_pair",
    summary: "joins two tensors whose extents along a dimension may differ",
    description: "As `dist.concat`, for two operands whose shapes differ only along `dim`.",
    operands: &[one("a", "comes first"), one("b", "comes second")],
    results: &[one("y", "`dim` is as long as both together")],
    attrs: &[attr("dim", AttrKind::I64, "the dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_concat_pair),
    eval: Some(reference::shape::concat_pair),
    ..OpDef::NONE
};

/// `dist.split`
pub const SPLIT: OpDef = OpDef {
    name: "dist.split",
    summary: "cuts a tensor into equal parts along a dimension",
    description: "The number of results divides the extent of `dim`; part i is the i-th piece.",
    operands: &[one("x", "any tensor")],
    results: &[variadic("parts", "at least one, all of one type")],
    attrs: &[attr("dim", AttrKind::I64, "the dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_split),
    eval: Some(reference::shape::split),
    ..OpDef::NONE
};

/// `dist.stack`
pub const STACK: OpDef = OpDef {
    name: "dist.stack",
    summary: "joins tensors along a new dimension",
    description: "n operands of one type `[…]` give a tensor with an extra dimension of extent n in front of dimension `dim`.",
    operands: &[variadic("xs", "at least one tensor, all of one type")],
    results: &[one("y", "one dimension more")],
    attrs: &[attr("dim", AttrKind::I64, "position of the new dimension")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_stack),
    eval: Some(reference::shape::stack),
    ..OpDef::NONE
};

/// The dimension that an integer attribute names, for a value of this rank.
///
/// # Errors
/// `E0313` if there is no such dimension.
pub(crate) fn dimension(attrs: Attrs, name: &str, rank: usize) -> Result<usize, Error> {
    as_dimension(attrs.int(name)?, name, rank)
}

/// A number as a dimension of a value of this rank.
pub(super) fn as_dimension(dim: i64, name: &str, rank: usize) -> Result<usize, Error> {
    usize::try_from(dim)
        .ok()
        .filter(|&d| d < rank)
        .ok_or_else(|| {
            let message =
                format!("has '{name}' {dim}, which is not a dimension of a value of rank {rank}");
            Error::op("E0313", message)
                .with_help("dimensions count from 0; negative ones are not accepted")
        })
}

/// Distinct dimensions of a value of this rank.
pub(super) fn distinct_dimensions(
    attrs: Attrs,
    name: &str,
    rank: usize,
) -> Result<Vec<usize>, Error> {
    let mut seen = vec![false; rank];
    let mut dims = Vec::new();
    for dim in attrs.ints(name)? {
        let dim = as_dimension(dim, name, rank)?;
        if std::mem::replace(&mut seen[dim], true) {
            return Err(Error::op(
                "E0313",
                format!("has dimension {dim} twice in '{name}'"),
            ));
        }
        dims.push(dim);
    }
    Ok(dims)
}

/// The extents of a type without dynamic ones.
///
/// # Errors
/// `E0317` if there is a dynamic one, or too many elements.
pub(crate) fn static_shape(ty: &TensorType) -> Result<Vec<usize>, Error> {
    expect_static("result", ty)?;
    let extents = ty.shape.iter().map(|&d| usize::try_from(d));
    extents.collect::<Result<_, _>>().map_err(|_| {
        Error::op(
            "E0317",
            format!("has an impossible shape {}", shape(&ty.shape)),
        )
    })
}

fn infer_reshape(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let (x, y) = (cx.args.one("x")?, cx.given("y")?);
    if let (Some(from), Some(to)) = (x.elements(), y.elements())
        && from != to
    {
        return Err(Error::op(
            "E0317",
            format!(
                "has {from} elements, but its result {} holds {to}",
                shape(&y.shape)
            ),
        ));
    }
    Ok(vec![TensorType::new(&y.shape[..], x.dtype)])
}

fn infer_transpose(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    let perm = distinct_dimensions(cx.attrs, "perm", x.rank())?;
    if perm.len() != x.rank() {
        return Err(Error::op(
            "E0313",
            format!(
                "names {} dimensions in 'perm', but its operand has {}",
                perm.len(),
                x.rank()
            ),
        ));
    }
    let extents: Vec<i64> = perm.iter().map(|&d| x.shape[d]).collect();
    Ok(vec![TensorType::new(extents, x.dtype)])
}

fn infer_slice(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    let dims = distinct_dimensions(cx.attrs, "dims", x.rank())?;
    let (starts, sizes) = (cx.attrs.ints("starts")?, cx.attrs.ints("sizes")?);
    let axes = cx.attrs.string_lists("axes")?;
    if [starts.len(), sizes.len(), axes.len()] != [dims.len(); 3] {
        return Err(Error::op(
            "E0316",
            "needs as many 'starts', 'sizes' and 'axes' as 'dims'",
        ));
    }
    let mut y = x.clone();
    let mut used = Vec::new();
    for (i, &dim) in dims.iter().enumerate() {
        let (start, size) = (starts[i], sizes[i]);
        let windows = match axes[i].is_empty() {
            true => 1,
            false => {
                used.extend_from_slice(&axes[i]);
                let mesh = cx.mesh()?;
                mesh.group_size(&mesh.axis_set(&used).and(mesh.axis_set(&axes[i]))?) as i64
            }
        };
        let end = size.checked_mul(windows).and_then(|n| n.checked_add(start));
        let inside = |end: i64| x.shape[dim] == DYNAMIC || end <= x.shape[dim];
        if start < 0 || size < 0 || !end.is_some_and(inside) {
            return Err(Error::op(
                "E0316",
                format!(
                    "takes {windows} windows of {size} elements from {start} on, but dimension {dim} has {}",
                    shape(&x.shape[dim..=dim])
                ),
            ));
        }
        y.shape[dim] = size;
    }
    Ok(vec![y])
}

/// The type of tensors joined along `dim`; they agree elsewhere.
fn joined(xs: &[TensorType], dim: usize) -> Result<TensorType, Error> {
    let mut y = xs[0].clone();
    y.shape[dim] = 0;
    for x in xs {
        let mut like = x.clone();
        if let Some(extent) = like.shape.get_mut(dim) {
            *extent = y.shape[dim];
        }
        if !shapes_agree(&like.shape, &y.shape) {
            return Err(Error::op(
                "E0317",
                format!(
                    "joins shapes {} and {}, which differ not only along dimension {dim}",
                    shape(&xs[0].shape),
                    shape(&x.shape)
                ),
            ));
        }
        y.shape[dim] = match (y.shape[dim], x.shape[dim]) {
            (DYNAMIC, _) | (_, DYNAMIC) => DYNAMIC,
            (a, b) => a
                .checked_add(b)
                .ok_or_else(|| Error::op("E0317", "has too large a result"))?,
        };
    }
    Ok(y)
}

fn infer_concat(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let ty = one_type(cx)?;
    let dim = dimension(cx.attrs, "dim", ty.rank())?;
    Ok(vec![joined(cx.args.many("xs"), dim)?])
}

fn infer_concat_pair(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    same_dtype(cx, "a", "b")?;
    let dim = dimension(cx.attrs, "dim", cx.args.one("a")?.rank())?;
    Ok(vec![joined(cx.args.all(), dim)?])
}

fn infer_split(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let x = cx.args.one("x")?;
    let dim = dimension(cx.attrs, "dim", x.rank())?;
    let parts = cx.count("parts");
    if parts == 0 {
        return Err(Error::op("E0304", "needs at least one result"));
    }
    let mut part = x.clone();
    if x.shape[dim] != DYNAMIC {
        if x.shape[dim] % parts as i64 != 0 {
            return Err(Error::op(
                "E0315",
                format!(
                    "cannot cut extent {} into {parts} equal parts",
                    x.shape[dim]
                ),
            ));
        }
        part.shape[dim] /= parts as i64;
    }
    Ok(vec![part; parts])
}

fn infer_stack(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    let mut y = one_type(cx)?;
    let dim = dimension(cx.attrs, "dim", y.rank() + 1)?;
    y.shape.insert(dim, cx.args.many("xs").len() as i64);
    Ok(vec![y])
}

/// The family.
pub static OPS: &[OpDef] = &[RESHAPE, TRANSPOSE, SLICE, CONCAT, CONCAT_PAIR, SPLIT, STACK];
