//! Programs that the tools make themselves, and the tools that make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Builds tools for release; where they are.
///
/// # Errors
/// When the build fails.
pub fn build<const N: usize>(workspace: &Workspace, tools: [&str; N]) -> Result<[PathBuf; N]> {
    println!("\nbuilding {} for release", tools.join(" and "));
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&workspace.root)
        .args(["build", "--release", "--locked"]);
    for tool in tools {
        cargo.args(["--package", tool, "--bin", tool]);
    }
    process::run(&mut cargo)?;
    Ok(tools.map(|tool| workspace.tool("release", tool)))
}

/// Runs an example of the compiler that measures and judges by itself; `Ok(false)` when a promise is broken.
///
/// # Errors
/// When cargo cannot be started.
pub fn run_example(workspace: &Workspace, name: &str, features: &str) -> Result<bool> {
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root);
    command.args([
        "run",
        "--release",
        "--locked",
        "--package",
        "raddle-compiler",
    ]);
    command.args(["--features", features, "--example", name]);
    let status = command
        .status()
        .with_context(|| format!("cannot run `{}`", process::show(&command)))?;
    Ok(status.success())
}

/// A printed module.
///
/// # Errors
/// When it cannot be read.
pub fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// How many ops of functions, and globals, a printed module has.
pub fn op_count(text: &str) -> usize {
    text.lines().filter(|line| is_op(line)).count()
}

fn is_op(line: &str) -> bool {
    let line = line.trim_start();
    let op = line.split_once(" = ").map_or(line, |(_, op)| op);
    op.starts_with("dist.") || op.starts_with("return")
}
