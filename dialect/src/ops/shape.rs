//! Ops that arrange the elements of one tensor anew.

use super::attributes::Attrs;
use super::infer::{expect_shape, expect_static, same_dtype, shape};
use super::parts::{SECOND_ORDER, attr, one};
use super::rules::{AxisCx, LayoutCx};
use super::{AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::{DYNAMIC, ValueId};
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

/// A note on a reshape: of the dimensions that a cut one may have become, it is the outermost, though its extent is 1.
pub const OUTERMOST: &str = "dist.outermost";

/// `dist.reshape`
pub const RESHAPE: OpDef = OpDef {
    name: "dist.reshape",
    summary: "the same elements, in row-major order, in another shape",
    description: "\
The result type says which shape; the number of elements stays. A sharded dimension may be merged with those after it or be \
split, if it is (or stays) the outermost of its part. Where a piece of extent n becomes 1×n, the dimension of extent n counts as cut, \
unless `dist.outermost = true` says that it is the other one: so it is where a rank has one of several heads.",
    operands: &[one("x", "any tensor")],
    results: &[one("y", "as many elements")],
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_reshape),
    eval: Some(reference::shape::reshape),
    gradient: Some(gradient_reshape),
    layout: Some(layout_reshape),
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
    gradient: Some(gradient_transpose),
    layout: Some(layout_transpose),
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
    gradient: Some(gradient_slice),
    layout: Some(layout_slice),
    ..OpDef::NONE
};

/// `dist.slice_grad`
pub const SLICE_GRAD: OpDef = OpDef {
    name: "dist.slice_grad",
    summary: "gradient of slice",
    description: "\
dx has x's shape: dout where the window of the forward op was, 0 elsewhere. Where the window is a different one on each rank, dx \
is a partial sum.",
    operands: &[
        one("x", "input of the forward op; only its shape is read"),
        one("dout", "gradient of its output"),
    ],
    results: &[one("dx", "x's type")],
    attrs: SLICE.attrs,
    effects: Effects::Pure,
    pretty: SIGNATURE,
    infer: Some(infer_slice_grad),
    eval: Some(reference::shape::slice_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_slice_grad),
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

fn infer_slice_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    same_dtype(cx, "x", "dout")?;
    expect_shape("dout", cx.args.one("dout")?, &infer_slice(cx)?[0].shape)?;
    Ok(vec![cx.args.one("x")?.clone()])
}

/// A rule for ops that move the elements of `x` without combining them: `dim` says where a cut dimension goes.
fn moved(
    cx: &LayoutCx,
    dim: impl Fn(&AxisCx, usize) -> Result<usize, Error>,
) -> Result<Vec<Layout>, Error> {
    cx.per_axis(|ax| match ax.spread("x")? {
        Spread::Sharded(d) => Ok(vec![Spread::Sharded(dim(ax, d)?)]),
        spread => Ok(vec![spread]),
    })
}

fn layout_reshape(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let (x, y) = (&cx.args.one("x")?.ty.shape, &cx.results.one("y")?.shape);
    let outermost = cx.attrs.bool(OUTERMOST).unwrap_or(false);
    moved(cx, |ax, dim| {
        reshaped_dimension(x, y, dim, outermost).ok_or_else(|| {
            Error::op(
                "E0340",
                format!(
                    "reshapes {} to {}, which takes the pieces apart that axis '{}' makes of dimension {dim}",
                    shape(x),
                    shape(y),
                    ax.axis_name()
                ),
            )
            .with_help("the dimension must be the outermost of those that it is merged with or split into")
        })
    })
}

/// Where a cut dimension goes in a reshape of the local shape: shapes are taken apart into runs with equal products, and the dimension
/// must come first in its run. Dimensions of extent 1 belong to several runs: of those that begin at one place, the first of the operand
/// is the first of the result, and so on. The one that is longer stays the longer one, unless it is said to be the `outermost` that is
/// left.
fn reshaped_dimension(from: &[i64], to: &[i64], dim: usize, outermost: bool) -> Option<usize> {
    if from.contains(&DYNAMIC) || to.contains(&DYNAMIC) {
        return None;
    }
    let product = |extents: &[i64]| extents.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
    let before = product(&from[..dim])?;
    let begins: Vec<usize> = (0..to.len())
        .filter(|&d| product(&to[..d]) == Some(before))
        .collect();
    let earlier = (0..dim).filter(|&d| product(&from[..d]) == Some(before));
    let like = begins.get(earlier.count()).or(begins.last()).copied();
    match from[dim] {
        1 => like,
        _ if outermost => like,
        _ => begins.into_iter().find(|&d| to[d] != 1),
    }
}

fn layout_transpose(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let rank = cx.args.one("x")?.ty.rank();
    let perm = distinct_dimensions(cx.attrs, "perm", rank)?;
    moved(cx, |_, dim| {
        perm.iter()
            .position(|&d| d == dim)
            .ok_or_else(|| Error::op("E0313", "has no permutation in 'perm'"))
    })
}

