//! `infer-stages`: labels every op of a step with the pipeline stage that it belongs to.
//!
//! ```text
//! %0 = dist.matmul %x, %w0                              %0 = dist.matmul %x, %w0 {dist.stage = 0 : i64}
//! %1 = dist.gelu %0               ── stages=2 ──▶       %1 = dist.gelu %0 {dist.stage = 0 : i64}
//! %2 = dist.matmul %1, %w1                              %2 = dist.matmul %1, %w1 {dist.stage = 1 : i64}
//! ```
//!
//! The forward pass is cut where it is written: stage i is a stretch of its ops (`cut`). A stretch costs what its ops cost, forward and
//! backward, and what its neighbours are sent; the longest is made as short as it can be. Cuts are only made where fewer bytes are
//! alive than nearby, so that no residual block is cut through while its sum is yet to come. Backward ops follow their
//! forward ops, ops of the optimizer their gradients.

mod cut;
mod weigh;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, Rewriter};

use self::cut::{Line, cut};
use self::weigh::Weights;
use crate::analysis::cost::Rates;
use crate::analysis::stages::{STAGE, Stages};
use crate::analysis::step::{Origin, Role, Step, step_of};
use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "infer-stages",
    summary: "label every op with its pipeline stage, balanced by cost",
    description: "Cuts the forward pass of each step into stretches of like cost and labels all ops with dist.stage. Ops that are \
                  labelled already stay where they are, and the cuts go around them. Without a number of stages, the labels that are \
                  there are carried on to all ops that follow from them. partition-stages takes it from there.",
    anchor: Anchor::Top,
    options: &[OptionDef {
        name: "stages",
        kind: OptionKind::Count,
        default: "0",
        doc: "how many stages; 0 means those that labels name",
    }],
    build: |options| {
        Box::new(InferStages {
            stages: options.count("stages"),
        })
    },
};

/// So many stages at most.
const MOST_STAGES: u32 = 1024;

struct InferStages {
    stages: u64,
}

impl Pass for InferStages {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let classes: Vec<_> = module
            .members(target, "builtin.module")
            .filter_map(|class| step_of(module, class))
            .filter(|&step| !is_cut(module, step))
            .collect();
        if classes.is_empty() {
            let loc = module.loc(target);
            cx.remark("R0643", loc, || {
                "no stages: no rank class has a step that is not cut already".into()
            });
            return Ok(());
        }
        // Ranks of several classes meet at the same collectives, so all of them are cut at the same.
        let mut first: Option<Vec<usize>> = None;
        for &function in &classes {
            let labels = self.labels(
                module,
                function,
                (classes.len() > 1).then_some(&mut first),
                cx,
            );
            let labels = labels.map_err(|wrong| {
                wrong.into_iter().for_each(|d| cx.report(d));
                Failed
            })?;
            let mut rewriter = Rewriter::new(module);
            for (op, stage) in labels {
                let label = rewriter.context().i64_attr(i64::from(stage));
                if rewriter.attr(op, STAGE) != Some(label) {
                    rewriter.set_attr(op, STAGE, Some(label));
                }
            }
        }
        Ok(())
    }
}

/// Whether a step sends or receives: it is one stage's program.
fn is_cut(module: &Module, step: OpId) -> bool {
    let mut ops = module.walk(step);
    ops.any(|op| matches!(module.name_str(op), "dist.send" | "dist.recv"))
}

impl InferStages {
    /// The stage of every op that has one.
    fn labels(
        &self,
        module: &Module,
        function: OpId,
        first: Option<&mut Option<Vec<usize>>>,
        cx: &mut PassCx,
    ) -> Result<Vec<(OpId, u32)>, Vec<Diagnostic>> {
        let error =
            |message: String| vec![Diagnostic::error("E0645", module.loc(function), message)];
        let Some(step) = Step::of(module, function) else {
            return Err(error("the step is not a single block".into()));
        };
        if self.stages == 0 {
            let labelled = step.ops.iter().any(|&op| module.attr(op, STAGE).is_some());
            if !labelled {
                let message = "no op has a 'dist.stage', and no number of stages is given";
                let help =
                    "say how many, as in infer-stages{stages=4}, or label ops where stages begin";
                return Err(error(message.into())
                    .into_iter()
                    .map(|d| d.help(help))
                    .collect());
            }
            let stages = Stages::of(&step)?;
            return Ok(labels(&step, &stages));
        }
        let count = u32::try_from(self.stages).unwrap_or(u32::MAX);
        if count > MOST_STAGES {
            return Err(error(format!(
                "{} stages are more than {MOST_STAGES}",
                self.stages
            )));
        }
        let line = Line::of(&step, &Weights::of(&step, &Rates::default()), count)?;
        let most = line.len();
        if most < count as usize {
            return Err(error(format!(
                "{most} forward ops cannot be {count} stages"
            )));
        }
        let cuts = match first {
            Some(Some(landmarks)) => line.after_landmarks(&step, landmarks),
            Some(first) => {
                let cuts = cut(&line, count)?;
                let landmarks = line.landmarks(&step, &cuts);
                let cuts = line.after_landmarks(&step, &landmarks);
                *first = Some(landmarks);
                cuts
            }
            None => cut(&line, count)?,
        };
        let forward = line.stages(&step, &cuts);
        let stages = Stages::given(&step, &forward, count)?;
        let loc = module.loc(function);
        for stage in 0..count as usize {
            cx.remark("R0642", loc, || line.describe(stage, &cuts));
        }
        Ok(labels(&step, &stages))
    }
}

/// Stages of forward and backward ops, and of those ops of the optimizer that follow from gradients of one stage.
fn labels(step: &Step, stages: &Stages) -> Vec<(OpId, u32)> {
    let mut of: Vec<Option<u32>> = Vec::with_capacity(step.ops.len());
    for at in 0..step.ops.len() {
        let mut stage = stages.get(at);
        if step.roles[at] == Role::Optimizer && !step.free[at] {
            let operands = step.module.operands(step.ops[at]);
            let mut read = operands.filter_map(|v| match step.origin(v) {
                Origin::Op(source) if !step.free[source] => Some(of[source]),
                _ => None,
            });
            stage = read.next().flatten();
            stage = stage.filter(|_| read.all(|r| r == stage));
        }
        of.push(stage);
    }
    let ops = step.ops.iter().zip(of);
    ops.filter_map(|(&op, stage)| Some((op, stage?))).collect()
}
