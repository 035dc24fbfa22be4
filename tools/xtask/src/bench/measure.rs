//! CPU time and peak memory of one child process, as the kernel counted them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use wait4::Wait4;

use crate::process;

/// What a process used.
#[derive(Clone, Copy)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// Largest resident set, in bytes.
    pub peak_bytes: u64,
}

impl Usage {
    /// The lesser of each figure.
    pub fn least(self, other: Self) -> Self {
        Self {
            cpu_s: self.cpu_s.min(other.cpu_s),
            peak_bytes: self.peak_bytes.min(other.peak_bytes),
        }
    }

    /// Largest resident set, in units of 10⁶ bytes.
    pub fn peak_mb(self) -> f64 {
        self.peak_bytes as f64 / 1e6
    }
}

/// Runs the command with its standard output thrown away.
///
/// # Errors
/// When it cannot be run or does not exit with status 0.
pub fn run(mut command: Command) -> Result<Usage> {
    let shown = process::show(&command);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run `{shown}`"))?;
    let used = child
        .wait4()
        .with_context(|| format!("cannot wait for `{shown}`"))?;
    if !used.status.success() {
        bail!("`{shown}` failed ({})", used.status);
    }
    Ok(Usage {
        cpu_s: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
        peak_bytes: used.rusage.maxrss,
    })
}

/// The lesser figures of several runs of a command, made anew for each.
///
/// # Errors
/// As [`run`].
pub fn least(runs: usize, command: impl Fn() -> Command) -> Result<Usage> {
    let mut least: Option<Usage> = None;
    for _ in 0..runs {
        let now = run(command())?;
        least = Some(least.map_or(now, |l| l.least(now)));
    }
    least.context("nothing was measured")
}

/// Likewise for two commands that take turns, so that a slow spell of the machine meets both.
///
/// # Errors
/// As [`run`].
pub fn least_in_turn(
    runs: usize,
    first: impl Fn() -> Command,
    second: impl Fn() -> Command,
) -> Result<(Usage, Usage)> {
    let mut least: Option<(Usage, Usage)> = None;
    for _ in 0..runs {
        let now = (run(first())?, run(second())?);
        least = Some(least.map_or(now, |(f, s)| (f.least(now.0), s.least(now.1))));
    }
    least.context("nothing was measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_is_seen() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let usage = run(command).unwrap();
        assert!(usage.cpu_s > 0.0);
        assert!(usage.peak_bytes > 100_000);
    }
}
