//! `partition-stages`: from one program to one program for each stage of a pipeline.
//!
//! ```text
//! dist.mesh @mesh ["mp" = 2]                           dist.mesh @mesh ["pp" = 2, "mp" = 2]
//! module @all {dist.ranks = [{}]} {                    module @all_pp0 {dist.ranks = [{pp = array<i64: 0>}]} {
//!   func.func @step(%x) {                                func.func @forward(%x) -> (…) { … dist.send %y {peer = {pp = 1}, tag = 0} }
//!     … {dist.stage = 0, dist.role = "forward"}          func.func @backward(…) { %d = dist.recv {peer = {pp = 1}, tag = 1} … }
//!     … {dist.stage = 1, dist.role = "forward"}   ──▶    func.func @optimizer(…) { … }
//!     … {dist.role = "backward"}                       }
//!     … {dist.role = "optimizer"}                      module @all_pp1 {dist.ranks = [{pp = array<i64: 1>}]} { … }
//!   }
//! }
//! ```
//!
//! Each rank class becomes one class for each rank of the pipeline axis, whatever the size of the other axes. Ops without a stage get
//! one from what they read ([`analysis::stages`](crate::analysis::stages)). What crosses stages is sent from neighbour to neighbour
//! (`flow`); the optimizer follows the parameters, and what it sums over stages is combined (`shares`); the rest is `outline`. Where ranks of
//! several classes meet in the optimizer, the classes are planned so that they meet on one stage (`agree`); if they meet nowhere, the
//! program is refused.

mod agree;
mod emit;
mod flow;
mod functions;
mod joins;
mod layout;
mod outline;
mod partition;
mod ranks;
mod shares;
mod ties;

use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{Module, OpId, Rewriter};
use raddle_dialect::mesh::Mesh;

pub use outline::{BackwardJobs, Outline, outline_jobs};

use self::layout::Pipeline;
use self::partition::Partition;
use crate::analysis::stages::Stages;
use crate::analysis::step::{Step, step_of};
use crate::analysis::{jobs, meetings};
use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef};
use crate::schedule::Placement;

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "partition-stages",
    summary: "one program for each stage of a pipeline, with sends and receives between them",
    description: "Each rank class is cut along a pipeline axis, which the mesh gets if it has none. Its step becomes jobs: forward, \
                  backward (or its parts, after split-backward) and optimizer, for each chunk of a rank. Needs dist.stage on forward ops \
                  where a stage begins (infer-stages writes them); other ops follow what they read. Parameters that several stages read \
                  keep a copy on each, and their gradients are added up over the stages. A class that has jobs already is left alone.",
    anchor: Anchor::Top,
    options: &[
        OptionDef {
            name: "chunks",
            kind: OptionKind::Count,
            default: "1",
            doc: "stages on each rank",
        },
        OptionDef {
            name: "placement",
            kind: OptionKind::Word(&["loop", "v"]),
            default: "loop",
            doc: "where the stages of several chunks live: round after round, or there and back",
        },
        OptionDef {
            name: "axis",
            kind: OptionKind::Text,
            default: "pp",
            doc: "the mesh axis of the pipeline",
        },
    ],
    build: |options| {
        Box::new(PartitionStages {
            chunks: options.count("chunks"),
            placement: match options.text("placement") {
                "v" => Placement::V,
                _ => Placement::Loop,
            },
            axis: options.text("axis").to_owned(),
        })
    },
};

struct PartitionStages {
    chunks: u64,
    placement: Placement,
    axis: String,
}

