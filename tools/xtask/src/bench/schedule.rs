//! The table of the schedule search beside the Zero Bubble authors' results and CP-SAT's optima. The example
//! `schedule_bench` of the compiler measures and judges; it needs neither LLVM nor the tools.

use anyhow::Result;

use super::program::run_example;
use crate::workspace::Workspace;

/// Runs the table; `Ok(false)` when a row is longer than its reference or a promise is broken.
///
/// # Errors
/// When cargo cannot be started.
pub fn run(workspace: &Workspace) -> Result<bool> {
    println!("\nschedules beside the results of others (takes some five minutes on two cores)");
    run_example(workspace, "schedule_bench", "")
}
