//! One section of the input: read, verified, taken through the passes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use raddle_compiler::analysis::memory::report;
use raddle_compiler::interop::mlir::{self, Door};
use raddle_compiler::pass::{ManagerOptions, PassManager, Pipeline, Remarks};
use raddle_compiler::transforms::promote_linear::PromotionReport;
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, Module, Verified, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, parse};

use crate::instruments::{Dump, Promotion, Timer, TimingReport, Validate};
use crate::options::Options;
use crate::run::print_options;

/// What every section goes through.
pub struct Processor<'o> {
    /// The command line.
    pub options: &'o Options,
    /// The passes.
    pub pipeline: &'o Pipeline,
    /// Where the report on promotion is put, if one is wanted.
    pub report: Option<Rc<RefCell<Option<PromotionReport>>>>,
    /// MLIR, which is started when it is needed first.
    pub mlir: RefCell<mlir::Process>,
    /// Where times are added up.
    pub timing: Rc<RefCell<TimingReport>>,
}

impl Processor<'_> {
    /// Reads, verifies and transforms, with Raddle's passes and then with MLIR's; `None` if anything went wrong, the reasons
    /// being in `diagnostics`.
    pub fn process(
        &self,
        cx: &Arc<Context>,
        source: &Source<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Verified> {
        let module = self.transform(cx, source, diagnostics)?;
        if self.options.memory_report {
            eprint!("{}", report::table(&report::memory(&module)));
        }
        if let Some(pipeline) = &self.options.mlir_pass_pipeline {
            return self.timed("MLIR", || {
                let allow_unregistered = self.options.allow_unregistered_dialect;
                let options = mlir::Options { allow_unregistered };
                let mut mlir = self.mlir.borrow_mut();
                let module = mlir.run_pipeline(&module, pipeline, options, diagnostics)?;
                verify(module, VerifyOptions { allow_unregistered }, diagnostics).ok()
            });
        }
        Some(module)
    }

    fn read(
        &self,
        cx: &Arc<Context>,
        source: &Source<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Module> {
        let allow_unregistered = self.options.allow_unregistered_dialect;
        if mlir::is_bytecode(source.text()) {
            let options = mlir::Options { allow_unregistered };
            let mut mlir = self.mlir.borrow_mut();
            return mlir.read_bytecode(cx, source.text(), options, diagnostics);
        }
        parse(cx, source, ParseOptions { allow_unregistered }, diagnostics)
    }

    fn transform(
        &self,
        cx: &Arc<Context>,
        source: &Source<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Verified> {
        let allow_unregistered = self.options.allow_unregistered_dialect;
        let verify_options = VerifyOptions { allow_unregistered };
        let module = self.timed("Parser", || self.read(cx, source, diagnostics))?;
        let module = self.timed("Verifier", || {
            verify(module, verify_options, diagnostics).ok()
        })?;
        if self.pipeline.steps().is_empty() {
            return Some(module);
        }
        let mut manager = PassManager::new(
            self.pipeline.clone(),
            ManagerOptions {
                verify_each: self.options.verify_each,
                verify: verify_options,
                remarks: if self.options.remarks {
                    Remarks::Kept
                } else {
                    Remarks::Dropped
                },
            },
        );
        if let Some(seed) = self.options.validate_each {
            manager.watch(Validate::new(seed));
        }
        if let Some(report) = &self.report {
            manager.watch(Promotion::new(report.clone()));
        }
        if let Some(dump) = Dump::new(
            &self.options.watching,
            print_options(&self.options.printing),
        ) {
            manager.watch(dump);
        }
        if self.options.watching.mlir_timing {
            manager.watch(Timer::new(self.timing.clone()));
        }
        manager.run(module, diagnostics).ok()
    }

    fn timed<T>(&self, phase: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.timing.borrow_mut().add(phase, start.elapsed());
        result
    }
}