impl Pass for PartitionStages {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let classes = classes(module, target);
        if classes.is_empty() {
            let loc = module.loc(target);
            cx.remark("R0641", loc, || {
                "not partitioned: no rank class has a step".into()
            });
            return Ok(());
        }
        let fail = |cx: &mut PassCx, wrong: Vec<Diagnostic>| {
            wrong.into_iter().for_each(|d| cx.report(d));
            Failed
        };
        let backward = BackwardJobs::of(module);
        let (cut, classes): (Vec<_>, Vec<_>) = classes
            .into_iter()
            .map(|class| (class, index(module, class, &self.axis)))
            .partition(|(_, index)| index.is_some());
        for (class, index) in cut {
            let outline = Outline {
                class,
                stage: index.unwrap_or(0),
                backward,
            };
            let loc = module.loc(class);
            cx.remark("R0640", loc, || {
                format!(
                    "jobs of a program that is cut along '{}' already",
                    self.axis
                )
            });
            outline_jobs(&mut Rewriter::new(module), &outline).map_err(|wrong| fail(cx, wrong))?;
        }
        let classes: Vec<_> = classes.into_iter().map(|c| c.0).collect();
        if classes.is_empty() {
            return checked(module).map_err(|wrong| fail(cx, wrong));
        }
        let stages = stages(module, &classes).map_err(|wrong| fail(cx, wrong))?;
        let pipeline = self
            .pipeline(module, target, &stages)
            .map_err(|d| fail(cx, vec![*d]))?;
        extend_mesh(module, target, &pipeline);
        let spans = spans(module, &classes);
        let cuts = classes.iter().zip(&stages);
        let cuts: Vec<_> = cuts
            .map(|(&class, stages)| Partition {
                class,
                stages,
                pipeline: &pipeline,
                spans: &spans,
            })
            .collect();
        let plans = agree::plans(module, &cuts).map_err(|wrong| fail(cx, wrong))?;
        let mut tags = 0;
        for (cut, plan) in cuts.iter().zip(&plans) {
            let parts = cut.write(module, plan, &mut tags);
            let loc = module.loc(cut.class);
            cx.remark("R0640", loc, || {
                format!(
                    "partitioned: {} stages on {} ranks along '{}'",
                    pipeline.stages, pipeline.ranks, pipeline.axis
                )
            });
            let mut rewriter = Rewriter::new(module);
            rewriter.erase(cut.class);
            for class in parts {
                let outline = Outline {
                    class,
                    stage: 0,
                    backward,
                };
                outline_jobs(&mut rewriter, &outline).map_err(|wrong| fail(cx, wrong))?;
            }
        }
        checked(module)
            .and_then(|()| met(module, target))
            .map_err(|wrong| fail(cx, wrong))
    }
}

/// The jobs go together.
fn checked(module: &Module) -> Result<(), Vec<Diagnostic>> {
    let wrong = jobs::check(module);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong),
    }
}

/// The ranks of all classes come to the same collectives: each class is cut by what its own ops read, and where a collective of several
/// classes landed on different stages, its ranks would wait for each other. What was wrong before shows here too.
fn met(module: &Module, top: OpId) -> Result<(), Vec<Diagnostic>> {
    let mut wrong = meetings::check(module, top);
    wrong.retain(|d| d.severity == Severity::Error);
    for diagnostic in &mut wrong {
        let note = "found in the program as it is after 'partition-stages'";
        diagnostic.notes.push((None, note.into()));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong),
    }
}

/// The axes along which classes differ.
fn spans(module: &Module, classes: &[OpId]) -> Vec<String> {
    let cx = module.cx();
    let sets = classes.iter().filter_map(|&class| {
        let ranks = module.attr(class, "dist.ranks")?;
        cx.as_array(ranks)
    });
    let axes = sets.flatten().flat_map(|&set| cx.dict_entries(set));
    let mut axes: Vec<_> = axes.map(|&(axis, _)| cx.str(axis).to_owned()).collect();
    axes.sort();
    axes.dedup();
    axes
}

/// Where the ranks of a class are along an axis, if all of them are at one place: then it is a stage's program already.
fn index(module: &Module, class: OpId, axis: &str) -> Option<u32> {
    let cx = module.cx();
    let sets = module
        .attr(class, "dist.ranks")
        .and_then(|a| cx.as_array(a))?;
    let mut indices = sets.iter().map(|&set| {
        let indices = cx.as_i64_array(cx.dict_get(set, axis)?)?;
        let [only] = indices[..] else { return None };
        u32::try_from(only).ok()
    });
    let first = indices.next()??;
    indices.all(|i| i == Some(first)).then_some(first)
}

/// The classes that have a step.
fn classes(module: &Module, top: OpId) -> Vec<OpId> {
    module
        .members(top, "builtin.module")
        .filter(|&class| step_of(module, class).is_some())
        .collect()
}

