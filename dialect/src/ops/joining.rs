//! Ops that join tensors, and that take them apart.

use super::elementwise::{one_type, terms};
use super::infer::{same_dtype, shape};
use super::parts::{attr, one, variadic};
use super::rules::{AxisCx, LayoutCx, Term, labels};
use super::shape::dimension;
use super::{AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::ir::{DYNAMIC, ValueId};
use crate::layout::{Layout, Spread};
use crate::reference;
use crate::tensor_type::{TensorType, shapes_agree};

const SIGNATURE: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature));

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
    gradient: Some(gradient_concat),
    layout: Some(layout_concat),
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
    gradient: Some(gradient_concat_pair),
    layout: Some(layout_concat_pair),
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
    gradient: Some(gradient_split),
    layout: Some(layout_split),
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
    gradient: Some(gradient_stack),
    layout: Some(layout_stack),
    ..OpDef::NONE
};

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

/// A rule for joining: all operands are alike, and the joined dimension is not cut. Tensors that are partial in the same way stay so.
fn joined_spread(ax: &AxisCx, terms: &[Term], dim: Option<usize>) -> Result<Spread, Error> {
    let Some(first) = terms.first() else {
        return Ok(Spread::Replicated);
    };
    let alike = terms.iter().all(|t| t.spread == first.spread);
    match first.spread {
        Spread::Sharded(d) if alike && terms.len() > 1 && dim == Some(d) => {
            Err(ax.sharded_error(first.name, d))
        }
        spread if alike => Ok(spread),
        _ => ax.elementwise(
            &terms.iter().collect::<Vec<_>>(),
            &labels(first.labels.len()),
        ),
    }
}

fn layout_concat(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let rank = cx.results.one("y")?.rank();
    let dim = dimension(cx.attrs, "dim", rank)?;
    cx.per_axis(|ax| Ok(vec![joined_spread(ax, &terms(ax), Some(dim))?]))
}

fn layout_concat_pair(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let rank = cx.results.one("y")?.rank();
    let dim = dimension(cx.attrs, "dim", rank)?;
    cx.per_axis(|ax| {
        let terms = [ax.term("a", labels(rank))?, ax.term("b", labels(rank))?];
        Ok(vec![joined_spread(ax, &terms, Some(dim))?])
    })
}

fn layout_split(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let dim = dimension(cx.attrs, "dim", cx.args.one("x")?.ty.rank())?;
    let parts = cx.results.all().len();
    cx.per_axis(|ax| match ax.spread("x")? {
        Spread::Sharded(d) if d == dim && parts > 1 => Err(ax.sharded_error("x", d)),
        spread => Ok(vec![spread; parts]),
    })
}

fn layout_stack(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let dim = dimension(cx.attrs, "dim", cx.results.one("y")?.rank())?;
    cx.per_axis(|ax| {
        Ok(vec![match joined_spread(ax, &terms(ax), None)? {
            Spread::Sharded(d) if d >= dim => Spread::Sharded(d + 1),
            spread => spread,
        }])
    })
}

fn gradient_concat(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, dout) = (cx.op(), cx.dout("y")?);
    let parts = cx.operands("xs").len();
    let split = cx.emit("dist.split")?.one(dout).like(op, &["dim"]);
    let split = split.counts(&[parts]).build()?;
    let module = cx.builder.rewriter.module();
    Ok(module.results(split).map(Some).collect())
}

/// `size` elements of a dimension of a value, from `start` on.
fn window(
    cx: &mut GradientCx,
    value: ValueId,
    dim: i64,
    [start, size]: [i64; 2],
) -> Result<ValueId, Error> {
    let everywhere = cx.cx().array(&[cx.cx().array(&[])]);
    cx.emit("dist.slice")?
        .one(value)
        .ints("dims", &[dim])
        .ints("starts", &[start])
        .ints("sizes", &[size])
        .attr("axes", everywhere)
        .value()
}

fn gradient_concat_pair(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (dim, dout) = (cx.attrs(|a| a.int("dim"))?, cx.dout("y")?);
    let mut start = 0;
    let mut gradients = Vec::new();
    for name in ["a", "b"] {
        let size = cx.builder.ty(cx.operand(name)?)?.shape[dim as usize];
        gradients.push(match cx.needs(name) {
            true => Some(window(cx, dout, dim, [start, size])?),
            false => None,
        });
        start += size;
    }
    Ok(gradients)
}

/// The parts' gradients joined; where parts are not used, those that are stand between zeros.
fn gradient_split(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (x, op) = (cx.operand("x")?, cx.op());
    let mut parts = cx.raw_douts("parts");
    for part in parts.iter_mut().flatten() {
        *part = cx.builder.reduced(*part)?;
    }
    if let Some(all) = parts.iter().copied().collect::<Option<Vec<_>>>() {
        let joined = cx.emit("dist.concat")?.many(&all).like(op, &["dim"]);
        return Ok(vec![Some(joined.value()?)]);
    }
    let dim = cx.attrs(|a| a.int("dim"))?;
    let everywhere = cx.cx().array(&[cx.cx().array(&[])]);
    let mut padded = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let Some(part) = *part else {
            continue;
        };
        let size = cx.builder.ty(part)?.shape[dim as usize];
        let window = cx.emit("dist.slice_grad")?.one(x).one(part);
        let window = window
            .ints("dims", &[dim])
            .ints("starts", &[index as i64 * size])
            .ints("sizes", &[size])
            .attr("axes", everywhere);
        padded.push(window.value()?);
    }
    Ok(vec![match padded[..] {
        [] => None,
        [only] => Some(only),
        _ => Some(cx.emit("dist.sum")?.many(&padded).value()?),
    }])
}

fn gradient_stack(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (dim, dout) = (cx.attrs(|a| a.int("dim"))?, cx.dout("y")?);
    let xs = cx.operands("xs");
    let mut gradients = Vec::new();
    for (index, &x) in xs.iter().enumerate() {
        let ty = cx.builder.ty(x)?;
        let slice = window(cx, dout, dim, [index as i64, 1])?;
        let back = cx.emit("dist.reshape")?.one(slice);
        gradients.push(Some(back.tensor(&ty.shape, ty.dtype).value()?));
    }
    Ok(gradients)
}

/// The family.
pub static OPS: &[OpDef] = &[CONCAT, CONCAT_PAIR, SPLIT, STACK];
