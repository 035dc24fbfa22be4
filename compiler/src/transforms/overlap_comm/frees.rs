//! Keeps storage until its sends are through.

use raddle_dialect::ir::{OpId, Rewriter};
use raddle_dialect::ops::lowered::{COMPUTE, STREAM};

use super::{Place, event};
use crate::analysis::memory::functions;
use crate::analysis::memory::lifetimes::{argument, views};
use crate::analysis::memory::readers::value_name;
use crate::analysis::streams::{sent_values, stream};

/// Puts each `dist.free` of a value that the function sends on the stream that sends it, and lets each one of a value that an earlier job
/// sent wait for that.
pub fn guard_frees(rewriter: &mut Rewriter, class: OpId) {
    let waits: Vec<(OpId, String)> = {
        let module = rewriter.module();
        let sent = sent_values(module, class);
        let mut waits = Vec::new();
        for function in functions(module, class) {
            for op in module.block_ops(module.body(function)) {
                if !module.is(op, "dist.free") || module.attr(op, STREAM).is_some() {
                    continue;
                }
                let name = argument(module, module.operand(op, 0))
                    .and_then(|index| value_name(module, function, "arg_attrs", index));
                let event = name.and_then(|name| sent.get(name)).and_then(|sent| sent.0);
                waits.extend(event.map(|event| (op, event.to_owned())));
            }
        }
        waits
    };
    for (free, name) in waits {
        let before = rewriter.prev_op(free).filter(|&op| {
            rewriter.is(op, "dist.event_wait")
                && rewriter.str_attr(op, "event") == Some(&name)
                && stream(rewriter, op) == COMPUTE
        });
        if before.is_none() {
            event(
                rewriter,
                Place::Before(free),
                "dist.event_wait",
                &name,
                COMPUTE,
            );
        }
    }
    for function in functions(rewriter, class) {
        let block = rewriter.body(function);
        let frees: Vec<_> = rewriter
            .block_ops(block)
            .filter(|&op| rewriter.is(op, "dist.free") && rewriter.attr(op, STREAM).is_none())
            .collect();
        for free in frees {
            on_the_streams_of_sends(rewriter, free);
        }
    }
}

fn on_the_streams_of_sends(rewriter: &mut Rewriter, free: OpId) {
    let value = rewriter.operand(free, 0);
    let users: Vec<OpId> = views(rewriter, value)
        .into_iter()
        .flat_map(|view| rewriter.uses(view).map(|u| u.op).collect::<Vec<_>>())
        .collect();
    let mut sends: Vec<OpId> = users
        .iter()
        .copied()
        .filter(|&op| rewriter.is(op, "dist.send") && stream(rewriter, op) != COMPUTE)
        .collect();
    sends.sort_by_key(|&op| rewriter.i64_attr(op, "tag"));
    let Some(last) = sends.pop() else {
        return;
    };
    let own = stream(rewriter, last).to_owned();
    let tag = rewriter.i64_attr(last, "tag").unwrap_or_default();
    for other in sends {
        if stream(rewriter, other) != own {
            let tag = rewriter.i64_attr(other, "tag").unwrap_or_default();
            let name = format!("{tag}.sent");
            event(
                rewriter,
                Place::Before(free),
                "dist.event_wait",
                &name,
                &own,
            );
        }
    }
    let read_by_compute = users
        .iter()
        .any(|&op| stream(rewriter, op) == COMPUTE && !rewriter.is(op, "dist.free"));
    if read_by_compute {
        let name = format!("{tag}.read");
        event(
            rewriter,
            Place::Before(free),
            "dist.event_record",
            &name,
            COMPUTE,
        );
        event(
            rewriter,
            Place::Before(free),
            "dist.event_wait",
            &name,
            &own,
        );
    }
    let attr = rewriter.context().string(&own);
    rewriter.set_attr(free, STREAM, Some(attr));
}
