//! Memory: which storage a job needs when, what it may free, and how much each rank class holds at most.
//!
//! A value has storage of its own unless it is another one seen otherwise (`dist.reshape`, `dist.identity`) or a global
//! (`dist.load`). Storage lives from the op that computes the value to the last op that reads it, or beyond the job if the job leaves
//! the value to later ones. [`lifetimes`] looks at one function, [`readers`] at the jobs of a class, [`arena`] lays storage out,
//! [`report`] plays the schedule and adds up.

pub mod arena;
pub mod lifetimes;
pub mod readers;
pub mod report;

use raddle_dialect::TensorType;
use raddle_dialect::ir::{Module, OpId, ValueId};

/// How many bytes a tensor takes; 0 for what is not a tensor of static shape.
pub fn value_bytes(module: &Module, value: ValueId) -> u64 {
    let ty = TensorType::of(module.cx(), module.ty(value)).ok();
    let bytes = ty.and_then(|ty| ty.bytes());
    bytes.and_then(|b| u64::try_from(b).ok()).unwrap_or(0)
}

/// The functions of a class that have a body of one block.
pub fn functions(module: &Module, class: OpId) -> Vec<OpId> {
    let one_block = |op| {
        let region = module.regions(op).first();
        region.is_some_and(|&region| module.blocks(region).count() == 1)
    };
    let functions = module.members(class, "func.func");
    functions.filter(|&op| one_block(op)).collect()
}

/// The rank classes of a module.
pub fn classes(module: &Module) -> Vec<OpId> {
    module.members(module.root(), "builtin.module").collect()
}
