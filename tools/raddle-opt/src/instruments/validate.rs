//! `--validate-each=SEED`: runs the program on all ranks before and after each pass and stops where it changed.
//!
//! ```text
//! before ─lower→ Bundle ┐
//!                       ├─ compare: three steps in exact mode on the reference device
//! after  ─lower→ Bundle ┘
//! ```

use std::collections::HashSet;

use raddle_bundle::Bundle;
use raddle_compiler::bundle;
use raddle_compiler::pass::{Instrumentation, State, Step, registry};
use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Loc, Verified};
use raddle_runtime::validate::{self, Kind, Report};

/// So many differences are shown; the rest is counted.
const SHOWN: usize = 8;

/// Compares programs around passes.
pub struct Validate {
    seed: u64,
    /// The program before the next pass.
    before: Option<Program>,
}

/// A program in the form that runs.
struct Program {
    bundle: Bundle,
    /// What was wrong with its `init`.
    init: HashSet<String>,
}

impl Validate {
    /// Inputs and state are drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, before: None }
    }

    fn compare(
        &self,
        step: &Step,
        loc: Loc,
        before: &Program,
        after: &Program,
    ) -> Result<(), Vec<Diagnostic>> {
        let pass = step.def.name;
        let options = validate::Options::new(self.seed);
        let report =
            validate::compare(&before.bundle, &after.bundle, options).map_err(|error| {
                let message = format!("the program cannot be run after pass '{pass}': {error}");
                vec![Diagnostic::error("E0911", loc, message)]
            })?;
        let mut wrong = differences(pass, loc, &report);
        let mut init: Vec<_> = after.init.difference(&before.init).collect();
        init.sort();
        wrong.extend(init.into_iter().map(|finding| {
            let message = format!("pass '{pass}' breaks init: {finding}");
            Diagnostic::error("E0913", loc, message)
        }));
        if wrong.is_empty() {
            eprintln!("validated {pass}: {}", summary(&report));
            Ok(())
        } else {
            Err(wrong)
        }
    }
}

impl Instrumentation for Validate {
    fn needs_verified(&self) -> bool {
        true
    }

    fn before_pass(&mut self, _: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        if self.before.is_none() {
            self.before = Some(lower(state)?);
        }
        Ok(())
    }

    fn after_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        let after = lower(state)?;
        if registry::changes_meaning(step.def) {
            eprintln!(
                "not validated {}: it makes another program on purpose",
                step.def.name
            );
        } else if let Some(before) = &self.before {
            let module = state.module();
            self.compare(step, module.loc(module.root()), before, &after)?;
        }
        self.before = Some(after);
        Ok(())
    }
}

fn lower(state: State) -> Result<Program, Vec<Diagnostic>> {
    let module: &Verified = match state {
        State::Verified(verified) => verified,
        State::Unverified(module) => {
            let loc = module.loc(module.root());
            let message = "only a verified module can be run";
            return Err(vec![Diagnostic::error("E0914", loc, message)]);
        }
    };
    let mut diagnostics = Diagnostics::new();
    let Some(bundle) = bundle::lower(module, &mut diagnostics) else {
        return Err(diagnostics.take());
    };
    let init = validate::check_init(&bundle).map_err(|error| {
        let loc = module.loc(module.root());
        let message = format!("init cannot be run: {error}");
        vec![Diagnostic::error("E0914", loc, message)]
    })?;
    Ok(Program {
        bundle,
        init: init.into_iter().collect(),
    })
}

fn differences(pass: &str, loc: Loc, report: &Report) -> Vec<Diagnostic> {
    if report.passed() {
        return Vec::new();
    }
    let message = format!(
        "pass '{pass}' changes what the program computes: {} of {} values differ",
        report.failures.len(),
        report.compared.values().sum::<usize>()
    );
    let mut diagnostic = Diagnostic::error("E0912", loc, message);
    for difference in report.failures.iter().take(SHOWN) {
        diagnostic = diagnostic.note(None, difference.to_string());
    }
    if report.failures.len() > SHOWN {
        let more = report.failures.len() - SHOWN;
        diagnostic = diagnostic.note(None, format!("{more} more"));
    }
    vec![diagnostic]
}

/// How many values of each kind were compared, and the largest difference.
fn summary(report: &Report) -> String {
    let kinds = [Kind::Loss, Kind::Gradient, Kind::Global];
    let parts: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| {
            let count = report.compared.get(&kind)?;
            let largest = report.largest.get(&kind).copied().unwrap_or_default();
            let rounded = report
                .largest_rounded
                .get(&kind)
                .copied()
                .unwrap_or_default();
            Some(format!(
                "{kind} ×{count} within {largest:.1e} (rounded {rounded:.1e})"
            ))
        })
        .collect();
    parts.join(", ")
}
