//! How long emission of kernels takes, and how long it takes to get them from the cache on disk. The example `kernel_bench` of the
//! compiler measures and judges.

use anyhow::Result;

use super::program::run_example;
use crate::workspace::Workspace;

/// Runs the table; `Ok(false)` when a promise is broken.
///
/// # Errors
/// When cargo cannot be started.
pub fn run(workspace: &Workspace) -> Result<bool> {
    println!("\nemission of kernels");
    run_example(workspace, "kernel_bench", "llvm")
}
