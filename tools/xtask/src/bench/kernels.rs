//! How long emission of kernels takes, and how long it takes to get them from the cache on disk. The example `kernel_bench` of the
//! compiler measures and judges.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Runs the table; `Ok(false)` when a promise is broken.
///
/// # Errors
/// When cargo cannot be started.
pub fn run(workspace: &Workspace) -> Result<bool> {
    println!("\nemission of kernels");
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root).args([
        "run",
        "--release",
        "--locked",
        "--package",
        "raddle-compiler",
        "--features",
        "llvm",
        "--example",
        "kernel_bench",
    ]);
    let status = command
        .status()
        .with_context(|| format!("cannot run `{}`", process::show(&command)))?;
    Ok(status.success())
}
