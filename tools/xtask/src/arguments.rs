//! The command line of `cargo xtask`, read into one [`Task`].

use std::ffi::OsString;

use anyhow::{Result, bail};
use lexopt::prelude::*;

use crate::bench::{BenchOptions, Tables};
use crate::check::{CheckOptions, Part};
use crate::generated::Mode;
use crate::kernels::Cover;
use crate::soak::SoakOptions;

/// What `cargo xtask help` prints.
pub const HELP: &str = "\
cargo xtask TASK [OPTIONS]

Tasks:
  setup                 install what building and testing need: Debian packages, and a Python
                        environment of its own under target/
  demo                  set-up, build, then the main job on a real program, step by step
  test                  set-up, then every check; the last line counts what passed
    --only PART,...     run these parts only: fmt, clippy, unit, doctest, lit, stock, docs, fresh
    --skip PART,...     leave these parts out
    --filter REGEX      run only the lit tests whose path matches
  kernels               set-up, then the tests of the GPU kernels alone
    --full              also every variant and shape with each other; this takes long
  bench                 set-up, then the numbers, measured beside mlir-opt-22 in the same run
    --ops N             size of the generated module (default 200000)
    --quick             leave out the largest size
    --only TABLE        make one table only: text, promotion, partition, kernels, schedule
  soak                  promote random programs and run them before and after; a program that fails
                        is made as small as it goes and printed
    --minutes N         how long (default 5)
    --seed S            where to start (default: from the clock); it is printed
    --case N            that case of the seed only
  docs                  write the files that are generated from the op definitions
    --check             change nothing; exit 1 if one of them is out of date
  help                  this text
";

/// One thing to do.
pub enum Task {
    /// Print [`HELP`].
    Help,
    /// Do the main job on a real program.
    Demo,
    /// Install what is missing.
    Setup,
    /// Run the checks.
    Test(CheckOptions),
    /// Test the GPU kernels.
    Kernels(Cover),
    /// Measure.
    Bench(BenchOptions),
    /// Run random programs.
    Soak(SoakOptions),
    /// Write or compare the generated files.
    Docs(Mode),
}

/// Reads the arguments after the program name.
///
/// # Errors
/// An unknown task, option or part, or a value that is not a number where one is needed.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Task> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let Some(first) = parser.next()? else {
        return Ok(Task::Help);
    };
    let name = match first {
        Value(name) => name.string()?,
        Long("help") | Short('h') => return Ok(Task::Help),
        other => return Err(other.unexpected().into()),
    };
    match name.as_str() {
        "help" => no_more(parser, Task::Help),
        "demo" => no_more(parser, Task::Demo),
        "setup" => no_more(parser, Task::Setup),
        "test" => parse_test(parser),
        "kernels" => parse_kernels(parser),
        "bench" => parse_bench(parser),
        "soak" => parse_soak(parser),
        "docs" => parse_docs(parser),
        other => bail!("there is no task `{other}`\n\n{HELP}"),
    }
}

fn no_more(mut parser: lexopt::Parser, task: Task) -> Result<Task> {
    match parser.next()? {
        None => Ok(task),
        Some(argument) => Err(argument.unexpected().into()),
    }
}

fn parse_test(mut parser: lexopt::Parser) -> Result<Task> {
    let mut options = CheckOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => options.only.extend(parse_parts(&mut parser)?),
            Long("skip") => options.skip.extend(parse_parts(&mut parser)?),
            Long("filter") => options.lit_filter = Some(parser.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Task::Test(options))
}

fn parse_parts(parser: &mut lexopt::Parser) -> Result<Vec<Part>> {
    let text = parser.value()?.string()?;
    text.split(',').map(Part::from_name).collect()
}

fn parse_kernels(mut parser: lexopt::Parser) -> Result<Task> {
    let mut cover = Cover::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("full") => cover = Cover::Full,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Task::Kernels(cover))
}

fn parse_bench(mut parser: lexopt::Parser) -> Result<Task> {
    let mut options = BenchOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("ops") => options.op_count = parser.value()?.parse()?,
            Long("quick") => options.largest = false,
            Long("only") => {
                options.tables = match parser.value()?.string()?.as_str() {
                    "text" => Tables::Text,
                    "promotion" => Tables::Promotion,
                    "partition" => Tables::Partition,
                    "kernels" => Tables::Kernels,
                    "schedule" => Tables::Schedule,
                    other => bail!(
                        "no table `{other}`; there are text, promotion, partition, kernels and schedule"
                    ),
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Task::Bench(options))
}

fn parse_soak(mut parser: lexopt::Parser) -> Result<Task> {
    let mut options = SoakOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("minutes") => options.minutes = Some(parser.value()?.parse()?),
            Long("seed") => options.seed = Some(parser.value()?.parse()?),
            Long("case") => options.case = Some(parser.value()?.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Task::Soak(options))
}

fn parse_docs(mut parser: lexopt::Parser) -> Result<Task> {
    let mut mode = Mode::Write;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("check") => mode = Mode::Check,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Task::Docs(mode))
}
