//! Follows what only serves a bias: its gradient from the backward pass to the optimizer, its state, and whatever is computed
//! from them. On the ranks that lose the bias all of it goes.
//!
//! A value of this flow is *whole* if it is the same on every rank over the layer's axes, or *partial* if it is one rank's share of
//! a sum over them: with sequence parallelism each rank has the bias gradient of its own piece of the sequence, until an
//! all_reduce adds the pieces up.
//!
//! Where gradients of micro-batches are added up in a global, the flow goes on at the loads of that global, in the optimizer's
//! function.

use rustc_hash::{FxHashMap, FxHashSet};

use raddle_dialect::ir::{Attr, OpId, ValueId};
use raddle_dialect::ops::{Effects, coordinate_axes};

use super::facts::Facts;

/// Where the flow starts and where it must not go.
pub struct Sources<'a> {
    /// Axes over which the bias is promoted.
    pub axes: &'a [usize],
    /// The bias and its states.
    pub globals: &'a FxHashSet<Attr>,
    /// The bias.
    pub bias: Attr,
    /// Gradients of the bias, and whether each is partial.
    pub gradients: Vec<(ValueId, bool)>,
    /// Operands that the promotion itself takes care of: the bias in its adds and their gradients.
    pub handled: &'a FxHashSet<(OpId, usize)>,
}

/// A reduction over the layer's axes that promotion makes superfluous.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The `dist.all_reduce`.
    pub op: OpId,
    /// Axes that it still has to reduce over.
    pub rest: Vec<usize>,
    /// Whether it, or what follows it, divides by the number of ranks.
    pub scaled: bool,
}

/// A scalar made of the bias gradient that other gradients depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// The scalar.
    pub value: ValueId,
    /// What reads it.
    pub consumer: OpId,
    /// As which operand.
    pub operand: usize,
}

/// What serves only the bias.
#[derive(Default, Debug)]
pub struct Flow {
    /// Ops to leave out where the bias is gone; no order.
    pub ops: FxHashSet<OpId>,
    /// Reductions over the layer's axes.
    pub reductions: Vec<Reduction>,
    /// Scalars that leave the flow.
    pub terms: Vec<Term>,
    /// Globals in which gradients of the bias are added up.
    pub sums: Vec<Attr>,
    /// Ops of a loss scaling group whose scale or counters others read.
    pub scaling: Vec<OpId>,
    /// An op that brings in something that ranks over the layer's axes may not have in common, such as a clip factor that each
    /// makes of its own norm. Then the bias drifts apart on them, and the first rank's will be everyone's.
    pub drifts: Option<OpId>,
}

/// Follows the flow.
///
/// # Errors
/// With the reason why the bias cannot be left out.
pub fn follow(facts: &Facts, sources: &Sources) -> Result<Flow, String> {
    let mut walk = FlowWalk {
        facts,
        sources,
        flow: Flow::default(),
        partial: FxHashMap::default(),
        sums: FxHashMap::default(),
    };
    walk.collect()?;
    walk.judge()?;
    Ok(walk.flow)
}

struct FlowWalk<'a, 'm> {
    facts: &'a Facts<'m>,
    sources: &'a Sources<'a>,
    flow: Flow,
    /// Values of the flow; whether each is partial.
    partial: FxHashMap<ValueId, bool>,
    /// Sums of gradients; whether each is partial, as far as that is known.
    sums: FxHashMap<Attr, Option<bool>>,
}

impl FlowWalk<'_, '_> {
    /// Finds all ops of the flow.
    fn collect(&mut self) -> Result<(), String> {
        let module = self.facts.module;
        let mut list: Vec<ValueId> = Vec::new();
        for &global in self.sources.globals {
            let loads = self.facts.global(global).map_or(&[][..], |g| &g.loads);
            self.flow.ops.extend(loads);
            list.extend(loads.iter().map(|&load| module.result(load, 0)));
        }
        self.partial.extend(list.iter().map(|&v| (v, false)));
        for &(value, partial) in &self.sources.gradients {
            self.partial.insert(value, partial);
            list.push(value);
        }
        while let Some(value) = list.pop() {
            for user in module.uses(value) {
                if self.sources.handled.contains(&(user.op, user.index)) {
                    continue;
                }
                if self.enter(user.op, user.index)? && self.flow.ops.insert(user.op) {
                    if let Some(sum) = self.added_to(user.op)
                        && self.sums.insert(sum, None).is_none()
                    {
                        list.extend(self.loads_of(sum)?);
                        continue;
                    }
                    let results = module.results(user.op);
                    list.extend(results.filter(|&r| !self.leaves(user.op, r)));
                }
            }
        }
        Ok(())
    }

