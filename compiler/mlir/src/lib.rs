//! MLIR itself, through melior: the passes, the bytecode and the execution engine of stock MLIR, for modules that come through
//! [the door](raddle_compiler::interop::mlir).
//!
//! It is a crate of its own because a program that names it is linked with libMLIR and libLLVM, and loads them whenever it starts.
//! MLIR runs in a thread of its own with a large stack, since it recurses.

mod exchange;
mod execute;
mod in_process;
mod serve;

pub use execute::{Array, COMPILE_PIPELINE, execute};
pub use in_process::InProcess;
pub use serve::serve;