fn layout_slice(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let x = cx.args.one("x")?;
    let dims = distinct_dimensions(cx.attrs, "dims", x.ty.rank())?;
    let (starts, sizes) = (cx.attrs.ints("starts")?, cx.attrs.ints("sizes")?);
    let lists = cx.attrs.string_lists("axes")?;
    let mut layout = x.layout.clone();
    let error = |axis: usize, what: String| {
        let axis = &cx.mesh.axes()[axis];
        Error::op("E0340", format!("cuts {what} along axis '{axis}'"))
    };
    for (i, &dim) in dims.iter().enumerate() {
        let axes = cx.mesh.axis_set(&lists[i])?;
        let windows = cx.mesh.group_size(&axes) as i64;
        let all = starts[i] == 0 && sizes[i].checked_mul(windows) == Some(x.ty.shape[dim]);
        let cut = layout.dims[dim].iter().find(|&&a| cx.mesh.sizes()[a] > 1);
        if let (Some(&axis), false) = (cut, all) {
            return Err(error(
                axis,
                format!("a window out of dimension {dim}, which is already cut"),
            ));
        }
        for axis in axes {
            if cx.mesh.sizes()[axis] == 1 {
                continue;
            }
            match x.layout.on(axis) {
                Spread::Replicated => layout.set(axis, Spread::Sharded(dim)),
                _ => return Err(error(axis, "a value that is not whole".into())),
            }
        }
    }
    Ok(vec![layout])
}

/// The zeros of the ranks along an axis that shifts the window complement each other.
fn layout_slice_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let x = cx.args.one("x")?;
    let dims = distinct_dimensions(cx.attrs, "dims", x.ty.rank())?;
    let mut shifting = vec![None; cx.mesh.axes().len()];
    for (&dim, names) in dims.iter().zip(cx.attrs.string_lists("axes")?) {
        for axis in cx.mesh.axis_set(&names)? {
            shifting[axis] = Some(dim);
        }
    }
    cx.per_axis(|ax| {
        let (x, dout) = (ax.spread("x")?, ax.spread("dout")?);
        let spread = match (shifting[ax.axis], dout) {
            (_, Spread::Own) => return Err(ax.own_error("dout")),
            (_, Spread::Partial(r)) if !r.is_linear() => return Err(ax.partial_error("dout", r)),
            (Some(dim), Spread::Sharded(d)) if d == dim => Spread::Partial(Reduction::Sum),
            (Some(dim), _) => {
                let message = format!(
                    "has a window of its own on each rank along axis '{}', but 'dout' is not cut there along dimension {dim}",
                    ax.axis_name()
                );
                return Err(Error::op("E0340", message));
            }
            (None, Spread::Sharded(d)) if dims.contains(&d) => {
                return Err(ax.sharded_error("dout", d));
            }
            (None, _) => dout,
        };
        match x {
            Spread::Sharded(d) if spread != x => Err(ax.sharded_error("x", d)),
            _ => Ok(vec![spread]),
        }
    })
}

/// Back to x's shape. A dimension that is cut down to extent 1 is not taken for one that never was longer.
fn gradient_reshape(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, dout) = (cx.operand("x")?, cx.dout("y")?);
    let ty = cx.builder.ty(x)?;
    // Every cut dimension has to come back to where it was.
    let (from, to) = (cx.builder.ty(dout)?.shape, &ty.shape);
    let (of_x, of_dout) = (cx.builder.layout(x)?, cx.builder.layout(dout)?);
    let returns = |outermost: bool| {
        (0..cx.mesh().axes().len()).all(|axis| match (of_dout.on(axis), of_x.on(axis)) {
            (Spread::Sharded(at), Spread::Sharded(home)) if cx.mesh().sizes()[axis] > 1 => {
                reshaped_dimension(&from, to, at, outermost) == Some(home)
            }
            _ => true,
        })
    };
    let outermost = !returns(false) && returns(true);
    let mut back = cx.emit("dist.reshape")?.one(dout);
    if outermost {
        back = back.bool(OUTERMOST, true);
    }
    Ok(vec![Some(back.tensor(&ty.shape, ty.dtype).value()?)])
}

fn gradient_transpose(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let perm = cx.attrs(|a| a.ints("perm"))?;
    let mut back = vec![0; perm.len()];
    for (to, &from) in perm.iter().enumerate() {
        back[from as usize] = to as i64;
    }
    let dout = cx.dout("y")?;
    let dx = cx.emit("dist.transpose")?.one(dout).ints("perm", &back);
    Ok(vec![Some(dx.value()?)])
}

/// A whole value of which each rank took its piece gets the pieces' gradients, gathered. Any other window is padded.
fn gradient_slice(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, op, dout) = (cx.operand("x")?, cx.op(), cx.dout("y")?);
    let extents = cx.builder.ty(x)?.shape;
    let dims = cx.attrs(|a| a.ints("dims"))?;
    let (starts, sizes) = (
        cx.attrs(|a| a.ints("starts"))?,
        cx.attrs(|a| a.ints("sizes"))?,
    );
    let names = cx.attrs(|a| a.string_lists("axes"))?;
    if let ([dim], [0], [size], [names]) = (&dims[..], &starts[..], &sizes[..], &names[..])
        && !names.is_empty()
    {
        let axes = cx.mesh().axis_set(names)?;
        if size * cx.mesh().group_size(&axes) as i64 == extents[*dim as usize] {
            let axes = cx.builder.axes_attr(&axes);
            let gather = cx.emit("dist.all_gather")?.one(dout).int("dim", *dim);
            return Ok(vec![Some(gather.attr("axes", axes).value()?)]);
        }
    }
    let dx = cx.emit("dist.slice_grad")?.one(x).one(dout);
    let dx = dx.like(op, &["dims", "starts", "sizes", "axes"]);
    Ok(vec![Some(dx.value()?)])
}

/// The family.
pub static OPS: &[OpDef] = &[RESHAPE, TRANSPOSE, SLICE, SLICE_GRAD];
