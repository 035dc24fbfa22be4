//! The pass manager: a verified module goes in, a verified module comes out.

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Module, OpId, Verified, VerifyOptions, verify};

use super::{PassCx, Pipeline, Remarks, Step};
use crate::Error;

/// How a pipeline runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManagerOptions {
    /// Verify after each pass, not only at the end.
    pub verify_each: bool,
    /// What the verifier lets pass.
    pub verify: VerifyOptions,
    /// Whether passes say what they did.
    pub remarks: Remarks,
}

/// A module between two passes.
#[derive(Clone, Copy)]
pub enum State<'a> {
    /// It has been verified since it was last changed.
    Verified(&'a Verified),
    /// It has not.
    Unverified(&'a Module),
}

impl<'a> State<'a> {
    /// The module.
    pub fn module(self) -> &'a Module {
        match self {
            State::Verified(verified) => verified.module(),
            State::Unverified(module) => module,
        }
    }
}

/// Something that watches passes: prints, times, compares.
pub trait Instrumentation {
    /// Whether the module must be verified before each of the calls below.
    fn needs_verified(&self) -> bool {
        false
    }

    /// Called before a pass.
    ///
    /// # Errors
    /// With the reasons, if the pipeline must stop.
    fn before_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        let _ = (step, state);
        Ok(())
    }

    /// Called after a pass that succeeded.
    ///
    /// # Errors
    /// With the reasons, if the pipeline must stop.
    fn after_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        let _ = (step, state);
        Ok(())
    }

    /// Called when a pass failed, or left a module that does not verify.
    fn after_failure(&mut self, step: &Step, module: &Module) {
        let _ = (step, module);
    }
}

/// Runs a pipeline.
pub struct PassManager<'a> {
    pipeline: Pipeline,
    options: ManagerOptions,
    instrumentation: Vec<Box<dyn Instrumentation + 'a>>,
}

/// The module while passes run.
enum Held {
    Verified(Verified),
    Changed(Module),
}

impl Held {
    fn state(&self) -> State<'_> {
        match self {
            Held::Verified(verified) => State::Verified(verified),
            Held::Changed(module) => State::Unverified(module),
        }
    }
}

impl<'a> PassManager<'a> {
    /// A manager that runs `pipeline`.
    pub fn new(pipeline: Pipeline, options: ManagerOptions) -> Self {
        Self {
            pipeline,
            options,
            instrumentation: Vec::new(),
        }
    }

    /// Adds something that watches. After a pass, what was added last is called first.
    pub fn watch(&mut self, instrumentation: impl Instrumentation + 'a) -> &mut Self {
        self.instrumentation.push(Box::new(instrumentation));
        self
    }

    /// Takes the module through all passes.
    ///
    /// # Errors
    /// If a pass fails, if the module does not verify after one, or if something watching stops it. The reasons are in
    /// `diagnostics`.
    pub fn run(
        &mut self,
        module: Verified,
        diagnostics: &mut Diagnostics,
    ) -> Result<Verified, Error> {
        let each =
            self.options.verify_each || self.instrumentation.iter().any(|i| i.needs_verified());
        let mut held = Held::Verified(module);
        let mut last = "";
        for index in 0..self.pipeline.steps().len() {
            held = self.step(index, held, each, diagnostics)?;
            last = self.pipeline.steps()[index].def.name;
        }
        match held {
            Held::Verified(verified) => Ok(verified),
            Held::Changed(module) => {
                let checked = verify(module, self.options.verify, diagnostics);
                checked.map_err(|module| {
                    self.fail(
                        self.pipeline.steps().len() - 1,
                        &module,
                        Error::Verify(last),
                    )
                })
            }
        }
    }

    fn step(
        &mut self,
        index: usize,
        held: Held,
        each: bool,
        diagnostics: &mut Diagnostics,
    ) -> Result<Held, Error> {
        let step = &self.pipeline.steps()[index];
        let name = step.def.name;
        let mut stop = |found: Vec<Diagnostic>| {
            diagnostics.extend(found);
            Error::Stopped(name)
        };
        for instrument in &mut self.instrumentation {
            instrument
                .before_pass(step, held.state())
                .map_err(&mut stop)?;
        }
        let mut module = match held {
            Held::Verified(verified) => verified.into_module(),
            Held::Changed(module) => module,
        };
        if !run_step(step, &mut module, self.options.remarks, diagnostics) {
            return Err(self.fail(index, &module, Error::Pass(name)));
        }
        let held = if each {
            match verify(module, self.options.verify, diagnostics) {
                Ok(verified) => Held::Verified(verified),
                Err(module) => return Err(self.fail(index, &module, Error::Verify(name))),
            }
        } else {
            Held::Changed(module)
        };
        let mut stop = |found: Vec<Diagnostic>| {
            diagnostics.extend(found);
            Error::Stopped(name)
        };
        for instrument in self.instrumentation.iter_mut().rev() {
            instrument
                .after_pass(step, held.state())
                .map_err(&mut stop)?;
        }
        Ok(held)
    }

    fn fail(&mut self, index: usize, module: &Module, error: Error) -> Error {
        let step = &self.pipeline.steps()[index];
        for instrument in self.instrumentation.iter_mut().rev() {
            instrument.after_failure(step, module);
        }
        error
    }
}

/// Whether the pass succeeded on all its targets.
fn run_step(
    step: &Step,
    module: &mut Module,
    remarks: Remarks,
    diagnostics: &mut Diagnostics,
) -> bool {
    let pass = (step.def.build)(&step.options);
    let mut found = Diagnostics::new();
    let mut ok = true;
    for target in targets(module, &step.path) {
        let mut cx = PassCx::new(&mut found, remarks);
        ok &= pass.run(module, target, &mut cx).is_ok();
    }
    ok &= !found.has_errors();
    diagnostics.extend(found.take());
    ok
}

/// The ops that the anchors lead to, from the root down.
fn targets(module: &Module, path: &[String]) -> Vec<OpId> {
    let mut targets = vec![module.root()];
    for name in path {
        targets = targets
            .into_iter()
            .flat_map(|op| module.regions(op).to_vec())
            .flat_map(|region| module.blocks(region).collect::<Vec<_>>())
            .flat_map(|block| module.block_ops(block).collect::<Vec<_>>())
            .filter(|&op| module.is(op, name))
            .collect();
    }
    targets
}