    /// The global that an op adds to.
    fn added_to(&self, op: OpId) -> Option<Attr> {
        let module = self.facts.module;
        let def = module.def_of(op)?;
        let adds = def.effects == Effects::Accumulates;
        module.attr(op, "global").filter(|_| adds)
    }

    /// The loads of a global in which gradients are added up; they join the flow.
    ///
    /// # Errors
    /// If the global holds anything else.
    fn loads_of(&mut self, sum: Attr) -> Result<Vec<ValueId>, String> {
        let module = self.facts.module;
        let name = module.cx().as_symbol(sum).unwrap_or_default();
        let Some(global) = self.facts.global(sum) else {
            return Err(format!(
                "its gradient is added to @{name}, which is not declared"
            ));
        };
        let buffer = global.op.and_then(|op| module.str_attr(op, "kind")) == Some("buffer");
        let zeroed = |&store: &OpId| self.is_constant(module.operand(store, 0));
        if !buffer || !global.stores.iter().all(zeroed) {
            return Err(format!(
                "its gradient is added to @{name}, which holds something else as well"
            ));
        }
        self.flow.ops.extend(&global.loads);
        let values = global.loads.iter().map(|&load| module.result(load, 0));
        Ok(values.collect())
    }

    /// Whether a value is a constant, perhaps broadcast.
    fn is_constant(&self, mut value: ValueId) -> bool {
        let module = self.facts.module;
        for _ in 0..MAX_LOOK_BACK {
            let Some(op) = self.facts.definition(value) else {
                return false;
            };
            match module.name_str(op) {
                "dist.fill" => return true,
                "dist.broadcast" | "dist.cast" | "dist.identity" => value = module.operand(op, 0),
                _ => return false,
            }
        }
        false
    }

    /// Whether the op that reads a value of the flow belongs to it.
    fn enter(&self, op: OpId, operand: usize) -> Result<bool, String> {
        let module = self.facts.module;
        let name = module.name_str(op);
        let def = module.def_of(op);
        match def.map_or(Effects::Opaque, |d| d.effects) {
            Effects::Pure if is_optimizer(def) => self.optimizer(op).map(|()| true),
            Effects::Pure if PASSABLE.contains(&name) => Ok(true),
            Effects::Writes => match module.attr(op, "global") {
                Some(global) if self.sources.globals.contains(&global) => Ok(true),
                global => {
                    let name = global.and_then(|g| module.cx().as_symbol(g));
                    Err(format!(
                        "what is computed from it is stored in @{}",
                        name.unwrap_or_default()
                    ))
                }
            },
            Effects::Accumulates => Ok(true),
            Effects::Communicates if REMOVABLE.contains(&name) => Ok(true),
            _ if name == "func.return" => Err("what is computed from it is returned".into()),
            _ => Err(format!(
                "'{name}' reads it, or what is computed from it, as operand #{operand}"
            )),
        }
    }

    /// The optimizer op must be the bias's own.
    fn optimizer(&self, op: OpId) -> Result<(), String> {
        let module = self.facts.module;
        let param = module.operand_in(op, "param");
        let load = param.and_then(|p| self.facts.definition(p));
        let global = load.filter(|&l| module.is(l, "dist.load"));
        if global.and_then(|l| module.attr(l, "global")) == Some(self.sources.bias) {
            Ok(())
        } else {
            Err(format!(
                "the '{}' of another parameter depends on it",
                module.name_str(op)
            ))
        }
    }

    /// Whether a result of an op of the flow is a scalar that others may read.
    fn leaves(&self, op: OpId, result: ValueId) -> bool {
        let module = self.facts.module;
        match module.name_str(op) {
            "dist.squared_l2_norm" => true,
            "dist.check_finite_and_unscale" => module.result(op, 1) == result,
            "dist.update_loss_scaling" => module.result(op, 0) != result,
            _ => false,
        }
    }

    /// Tells whole values from partial ones, in program order, and finds the reductions and the scalars that leave.
    fn judge(&mut self) -> Result<(), String> {
        let mut ops: Vec<_> = self.flow.ops.iter().copied().collect();
        // The optimizer runs after the functions that add gradients up, wherever it is written.
        ops.sort_unstable_by_key(|&op| (self.facts.in_optimizer(op), self.facts.place(op).order));
        for op in ops {
            let partial = self.op(op)?;
            let results: Vec<_> = self.facts.module.results(op).collect();
            for result in results {
                if self.leaves(op, result) {
                    self.leave(op, result)?;
                } else {
                    self.partial.insert(result, partial);
                }
            }
        }
        // Every gradient in a sum is the bias's.
        for &sum in self.sums.keys() {
            let global = self.facts.global(sum);
            let mut additions = global.iter().flat_map(|g| &g.accumulations);
            if additions.any(|op| !self.flow.ops.contains(op)) {
                let name = self.facts.module.cx().as_symbol(sum).unwrap_or_default();
                return Err(format!(
                    "its gradient is added to @{name}, which holds something else as well"
                ));
            }
        }
        self.flow.sums = self.sums.keys().copied().collect();
        Ok(())
    }

