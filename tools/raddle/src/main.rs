//! `raddle`: compile, run, look at schedules. One file per subcommand; this one only dispatches.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod compare;
mod device;
mod generate;
mod input;
mod kernel;
mod run;
mod schedule;
mod tune;

/// Spreads one training program evenly over a mesh of devices.
#[derive(Parser)]
#[command(name = "raddle", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Hold two states of a program against each other: sizes, and what they compute.
    Compare(compare::Options),
    /// Print the forward program of a model on a mesh.
    Gen(Box<generate::Options>),
    /// Emit one kernel of a linear layer as LLVM IR, PTX or machine code, and report what it takes.
    Kernel(Box<kernel::Options>),
    /// Play training steps of a program on random data, its linear layers by the reference device or by kernels.
    Run(run::Options),
    /// Make, search, check and draw pipeline schedules.
    Schedule(Box<schedule::Options>),
    /// Fill the table of tiles by what kernels take on a GPU, or by the cost model.
    Tune(tune::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Compare(options) => compare::run(&options),
        Command::Gen(options) => generate::run(&options),
        Command::Kernel(options) => kernel::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Schedule(options) => schedule::run(&options),
        Command::Tune(options) => tune::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
