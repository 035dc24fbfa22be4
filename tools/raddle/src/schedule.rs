//! `raddle schedule`: makes, checks, measures and draws pipeline schedules.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use raddle_compiler::schedule::{CommModel, Setting, evaluate, torch_csv};

/// What `raddle schedule` takes.
#[derive(Args)]
pub struct Options {
    /// A schedule file to prove complete, ordered and free of deadlock.
    #[arg(long, value_name = "FILE")]
    check: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
/// Files that cannot be read.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(&options.check)
        .with_context(|| options.check.display().to_string())?;
    match torch_csv::read_csv(&text).and_then(|s| evaluate(&s, &Setting::default(), CommModel::Dep))
    {
        Ok(report) => {
            println!("makespan {} span {}", report.makespan, report.span);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("error[{}]: {error}", error.code());
            Ok(ExitCode::FAILURE)
        }
    }
}