    /// Whether an op's results are partial.
    fn op(&mut self, op: OpId) -> Result<bool, String> {
        let module = self.facts.module;
        if module.is(op, "dist.load") {
            let sum = module.attr(op, "global").and_then(|g| self.sums.get(&g));
            return Ok(sum.copied().flatten().unwrap_or(false));
        }
        let operands: Vec<_> = module
            .operands(op)
            .enumerate()
            .map(|(index, v)| {
                let handled = self.sources.handled.contains(&(op, index));
                self.partial.get(&v).copied().filter(|_| !handled)
            })
            .collect();
        let partial = operands.contains(&Some(true));
        if let Some(sum) = self.added_to(op) {
            let known = self.sums.insert(sum, Some(partial)).flatten();
            if known.is_some_and(|known| known != partial) {
                return Err("gradients before and after their reduction are added up".into());
            }
            return Ok(partial);
        }
        let def = module.def_of(op);
        if def.is_some_and(|d| d.effects == Effects::Communicates) {
            return self.collective(op, partial);
        }
        let foreign = operands
            .iter()
            .zip(module.operands(op))
            .filter(|(o, _)| o.is_none());
        let gradient = is_optimizer(def)
            .then(|| module.operand_in(op, "grad"))
            .flatten();
        let varies = |value| Some(value) != gradient && !self.is_uniform(value);
        if self.flow.drifts.is_none() && foreign.into_iter().any(|(_, value)| varies(value)) {
            self.flow.drifts = Some(op);
        }
        if partial && !is_linear(self.facts, op, &operands) {
            return Err(format!(
                "its gradient reaches '{}' before it is reduced over {}",
                module.name_str(op),
                self.facts.show(self.sources.axes)
            ));
        }
        Ok(partial)
    }

    fn collective(&mut self, op: OpId, partial: bool) -> Result<bool, String> {
        let module = self.facts.module;
        let name = module.name_str(op);
        let axes = self
            .facts
            .axes(op)
            .ok_or_else(|| format!("'{name}' names axes that the mesh does not have"))?;
        let mine = self.sources.axes;
        if axes.iter().all(|a| !mine.contains(a)) {
            // Its groups lie wholly among ranks that keep the bias, or wholly among ranks that lose it.
            return Ok(partial);
        }
        let reduction = module.str_attr(op, "reduction").unwrap_or_default();
        let sums = name == "dist.all_reduce" && matches!(reduction, "sum" | "avg");
        if !partial || !sums || !mine.iter().all(|a| axes.contains(a)) {
            return Err(format!(
                "'{name}' over {} meets its gradient, which promotion cannot take apart",
                self.facts.show(&axes)
            ));
        }
        let scale = |u: raddle_dialect::ir::Use| {
            module.is(u.op, "dist.scale") && module.f64_attr(u.op, "scale") != Some(1.0)
        };
        self.flow.reductions.push(Reduction {
            op,
            rest: axes.into_iter().filter(|a| !mine.contains(a)).collect(),
            scaled: reduction == "avg"
                || module.single_use(module.result(op, 0)).is_some_and(scale),
        });
        Ok(false)
    }

    fn leave(&mut self, op: OpId, result: ValueId) -> Result<(), String> {
        let module = self.facts.module;
        if module.is(op, "dist.update_loss_scaling") {
            if !module.is_unused(result) && self.flow.scaling.last() != Some(&op) {
                self.flow.scaling.push(op);
            }
            return Ok(());
        }
        let inside = |u: &raddle_dialect::ir::Use| self.flow.ops.contains(&u.op);
        let terms: Vec<_> = module
            .uses(result)
            .filter(|u| !inside(u))
            .map(|u| Term {
                value: result,
                consumer: u.op,
                operand: u.index,
            })
            .collect();
        if !terms.is_empty() && !self.is_uniform(result) {
            return Err(format!(
                "'{}' of its gradient may differ between the ranks over {}",
                module.name_str(op),
                self.facts.show(self.sources.axes)
            ));
        }
        self.flow.terms.extend(terms);
        Ok(())
    }

