//! `plan-memory`: says where storage ends, and where it lies.
//!
//! ```text
//! func.func @backward_b(%x {dist.value = "x"}, …)          func.func @backward_b(…) attributes {dist.arena_bytes = 512 : i64}
//!   %0 = dist.gelu_grad %x, %d                      ──▶      %0 = dist.gelu_grad %x, %d {dist.offset = array<i64: 0>}
//!   %1 = dist.matmul %0, %w                                  dist.free %x              // no later job reads it
//!   dist.send %1                                             %1 = dist.matmul %0, %w {dist.offset = array<i64: -1>}
//!                                                            dist.free %0
//!                                                            dist.send %1
//!                                                            dist.free %1
//! ```
//!
//! A job frees what it computes for itself after the last op that reads it, and what other jobs left after its last read, if no job
//! reads it later in any schedule. `dist.offset` places results in the job's arena, so that later ones take the room of earlier ones; -1
//! stands for storage of its own: what later jobs read, and what is sent or received, which may happen at another time than its place in the job says.

use std::collections::BTreeMap;

use raddle_bundle::FunctionKind;
use raddle_dialect::ir::{Module, OpId, Rewriter, ValueId};
use rustc_hash::FxHashSet;

use crate::analysis::memory::arena::{Layout, place};
use crate::analysis::memory::lifetimes::Lifetimes;
use crate::analysis::memory::readers::{Job, last, readers, value_name};
use crate::analysis::memory::{classes, functions};
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};
use crate::transforms::overlap_comm::guard_frees;

/// Bytes from the start of the job's arena, per result; -1 for storage of its own.
pub const OFFSET: &str = "dist.offset";
/// On a function: the size of its arena.
pub const ARENA: &str = "dist.arena_bytes";

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "plan-memory",
    summary: "say where storage ends and where it lies",
    description: "Puts dist.free after the last read of every value that no later job reads, and gives results offsets in an arena of \
                  their function, where they take the room of what is no longer needed. Run it after partition-stages, and before \
                  overlap-comm or after it.",
    anchor: Anchor::Top,
    options: &[],
    build: |_| Box::new(PlanMemory),
};

struct PlanMemory;

impl Pass for PlanMemory {
    fn run(&self, module: &mut Module, _: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        for class in classes(module) {
            let freed_by = last_readers(module, class);
            for function in functions(module, class) {
                let Some(job) = Job::of(module, function) else {
                    continue;
                };
                if job.kind != FunctionKind::Init {
                    plan(module, function, &freed_by, cx);
                }
            }
            guard_frees(&mut Rewriter::new(module), class);
        }
        Ok(())
    }
}

/// For each value between jobs, the function that reads it last and the argument that it is there.
fn last_readers(module: &Module, class: OpId) -> FxHashSet<(OpId, usize)> {
    readers(module, class).values().filter_map(last).collect()
}

fn plan(module: &mut Module, function: OpId, freed_by: &FxHashSet<(OpId, usize)>, cx: &mut PassCx) {
    let block = module.body(function);
    let on_streams = clear(module, function);
    let lifetimes = Lifetimes::of(module, block);
    let layout = place(&lifetimes.own);
    let mut ends: BTreeMap<usize, Vec<ValueId>> = BTreeMap::new();
    let mut freed = 0;
    for (index, &arg) in module.args(block).iter().enumerate() {
        let named = value_name(module, function, "arg_attrs", index).is_some();
        let last = named && freed_by.contains(&(function, index));
        if last && !lifetimes.passed_on[index] && !on_streams.contains(&arg) {
            // What is not read at all ends at once.
            let at = lifetimes.arguments[index].map_or(0, |at| at + 1);
            ends.entry(at).or_default().push(arg);
            freed += 1;
        }
    }
    for own in lifetimes.own.iter().filter(|own| !own.returned) {
        if !on_streams.contains(&own.value) {
            ends.entry(own.to + 1).or_default().push(own.value);
        }
    }
    let values = lifetimes.own.len();
    write_offsets(module, function, &lifetimes, &layout);
    let mut rewriter = Rewriter::new(module);
    for (at, values) in ends {
        let before = lifetimes.ops[at.min(lifetimes.ops.len() - 1)];
        for value in values {
            let loc = rewriter.loc(before);
            rewriter
                .before(before)
                .build("dist.free", loc, &[value], &[], &[]);
        }
    }
    let loc = rewriter.loc(function);
    let name = rewriter
        .symbol_name(function)
        .unwrap_or_default()
        .to_owned();
    cx.remark("R0751", loc, || {
        format!(
            "planned '@{name}': {values} values in {} bytes; it frees {freed} of other jobs",
            layout.size_bytes
        )
    });
}

/// Takes earlier plans away, but for what is freed on other streams; gives the values that are.
fn clear(module: &mut Module, function: OpId) -> FxHashSet<ValueId> {
    let block = module.body(function);
    let ops: Vec<_> = module.block_ops(block).collect();
    let mut on_streams = FxHashSet::default();
    let mut rewriter = Rewriter::new(module);
    for op in ops {
        if !rewriter.is(op, "dist.free") {
            continue;
        }
        if rewriter
            .attr(op, raddle_dialect::ops::lowered::STREAM)
            .is_some()
        {
            on_streams.insert(rewriter.operand(op, 0));
        } else {
            rewriter.erase(op);
        }
    }
    on_streams
}

fn write_offsets(module: &mut Module, function: OpId, lifetimes: &Lifetimes, layout: &Layout) {
    let cx = module.cx().clone();
    let mut rewriter = Rewriter::new(module);
    let mut own = lifetimes.own.iter().zip(&layout.offsets).peekable();
    for (at, &op) in lifetimes.ops.iter().enumerate() {
        let mut offsets = Vec::new();
        while let Some((_, offset)) = own.next_if(|(own, _)| own.from == at) {
            offsets.push(offset.and_then(|o| i64::try_from(o).ok()).unwrap_or(-1));
        }
        let attr = (!offsets.is_empty()).then(|| cx.i64_array(&offsets));
        if attr.is_some() || rewriter.attr(op, OFFSET).is_some() {
            rewriter.set_attr(op, OFFSET, attr);
        }
    }
    let size = i64::try_from(layout.size_bytes).unwrap_or(i64::MAX);
    rewriter.set_attr(function, ARENA, Some(cx.i64_attr(size)));
}
