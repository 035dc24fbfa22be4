//! `promote-linear`: adds the bias of a row-parallel linear layer before its reduction, on the first rank only.
//!
//! A row-parallel layer computes `comm(xᵢ · Wᵢ) + b`, where comm sums over the tensor axis and, with sequence parallelism, cuts
//! the result along the sequence. With b before comm the product and the bias are one kernel, and every rank but the first is rid of
//! b: its gradient, its optimizer, its state, its initialisation. The class of ranks is split in two for that.
//!
//! ```text
//! module @all attributes {dist.ranks = [{}]} {           module @all_first attributes {dist.ranks = [{mp = array<i64: 0>}]} {
//!   %0 = dist.matmul %x, %w                                %0 = dist.matmul %x, %w
//!   %1 = dist.all_reduce sum %0 over ["mp"]       ──▶      %b = dist.load @b
//!   %b = dist.load @b                                      %1 = dist.add %0, %b
//!   %2 = dist.add %1, %b                                   %2 = dist.all_reduce sum %1 over ["mp"]
//! }                                                      }
//!                                                        module @all_rest attributes {dist.ranks = [{mp = array<i64: 1>}]} {
//!                                                          %0 = dist.matmul %x, %w
//!                                                          %2 = dist.all_reduce sum %0 over ["mp"]
//!                                                        }
//! ```
//!
//! Each bias is planned as a whole before anything changes; what does not fit leaves the bias where it is, and a
//! remark says why. The idea is PaddlePaddle's fused linear promotion pass, whose faults
//! `docs/passes/promote-linear.md` lists.

mod facts;
mod flow;
mod gradient;
mod groups;
mod linear;
mod parts;
mod plan;
mod report;
mod rewrite;
mod terms;

pub use report::{Bytes, ClassReport, PromotionReport, Removed, Snapshot};

use rustc_hash::{FxHashMap, FxHashSet};

use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{Attr, CloneMap, Module, OpId, Rewriter};

use self::facts::Facts;
use self::linear::{Linear, Site};
use self::parts::{Copied, Part, Role};
use self::plan::Plan;
use self::rewrite::{Moves, Rewrite, axes_attr};
use super::verify_collectives::report as report_findings;
use crate::analysis::{meetings, spmd};
use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "promote-linear",
    summary: "add the bias of a row-parallel linear layer before its reduction, on the first rank only",
    description: "Where a matrix product is summed over ranks and a bias added to it, the first rank of the axis adds the bias \
                  before the reduction, and the other ranks lose it with its gradient, optimizer, state and initialisation. \
                  Each rank class is split in two. Needs a sum (all_reduce, or reduce_scatter not along the last dimension), a \
                  bias that is a rank-1 parameter, replicated over the axes and initialised from the first rank, and products \
                  and biases that nothing else reads.",
    anchor: Anchor::Top,
    options: &[
        OptionDef {
            name: "axis",
            kind: OptionKind::List,
            default: "",
            doc: "only layers whose reduction runs over exactly these axes; without it, all",
        },
        OptionDef {
            name: "verify",
            kind: OptionKind::Flag,
            default: "true",
            doc: "check the result as verify-spmd and verify-collectives do, and fail where they find an error",
        },
    ],
    build: |options| {
        Box::new(PromoteLinear {
            axes: options.list("axis").to_vec(),
            verify: options.flag("verify"),
        })
    },
};

struct PromoteLinear {
    /// Axes to promote over; all if empty.
    axes: Vec<String>,
    /// Check the result.
    verify: bool,
}

impl Pass for PromoteLinear {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let plans = self.plan(module, target, cx);
        for plan in &plans {
            plan.carry_out(&mut Rewriter::new(module));
        }
        if self.verify && !plans.is_empty() {
            check(module, target, cx)?;
        }
        Ok(())
    }
}

/// Holds the result against what every program has to keep. What was wrong before shows here too, so a warning, which is about the
/// input, is left to the passes that check alone.
fn check(module: &Module, top: OpId, cx: &mut PassCx) -> Result<(), Failed> {
    let mut found = meetings::check(module, top);
    found.extend(spmd::check(module, top));
    found.retain(|d| d.severity == Severity::Error);
    for diagnostic in &mut found {
        let note = "found in the program as it is after 'promote-linear', whose option 'verify=false' leaves this check out";
        diagnostic.notes.push((None, note.into()));
    }
    report_findings(found, cx)
}

