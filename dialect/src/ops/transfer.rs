//! What two ranks tell each other, and where all wait.

use super::collectives::AXES;
use super::parts::{attr, one};
use super::rules::LayoutCx;
use super::{AttrDef, AttrKind, Effects, InferCx, OpDef, Pretty, TypeShape, Uniform};
use crate::error::Error;
use crate::layout::Layout;
use crate::tensor_type::TensorType;

const PEER: AttrDef = attr(
    "peer",
    AttrKind::Dict,
    "axis = index: the other rank's coordinate on these axes; on the others it is this rank's own",
);
const TAG: AttrDef = attr(
    "tag",
    AttrKind::I64,
    "pairs a send with its receive among those between the same two ranks",
);

/// The note on a receive that says how the value is spread.
pub const RECEIVED: &str = "dist.layout";

/// `dist.send`
pub const SEND: OpDef = OpDef {
    name: "dist.send",
    summary: "gives a tensor to another rank",
    description: "Meets the `dist.recv` of the peer that names this rank and carries the same tag; type and shape agree.",
    operands: &[one("x", "any tensor")],
    attrs: &[PEER, TAG],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same)),
    infer: Some(infer_send),
    layout: Some(layout_send),
    no_gradient: Some("a program is differentiated before it is cut into stages"),
    ..OpDef::NONE
};

/// `dist.recv`
pub const RECV: OpDef = OpDef {
    name: "dist.recv",
    summary: "takes a tensor from another rank",
    description: "\
Meets the `dist.send` of the peer that names this rank and carries the same tag; type and shape agree. `dist.layout` notes how the \
value is spread, as for a function's argument.",
    results: &[one("y", "the sent type")],
    attrs: &[PEER, TAG],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same)),
    infer: Some(infer_recv),
    layout: Some(layout_recv),
    ..OpDef::NONE
};

/// `dist.barrier`
pub const BARRIER: OpDef = OpDef {
    name: "dist.barrier",
    summary: "waits for the whole group",
    description: "No rank of the group passes before all have arrived.",
    attrs: &[AXES],
    effects: Effects::Communicates,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Nothing).over("axes")),
    infer: Some(infer_barrier),
    layout: Some(layout_barrier),
    ..OpDef::NONE
};

/// The peer is a rank of the mesh.
fn check_peer(cx: &InferCx) -> Result<(), Error> {
    let mesh = cx.mesh()?;
    for (axis, index) in cx.attrs.int_dict("peer")? {
        let size = mesh.sizes()[mesh.axis_set(&[&axis])?[0]];
        if !(0..size as i64).contains(&index) {
            return Err(Error::IndexOutside { axis, index, size });
        }
    }
    Ok(())
}

fn infer_send(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_peer(cx)?;
    Ok(vec![])
}

fn infer_recv(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    check_peer(cx)?;
    Ok(vec![cx.given("y")?.clone()])
}

fn infer_barrier(cx: &InferCx) -> Result<Vec<TensorType>, Error> {
    cx.group_size()?;
    Ok(vec![])
}

/// What a rank sends may be anything: a piece, a part or a copy.
fn layout_send(_: &LayoutCx) -> Result<Vec<Layout>, Error> {
    Ok(vec![])
}

/// A received value is spread as what the peers sent, which the op notes.
fn layout_recv(cx: &LayoutCx) -> Result<Vec<Layout>, Error> {
    let rank = cx.results.one("y")?.rank();
    let noted = cx.attrs.layout(RECEIVED, cx.mesh, rank)?;
    let layout = noted.ok_or_else(|| {
        Error::op(
            "E0345",
            "is spread as what its peer sends, which is not known here",
        )
        .with_help(format!("note it: `{RECEIVED} = #dist.layout<…>`"))
    })?;
    Ok(vec![layout])
}

fn layout_barrier(_: &LayoutCx) -> Result<Vec<Layout>, Error> {
    Ok(vec![])
}

/// The family.
pub static OPS: &[OpDef] = &[SEND, RECV, BARRIER];
