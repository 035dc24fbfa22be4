//! Moves W behind B, writes the labels.
//!
//! Only what stands before the last op of B has to move, and what reads from it. The reductions of parameter gradients over other
//! ranks come last: no gradient that is still to be computed waits for them.

use std::collections::HashMap;

use raddle_dialect::ir::{BlockId, Ident, Module, OpId, Position, Rewriter, ValueId};
use raddle_dialect::ops::Effects;
use rustc_hash::FxBuildHasher;

use super::PART;
use super::sides::{Side, Sides, global};

/// How many ops each side has.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    pub b: usize,
    pub w: usize,
}

/// An op that cannot move.
#[derive(Debug)]
pub(super) struct Stuck {
    pub op: OpId,
    pub reason: String,
}

/// Orders and labels a block. On an error nothing has moved.
pub(super) fn run(rewriter: &mut Rewriter, block: BlockId, sides: &Sides) -> Result<Counts, Stuck> {
    let ops: Vec<_> = rewriter.block_ops(block).collect();
    let last_b = ops.iter().rposition(|&op| sides.of_op(op) == Some(Side::B));
    let behind_b = match last_b {
        Some(last) => delayed(rewriter, &ops[..=last], |op| {
            sides.of_op(op) == Some(Side::W)
        })?,
        None => Vec::new(),
    };
    if let Some(last) = last_b {
        put_behind(rewriter, ops[last], &behind_b);
    }
    let ops: Vec<_> = rewriter.block_ops(block).collect();
    reductions_last(rewriter, &ops, sides);
    let mut counts = Counts::default();
    let cx = rewriter.cx().clone();
    for op in rewriter.block_ops(block).collect::<Vec<_>>() {
        let label = match sides.of_op(op) {
            Some(Side::B) => {
                counts.b += 1;
                "b"
            }
            Some(Side::W) => {
                counts.w += 1;
                "w"
            }
            None => continue,
        };
        rewriter.set_attr(op, PART, Some(cx.string(label)));
    }
    Ok(counts)
}

/// Reductions of gradients, and what reads them, go behind the last op of W that does not.
fn reductions_last(rewriter: &mut Rewriter, ops: &[OpId], sides: &Sides) {
    let is_w = |op: OpId| sides.of_op(op) == Some(Side::W);
    let reduces = |module: &Module, op| {
        is_w(op)
            && module
                .def_of(op)
                .is_some_and(|def| def.effects == Effects::Communicates)
    };
    let late = dependents(rewriter, ops, |op| reduces(rewriter, op));
    let last = ops.iter().rposition(|&op| is_w(op) && !late[op.index()]);
    let Some(last) = last else {
        return;
    };
    // Where a global is in the way, they stay: that costs time, not correctness.
    if let Ok(moved) = delayed(rewriter, &ops[..=last], |op| reduces(rewriter, op)) {
        put_behind(rewriter, ops[last], &moved);
    }
}

/// Moves ops, in this order, behind another.
fn put_behind(rewriter: &mut Rewriter, last: OpId, moved: &[OpId]) {
    let mut at = last;
    for &op in moved {
        rewriter.move_op(op, Position::After(at));
        at = op;
    }
}

/// By op: whether it is a seed or reads, at any distance, from one.
fn dependents(module: &Module, ops: &[OpId], seed: impl Fn(OpId) -> bool) -> Vec<bool> {
    let mut found = vec![false; module.op_capacity()];
    for &op in ops {
        let from_found = |value: ValueId| {
            module
                .defining_op(value)
                .is_some_and(|def| found[def.index()])
        };
        found[op.index()] = seed(op) || module.operands(op).any(from_found);
    }
    found
}

/// The seeds and what reads from them, in order, if all of it can go behind the last of `ops`.
fn delayed(module: &Module, ops: &[OpId], seed: impl Fn(OpId) -> bool) -> Result<Vec<OpId>, Stuck> {
    let moves = dependents(module, ops, seed);
    // What ops that stay do to globals, from the end up to the op at hand.
    let mut passed: HashMap<Ident, Effects, FxBuildHasher> = HashMap::default();
    let mut moved = Vec::new();
    for &op in ops.iter().rev() {
        let effects = module.def_of(op).map(|def| def.effects);
        let access = global(module, op).zip(effects);
        if !moves[op.index()] {
            if let Some((global, effects)) = access {
                let known = passed.entry(global).or_insert(effects);
                if effects != Effects::Reads {
                    *known = effects;
                }
            }
            continue;
        }
        if matches!(effects, None | Some(Effects::Opaque)) {
            return Err(Stuck {
                op,
                reason: format!(
                    "'{}' depends on a gradient of a parameter, and what else it does is not known, so it cannot move behind B",
                    module.name_str(op)
                ),
            });
        }
        if let Some((name, effects)) = access
            && let Some(&other) = passed.get(&name)
            && (effects != Effects::Reads || other != Effects::Reads)
        {
            return Err(Stuck {
                op,
                reason: format!(
                    "'{}' of @{} would move behind a later access to that global which belongs to B",
                    module.name_str(op),
                    module.cx().str(name)
                ),
            });
        }
        moved.push(op);
    }
    moved.reverse();
    Ok(moved)
}
