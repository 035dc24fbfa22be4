//! Scalars made of a bias gradient that all ranks need: its part of a global norm, its overflow flag, and the loss scale that its
//! op computes along with its siblings.
//!
//! The first rank still has the gradient, so it works the scalar out; the others get it by one broadcast per reader, whatever the
//! number of biases. A flag that is combined over the same axes later anyway needs no broadcast.
//!
//! ```text
//! %n = dist.stack %a, %b, %c         first: %t = dist.broadcast %b over ["mp"]      other: %z = dist.fill 0
//!                                           %n = dist.stack %a, %b, %c                     %t = dist.broadcast %z over ["mp"]
//!                                                                                          %n = dist.stack %a, %t, %c
//! ```

use rustc_hash::{FxHashMap, FxHashSet};

use raddle_dialect::ir::{Attr, OpId, Rewriter, Type, Use, ValueId};

use super::facts::Facts;
use super::flow::Term;
use super::parts::{Copied, Role};
use super::plan::Plan;

/// How far a flag is followed to the reduction that makes it common.
const MAX_STEPS: usize = 16;

/// Everything that one op reads of promoted biases.
#[derive(Debug)]
pub struct Reader {
    op: OpId,
    groups: Vec<Group>,
}

/// The scalars that one op reads of biases promoted over the same axes.
#[derive(Debug)]
struct Group {
    /// Which of the distinct axes sets.
    axes: usize,
    /// Scalars and operands, in operand order.
    terms: Vec<Term>,
    ty: Type,
    way: Way,
}

/// How ranks without the bias get along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// They leave the operands out: the result is combined over the axes later.
    LeaveOut,
    /// They get one combined value, made by this op.
    Combine(&'static str),
    /// They get each value.
    Each,
}

/// The scalars that leave the plans' flows, by reader, in program order. `axes` are the distinct axes of all plans.
pub fn readers(facts: &Facts, plans: &[Plan], axes: &[Vec<usize>]) -> Vec<Reader> {
    let mut by_reader: FxHashMap<OpId, FxHashMap<(usize, Type), Vec<Term>>> = FxHashMap::default();
    for plan in plans {
        let index = axes.iter().position(|a| *a == plan.axes);
        for &term in &plan.flow.terms {
            let key = (index.unwrap_or_default(), facts.module.ty(term.value));
            let groups = by_reader.entry(term.consumer).or_default();
            groups.entry(key).or_default().push(term);
        }
    }
    let mut readers: Vec<_> = by_reader
        .into_iter()
        .map(|(op, groups)| {
            let group = |((index, ty), mut terms): ((usize, Type), Vec<Term>)| {
                terms.sort_unstable_by_key(|t| t.operand);
                let way = way(facts, op, terms.len(), &axes[index]);
                Group {
                    axes: index,
                    terms,
                    ty,
                    way,
                }
            };
            let mut groups: Vec<_> = groups.into_iter().map(group).collect();
            groups.sort_unstable_by_key(|g| (g.axes, g.terms[0].operand));
            Reader { op, groups }
        })
        .collect();
    readers.sort_unstable_by_key(|r| facts.place(r.op).order);
    readers
}

fn way(facts: &Facts, reader: OpId, count: usize, axes: &[usize]) -> Way {
    let module = facts.module;
    match module.name_str(reader) {
        "dist.any_of"
            if count < module.num_operands(reader) && is_combined(facts, reader, axes) =>
        {
            Way::LeaveOut
        }
        "dist.any_of" => Way::Combine("dist.any_of"),
        "dist.sum" => Way::Combine("dist.sum"),
        "dist.stack" | "dist.concat" if is_summed(facts, reader) => Way::Combine("dist.sum"),
        _ => Way::Each,
    }
}

