//! `append-backward`: makes a training program of a forward program.
//!
//! ```text
//! func.func @step(%x) {                          func.func @step(%x) {
//!   %w = dist.load @w                              %w = dist.load @w
//!   %0 = dist.matmul %x, %w                        %0 = dist.matmul %x, %w
//!   %1 = dist.reduce_mean %0              ──▶      %1 = dist.reduce_mean %0
//!   return %1                                      %2 = dist.fill {value = 1.0}
//! }                                                %3 = dist.reduce_mean_grad %0, %2
//!                                                  %4 = dist.matmul_grad %x, %w, %3          // only dW: x needs none
//!                                                  %5 = dist.all_reduce avg %4 over ["dp"]
//!                                                  %6… = dist.adamw %w, %5, …                // state, learning rate
//!                                                  dist.store @w %6                          // and its state
//!                                                  return %1
//!                                                }
//! ```
//!
//! Reverse-mode differentiation: ops are visited backwards, each op's own rule builds the gradients of its operands, gradients of values
//! used several times are summed. What is partial though its value is replicated is reduced; `raddle_dialect::ops::differentiate` has the
//! rule. Gradients of parameters are reduced last: over the data axis, over the axis that cuts the sequence. Then loss scaling,
//! clipping and the optimizer follow, and `init` gets what is new.

mod clip;
mod finish;
mod globals;
mod loss_scaling;
mod optimizers;
mod options;
mod program;
mod reverse;
mod update;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, Rewriter};
use raddle_dialect::ops::OpBuilder;
use rustc_hash::FxHashSet;

use self::finish::Training;
use self::globals::Globals;
use self::options::{Clip, Options, Scaling};
use self::program::Step;
use crate::analysis::layouts::Layouts;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "append-backward",
    summary: "make a training program of a forward program",
    description: "Appends the gradients of the loss to the 'step' function of each rank class, then reductions of the parameters' \
                  gradients, loss scaling, clipping and the optimizer, and makes or completes 'init'. Needs a step of one block whose \
                  loss is a single float, the same on all ranks or a partial sum or mean, and ops that have gradients between \
                  parameters and loss. With 'dist.microbatches' above 1 gradients are accumulated in buffers, and a function \
                  'optimizer' of its own updates. A step that has a backward pass already stays as it is.",
    anchor: Anchor::Top,
    options: options::DEFS,
    build: |options| {
        Box::new(AppendBackward {
            options: Options::read(options),
        })
    },
};

struct AppendBackward {
    options: Options,
}

impl Pass for AppendBackward {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        self.options.check(module.loc(target), cx)?;
        let classes: Vec<_> = module.members(target, "builtin.module").collect();
        let mut found = false;
        let mut failed = false;
        let mut steps = Vec::new();
        for class in classes {
            found |= module
                .block_ops(module.body(class))
                .any(|op| module.str_attr(op, "dist.kind") == Some("step"));
            match Step::find(module, class, &self.options, cx) {
                Ok(step) => steps.extend(step),
                Err(Failed) => failed = true,
            }
        }
        failed |= self.agree(module, &steps, cx).is_err();
        for step in &steps {
            failed |= self.step(module, step, cx).is_err();
        }
        if failed {
            return Err(Failed);
        }
        if !found {
            let loc = module.loc(target);
            cx.remark("R0731", loc, || {
                "no rank class has a function with dist.kind = \"step\" to differentiate".into()
            });
        }
        Ok(())
    }
}

impl AppendBackward {
    /// What is decided for all gradients together must be decided from the same gradients on all ranks.
    fn agree(&self, module: &Module, steps: &[Step], cx: &mut PassCx) -> Result<(), Failed> {
        let names = |step: &Step| -> FxHashSet<String> {
            step.parameters.iter().map(|p| p.name.clone()).collect()
        };
        let joint = |step: &Step| {
            self.options.clip == Clip::GlobalNorm
                || matches!(
                    self.options.scaling(step),
                    Scaling::Static | Scaling::Dynamic
                )
        };
        let Some((first, rest)) = steps.split_first() else {
            return Ok(());
        };
        let expected = names(first);
        let differs = |step: &&Step| joint(step) && names(step) != expected;
        let Some(step) = rest.iter().find(differs) else {
            return Ok(());
        };
        cx.report(
            Diagnostic::error(
                "E0627",
                module.loc(step.function),
                "rank classes train different parameters, so they would see different norms and overflows",
            )
            .note(Some(module.loc(first.function).into()), "the other class")
            .help("append the backward pass before a pass splits the classes, such as promote-linear, or leave out the global norm and loss scaling"),
        );
        Err(Failed)
    }

    fn step(&self, module: &mut Module, step: &Step, cx: &mut PassCx) -> Result<(), Failed> {
        let layouts = match Layouts::of(module, step.function) {
            Ok(layouts) => layouts,
            Err(error) => {
                let loc = module.loc(step.function);
                cx.report(Diagnostic::error(error.code(), loc, error.to_string()));
                return Err(Failed);
            }
        };
        if !layouts.findings.is_empty() {
            for finding in &layouts.findings {
                report(module, finding.op, &finding.error, cx);
            }
            return Err(Failed);
        }
        let mut layouts = layouts.into_values();
        if !layouts.contains_key(&step.loss) {
            let unknown = step.unknown(module, &layouts);
            for &op in &unknown {
                let what = match module.def_of(op).is_some_and(|def| def.gradient.is_some()) {
                    true => ("E0345", "does not say how its results are spread"),
                    false => ("E0319", "has no gradient"),
                };
                report(module, op, &raddle_dialect::Error::op(what.0, what.1), cx);
            }
            if !unknown.is_empty() {
                return Err(Failed);
            }
        }
        let Some(means) = step.means(module, &layouts, cx) else {
            return Err(Failed);
        };
        let mut rewriter = Rewriter::new(module);
        step.mark_forward(&mut rewriter);
        let globals = Globals::new(&mut rewriter, step);
        let loc = rewriter.loc(step.function);
        let mut builder = OpBuilder {
            rewriter: &mut rewriter,
            mesh: &step.mesh,
            layouts: &mut layouts,
            marks: Vec::new(),
            loc,
        };
        let mut training = Training {
            builder: &mut builder,
            step,
            options: &self.options,
            globals,
            means,
            culprit: step.function,
        };
        let errors = training.run(cx);
        let module = rewriter.module();
        let mut said = FxHashSet::default();
        for (op, error) in &errors {
            if said.insert((module.name(*op), error.to_string())) {
                report(module, *op, error, cx);
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Failed),
        }
    }
}

fn report(module: &Module, op: OpId, error: &raddle_dialect::Error, cx: &mut PassCx) {
    let message = format!("'{}' op {error}", module.name_str(op));
    let mut diagnostic = Diagnostic::error(error.code(), module.loc(op), message);
    diagnostic.help = error.help();
    if error.code() == "E0319" {
        let why = "a parameter's gradient would have to pass through it on its way from the loss";
        diagnostic = diagnostic.note(None, why);
    }
    cx.report(diagnostic);
}
