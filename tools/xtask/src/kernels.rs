//! `cargo xtask kernels`: the tests of the GPU kernels alone, and on request every variant with each other.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::setup;
use crate::workspace::Workspace;

/// Test programs that emit kernels, run them in the simulator, and assemble them.
const PROGRAMS: [&str; 4] = [
    "kernels_numbers",
    "kernels_static",
    "kernels_of_program",
    "layers_on_ptxsim",
];

/// How much to run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Cover {
    /// What `cargo xtask test` runs of them: variants and shapes in pairs.
    #[default]
    Pairs,
    /// Also the whole product of variants and shapes.
    Full,
}

/// Runs them; `Ok(false)` if one fails.
///
/// # Errors
/// If set-up fails or cargo cannot be started.
pub fn run(workspace: &Workspace, cover: Cover) -> Result<bool> {
    setup::run(workspace)?;
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root);
    command.args(["test", "-p", "raddle-compiler", "--features", "llvm"]);
    command.args(PROGRAMS.iter().flat_map(|program| ["--test", program]));
    if cover == Cover::Full {
        command.args(["--", "--include-ignored"]);
    }
    Ok(process::relay(&mut command)?.success)
}
