//! The synchronised mode's waits for the ends of sends.

use raddle_dialect::ir::{Module, OpId, Rewriter};
use raddle_dialect::ops::lowered::COMPUTE;

use super::{Place, Sent, event};
use crate::analysis::memory::functions;

/// Lets the compute stream await each send: a forward one where the backward of its stage begins, a backward one before the optimizer.
pub(super) fn insert(module: &mut Module, class: OpId, sent: &[Sent]) {
    for send in sent.iter().rev() {
        let place = match send.backward {
            true => optimizer(module, class, send),
            false => backward(module, class, send),
        };
        if let Some(before) = place {
            let mut rewriter = Rewriter::new(module);
            event(
                &mut rewriter,
                Place::Before(before),
                "dist.event_wait",
                &send.event,
                COMPUTE,
            );
        }
    }
}

/// The first op of the backward of the send's stage; none if it receives from where the send went, which orders them.
fn backward(module: &Module, class: OpId, send: &Sent) -> Option<OpId> {
    let stage = |op| module.i64_attr(op, "dist.stage");
    let kind = module
        .str_attr(send.function, "dist.kind")
        .unwrap_or_default();
    let ops: Vec<OpId> = if kind == "step" {
        let ops = module.block_ops(module.body(send.function));
        let of_stage = |op| stage(send.op).is_none() || stage(op) == stage(send.op);
        ops.filter(|&op| module.str_attr(op, "dist.role") == Some("backward") && of_stage(op))
            .collect()
    } else {
        let all = functions(module, class);
        let next = all.into_iter().find(|&function| {
            matches!(
                module.str_attr(function, "dist.kind"),
                Some("backward" | "backward_b")
            ) && stage(function) == stage(send.function)
        })?;
        module.block_ops(module.body(next)).collect()
    };
    let answered = ops.iter().any(|&op| {
        module.is(op, "dist.recv") && module.attr(op, "peer") == module.attr(send.op, "peer")
    });
    match answered {
        true => None,
        false => ops.first().copied(),
    }
}

/// The first op of the optimizer.
fn optimizer(module: &Module, class: OpId, send: &Sent) -> Option<OpId> {
    let all = functions(module, class);
    let function = all
        .into_iter()
        .find(|&function| module.str_attr(function, "dist.kind") == Some("optimizer"));
    if let Some(function) = function {
        return module.first_op(module.body(function));
    }
    let block = module.body(send.function);
    let first = module
        .block_ops(block)
        .find(|&op| module.str_attr(op, "dist.role") == Some("optimizer"));
    first.or_else(|| module.last_op(block))
}
