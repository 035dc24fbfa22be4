//! What lowering adds: when storage ends, and how streams wait for each other.
//!
//! An op that carries `dist.stream = "name"` is put on that stream of its rank; one without is on the stream `compute`. Ops of one
//! stream run in order; ops of different streams run side by side, unless one waits for an event that the other recorded.

use super::parts::{attr, one};
use super::{AttrDef, AttrKind, Effects, OpDef, Pretty, TypeShape, Uniform};

/// The note that says which stream an op is put on.
pub const STREAM: &str = "dist.stream";
/// The stream of ops without the note.
pub const COMPUTE: &str = "compute";

const EVENT: &[AttrDef] = &[
    attr(
        "event",
        AttrKind::Str,
        "names the event among those of the rank and the micro-batch",
    ),
    attr("stream", AttrKind::Str, "a stream of the rank"),
];

/// `dist.free`
pub const FREE: OpDef = OpDef {
    name: "dist.free",
    summary: "ends the storage of a value",
    description: "\
Nothing of this function reads x afterwards, and no later job does. On a stream (`dist.stream`) the storage is given back once the stream \
has come so far, as CUDA's `cudaMallocAsync` and `cudaFreeAsync` do.",
    operands: &[one("x", "any tensor")],
    effects: Effects::Opaque,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Same)),
    no_gradient: Some("memory is planned after differentiation"),
    ..OpDef::NONE
};

/// `dist.event_record`
pub const EVENT_RECORD: OpDef = OpDef {
    name: "dist.event_record",
    summary: "marks how far a stream has come",
    description: "The event happens when the stream has done what was put on it before.",
    attrs: EVENT,
    effects: Effects::Opaque,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Nothing)),
    ..OpDef::NONE
};

/// `dist.event_wait`
pub const EVENT_WAIT: OpDef = OpDef {
    name: "dist.event_wait",
    summary: "lets a stream wait for an event",
    description: "\
What is put on the stream afterwards starts after the event has happened. The event was recorded before, in this job or in an earlier one \
of the micro-batch; in the optimizer it means that of every micro-batch. An event that was never recorded does not hold anything up.",
    attrs: EVENT,
    effects: Effects::Opaque,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Nothing)),
    ..OpDef::NONE
};

/// The family.
pub static OPS: &[OpDef] = &[FREE, EVENT_RECORD, EVENT_WAIT];
