//! `cargo xtask`: everything a person or a CI machine does with this repository, each one command.
//!
//! Builds with nothing but cargo and a linker, since it is what installs the rest.

mod arguments;
mod bench;
mod check;
mod demo;
mod generated;
mod kernels;
mod process;
mod setup;
mod soak;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::Task;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the task named on the command line; `Ok(false)` when it ran and found something wrong.
fn run() -> Result<bool> {
    let task = arguments::parse(std::env::args_os().skip(1))?;
    if let Task::Help = task {
        print!("{}", arguments::HELP);
        return Ok(true);
    }
    let workspace = Workspace::locate()?;
    match task {
        Task::Help => {}
        Task::Demo => demo::demo(&workspace)?,
        Task::Setup => setup::run(&workspace)?,
        Task::Test(options) => return check::run(&workspace, &options),
        Task::Bench(options) => return bench::run(&workspace, &options),
        Task::Soak(options) => return soak::run(&workspace, &options),
        Task::Kernels(cover) => return kernels::run(&workspace, cover),
        Task::Docs(mode) => return generated::run(&workspace, mode),
    }
    Ok(true)
}
