//! `overlap-comm`: puts sends, and receives too, on streams of their own.
//!
//! ```text
//! %1 = dist.matmul %0, %w                    %1 = dist.matmul %0, %w
//! dist.send %1                               dist.event_record {event = "7.ready", stream = "compute"}
//! %2 = dist.recv                             dist.event_wait {event = "7.ready", stream = "send:pp=1:forward"}
//! %3 = dist.gelu_grad %p, %2          ──▶    dist.send %1 {dist.stream = "send:pp=1:forward", dist.channel = "pp:0>1"}
//!                                            dist.event_record {event = "7.sent", stream = "send:pp=1:forward"}
//!                                            %2 = dist.recv {dist.stream = "recv:pp=1:backward:8", dist.channel = "pp:1>0"}
//!                                            dist.event_record {event = "8.received", stream = "recv:pp=1:backward:8"}
//!                                            dist.event_wait {event = "8.received", stream = "compute"}
//!                                            %3 = dist.gelu_grad %p, %2
//! ```
//!
//! Two modes, those of Paddle's pipelines. *Overlapped*, above: nothing but values orders streams. *Synchronised*: one stream for sends;
//! receives stay in the compute stream. The end of a forward send is awaited when the backward of its stage begins, unless that
//! receives from the same rank, which cannot have sent before it received; the end of a backward send before the optimizer.
//!
//! What is sent is freed on the stream that sends it ([`guard_frees`]), so it cannot go while it is in flight. Each receive of the
//! overlapped mode has a stream of its own, each direction between two ranks a channel of its own, and the module lists all channels
//! in the order in which every rank opens them. `verify-streams` proves all that of the result.

mod frees;
mod waits;

use std::collections::BTreeSet;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, Rewriter, ValueId};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::lowered::{COMPUTE, STREAM};

pub use frees::guard_frees;

use crate::analysis::memory::{classes, functions};
use crate::analysis::streams::{self, CHANNEL, CHANNELS};
use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef};

/// The stream of sends in the synchronised mode.
const COMMUNICATION: &str = "communication";

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "overlap-comm",
    summary: "put sends and receives on streams of their own",
    description: "Sends leave the compute stream, and receives too when overlapped; events make streams wait for each other. Run it after \
                  partition-stages, before plan-memory or after it. Sends and receives that have a stream already stay.",
    anchor: Anchor::Top,
    options: &[OptionDef {
        name: "mode",
        kind: OptionKind::Word(&["overlapped", "synchronised"]),
        default: "overlapped",
        doc: "only values order streams; or sends have one stream, whose end the backward and the optimizer await",
    }],
    build: |options| {
        Box::new(OverlapComm {
            mode: match options.text("mode") {
                "synchronised" => Mode::Synchronised,
                _ => Mode::Overlapped,
            },
        })
    },
};

/// How streams wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Overlapped,
    Synchronised,
}

struct OverlapComm {
    mode: Mode,
}

/// A send that has left the compute stream.
struct Sent {
    op: OpId,
    function: OpId,
    /// The event after it.
    event: String,
    backward: bool,
}

impl Pass for OverlapComm {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let mut channels = BTreeSet::new();
        let listed = module.attr(target, CHANNELS);
        if let Some(listed) = listed.and_then(|a| module.cx().as_string_array(a)) {
            channels.extend(listed.into_iter().map(str::to_owned));
        }
        let mut count = 0;
        for class in classes(module) {
            let mut sent = Vec::new();
            for function in functions(module, class) {
                count += self.function(module, class, function, &mut channels, &mut sent);
            }
            if self.mode == Mode::Synchronised {
                waits::insert(module, class, &sent);
            }
            guard_frees(&mut Rewriter::new(module), class);
        }
        let loc = module.loc(target);
        if !channels.is_empty() {
            let names: Vec<&String> = channels.iter().collect();
            let list = module.cx().string_array(&names);
            Rewriter::new(module).set_attr(target, CHANNELS, Some(list));
        }
        cx.remark("R0752", loc, || match count {
            0 => "nothing to overlap: no job sends or receives".into(),
            _ => format!("put {count} sends and receives on streams of their own"),
        });
        let wrong: Vec<Diagnostic> = streams::check(module);
        match wrong.is_empty() {
            true => Ok(()),
            false => {
                wrong.into_iter().for_each(|d| cx.report(d));
                Err(Failed)
            }
        }
    }
}

impl OverlapComm {
    fn function(
        &self,
        module: &mut Module,
        class: OpId,
        function: OpId,
        channels: &mut BTreeSet<String>,
        sent: &mut Vec<Sent>,
    ) -> usize {
        let block = module.body(function);
        let ops: Vec<_> = module
            .block_ops(block)
            .filter(|&op| matches!(module.name_str(op), "dist.send" | "dist.recv"))
            .filter(|&op| module.attr(op, STREAM).is_none())
            .collect();
        let backward_job = module
            .str_attr(function, "dist.kind")
            .is_some_and(|kind| kind.starts_with("backward"));
        for &op in &ops {
            let is_send = module.is(op, "dist.send");
            let backward = match module.str_attr(op, "dist.role") {
                Some(role) => role == "backward",
                None => backward_job,
            };
            let tag = module.i64_attr(op, "tag").unwrap_or_default();
            let peer = peer(module, op);
            let mut rewriter = Rewriter::new(module);
            if let Some(channel) = channel(&rewriter, class, op) {
                let attr = rewriter.context().string(&channel);
                rewriter.set_attr(op, CHANNEL, Some(attr));
                channels.insert(channel);
            }
            let direction = if backward { "backward" } else { "forward" };
            match (is_send, self.mode) {
                (true, mode) => {
                    let stream = match mode {
                        Mode::Overlapped => format!("send:{peer}:{direction}"),
                        Mode::Synchronised => COMMUNICATION.to_owned(),
                    };
                    self.send(&mut rewriter, op, &stream, tag);
                    sent.push(Sent {
                        op,
                        function,
                        event: format!("{tag}.sent"),
                        backward,
                    });
                }
                (false, Mode::Overlapped) => {
                    receive(
                        &mut rewriter,
                        op,
                        &format!("recv:{peer}:{direction}:{tag}"),
                        tag,
                    );
                }
                (false, Mode::Synchronised) => {}
            }
        }
        ops.len()
    }

