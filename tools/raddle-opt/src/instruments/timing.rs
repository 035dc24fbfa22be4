//! `--mlir-timing`: how long reading, each pass and printing took.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use raddle_compiler::pass::{Instrumentation, State, Step};
use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::Module;

/// Wall time by phase, in the order in which phases first ended.
#[derive(Default)]
pub struct TimingReport {
    phases: Vec<(String, Duration)>,
}

impl TimingReport {
    /// Adds time to a phase.
    pub fn add(&mut self, name: &str, time: Duration) {
        match self.phases.iter_mut().find(|(known, _)| known == name) {
            Some((_, total)) => *total += time,
            None => self.phases.push((name.to_owned(), time)),
        }
    }

    /// Writes the table; `total` is the time of the whole run.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, out: &mut impl Write, total: Duration) -> io::Result<()> {
        let rule = format!("===-{}-===", "-".repeat(73));
        writeln!(out, "{rule}")?;
        writeln!(out, "{:>58}", "... Execution time report ...")?;
        writeln!(out, "{rule}")?;
        writeln!(
            out,
            "  Total Execution Time: {:.4} seconds\n",
            total.as_secs_f64()
        )?;
        writeln!(out, "  ----Wall Time----  ----Name----")?;
        let known: Duration = self.phases.iter().map(|(_, time)| *time).sum();
        let rest = ("Rest".to_owned(), total.saturating_sub(known));
        let whole = ("Total".to_owned(), total);
        for (name, time) in self.phases.iter().chain([&rest, &whole]) {
            let seconds = time.as_secs_f64();
            let part = 100.0 * seconds / total.as_secs_f64().max(f64::MIN_POSITIVE);
            writeln!(out, "  {seconds:>8.4} ({part:>5.1}%)  {name}")?;
        }
        Ok(())
    }
}

/// Times each pass into a shared report.
pub struct Timer {
    report: Rc<RefCell<TimingReport>>,
    started: Option<Instant>,
}

impl Timer {
    /// A timer that adds to `report`.
    pub fn new(report: Rc<RefCell<TimingReport>>) -> Self {
        Self {
            report,
            started: None,
        }
    }

    fn stop(&mut self, step: &Step) {
        if let Some(started) = self.started.take() {
            let mut report = self.report.borrow_mut();
            report.add(step.def.name, started.elapsed());
        }
    }
}

impl Instrumentation for Timer {
    fn before_pass(&mut self, _: &Step, _: State) -> Result<(), Vec<Diagnostic>> {
        self.started = Some(Instant::now());
        Ok(())
    }

    fn after_pass(&mut self, step: &Step, _: State) -> Result<(), Vec<Diagnostic>> {
        self.stop(step);
        Ok(())
    }

    fn after_failure(&mut self, step: &Step, _: &Module) {
        self.stop(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_what_no_phase_took() {
        let mut report = TimingReport::default();
        report.add("cse", Duration::from_millis(250));
        report.add("Output", Duration::from_millis(100));
        report.add("cse", Duration::from_millis(250));
        let mut text = Vec::new();
        report.write(&mut text, Duration::from_secs(1)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("0.5000 ( 50.0%)  cse\n"), "{text}");
        assert!(text.contains("0.4000 ( 40.0%)  Rest\n"), "{text}");
        assert!(text.contains("1.0000 (100.0%)  Total\n"), "{text}");
    }
}