/// Whether all that happens to the elements of a result is that they are added up, so that their number does not matter.
fn is_summed(facts: &Facts, op: OpId) -> bool {
    let module = facts.module;
    let dim = module.i64_attr(op, "dim");
    let sums = |u: Use| {
        let dims = module
            .attr(u.op, "dims")
            .and_then(|a| module.cx().as_i64_array(a));
        let keeps = module.bool_attr(u.op, "keep_dims") == Some(true);
        module.is(u.op, "dist.reduce_sum")
            && !keeps
            && dims.is_some_and(|d| d.contains(&dim.unwrap_or(-1)))
    };
    module.single_use(module.result(op, 0)).is_some_and(sums)
}

/// Whether a flag is combined over all of these axes before anything else reads it.
fn is_combined(facts: &Facts, flag: OpId, axes: &[usize]) -> bool {
    let module = facts.module;
    let mut at = flag;
    for _ in 0..MAX_STEPS {
        let Some(user) = module.single_use(module.result(at, 0)) else {
            return false;
        };
        at = user.op;
        match module.name_str(at) {
            "dist.all_reduce" => {
                let reduction = module.str_attr(at, "reduction");
                let covers = |own: Vec<usize>| axes.iter().all(|a| own.contains(a));
                return matches!(reduction, Some("max" | "any"))
                    && facts.axes(at).is_some_and(covers);
            }
            "dist.cast" | "dist.identity" | "dist.reshape" | "dist.reduce_any"
            | "dist.reduce_max" | "dist.any_of" => {}
            "dist.concat" if module.num_operands(at) == 1 => {}
            _ => return false,
        }
    }
    false
}

/// For each removed op of a loss scaling group whose scale or counters are read, an op of the group that stays.
///
/// # Errors
/// With the index of a plan that would leave no op of the group, or an unlike one.
pub fn siblings(facts: &Facts, plans: &[Plan]) -> Result<FxHashMap<OpId, OpId>, usize> {
    let module = facts.module;
    if plans.iter().all(|p| p.flow.scaling.is_empty()) {
        return Ok(FxHashMap::default());
    }
    let removed: FxHashSet<_> = plans.iter().flat_map(|p| &p.flow.ops).collect();
    let stays = |op: &&OpId| module.is(**op, "dist.update_loss_scaling") && !removed.contains(op);
    type Key = (Option<Attr>, Vec<ValueId>);
    let key = |op: OpId| -> Key {
        (
            module.attr(op, "group"),
            module.operands(op).skip(1).collect(),
        )
    };
    let mut by_group: FxHashMap<Key, OpId> = FxHashMap::default();
    for &op in facts.ops.iter().filter(stays) {
        by_group.entry(key(op)).or_insert(op);
    }
    let mut siblings = FxHashMap::default();
    for (index, plan) in plans.iter().enumerate() {
        for &op in &plan.flow.scaling {
            // It takes over for every reader, so it must stand before them: before the op it stands in for, or close enough
            // that it can be moved, which a sibling later in the group cannot.
            let sibling = by_group
                .get(&key(op))
                .filter(|&&s| reads_follow(facts, op, s));
            siblings.insert(op, *sibling.ok_or(index)?);
        }
    }
    Ok(siblings)
}

/// Whether everything that reads the scale and counters of `op` comes after `sibling`.
fn reads_follow(facts: &Facts, op: OpId, sibling: OpId) -> bool {
    let module = facts.module;
    let same_block = module.parent_block(op) == module.parent_block(sibling);
    let mut readers = module.results(op).skip(1).flat_map(|r| module.uses(r));
    same_block && readers.all(|u| facts.precedes(sibling, u.op))
}

