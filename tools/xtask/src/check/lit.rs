//! The lit suite, run by the lit of the private environment with LLVM's FileCheck.
//!
//! On the way every module that a tool prints is also kept in generic form below `target/lit-tests/generic`, where
//! [`super::stock`] shows it to stock MLIR.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::counts::{self, Counts};
use crate::process;
use crate::workspace::Workspace;

/// Where the generic copies of a lit run lie.
pub fn generic_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("lit-tests/generic")
}

/// Runs the suite, or the tests whose path matches `filter`.
///
/// # Errors
/// When lit cannot be run or leaves no report.
pub fn run(workspace: &Workspace, filter: Option<&str>) -> Result<Counts> {
    let copies = generic_folder(workspace);
    if copies.exists() {
        fs::remove_dir_all(&copies)?;
    }
    fs::create_dir_all(&copies).with_context(|| format!("cannot make {}", copies.display()))?;
    let report = workspace.target.join("lit-tests/report.json");
    let mut command = Command::new(workspace.python());
    command
        .current_dir(&workspace.root)
        // The script by its interpreter: its first line holds the path the environment was made at.
        .arg(workspace.venv().join("bin/lit"))
        .args(["--verbose", "--output"])
        .arg(&report)
        .arg("--param")
        .arg(format!("tools={}", workspace.tool("debug", "").display()))
        .arg("--param")
        .arg(format!(
            "output={}",
            workspace.target.join("lit-tests").display()
        ))
        .arg("--param")
        .arg(format!("copies={}", copies.display()));
    if let Some(filter) = filter {
        command.arg("--filter").arg(filter);
    }
    command.arg("lit-tests");
    println!("$ {}", process::show(&command));
    let success = command.status()?.success();
    let text = fs::read_to_string(&report)
        .with_context(|| format!("lit left no report in {}", report.display()))?;
    let mut counts = counts::from_lit(&serde_json::from_str(&text)?);
    if !success && counts.failed == 0 {
        counts.failed = 1;
    }
    Ok(counts)
}
