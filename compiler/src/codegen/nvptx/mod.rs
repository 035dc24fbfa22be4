//! NVIDIA GPUs: from a kernel's description to PTX, and what NVIDIA's tools say about it.

#[cfg(feature = "llvm")]
mod emit;
#[cfg(feature = "llvm")]
mod layers;
mod ptx;
mod report;
mod sass;
#[cfg(feature = "llvm")]
mod sm80;
mod target;
mod toolkit;

#[cfg(feature = "llvm")]
pub use emit::{Emitted, emit, emit_tuned};
#[cfg(feature = "llvm")]
pub use layers::{LayerKernel, layer_kernels};
pub use ptx::{Launch, Parameter, Parameters, Plan, Ptx, check_externals};
pub use report::{Occupancy, Report};
pub use sass::{Instruction, ProductLoop, Sass};
pub use target::{Architecture, LARGEST_GRID, Limits, PtxVersion, Target};
pub use toolkit::{Cubin, Resources, Toolkit};
