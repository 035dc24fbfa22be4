//! `cargo xtask test`: every check of the repository, one after the other, and a count at the end.
//!
//! One build serves them all: it makes the tools that lit runs and the test programs, with the same profile and the same
//! features.

mod counts;
mod lit;
mod stock;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use self::counts::Counts;
use crate::generated;
use crate::process;
use crate::setup;
use crate::workspace::Workspace;

/// Which checks to run.
#[derive(Default)]
pub struct CheckOptions {
    /// Run these only; empty means all.
    pub only: Vec<Part>,
    /// Leave these out.
    pub skip: Vec<Part>,
    /// A regular expression that the path of a lit test must match.
    pub lit_filter: Option<String>,
}

/// One kind of check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Formatting.
    Fmt,
    /// Lints, warnings denied.
    Clippy,
    /// Unit and property tests.
    Unit,
    /// Examples in documentation comments.
    Doctest,
    /// The lit suite.
    Lit,
    /// Stock MLIR reads what the lit suite made Raddle print.
    Stock,
    /// The documentation builds, warnings denied.
    Docs,
    /// Generated files are what the generator writes today.
    Fresh,
}

impl Part {
    const ALL: [Self; 8] = [
        Self::Fmt,
        Self::Clippy,
        Self::Unit,
        Self::Doctest,
        Self::Lit,
        Self::Stock,
        Self::Docs,
        Self::Fresh,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Unit => "unit",
            Self::Doctest => "doctest",
            Self::Lit => "lit",
            Self::Stock => "stock",
            Self::Docs => "docs",
            Self::Fresh => "fresh",
        }
    }

    /// The part with this name on the command line.
    ///
    /// # Errors
    /// When there is none.
    pub fn from_name(name: &str) -> Result<Self> {
        let Some(part) = Self::ALL.into_iter().find(|part| part.name() == name) else {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            bail!(
                "there is no part `{name}`; the parts are {}",
                names.join(", ")
            );
        };
        Ok(part)
    }

    fn needs_build(self) -> bool {
        matches!(self, Self::Unit | Self::Lit | Self::Stock | Self::Fresh)
    }
}

impl CheckOptions {
    fn parts(&self) -> Vec<Part> {
        Part::ALL
            .into_iter()
            .filter(|part| self.only.is_empty() || self.only.contains(part))
            .filter(|part| !self.skip.contains(part))
            .collect()
    }
}

/// How one part went.
struct Report {
    name: &'static str,
    counts: Counts,
    time: Duration,
}

/// Sets up, runs the parts and prints the summary; `Ok(false)` when a check failed.
///
/// # Errors
/// When set-up fails or a program cannot be started.
pub fn run(workspace: &Workspace, options: &CheckOptions) -> Result<bool> {
    let parts = options.parts();
    setup::run(workspace)?;
    let mut reports = Vec::new();
    if parts.iter().any(|part| part.needs_build()) {
        let tests = parts.contains(&Part::Unit);
        let report = timed("build", || build(workspace, tests))?;
        let built = report.counts.failed == 0;
        reports.push(report);
        if !built {
            return Ok(summarize(&reports));
        }
    }
    for part in parts {
        reports.push(timed(part.name(), || run_part(workspace, options, part))?);
    }
    Ok(summarize(&reports))
}

fn run_part(workspace: &Workspace, options: &CheckOptions, part: Part) -> Result<Counts> {
    match part {
        Part::Fmt => step(cargo(workspace).args(["fmt", "--all", "--check"])),
        Part::Clippy => step(cargo(workspace).args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ])),
        Part::Unit => unit_tests(workspace),
        Part::Doctest => counted(
            cargo(workspace).args(["test", "--workspace", "--doc", "--locked", "--no-fail-fast"]),
            counts::from_cargo_test,
        ),
        Part::Lit => lit::run(workspace, options.lit_filter.as_deref()),
        Part::Stock => stock::run(workspace),
        Part::Docs => step(
            cargo(workspace)
                .args(["doc", "--workspace", "--no-deps", "--locked"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        ),
        Part::Fresh => Ok(Counts::one(generated::compare(workspace)?)),
    }
}

/// Builds the tools, and with them, so that nothing is built twice, the test programs that a later part runs.
fn build(workspace: &Workspace, tests: bool) -> Result<Counts> {
    let targets = if tests { "--all-targets" } else { "--bins" };
    step(cargo(workspace).args(["build", "--workspace", targets, "--locked"]))
}

fn unit_tests(workspace: &Workspace) -> Result<Counts> {
    let nextest = Command::new("cargo-nextest")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if nextest {
        let mut command = cargo(workspace);
        command.args(["nextest", "run", "--workspace", "--locked"]);
        command.args(["--no-fail-fast", "--status-level", "slow"]);
        counted(&mut command, counts::from_nextest)
    } else {
        let mut command = cargo(workspace);
        command.args(["test", "--workspace", "--all-targets", "--locked"]);
        command.args(["--no-fail-fast", "--quiet"]);
        counted(&mut command, counts::from_cargo_test)
    }
}

fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root);
    command
}

/// A check that passes or fails as a whole.
fn step(command: &mut Command) -> Result<Counts> {
    println!("$ {}", process::show(command));
    Ok(Counts::one(command.status()?.success()))
}

/// A check that says itself how many tests passed. A failure that shows in no count counts as one.
fn counted(command: &mut Command, read: fn(&[String]) -> Counts) -> Result<Counts> {
    println!("$ {}", process::show(command));
    let relayed = process::relay(command)?;
    let mut counts = read(&relayed.lines);
    if !relayed.success && counts.failed == 0 {
        counts.failed = 1;
    }
    Ok(counts)
}

fn timed(name: &'static str, check: impl FnOnce() -> Result<Counts>) -> Result<Report> {
    println!("\n==> {name}");
    let start = Instant::now();
    let counts = check()?;
    let time = start.elapsed();
    let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
    println!("==> {name}: {verdict} ({:.1} s)", time.as_secs_f64());
    Ok(Report { name, counts, time })
}

/// Prints the table and the closing line; true when nothing failed.
fn summarize(reports: &[Report]) -> bool {
    let mut total = Counts::default();
    println!("\npart      passed  failed  skipped    time");
    for report in reports {
        let counts = &report.counts;
        println!(
            "{:<8} {:>7} {:>7} {:>8} {:>6.1}s",
            report.name,
            counts.passed,
            counts.failed,
            counts.skipped,
            report.time.as_secs_f64()
        );
        total = total + *counts;
    }
    println!(
        "\n{} passed, {} failed, {} skipped",
        total.passed, total.failed, total.skipped
    );
    total.failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_found_by_its_name() {
        for part in Part::ALL {
            assert_eq!(Part::from_name(part.name()).unwrap(), part);
        }
        assert!(Part::from_name("everything").is_err());
    }

    #[test]
    fn only_and_skip_choose() {
        let options = CheckOptions {
            only: vec![Part::Lit, Part::Fmt],
            skip: vec![Part::Fmt],
            lit_filter: None,
        };
        assert_eq!(options.parts(), [Part::Lit]);
        assert_eq!(CheckOptions::default().parts().len(), Part::ALL.len());
    }

    #[test]
    fn a_failure_without_a_count_still_fails() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo error: could not compile; exit 101"]);
        let counts = counted(&mut command, counts::from_cargo_test).unwrap();
        assert_eq!(counts.failed, 1);
    }
}
