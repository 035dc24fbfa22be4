//! B or W, for every backward op.
//!
//! B are: what was labelled so before, what talks to other ranks about activations (sends, receives, tensor-parallel collectives), gradients of activations, ops
//! that nothing is known about; and what any of these reads. All else is W. One walk from the last op to the first suffices,
//! since uses come after definitions.

use std::collections::HashMap;

use raddle_dialect::ir::{BlockId, Ident, Module, OpId, ValueId};
use raddle_dialect::ops::Effects;
use rustc_hash::FxBuildHasher;

use super::facts::Facts;
use super::{PART, Upstream, is_backward};

/// One of the two jobs of a backward pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    B,
    W,
}

/// What was found out about a block.
pub(super) struct Sides {
    /// By op; nothing for ops that are not in the backward pass.
    ops: Vec<Option<Side>>,
    /// Ops in B of which some results only W needs, in program order.
    mixed: Vec<OpId>,
    /// By value: whether B needs it.
    needed: Vec<bool>,
}

impl Sides {
    pub(super) fn of(module: &Module, block: BlockId, facts: &Facts, upstream: Upstream) -> Self {
        let mut finder = Finder {
            module,
            facts,
            upstream,
            sides: Self {
                ops: vec![None; module.op_capacity()],
                mixed: Vec::new(),
                needed: vec![false; module.value_capacity()],
            },
            ends_in_gradient: vec![false; module.value_capacity()],
            read_later: HashMap::default(),
        };
        for op in module.block_ops(block).rev() {
            finder.visit(op);
        }
        finder.sides.mixed.reverse();
        finder.sides
    }

    /// The side of an op of the backward pass.
    pub(super) fn of_op(&self, op: OpId) -> Option<Side> {
        self.ops.get(op.index()).copied().flatten()
    }

    /// Whether B needs a value.
    pub(super) fn is_needed(&self, value: ValueId) -> bool {
        self.needed[value.index()]
    }

    /// Ops with results on both sides.
    pub(super) fn mixed(&self) -> impl Iterator<Item = OpId> + '_ {
        self.mixed.iter().copied()
    }
}

struct Finder<'a> {
    module: &'a Module,
    facts: &'a Facts,
    upstream: Upstream,
    sides: Sides,
    /// By value: whether it goes nowhere but into accumulators, globals and the optimizer, by ops that keep it a gradient.
    ends_in_gradient: Vec<bool>,
    /// Globals that B reads further down.
    read_later: HashMap<Ident, (), FxBuildHasher>,
}

impl Finder<'_> {
    fn visit(&mut self, op: OpId) {
        let module = self.module;
        for result in module.results(op) {
            self.ends_in_gradient[result.index()] = module.uses(result).all(|u| self.keeps(u.op));
        }
        if !is_backward(module, op) {
            return;
        }
        let seeds: Vec<bool> = module.results(op).map(|r| self.is_seed(op, r)).collect();
        let side = match self.is_anchor(op) || seeds.contains(&true) {
            true => Side::B,
            false => Side::W,
        };
        self.sides.ops[op.index()] = Some(side);
        if side == Side::W {
            return;
        }
        if self.is_anchor(op) {
            module.results(op).for_each(|r| self.need(r));
        }
        for (result, seed) in module.results(op).zip(&seeds) {
            if *seed {
                self.need(result);
            }
        }
        let on_both_sides = module
            .results(op)
            .any(|r| !self.sides.needed[r.index()] && !module.is_unused(r));
        if on_both_sides {
            self.sides.mixed.push(op);
        }
        for operand in self.read_for_b(op, on_both_sides) {
            self.need(operand);
        }
        if let Some(global) = global(module, op)
            && effects(module, op) == Some(Effects::Reads)
        {
            self.read_later.insert(global, ());
        }
    }

    fn need(&mut self, value: ValueId) {
        self.sides.needed[value.index()] = true;
    }

    /// Whether B needs a result, apart from what the op itself is.
    fn is_seed(&self, op: OpId, result: ValueId) -> bool {
        if self.sides.needed[result.index()] {
            return true;
        }
        if self.module.is_unused(result) {
            return false;
        }
        let stage = |op| self.module.i64_attr(op, "dist.stage");
        match self.upstream {
            Upstream::Any => self.facts.is_activation_gradient(result),
            Upstream::Sent => {
                let own = stage(op);
                !self.ends_in_gradient[result.index()]
                    && own.is_some()
                    && self.module.uses(result).any(|u| {
                        is_backward(self.module, u.op)
                            && stage(u.op).is_some_and(|s| Some(s) != own)
                    })
            }
        }
    }

    /// Whether an op belongs to B whatever reads its results.
    fn is_anchor(&self, op: OpId) -> bool {
        let module = self.module;
        if module.str_attr(op, PART) == Some("b") {
            return true;
        }
        match effects(module, op) {
            None | Some(Effects::Opaque) => true,
            Some(Effects::Communicates) => {
                let gradients_only = module.num_results(op) > 0
                    && (module
                        .operands(op)
                        .any(|v| self.facts.is_weight_gradient(v))
                        || module.results(op).all(|r| self.ends_in_gradient[r.index()]));
                !gradients_only
            }
            Some(Effects::Writes | Effects::Accumulates) => {
                global(module, op).is_some_and(|g| self.read_later.contains_key(&g))
            }
            _ => false,
        }
    }

    /// The operands that B's part of an op reads.
    fn read_for_b(&self, op: OpId, on_both_sides: bool) -> Vec<ValueId> {
        let module = self.module;
        let result = |name| {
            module
                .result_in(op, name)
                .is_some_and(|r| self.sides.needed[r.index()])
        };
        let operand = |index| module.operand(op, index);
        match module.name_str(op) {
            "dist.add_grad" => vec![operand(2)],
            "dist.matmul_grad" if on_both_sides => match result("da") {
                true => vec![operand(1), operand(2)],
                false => vec![operand(0), operand(2)],
            },
            _ => module.operands(op).collect(),
        }
    }

    /// Whether an op that reads a gradient of a parameter passes on nothing but that.
    fn keeps(&self, op: OpId) -> bool {
        let module = self.module;
        if module.def_of(op).is_some_and(|def| def.traits.terminator) {
            return true;
        }
        if module.str_attr(op, "dist.role") == Some("optimizer") {
            return true;
        }
        let passes_on = matches!(
            module.name_str(op),
            "dist.accumulate"
                | "dist.store"
                | "dist.cast"
                | "dist.scale"
                | "dist.identity"
                | "dist.reshape"
                | "dist.transpose"
                | "dist.slice"
                | "dist.split"
                | "dist.concat"
                | "dist.concat_pair"
                | "dist.stack"
                | "dist.add"
                | "dist.sum"
                | "dist.all_reduce"
                | "dist.reduce_scatter"
                | "dist.all_gather"
                | "dist.check_finite_and_unscale"
                | "dist.squared_l2_norm"
        );
        passes_on && module.results(op).all(|r| self.ends_in_gradient[r.index()])
    }
}

fn effects(module: &Module, op: OpId) -> Option<Effects> {
    module.def_of(op).map(|def| def.effects)
}

/// The global that an op reads or writes.
pub(super) fn global(module: &Module, op: OpId) -> Option<Ident> {
    let name = module.symbol_attr(op, "global")?;
    Some(module.cx().ident(name))
}
