//! Ops of MLIR's own dialects that occur around `dist` programs: modules, functions, branches and plain arithmetic.
//!
//! They verify with MLIR's messages and print as MLIR prints them. Their attributes are properties in the generic form.

pub mod arith;
pub mod builtin;
pub mod cf;
pub mod func;
mod operands;
