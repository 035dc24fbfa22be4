//! Sums of one parameter's gradients from several stages, taken apart before the stages are.
//!
//! A parameter that two stages read, such as an embedding that is also the head, gets its gradient as a sum over both. Moving one part to
//! the other stage in every micro-batch would cost as much as an activation. Instead each stage adds up its own part, and the optimizer
//! combines them once a step:
//!
//! ```text
//! %g = dist.sum %head, %embedding                     dist.accumulate @w_grad %head {dist.stage = 3}
//! dist.accumulate @w_grad %g             ──▶          dist.accumulate @w_grad %embedding {dist.stage = 0}
//! ```
//!
//! Without accumulators the sum itself becomes part of the optimizer.

use raddle_dialect::TensorType;
use raddle_dialect::ir::{CloneMap, Module, OpId, Position, Rewriter, ValueId};
use raddle_dialect::ops::Effects;
use rustc_hash::FxHashMap;

use crate::analysis::stages::{STAGE, Stages, is_sum};
use crate::analysis::step::{Origin, Role, Step};

/// Which ops take part: the sums over stages, and all that reads them up to the accumulators or the optimizer.
struct Tails {
    /// Ops from the first sum over stages on, in program order, with their stages.
    ops: Vec<OpId>,
    /// Whether an op ends up in the optimizer.
    into_optimizer: Vec<bool>,
    /// The stage of each value that they read and that is not theirs; none if it can be had anywhere.
    stages: FxHashMap<ValueId, Option<u32>>,
}

/// Takes the sums of a step apart; whether there were any.
pub(super) fn untie(module: &mut Module, function: OpId, stages: &Stages) -> bool {
    let Some(tails) = Step::of(module, function).and_then(|step| tails(&step, stages)) else {
        return false;
    };
    let mut rewriter = Rewriter::new(module);
    let mut parts: FxHashMap<ValueId, Vec<(u32, ValueId)>> = FxHashMap::default();
    let mut apart = Vec::new();
    for (&op, &into_optimizer) in tails.ops.iter().zip(&tails.into_optimizer) {
        if into_optimizer {
            let role = rewriter.context().string(Role::Optimizer.name());
            rewriter.set_attr(op, "dist.role", Some(role));
            continue;
        }
        take_apart(&mut rewriter, op, &tails, &mut parts);
        apart.push(op);
    }
    for op in apart.into_iter().rev() {
        rewriter.erase(op);
    }
    true
}

/// Whether the op is linear in its operands, so that it may be applied to each part of a sum.
pub(super) fn is_linear(module: &Module, op: OpId) -> bool {
    match module.name_str(op) {
        "dist.sum" => true,
        "dist.add" => {
            let ty = module.ty(module.result(op, 0));
            module.operands(op).all(|v| module.ty(v) == ty)
        }
        "dist.cast" => {
            let float = |v| {
                let ty = TensorType::of(module.cx(), module.ty(v));
                ty.is_ok_and(|ty| ty.dtype.is_float())
            };
            float(module.operand(op, 0)) && float(module.result(op, 0))
        }
        "dist.reshape" | "dist.transpose" | "dist.identity" => true,
        "dist.scale" => module.f64_attr(op, "bias") == Some(0.0),
        "dist.all_reduce" | "dist.reduce_scatter" => {
            matches!(module.str_attr(op, "reduction"), Some("sum" | "avg"))
        }
        _ => false,
    }
}

