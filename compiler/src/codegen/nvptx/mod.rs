//! NVIDIA GPUs: from a kernel's description to PTX, and what NVIDIA's tools say about it.

#[cfg(feature = "llvm")]
mod emit;
mod ptx;
#[cfg(feature = "llvm")]
mod sm80;
mod target;

#[cfg(feature = "llvm")]
pub use emit::{Emitted, emit, emit_with_ir};
pub use ptx::{Launch, Parameter, Parameters, Ptx, check_externals};
pub use target::{Architecture, LARGEST_GRID, Limits, PtxVersion, Target};