impl Reader {
    /// Rewrites the reader's operands; `roles` has one entry per axes set.
    pub fn rewrite(&self, rewriter: &mut Rewriter, copied: &Copied, roles: &[Role], axes: &[Attr]) {
        let reader = copied.op(self.op);
        let mut operands: Vec<_> = rewriter.operands(reader).map(Some).collect();
        for group in &self.groups {
            match (roles[group.axes], group.way) {
                (Role::First, Way::LeaveOut) => {}
                (Role::Rest, Way::LeaveOut) => {
                    group.terms.iter().for_each(|t| operands[t.operand] = None);
                }
                (role, Way::Combine(op)) => {
                    let own = (role == Role::First).then(|| {
                        let terms: Vec<_> =
                            group.terms.iter().map(|t| copied.value(t.value)).collect();
                        combine(rewriter, reader, op, &terms, group.ty)
                    });
                    let shared = broadcast(rewriter, reader, own, group.ty, axes[group.axes]);
                    if role == Role::Rest {
                        group.terms.iter().for_each(|t| operands[t.operand] = None);
                        operands[group.terms[0].operand] = Some(shared);
                    }
                }
                (role, Way::Each) => {
                    for term in &group.terms {
                        let own = (role == Role::First).then(|| copied.value(term.value));
                        let shared = broadcast(rewriter, reader, own, group.ty, axes[group.axes]);
                        if role == Role::Rest {
                            operands[term.operand] = Some(shared);
                        }
                    }
                }
            }
        }
        let operands: Vec<_> = operands.into_iter().flatten().collect();
        let fewer = rewriter.num_operands(reader) - operands.len();
        rewriter.set_operands(reader, &operands);
        if fewer > 0 {
            shorten(rewriter, reader, fewer as i64);
        }
    }
}

fn combine(
    rewriter: &mut Rewriter,
    reader: OpId,
    op: &str,
    terms: &[ValueId],
    ty: Type,
) -> ValueId {
    if let [only] = *terms {
        return only;
    }
    let new = build(rewriter, reader, op, terms, ty, &[]);
    rewriter.result(new, 0)
}

/// A value of the first rank for all; the other ranks put in a zero.
fn broadcast(
    rewriter: &mut Rewriter,
    reader: OpId,
    own: Option<ValueId>,
    ty: Type,
    axes: Attr,
) -> ValueId {
    let value = own.unwrap_or_else(|| {
        let zero = rewriter.context().f64_attr(0.0);
        let fill = build(rewriter, reader, "dist.fill", &[], ty, &[("value", zero)]);
        rewriter.result(fill, 0)
    });
    let root = rewriter.context().i64_attr(0);
    let attrs = [("axes", axes), ("root", root)];
    let op = build(rewriter, reader, "dist.broadcast", &[value], ty, &attrs);
    rewriter.result(op, 0)
}

/// A new op right before the reader, of the reader's role.
fn build(
    rewriter: &mut Rewriter,
    reader: OpId,
    name: &str,
    operands: &[ValueId],
    ty: Type,
    attrs: &[(&str, Attr)],
) -> OpId {
    let loc = rewriter.loc(reader);
    let mut attrs = attrs.to_vec();
    attrs.extend(
        rewriter
            .attr(reader, "dist.role")
            .map(|role| ("dist.role", role)),
    );
    rewriter
        .before(reader)
        .build(name, loc, operands, &[ty], &attrs)
}

/// A stack or concatenation of fewer operands is shorter.
fn shorten(rewriter: &mut Rewriter, reader: OpId, fewer: i64) {
    if !rewriter.is(reader, "dist.stack") && !rewriter.is(reader, "dist.concat") {
        return;
    }
    let result = rewriter.result(reader, 0);
    let dim = rewriter.i64_attr(reader, "dim").unwrap_or_default();
    let operand = rewriter.ty(rewriter.operand(reader, 0));
    let cx = rewriter.context();
    let (Some((shape, element)), Some((operand, _))) =
        (cx.as_tensor(rewriter.ty(result)), cx.as_tensor(operand))
    else {
        return;
    };
    let dim = usize::try_from(dim).unwrap_or_default();
    let each = if rewriter.is(reader, "dist.stack") {
        1
    } else {
        operand[dim]
    };
    let mut shape = shape.to_vec();
    shape[dim] -= fewer * each;
    let ty = cx.tensor(&shape, element);
    rewriter.set_type(result, ty);
}