/// What is to be done in a class, all found out before anything changes.
struct ClassPlan {
    class: OpId,
    plans: Vec<Plan>,
    moves: Vec<Moves>,
    /// The distinct axes of the plans.
    sets: Vec<Vec<usize>>,
    /// Per plan, which set.
    set_of: Vec<usize>,
    readers: Vec<terms::Reader>,
    siblings: FxHashMap<OpId, OpId>,
    parts: Vec<Part>,
    mesh: raddle_dialect::mesh::Mesh,
}

impl ClassPlan {
    fn new(candidate: Candidate, siblings: FxHashMap<OpId, OpId>) -> Self {
        let Candidate {
            class,
            facts,
            plans,
        } = candidate;
        let mut sets: Vec<Vec<usize>> = plans.iter().map(|p| p.axes.clone()).collect();
        sets.sort();
        sets.dedup();
        let set_of = |p: &Plan| sets.iter().position(|s| *s == p.axes).unwrap_or_default();
        Self {
            class,
            moves: plans.iter().map(|p| Moves::new(&facts, p)).collect(),
            set_of: plans.iter().map(set_of).collect(),
            readers: terms::readers(&facts, &plans, &sets),
            parts: parts::split(&facts.ranks, &sets),
            mesh: facts.mesh.clone(),
            siblings,
            plans,
            sets,
        }
    }

    fn carry_out(&self, rewriter: &mut Rewriter) {
        let copies = copies(rewriter, self.class, self);
        let axes: Vec<_> = self
            .sets
            .iter()
            .map(|a| axes_attr(rewriter.context(), &self.mesh, a))
            .collect();
        for (part, copied) in self.parts.iter().zip(&copies) {
            for reader in &self.readers {
                reader.rewrite(rewriter, copied, &part.roles, &axes);
            }
            let mut rewrite = Rewrite {
                rewriter: &mut *rewriter,
                mesh: &self.mesh,
                copied,
            };
            for (index, bias) in self.plans.iter().enumerate() {
                match part.roles[self.set_of[index]] {
                    Role::First => rewrite.keep(bias, &self.moves[index]),
                    Role::Rest => rewrite.drop(bias, &self.siblings),
                }
            }
        }
    }
}

/// A class and the plans that fit it, before other classes are heard.
struct Candidate<'m> {
    class: OpId,
    facts: Facts<'m>,
    plans: Vec<Plan>,
}

impl PromoteLinear {
    fn plan(&self, module: &Module, top: OpId, cx: &mut PassCx) -> Vec<ClassPlan> {
        let mut candidates = Vec::new();
        for class in module.members(top, "builtin.module") {
            if let Some(facts) = Facts::new(module, class) {
                let plans = self.biases(&facts, cx);
                candidates.push(Candidate {
                    class,
                    facts,
                    plans,
                });
            }
        }
        // A plan that one class gives up, the classes that meet it have to give up too.
        let siblings = loop {
            groups::agree(&mut candidates, cx);
            let of_classes: Vec<_> = candidates
                .iter()
                .map(|c| terms::siblings(&c.facts, &c.plans))
                .collect();
            let Some(class) = of_classes.iter().position(Result::is_err) else {
                break of_classes.into_iter().map(Result::unwrap_or_default);
            };
            if let Err(index) = of_classes[class] {
                let reason = "no other gradient of its loss scaling group would be left";
                let plan = candidates[class].plans.remove(index);
                decline(
                    &candidates[class].facts,
                    &plan.name,
                    &plan.linears,
                    reason,
                    cx,
                );
            }
        };
        let mut plans = Vec::new();
        for (candidate, siblings) in candidates.into_iter().zip(siblings) {
            report(&candidate.facts, &candidate.plans, cx);
            if !candidate.plans.is_empty() {
                plans.push(ClassPlan::new(candidate, siblings));
            }
        }
        plans
    }

    /// The plans for all biases of the class, in the order of their first layers.
    fn biases(&self, facts: &Facts, cx: &mut PassCx) -> Vec<Plan> {
        let mut order: Vec<Attr> = Vec::new();
        let mut by_bias: FxHashMap<Attr, Vec<Linear>> = FxHashMap::default();
        for &op in &facts.ops {
            match linear::at(facts, op) {
                None if linear::is_unreduced(facts, op) => {
                    let message = || "not promoted: its product is not summed over ranks".into();
                    cx.remark("R0702", facts.module.loc(op), message);
                }
                None => {}
                Some(Site::Declined { reason }) => {
                    let message = || format!("not promoted: {reason}");
                    cx.remark("R0702", facts.module.loc(op), message);
                }
                Some(Site::Linear(linear)) if !self.wants(facts, &linear) => {
                    let message = || {
                        let axes = facts.show(&linear.axes);
                        format!(
                            "not promoted: it is reduced over {axes}, which option 'axis' leaves out"
                        )
                    };
                    cx.remark("R0702", facts.module.loc(op), message);
                }
                Some(Site::Linear(linear)) => {
                    let linears = by_bias.entry(linear.global).or_default();
                    if linears.is_empty() {
                        order.push(linear.global);
                    }
                    linears.push(linear);
                }
            }
        }
        let mut plans = Vec::new();
        for bias in order {
            let linears = by_bias.remove(&bias).unwrap_or_default();
            match Plan::new(facts, linears.clone()) {
                Ok(plan) => plans.push(plan),
                Err(reason) => {
                    let name = facts.module.cx().as_symbol(bias).unwrap_or_default();
                    decline(facts, name, &linears, &reason, cx);
                }
            }
        }
        plans
    }

