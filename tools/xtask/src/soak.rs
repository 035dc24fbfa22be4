//! `cargo xtask soak`: the property test of promotion, for minutes instead of seconds.
//!
//! The work is done by the example `soak` of raddle-compiler, built with optimisation and with checks for overflow left in.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// What to run; what is not given, the example decides.
#[derive(Default)]
pub struct SoakOptions {
    /// How long.
    pub minutes: Option<u64>,
    /// Which programs.
    pub seed: Option<u64>,
    /// One case only.
    pub case: Option<u64>,
}

/// Runs random programs; `Ok(false)` if one failed.
///
/// # Errors
/// When cargo cannot be started.
pub fn run(workspace: &Workspace, options: &SoakOptions) -> Result<bool> {
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root);
    command.args([
        "run",
        "--quiet",
        "--profile",
        "soak",
        "-p",
        "raddle-compiler",
        "--example",
        "soak",
        "--",
    ]);
    let values = [
        ("--minutes", options.minutes),
        ("--seed", options.seed),
        ("--case", options.case),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            command.args([name, &value.to_string()]);
        }
    }
    Ok(process::relay(&mut command)?.success)
}
