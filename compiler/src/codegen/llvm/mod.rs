//! What every LLVM target shares: building a function and running LLVM on a module.

mod assembly;
mod emitter;
mod flow;
mod machine;

pub(crate) use emitter::{Emitter, Space};
pub(crate) use machine::{Machine, Optimised};