    fn send(&self, rewriter: &mut Rewriter, op: OpId, stream: &str, tag: i64) {
        let value = rewriter.operand(op, 0);
        // What is only passed on is awaited where it comes from.
        let source = rewriter
            .defining_op(value)
            .filter(|&def| rewriter.is(def, "dist.recv"))
            .filter(|&def| streams::stream(rewriter, def) != COMPUTE);
        let ready = match source {
            Some(recv) => {
                let tag = rewriter.i64_attr(recv, "tag").unwrap_or_default();
                format!("{tag}.received")
            }
            None => {
                let ready = format!("{tag}.ready");
                event(
                    rewriter,
                    Place::Before(op),
                    "dist.event_record",
                    &ready,
                    COMPUTE,
                );
                ready
            }
        };
        event(
            rewriter,
            Place::Before(op),
            "dist.event_wait",
            &ready,
            stream,
        );
        let attr = rewriter.context().string(stream);
        rewriter.set_attr(op, STREAM, Some(attr));
        let sent = format!("{tag}.sent");
        event(
            rewriter,
            Place::After(op),
            "dist.event_record",
            &sent,
            stream,
        );
    }
}

/// A receive on its stream, and the compute stream's wait before the first op that reads it there.
fn receive(rewriter: &mut Rewriter, op: OpId, stream: &str, tag: i64) {
    let attr = rewriter.context().string(stream);
    rewriter.set_attr(op, STREAM, Some(attr));
    let name = format!("{tag}.received");
    event(
        rewriter,
        Place::After(op),
        "dist.event_record",
        &name,
        stream,
    );
    let value = rewriter.result(op, 0);
    if let Some(reader) = first_reader(rewriter, op, value) {
        event(
            rewriter,
            Place::Before(reader),
            "dist.event_wait",
            &name,
            COMPUTE,
        );
    }
}

/// The first op that reads a value on the compute stream. Sends get streams, too, and wait by themselves.
fn first_reader(module: &Module, def: OpId, value: ValueId) -> Option<OpId> {
    let readers: rustc_hash::FxHashSet<OpId> = module
        .uses(value)
        .map(|u| u.op)
        .filter(|&op| !module.is(op, "dist.send"))
        .collect();
    if readers.is_empty() {
        return None;
    }
    std::iter::successors(module.next_op(def), |&op| module.next_op(op))
        .find(|op| readers.contains(op))
}

/// Where an event op goes.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Before(OpId),
    After(OpId),
}

pub(super) fn event(rewriter: &mut Rewriter, place: Place, op: &str, name: &str, stream: &str) {
    let cx = rewriter.cx().clone();
    let at = match place {
        Place::Before(op) => {
            rewriter.before(op);
            op
        }
        Place::After(op) => {
            rewriter.after(op);
            op
        }
    };
    let loc = rewriter.loc(at);
    let attrs = [("event", cx.string(name)), ("stream", cx.string(stream))];
    rewriter.build(op, loc, &[], &[], &attrs);
}

/// `pp=1`
fn peer(module: &Module, op: OpId) -> String {
    let cx = module.cx();
    let entries = module
        .attr(op, "peer")
        .map_or(&[][..], |a| cx.dict_entries(a));
    let entries = entries
        .iter()
        .map(|&(axis, index)| format!("{}={}", cx.str(axis), cx.as_i64(index).unwrap_or_default()));
    entries.collect::<Vec<_>>().join(",")
}

/// `pp:0>1`: axes, the sender's coordinates, the receiver's. None if ranks of the class differ in them.
fn channel(module: &Module, class: OpId, op: OpId) -> Option<String> {
    let cx = module.cx();
    let mesh = Mesh::of(module, class).ok()?;
    let ranks = RankSet::from_module(module, class, &mesh).ok()?;
    let entries = cx.dict_entries(module.attr(op, "peer")?);
    let (mut axes, mut own, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for &(axis, index) in entries {
        let axis = cx.str(axis);
        let at = mesh.axis(axis)?;
        let mut boxes = ranks.boxes().iter().map(|b| &b[at][..]);
        let &[mine] = boxes.next()? else {
            return None;
        };
        if boxes.any(|b| b != [mine]) {
            return None;
        }
        axes.push(axis);
        own.push(mine.to_string());
        other.push(cx.as_i64(index)?.to_string());
    }
    let (own, other) = (own.join(","), other.join(","));
    let (from, to) = match module.is(op, "dist.send") {
        true => (own, other),
        false => (other, own),
    };
    Some(format!("{}:{from}>{to}", axes.join(",")))
}
