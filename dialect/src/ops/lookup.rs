//! Tables of vectors, and their gradients.

use super::infer::{expect_float, expect_ints, expect_shape, shape};
use super::parts::{SECOND_ORDER, attr_or, one};
use super::rules::{AxisCx, LayoutCx, Term};
use super::softmax::check_axes;
use super::{
    AttrDef, AttrDefault, AttrKind, Effects, GradientCx, InferCx, OpDef, Pretty, TypeShape, Uniform,
};
use crate::error::Error;
use crate::ir::ValueId;
use crate::layout::{Layout, Reduction, Spread};
use crate::reference;
use crate::tensor_type::TensorType;

const OVER: Pretty = Pretty::Uniform(Uniform::new(TypeShape::Signature).over("axes"));
const AXES: AttrDef = attr_or(
    "axes",
    AttrKind::Axes,
    AttrDefault::EmptyArray,
    "the mesh axes that cut the table's rows, none if every rank has all of them",
);

/// `dist.embedding`
pub const EMBEDDING: OpDef = OpDef {
    name: "dist.embedding",
    summary: "rows of a table",
    description: "\
`out[…] = table[ids[…]]`: ids are `[…]`, the table is `[rows, features]`, out is `[…, features]`. With `axes` each rank has its \
piece of the rows, in group order; ids that are in another rank's piece give 0, so that out is a partial sum over `axes` \
(Megatron-LM's vocab-parallel embedding). An id that is in no rank's piece is an error when it runs.",
    operands: &[
        one("ids", "`[…]`, integers that count through all rows"),
        one("table", "`[rows, features]`, floats"),
    ],
    results: &[one("out", "`[…, features]`")],
    attrs: &[AXES],
    effects: Effects::Pure,
    pretty: OVER,
    infer: Some(infer_embedding),
    eval: Some(reference::lookup::embedding),
    gradient: Some(gradient_embedding),
    layout: Some(layout_embedding),
    ..OpDef::NONE
};

/// `dist.embedding_grad`
pub const EMBEDDING_GRAD: OpDef = OpDef {
    name: "dist.embedding_grad",
    summary: "gradient of embedding",
    description: "\
Row r of dtable is the sum of dout over the positions whose id is r. With `axes` a rank's dtable holds the rows of its piece. The \
result type says how many rows there are.",
    operands: &[
        one("ids", "as in the forward op"),
        one("dout", "gradient of the output, `[…, features]`"),
    ],
    results: &[one("dtable", "the table's type")],
    attrs: &[AXES],
    effects: Effects::Pure,
    pretty: OVER,
    infer: Some(infer_embedding_grad),
    eval: Some(reference::lookup::embedding_grad),
    no_gradient: Some(SECOND_ORDER),
    layout: Some(layout_embedding_grad),
    ..OpDef::NONE
};

/// The features of a table.
fn features(name: &str, table: &TensorType) -> Result<i64, Error> {
    expect_float(name, table)?;
    match table.shape[..] {
        [_, features] => Ok(features),
        _ => Err(Error::op(
            "E0313",
            format!(
                "'{name}' must have rank 2, but its shape is {}",
                shape(&table.shape)
            ),
        )),
    }
}

fn infer_embedding(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_axes(cx)?;
    let (ids, table) = (cx.args.one("ids")?, cx.args.one("table")?);
    expect_ints("ids", ids)?;
    let mut out = ids.shape.clone();
    out.push(features("table", table)?);
    Ok(vec![TensorType::new(out, table.dtype)])
}

fn infer_embedding_grad(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_axes(cx)?;
    let (ids, dout) = (cx.args.one("ids")?, cx.args.one("dout")?);
    let table = cx.given("dtable")?;
    expect_ints("ids", ids)?;
    let mut expected = ids.shape.clone();
    expected.push(features("dtable", table)?);
    expect_shape("dout", dout, &expected)?;
    Ok(vec![TensorType::new(&table.shape[..], dout.dtype)])
}

/// Labels: positions count from 0, then rows and features.
const ROWS: usize = usize::MAX - 1;
const FEATURES: usize = usize::MAX;

/// Labels of `[…, features]`.
fn out_labels(positions: usize) -> Vec<Option<usize>> {
    (0..positions).map(Some).chain([Some(FEATURES)]).collect()
}

fn layout_embedding(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let group = cx.group()?;
    let positions = cx.args.one("ids")?.ty.rank();
    cx.counts_pieces("table", 0, &group)?;
    let out = out_labels(positions);
    cx.per_axis(|ax| {
        let table = ax.term("table", vec![Some(ROWS), Some(FEATURES)])?;
        if group.contains(&ax.axis) {
            ax.whole("ids")?;
            return match table.spread {
                Spread::Sharded(0) => Ok(vec![Spread::Partial(Reduction::Sum)]),
                _ => Err(rows_not_cut(ax, "table")),
            };
        }
        if table.spread == Spread::Sharded(0) {
            return Err(ax.sharded_error("table", 0).with_help(format!(
                "`over [\"{}\"]` looks up what each rank has and gives a partial sum",
                ax.axis_name()
            )));
        }
        let ids = ids(ax, positions)?;
        Ok(vec![ax.product(&ids, &table, &out)?])
    })
}

fn ids(ax: &AxisCx, positions: usize) -> Result<Term, Error> {
    let ids = ax.term("ids", (0..positions).map(Some).collect())?;
    match ids.spread {
        Spread::Partial(reduction) => Err(ax.partial_error("ids", reduction)),
        _ => Ok(ids),
    }
}

fn rows_not_cut(ax: &AxisCx, name: &str) -> Error {
    let axis = ax.axis_name();
    Error::op(
        "E0344",
        format!("looks up over axis '{axis}', which does not cut the rows of '{name}'"),
    )
    .with_help("`axes` names the mesh axes that cut the first dimension of the table")
}

fn layout_embedding_grad(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let group = cx.group()?;
    let positions = cx.args.one("ids")?.ty.rank();
    cx.per_axis(|ax| {
        if group.contains(&ax.axis) {
            ax.whole("ids")?;
            ax.whole("dout")?;
            return Ok(vec![Spread::Sharded(0)]);
        }
        let ids = ids(ax, positions)?;
        let dout = ax.term("dout", out_labels(positions))?;
        let table = [Some(ROWS), Some(FEATURES)];
        Ok(vec![ax.product(&ids, &dout, &table)?])
    })
}

fn gradient_embedding(cx: &mut GradientCx) -> Result<Vec<Option<ValueId>>, Error> {
    let (op, ids, dout) = (cx.op(), cx.operand("ids")?, cx.dout("out")?);
    let table = cx.builder.ty(cx.operand("table")?)?;
    let dtable = cx.emit("dist.embedding_grad")?.one(ids).one(dout);
    let dtable = dtable.like(op, &["axes"]).tensor(&table.shape, table.dtype);
    Ok(vec![None, Some(dtable.value()?)])
}

/// The family.
pub static OPS: &[OpDef] = &[EMBEDDING, EMBEDDING_GRAD];
