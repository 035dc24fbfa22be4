//! From a description of one kernel to code for one target.
//!
//! The way is the same for every target:
//!
//! ```text
//! KernelDescription ──▶ Contraction ──▶ TileSchedule ──▶ LLVM IR ──▶ PTX
//!   what to compute      as one matrix     which block and   one folder per
//!                        product           warp tiles        target
//! ```
//!
//! [`description`] is plain data that every target shares. [`contraction`] writes any of its operations as one matrix
//! product with an epilogue. [`tiling`] decides tiles, pipeline depth and copy widths. Emission needs the cargo
//! feature `llvm`; everything before it, and reading what NVIDIA's tools say about a kernel, does not.

pub mod bundled;
mod candidates;
pub mod column_sum;
pub mod contraction;
pub mod cost;
pub mod depth_shares;
pub mod description;
pub mod error;
pub mod layer;
#[cfg(feature = "llvm")]
mod llvm;
pub mod math;
pub mod nvptx;
pub mod oracle;
pub mod parts;
pub mod program;
pub mod tensor_memory_tiling;
pub mod tile_table;
pub mod tiling;
pub mod tuning;
mod warpgroup_refusal;
pub mod warpgroup_tiling;

pub use depth_shares::Wish;
pub use description::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, MatrixOrder,
};
pub use error::CodegenError;
pub use math::Math;
pub use parts::Scratch;
pub use tiling::TileSize;