fn tails(step: &Step, stages: &Stages) -> Option<Tails> {
    let module = step.module;
    let count = step.ops.len();
    let returned = |at: usize| {
        let mut results = module.results(step.ops[at]);
        results.any(|r| step.returned.contains(&r))
    };
    // From the last op to the first: what leads nowhere but to accumulators or the optimizer, by linear ops.
    let mut tail = vec![false; count];
    let mut into_optimizer = vec![false; count];
    for at in (0..count).rev() {
        if step.roles[at] != Role::Backward || step.free[at] {
            continue;
        }
        if step.effects(at) == Effects::Accumulates {
            tail[at] = true;
            continue;
        }
        if !is_linear(module, step.ops[at]) {
            continue;
        }
        let mut ends = !module.results(step.ops[at]).all(|r| module.is_unused(r));
        let mut optimizer = false;
        for result in module.results(step.ops[at]) {
            for user in module.uses(result) {
                match step.position(user.op) {
                    Some(user) if step.roles[user] == Role::Optimizer => optimizer = true,
                    Some(user) => {
                        ends &= tail[user];
                        optimizer |= into_optimizer[user];
                    }
                    None => ends = false,
                }
            }
        }
        tail[at] = ends && !returned(at);
        into_optimizer[at] = optimizer;
    }
    // From the first to the last: sums over several stages, and what reads them.
    let mut within = vec![false; count];
    let mut found = Tails {
        ops: Vec::new(),
        into_optimizer: Vec::new(),
        stages: FxHashMap::default(),
    };
    let of = |v: ValueId| match step.origin(v) {
        Origin::Op(source) => stages.get(source),
        Origin::Argument(_) => None,
    };
    for at in 0..count {
        if !tail[at] {
            continue;
        }
        let op = step.ops[at];
        let mut over = module.operands(op).filter_map(of);
        let first = over.next();
        let several = is_sum(module.name_str(op)) && over.any(|s| Some(s) != first);
        within[at] = several || step.sources(at).any(|s| within[s]);
        if !within[at] {
            continue;
        }
        found.ops.push(op);
        found.into_optimizer.push(into_optimizer[at]);
        for value in module.operands(op) {
            found.stages.insert(value, of(value));
        }
    }
    (!found.ops.is_empty()).then_some(found)
}

fn take_apart(
    rewriter: &mut Rewriter,
    op: OpId,
    tails: &Tails,
    parts: &mut FxHashMap<ValueId, Vec<(u32, ValueId)>>,
) {
    let mut read: Vec<(u32, ValueId)> = Vec::new();
    for value in rewriter.operands(op) {
        match parts.get(&value) {
            Some(parts) => read.extend(parts),
            None => {
                let stage = tails.stages[&value];
                // What can be had anywhere is added once.
                let stage = stage.or(read.first().map(|r| r.0)).unwrap_or(0);
                read.push((stage, value));
            }
        }
    }
    // The sort keeps the order in which a stage's own parts are added.
    read.sort_by_key(|&(stage, _)| std::cmp::Reverse(stage));
    rewriter.set_insertion_point(Position::Before(op));
    let mut made = Vec::new();
    for of_stage in read.chunk_by(|a, b| a.0 == b.0) {
        let stage = of_stage[0].0;
        let label = rewriter.context().i64_attr(i64::from(stage));
        let values: Vec<_> = of_stage.iter().map(|p| p.1).collect();
        if is_sum(rewriter.name_str(op)) {
            made.push((stage, sum(rewriter, op, stage, &values)));
            continue;
        }
        let mut map = CloneMap::default();
        map.values.insert(rewriter.operand(op, 0), values[0]);
        let copy = rewriter.clone_op(op, &mut map);
        rewriter.set_attr(copy, STAGE, Some(label));
        if rewriter.num_results(copy) == 1 {
            made.push((stage, rewriter.result(copy, 0)));
        }
    }
    if rewriter.num_results(op) == 1 {
        parts.insert(rewriter.result(op, 0), made);
    }
}

fn sum(rewriter: &mut Rewriter, op: OpId, stage: u32, values: &[ValueId]) -> ValueId {
    if let [only] = values {
        return *only;
    }
    let cx = rewriter.cx().clone();
    let mut attrs = vec![
        ("dist.role", cx.string(Role::Backward.name())),
        (STAGE, cx.i64_attr(i64::from(stage))),
    ];
    attrs.extend(
        rewriter
            .attr(op, "dist.part")
            .map(|part| ("dist.part", part)),
    );
    let (loc, ty) = (rewriter.loc(op), rewriter.ty(rewriter.result(op, 0)));
    let sum = rewriter.build("dist.sum", loc, values, &[ty], &attrs);
    rewriter.result(sum, 0)
}