    /// Whether a pure op computes something else on each rank along the axes.
    fn differs(&self, op: OpId) -> bool {
        let facts = self.facts;
        let mut named = coordinate_axes(facts.module, op).into_iter();
        named.any(|axis| {
            let axis = facts.mesh.axis(axis);
            axis.is_none_or(|axis| self.sources.axes.contains(&axis))
        })
    }

    /// Whether a value is known to be the same on all ranks over the layer's axes, as far as a short look back tells.
    fn is_uniform(&self, value: ValueId) -> bool {
        let module = self.facts.module;
        let covers = |op| {
            let axes = self.facts.axes(op);
            axes.is_some_and(|axes| self.sources.axes.iter().all(|a| axes.contains(a)))
        };
        let mut seen = FxHashSet::default();
        let mut list = vec![value];
        while let Some(value) = list.pop() {
            let gradient = self.sources.gradients.iter().any(|g| g.0 == value);
            if gradient || !seen.insert(value) {
                continue;
            }
            if seen.len() > MAX_LOOK_BACK {
                return false;
            }
            let Some(op) = self.facts.definition(value) else {
                return false;
            };
            let name = module.name_str(op);
            match module.def_of(op).map_or(Effects::Opaque, |d| d.effects) {
                // A slice may start at the rank's own place, a lookup be in its own rows.
                Effects::Pure if self.differs(op) => return false,
                Effects::Pure => list.extend(module.operands(op)),
                Effects::Reads => {
                    let global = module.attr(op, "global").and_then(|g| self.facts.global(g));
                    let global = global.and_then(|g| g.op);
                    if !global.is_some_and(|g| self.facts.is_replicated(g, self.sources.axes)) {
                        return false;
                    }
                }
                Effects::Communicates => {
                    let equal = ["dist.all_reduce", "dist.all_gather", "dist.broadcast"];
                    if !equal.contains(&name) {
                        return false;
                    }
                    if !covers(op) {
                        list.extend(module.operands(op));
                    }
                }
                Effects::Draws | Effects::Writes | Effects::Accumulates | Effects::Opaque => {
                    return false;
                }
            }
        }
        true
    }
}

/// How many values [`FlowWalk::is_uniform`] looks at before it gives up.
const MAX_LOOK_BACK: usize = 256;

/// Pure ops that may work on a bias's gradient or state alone, or make a scalar of it.
const PASSABLE: &[&str] = &[
    "dist.add",
    "dist.cast",
    "dist.check_finite_and_unscale",
    "dist.clip",
    "dist.clip_by_norm",
    "dist.concat",
    "dist.concat_pair",
    "dist.div",
    "dist.identity",
    "dist.maximum",
    "dist.mul",
    "dist.reshape",
    "dist.scale",
    "dist.slice",
    "dist.split",
    "dist.sqrt",
    "dist.squared_l2_norm",
    "dist.sub",
    "dist.sum",
    "dist.transpose",
    "dist.update_loss_scaling",
];

/// Collectives that a whole group can leave out.
const REMOVABLE: &[&str] = &[
    "dist.all_gather",
    "dist.all_reduce",
    "dist.all_to_all",
    "dist.broadcast",
    "dist.reduce_scatter",
];

fn is_optimizer(def: Option<&raddle_dialect::ops::OpDef>) -> bool {
    def.is_some_and(|d| d.operand_group("param").is_some() && d.operand_group("grad").is_some())
}

/// Whether an op is linear in its partial operands together, so that the sum over the axes can be taken before it or after.
fn is_linear(facts: &Facts, op: OpId, operands: &[Option<bool>]) -> bool {
    let module = facts.module;
    let is_partial = |o: &Option<bool>| *o == Some(true);
    match module.name_str(op) {
        // Between floats; an integer is a rounded sum already.
        "dist.cast" => {
            let element = facts
                .shape(module.result(op, 0))
                .map(|(_, element)| element);
            let data = element.map(|e| module.cx().type_data(e));
            matches!(data, Some(raddle_dialect::ir::TypeData::Float(_)))
        }
        "dist.identity" | "dist.reshape" | "dist.slice" | "dist.split" | "dist.transpose" => true,
        "dist.scale" => module.f64_attr(op, "bias") == Some(0.0),
        "dist.add" | "dist.concat" | "dist.concat_pair" | "dist.sub" | "dist.sum" => {
            operands.iter().all(is_partial)
        }
        "dist.mul" => operands.iter().filter(|o| is_partial(o)).count() == 1,
        "dist.div" => operands == [Some(true), None],
        _ => false,
    }
}
