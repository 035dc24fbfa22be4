//! The doors to other systems: programs come in as modules and leave as what the other system reads.

pub mod mlir;
pub mod paddle;
