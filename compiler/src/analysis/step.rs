//! A training step as a list: the role of every op, and which ops could run anywhere because they read nothing but globals and
//! constants.

use std::collections::HashMap;

use raddle_dialect::ir::{Def, Ident, Module, OpId, ValueId};
use raddle_dialect::ops::Effects;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// Which part of training an op belongs to (`dist.role`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// From the inputs to the loss.
    Forward,
    /// From the loss to the gradients of parameters.
    Backward,
    /// From gradients to new parameters.
    Optimizer,
}

impl Role {
    /// The role that an attribute names.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "forward" => Self::Forward,
            "backward" => Self::Backward,
            "optimizer" => Self::Optimizer,
            _ => return None,
        })
    }

    /// Its name in an attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }
}

/// The function that a rank class runs once a micro-batch, if it has one that is not cut into jobs.
pub fn step_of(module: &Module, class: OpId) -> Option<OpId> {
    let step = module.find_symbol(class, "step")?;
    module.is(step, "func.func").then_some(step)
}

/// Where a value comes from, within one function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The op at this position.
    Op(usize),
    /// The function's argument of this number.
    Argument(usize),
}

/// The ops of a single-block function, in order, without its return.
pub struct Step<'m> {
    /// The module. It must not be edited while this is used.
    pub module: &'m Module,
    /// The function.
    pub function: OpId,
    /// Its ops.
    pub ops: Vec<OpId>,
    /// What it returns.
    pub returned: Vec<ValueId>,
    /// By position: the op's role. Without a label it is the latest role of what the op reads.
    pub roles: Vec<Role>,
    /// By position: whether the op depends on nothing but globals that stay as they are until the optimizer runs, and on constants, so
    /// that any rank can compute it.
    pub free: Vec<bool>,
    positions: FxHashMap<OpId, u32>,
}

impl<'m> Step<'m> {
    /// Reads a function; `None` if it is not a single block.
    pub fn of(module: &'m Module, function: OpId) -> Option<Self> {
        let mut blocks = module.blocks(*module.regions(function).first()?);
        let (Some(block), None) = (blocks.next(), blocks.next()) else {
            return None;
        };
        let mut ops = Vec::new();
        let mut returned = Vec::new();
        for op in module.block_ops(block) {
            if module.is(op, "func.return") {
                returned = module.operands(op).collect();
            } else {
                ops.push(op);
            }
        }
        let mut positions = HashMap::with_capacity_and_hasher(ops.len(), FxBuildHasher);
        positions.extend(ops.iter().enumerate().map(|(at, &op)| (op, at as u32)));
        let mut step = Self {
            module,
            function,
            roles: Vec::with_capacity(ops.len()),
            free: Vec::with_capacity(ops.len()),
            ops,
            returned,
            positions,
        };
        step.find_roles();
        step.find_free();
        Some(step)
    }

    /// Where an op of the function stands.
    pub fn position(&self, op: OpId) -> Option<usize> {
        self.positions.get(&op).map(|&at| at as usize)
    }

    /// Where a value that an op of the function reads comes from.
    ///
    /// # Panics
    /// If the value belongs to another function.
    pub fn origin(&self, value: ValueId) -> Origin {
        match self.module.def(value) {
            Def::Result { op, .. } => Origin::Op(
                self.position(op)
                    .expect("an op reads values of its function"),
            ),
            Def::Arg { index, .. } => Origin::Argument(index as usize),
            Def::Pending => unreachable!("verified modules define their values"),
        }
    }

    /// Positions of the ops that an op reads results of.
    pub fn sources(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let operands = self.module.operands(self.ops[at]);
        operands.filter_map(|v| match self.origin(v) {
            Origin::Op(at) => Some(at),
            Origin::Argument(_) => None,
        })
    }

    /// Whether a value can be had anywhere: an argument, which is data from outside, or the result of a free op.
    pub fn is_anywhere(&self, value: ValueId) -> bool {
        match self.origin(value) {
            Origin::Op(at) => self.free[at],
            Origin::Argument(_) => true,
        }
    }

    /// The op's effects; unknown ops may do anything.
    pub fn effects(&self, at: usize) -> Effects {
        let def = self.module.def_of(self.ops[at]);
        def.map_or(Effects::Opaque, |d| d.effects)
    }

    /// The global that an op names.
    pub fn global(&self, at: usize) -> Option<&'m str> {
        self.module.symbol_attr(self.ops[at], "global")
    }

    fn find_roles(&mut self) {
        for at in 0..self.ops.len() {
            let label = self.module.str_attr(self.ops[at], "dist.role");
            let role = label.and_then(Role::parse).unwrap_or_else(|| {
                let read = self.sources(at).map(|s| self.roles[s]).max();
                read.unwrap_or(Role::Forward)
            });
            self.roles.push(role);
        }
    }

    fn find_free(&mut self) {
        // Globals that change before the optimizer runs hold something else at each place.
        let cx = self.module.cx();
        let mut changing: FxHashSet<Ident> = FxHashSet::default();
        for at in 0..self.ops.len() {
            let writes = matches!(self.effects(at), Effects::Writes | Effects::Accumulates);
            if writes && self.roles[at] != Role::Optimizer {
                changing.extend(self.global(at).map(|g| cx.ident(g)));
            }
        }
        for at in 0..self.ops.len() {
            let op = self.ops[at];
            let alone = match self.effects(at) {
                Effects::Pure => true,
                Effects::Reads => self
                    .global(at)
                    .is_some_and(|g| !changing.contains(&cx.ident(g))),
                // A collective that all ranks of a group come to, with what they all can compute.
                Effects::Communicates => {
                    self.module.num_operands(op) > 0 && !self.module.is(op, "dist.send")
                }
                _ => false,
            };
            let free = alone
                && self.module.regions(op).is_empty()
                && self
                    .module
                    .operands(op)
                    .all(|v| matches!(self.origin(v), Origin::Op(source) if self.free[source]));
            self.free.push(free);
        }
    }
}
