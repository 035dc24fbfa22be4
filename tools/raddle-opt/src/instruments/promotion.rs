//! `--promote-linear-report=json`: what promotion took away from which ranks, and how checkpoints are converted.

use std::cell::RefCell;
use std::rc::Rc;

use raddle_compiler::pass::{Instrumentation, State, Step};
use raddle_compiler::transforms::promote_linear::{DEF, PromotionReport, Snapshot};
use raddle_dialect::diag::Diagnostic;

/// Compares the module before the first promotion with that after the last.
pub struct Promotion {
    report: Rc<RefCell<Option<PromotionReport>>>,
    before: Option<Snapshot>,
}

impl Promotion {
    /// The report is put into `report`.
    pub fn new(report: Rc<RefCell<Option<PromotionReport>>>) -> Self {
        Self {
            report,
            before: None,
        }
    }
}

impl Instrumentation for Promotion {
    fn before_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        if step.def.name == DEF.name && self.before.is_none() {
            self.before = Some(Snapshot::of(state.module()));
        }
        Ok(())
    }

    fn after_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        if let Some(before) = self.before.as_ref().filter(|_| step.def.name == DEF.name) {
            let report = before.report(&Snapshot::of(state.module()));
            *self.report.borrow_mut() = Some(report);
        }
        Ok(())
    }
}
