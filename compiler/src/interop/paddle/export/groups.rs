//! Ops that were one op of Paddle's: `check_finite_and_unscale` and `update_loss_scaling` take all gradients at once.
//!
//! A group is put together again where its ops still agree on everything but the tensor, and nothing between them needs
//! their results. Otherwise each is exported on its own, which means the same.

use std::collections::{BTreeMap, HashMap};

use raddle_dialect::ir::{BlockId, Module, OpId, ValueId};
use rustc_hash::FxBuildHasher;

use super::super::form::FORM;

/// A group to be exported as one op, at its last member.
#[derive(Debug)]
pub(super) struct Group {
    pub members: Vec<OpId>,
    /// The `dist.any_of` that joins the members' flags, and perhaps further ones.
    pub joined: Option<OpId>,
}

/// Which ops are exported together.
#[derive(Default)]
pub(super) struct Groups {
    list: Vec<Group>,
    of: HashMap<OpId, usize, FxBuildHasher>,
}

impl Groups {
    /// Finds the groups of a block.
    pub(super) fn find(module: &Module, block: BlockId) -> Self {
        let mut positions: HashMap<OpId, usize, FxBuildHasher> = HashMap::default();
        let mut candidates: BTreeMap<(&str, i64), Vec<OpId>> = BTreeMap::new();
        for (at, op) in module.block_ops(block).enumerate() {
            positions.insert(op, at);
            let name = module.name_str(op);
            if GROUPED.contains(&name)
                && let Some(group) = module.i64_attr(op, "group")
            {
                candidates.entry((name, group)).or_default().push(op);
            }
        }
        let mut groups = Self::default();
        for ((name, _), members) in candidates {
            if members.len() < 2 || !agree(module, &members) {
                continue;
            }
            let last = positions[&members[members.len() - 1]];
            let after = |value: ValueId| {
                module
                    .uses(value)
                    .all(|u| positions.get(&u.op).is_some_and(|&at| at > last))
            };
            if !members.iter().all(|&op| module.results(op).all(after)) {
                continue;
            }
            let joined = if name == "dist.check_finite_and_unscale" {
                match joint(module, &members) {
                    Some(joined) => Some(joined),
                    None => continue,
                }
            } else {
                None
            };
            let index = groups.list.len();
            groups.of.extend(members.iter().map(|&op| (op, index)));
            groups.of.extend(joined.map(|op| (op, index)));
            groups.list.push(Group { members, joined });
        }
        groups
    }

    /// The group of an op, if it is exported with others.
    pub(super) fn of(&self, op: OpId) -> Option<&Group> {
        self.of.get(&op).map(|&index| &self.list[index])
    }
}

/// Ops that Paddle has for many tensors.
const GROUPED: [&str; 4] = [
    "dist.check_finite_and_unscale",
    "dist.update_loss_scaling",
    "dist.merged_momentum",
    "dist.lars_momentum",
];

/// Whether the ops differ in their tensors only: the first operand, or all operands of optimizers.
fn agree(module: &Module, members: &[OpId]) -> bool {
    let scaling = [
        "incr_every_n_steps",
        "decr_every_n_nan_or_inf",
        "incr_ratio",
        "decr_ratio",
        "stop_update",
    ];
    let momentum = [
        "mu",
        "use_nesterov",
        "rescale_grad",
        "lars_coeff",
        "epsilon",
        "local_norms",
    ];
    let names = scaling.iter().chain(&momentum).chain(&["dist.role", FORM]);
    let facts = |op| {
        let merges = module.operand_in(op, "param").is_some();
        let operands: Vec<_> = match merges {
            // All have a master copy or none.
            true => module.operands(op).map(|_| None).collect(),
            false => module.operands(op).skip(1).map(Some).collect(),
        };
        let attrs: Vec<_> = names.clone().map(|n| module.attr(op, n)).collect();
        (operands, attrs)
    };
    let first = facts(members[0]);
    members.iter().all(|&op| facts(op) == first)
}

/// The `dist.any_of` that reads the flags of all members, which nothing else reads.
fn joint(module: &Module, members: &[OpId]) -> Option<OpId> {
    let mut joined = None;
    for &op in members {
        let user = module.single_use(module.result(op, 1))?.op;
        if !module.is(user, "dist.any_of") || joined.is_some_and(|j| j != user) {
            return None;
        }
        joined = Some(user);
    }
    joined
}
