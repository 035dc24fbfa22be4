//! `raddle-opt`: reads a module, verifies it, runs passes on it and prints it, as `mlir-opt` does for MLIR.

mod instruments;
mod listing;
mod options;
mod process;
mod report;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let (options, flags) = match options::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are not failures, and go to standard output.
            let failed = error.use_stderr();
            // Nothing more can be said where printing fails.
            let _ = error.print();
            return if failed {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run::run(&options, &flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("raddle-opt: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