    fn wants(&self, facts: &Facts, linear: &Linear) -> bool {
        let named = |&axis: &usize| self.axes.contains(&facts.mesh.axes()[axis]);
        self.axes.is_empty()
            || linear.axes.len() == self.axes.len() && linear.axes.iter().all(named)
    }
}

fn decline(facts: &Facts, name: &str, linears: &[Linear], reason: &str, cx: &mut PassCx) {
    for linear in linears {
        let message = || format!("not promoted: bias @{name}: {reason}");
        cx.remark("R0702", facts.module.loc(linear.comm), message);
    }
}

/// Says what is promoted, and warns where a bias gradient keeps a factor that its weight's does not have.
fn report(facts: &Facts, plans: &[Plan], cx: &mut PassCx) {
    let module = facts.module;
    for plan in plans {
        let axes = facts.show(&plan.axes);
        for linear in &plan.linears {
            let comm = module.name_str(linear.comm);
            let message = || {
                format!(
                    "promoted: @{} is added before the '{comm}' over {axes}, on the first rank only",
                    plan.name
                )
            };
            cx.remark("R0701", module.loc(linear.comm), message);
        }
        if let Some(op) = plan.flow.drifts {
            let name = &plan.name;
            cx.report(
                Diagnostic::warning(
                    "W0704",
                    module.loc(op),
                    format!("the ranks over {axes} may update bias @{name} differently; now all of them get the first one's"),
                )
                .note(
                    None,
                    "the bias is said to be the same on these ranks, but something that goes into its update, such as a clip \
                     factor or an overflow flag, is each rank's own",
                )
                .help("reduce the norm or the flag over these axes first"),
            );
        }
        if let Some(reduction) = plan.flow.reductions.iter().find(|r| r.scaled) {
            let name = &plan.name;
            cx.report(
                Diagnostic::warning(
                    "W0703",
                    module.loc(reduction.op),
                    format!("the gradient of bias @{name} is the mean over {axes}, that of its weight the sum"),
                )
                    .note(
                        None,
                        "the weight sums the losses of the sequence shards, the bias averages them; which is meant depends on \
                         how the loss is reduced, so the factor of the input program is kept",
                    )
                    .help("drop the scale after the reduction of the bias gradient if the loss is a sum over the shards"),
            );
        }
    }
}

/// The class itself for the first part, and a copy of it for each other part, named and given its ranks.
fn copies(rewriter: &mut Rewriter, class: OpId, plan: &ClassPlan) -> Vec<Copied> {
    let cx = rewriter.cx().clone();
    let top = rewriter.parent_op(class);
    let mut taken: FxHashSet<String> = top
        .into_iter()
        .flat_map(|top| rewriter.symbols(top))
        .map(|(name, _)| name.to_owned())
        .collect();
    let name = rewriter.symbol_name(class).map(str::to_owned);
    let mut copies = vec![Copied::default()];
    let mut last = class;
    for _ in 1..plan.parts.len() {
        let mut map = CloneMap::default();
        last = rewriter.after(last).clone_op(class, &mut map);
        copies.push(Copied(Some(map)));
    }
    for (part, copied) in plan.parts.iter().zip(&copies) {
        let op = copied.op(class);
        let ranks = part.to_attr(&cx, &plan.mesh);
        rewriter.set_attr(op, "dist.ranks", Some(ranks));
        if let (Some(name), true) = (&name, plan.parts.len() > 1) {
            let wanted = format!("{name}{}", part.suffix());
            let free = std::iter::once(wanted.clone())
                .chain((1..).map(|n| format!("{wanted}_{n}")))
                .find(|name| !taken.contains(name))
                .unwrap_or(wanted);
            rewriter.set_attr(op, "sym_name", Some(cx.string(&free)));
            taken.insert(free);
        }
    }
    copies
}