/// The stages of each class, after parameters that several stages read were untied.
fn stages(module: &mut Module, classes: &[OpId]) -> Result<Vec<Stages>, Vec<Diagnostic>> {
    let mut found = Vec::new();
    for &class in classes {
        let function = only_step(module, class)?;
        let assign = |module: &Module| match Step::of(module, function) {
            Some(step) => Stages::of(&step),
            None => {
                let message = "the step is not a single block";
                let loc = module.loc(function);
                Err(vec![Diagnostic::error("E0644", loc, message)])
            }
        };
        let mut stages = assign(module)?;
        if ties::untie(module, function, &stages) {
            stages = assign(module)?;
        }
        found.push(stages);
    }
    Ok(found)
}

/// The step of a class that holds nothing but what a class holds before it is cut.
fn only_step(module: &Module, class: OpId) -> Result<OpId, Vec<Diagnostic>> {
    let mut wrong = Vec::new();
    let mut step = None;
    for op in module.block_ops(module.body(class)) {
        let is_known = match (module.name_str(op), module.symbol_name(op)) {
            ("dist.global", _) => true,
            ("func.func", Some("step")) => {
                step = Some(op);
                true
            }
            ("func.func", Some("init" | "optimizer")) => true,
            _ => false,
        };
        if !is_known {
            let name = module.symbol_name(op).unwrap_or(module.name_str(op));
            let message = format!("'{name}' has no place in a program that is to be partitioned");
            let diagnostic = Diagnostic::error("E0644", module.loc(op), message);
            wrong.push(
                diagnostic.help(
                    "a class holds globals, and the functions init, step and perhaps optimizer",
                ),
            );
        }
    }
    match step {
        Some(step) if wrong.is_empty() => Ok(step),
        _ => Err(wrong),
    }
}

impl PartitionStages {
    fn pipeline(
        &self,
        module: &Module,
        top: OpId,
        stages: &[Stages],
    ) -> Result<Pipeline, Box<Diagnostic>> {
        let count = stages.iter().map(|s| s.count).max().unwrap_or(1);
        let error = |message: String| Diagnostic::error("E0644", module.loc(top), message);
        let chunks = match u32::try_from(self.chunks) {
            Ok(chunks) if chunks > 0 && count.is_multiple_of(chunks) => chunks,
            _ => {
                let message = format!("{count} stages are not {} on each rank", self.chunks);
                let help = "the option 'chunks' has to divide the number of stages";
                return Err(error(message).help(help).into());
            }
        };
        let pipeline = Pipeline {
            stages: count,
            ranks: count / chunks,
            placement: self.placement,
            axis: self.axis.clone(),
        };
        if let Some(size) = axis_size(module, top, &self.axis)
            && size != pipeline.ranks as usize
        {
            let message = format!(
                "the axis '{}' has {size} ranks, but {count} stages in {chunks} chunks take {}",
                self.axis, pipeline.ranks
            );
            return Err(error(message).into());
        }
        Ok(pipeline)
    }
}

fn mesh(module: &Module, top: OpId) -> Option<OpId> {
    let mut ops = module.block_ops(module.body(top));
    ops.find(|&op| module.is(op, "dist.mesh"))
}

fn axis_size(module: &Module, top: OpId, axis: &str) -> Option<usize> {
    let mesh = Mesh::from_op(module, mesh(module, top)?).ok()?;
    Some(mesh.sizes()[mesh.axis(axis)?])
}

/// Puts the pipeline axis first in the mesh, if it is not there.
fn extend_mesh(module: &mut Module, top: OpId, pipeline: &Pipeline) {
    let Some(op) = mesh(module, top) else {
        return;
    };
    let cx = module.cx().clone();
    let mut axes: Vec<String> = module
        .axes_attr(op, "axes")
        .iter()
        .map(|a| a.to_string())
        .collect();
    if axes.contains(&pipeline.axis) {
        return;
    }
    let sizes = module.attr(op, "sizes").and_then(|a| cx.as_i64_array(a));
    let mut sizes = sizes.unwrap_or_default();
    axes.insert(0, pipeline.axis.clone());
    sizes.insert(0, i64::from(pipeline.ranks));
    let mut rewriter = Rewriter::new(module);
    rewriter.set_attr(op, "axes", Some(cx.string_array(&axes)));
    rewriter.set_attr(op, "sizes", Some(cx.i64_array(&sizes)));
}
