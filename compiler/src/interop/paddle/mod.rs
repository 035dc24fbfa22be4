//! Programs of PaddlePaddle: per-rank `ProgramDesc` files in and out.
//!
//! See `docs/paddle.md` for what maps to what.

mod export;
mod fold;
mod form;
mod gradient_merge;
mod import;
mod mapping;
mod mesh_file;
mod program;
mod proto;
mod tables;
#[cfg(test)]
mod tests;
mod transfers;
mod value;

pub use export::{RankPrograms, export};
pub use import::{File, RankFiles, import};
