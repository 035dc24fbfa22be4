//! NVIDIA GPUs: from a kernel's description to PTX, and what NVIDIA's tools say about it.

#[cfg(feature = "llvm")]
mod activation;
mod cache;
#[cfg(feature = "llvm")]
mod elements;
#[cfg(feature = "llvm")]
mod emit;
#[cfg(feature = "llvm")]
mod formula;
mod image;
#[cfg(feature = "llvm")]
mod layers;
mod operands;
#[cfg(feature = "llvm")]
mod parts;
#[cfg(feature = "llvm")]
mod persistent;
mod planned;
mod ptx;
mod report;
mod sass;
#[cfg(feature = "llvm")]
mod sm100;
#[cfg(feature = "llvm")]
mod sm80;
#[cfg(feature = "llvm")]
mod sm90;
mod target;
mod tensor_map;
#[cfg(feature = "llvm")]
mod thread;
#[cfg(feature = "llvm")]
mod tiles;
mod toolkit;

pub use cache::{Cached, KernelCache, Maker, Origin, Removed};
#[cfg(feature = "llvm")]
pub use emit::{Emitted, emit, emit_planned, emit_tuned};
#[cfg(feature = "llvm")]
pub use layers::{LayerKernel, LayerSetting, layer_kernels};
pub use planned::{Choice, Planned};
pub use ptx::{Launch, Parameter, Parameters, Plan, Ptx, check_externals};
pub use report::{Occupancy, Report};
pub use sass::{Instruction, ProductLoop, Sass};
pub use target::{Architecture, LARGEST_GRID, Limits, PtxVersion, Target};
pub use tensor_map::TensorMap;
pub use toolkit::{Cubin, Resources, Toolkit};
