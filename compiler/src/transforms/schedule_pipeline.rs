//! `schedule-pipeline`: orders the jobs of every pipeline rank.
//!
//! ```text
//! dist.mesh @mesh ["pp" = 2]                                  dist.mesh @mesh ["pp" = 2]
//! module @all attributes {dist.microbatches = 2, …} {   ──▶   dist.schedule {actions = ["0F0 0F1 0B0 0B1 0STEP", "1F0 1B0 …"],
//!   … dist.stage = 0 … dist.stage = 1 …                                      kind = "1f1b", microbatches = 2 : i64, …}
//! }                                                           module @all attributes {dist.microbatches = 2, …} {
//! ```
//!
//! What there is to order comes from the module: the jobs that `partition-stages` made, or before it the stages that ops are
//! labelled with. Whether backwards are whole or split is seen from the jobs, or from the parts that `split-backward` labels.

use std::collections::BTreeMap;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Loc, Module, OpId, Rewriter};
use raddle_dialect::mesh::{Mesh, RankSet};

use crate::pass::{Anchor, Failed, OptionDef, OptionKind, Pass, PassCx, PassDef, PassOptions};
use crate::schedule::cost_text::{read_costs, read_numbers};
use crate::schedule::optimizer::{Optimizer, with_optimizer};
use crate::schedule::transfers::{StageSteps, place_best};
use crate::schedule::{
    Backward, CommModel, Kind, Made, Placement, RankId, Request, Schedule, ScheduleError, make,
    mlir_text, table, time_limit,
};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "schedule-pipeline",
    summary: "order the jobs of every pipeline rank",
    description: "Writes one dist.schedule into the top module, or replaces the one that is there. Micro-batches are those of the \
                  rank classes. Stages, and where they live, are those of the jobs that partition-stages made; before it, those \
                  of the ops' dist.stage labels, laid out by the kind. A module without stages is left alone.",
    anchor: Anchor::Top,
    options: &[
        OptionDef {
            name: "kind",
            kind: OptionKind::Text,
            default: "1f1b",
            doc: "schedule kind, as in `raddle schedule --kind list`",
        },
        OptionDef {
            name: "axis",
            kind: OptionKind::Text,
            default: "pp",
            doc: "mesh axis of the pipeline",
        },
        OptionDef {
            name: "ranks",
            kind: OptionKind::Count,
            default: "0",
            doc: "pipeline ranks; 0 takes the size of the axis, or as many as the stages need",
        },
        OptionDef {
            name: "chunks",
            kind: OptionKind::Count,
            default: "0",
            doc: "stages on each rank; 0 takes those of the module",
        },
        OptionDef {
            name: "microbatches",
            kind: OptionKind::Count,
            default: "0",
            doc: "micro-batches of a step where the rank classes do not say",
        },
        OptionDef {
            name: "costs",
            kind: OptionKind::Text,
            default: "",
            doc: "times, for example \"f=3/4/4/5,b=4,w=3,comm=0.2\"; without them every step takes one unit",
        },
        OptionDef {
            name: "memory-limit",
            kind: OptionKind::Text,
            default: "",
            doc: "most activations a rank may hold: one number, or one per rank separated by `/`",
        },
        OptionDef {
            name: "w-memory",
            kind: OptionKind::Text,
            default: "1",
            doc: "the part of an activation that the weight gradient still holds",
        },
        OptionDef {
            name: "placement",
            kind: OptionKind::Word(&["auto", "loop", "v"]),
            default: "auto",
            doc: "where the chunks of a rank stand; auto takes that of the jobs, or of the kind",
        },
        OptionDef {
            name: "optimizer",
            kind: OptionKind::Word(&["barrier", "postvalidate", "none"]),
            default: "barrier",
            doc: "how ranks agree before they update; none writes no optimizer steps",
        },
        OptionDef {
            name: "transfers",
            kind: OptionKind::Flag,
            default: "false",
            doc: "place sends and receives too",
        },
        OptionDef {
            name: "model",
            kind: OptionKind::Word(&["sync", "stream1", "group", "pair", "pairdir", "eager"]),
            default: "stream1",
            doc: "how compute and communication share a machine, for placing transfers",
        },
        OptionDef {
            name: "time-limit",
            kind: OptionKind::Text,
            default: "",
            doc: "seconds after which a search stops",
        },
    ],
    build: |options| Box::new(SchedulePipeline(options.clone())),
};

struct SchedulePipeline(PassOptions);

impl Pass for SchedulePipeline {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let mesh = module
            .block_ops(module.body(target))
            .find(|op| module.is(*op, "dist.mesh"));
        let loc = module.loc(mesh.unwrap_or(target));
        let facts = match Facts::of(module, self.0.text("axis")) {
            Ok(facts) => facts,
            Err((at, what)) => {
                cx.report(Diagnostic::error("E0556", at, what));
                return Err(Failed);
            }
        };
        let Some(facts) = facts else {
            cx.remark("R0731", loc, || {
                "nothing to schedule: no job and no op has a 'dist.stage'".to_owned()
            });
            return Ok(());
        };
        match self.schedule(&facts) {
            Ok((made, schedule)) => {
                for note in &made.notes {
                    cx.remark("R0732", loc, || note.clone());
                }
                cx.remark("R0732", loc, || {
                    format!("scheduled: {}", table::summary(&made.report))
                });
                insert(module, target, self.0.text("kind"), &schedule);
                Ok(())
            }
            Err(error) => {
                let message = format!("cannot schedule: {error} [{}]", error.code());
                let mut d = Diagnostic::error("E0556", loc, message);
                d.help = error.help();
                cx.report(d);
                Err(Failed)
            }
        }
    }
}

impl SchedulePipeline {
    fn schedule(&self, facts: &Facts) -> Result<(Made, Schedule), ScheduleError> {
        let options = &self.0;
        let kind = Kind::parse(options.text("kind"))?;
        let fail = |what: String| ScheduleError::KindSetting {
            kind: kind.name(),
            what,
        };
        let stages = facts.placement.len() as u64;
        let ranks = match (options.count("ranks"), facts.ranks, options.count("chunks")) {
            (0, Some(ranks), _) => ranks,
            (0, None, 0) => stages / u64::from(kind.default_chunks()),
            (0, None, chunks) => stages / chunks,
            (ranks, _, _) => ranks,
        };
        if !stages.is_multiple_of(ranks) || ranks == 0 {
            return Err(fail(format!(
                "cannot lay {stages} stages on {ranks} ranks evenly"
            )));
        }
        let chunks = stages / ranks;
        if ![0, chunks].contains(&options.count("chunks")) {
            let asked = options.count("chunks");
            return Err(fail(format!(
                "cannot have {asked} chunks per rank with {stages} stages on {ranks} ranks"
            )));
        }
        let small = |what: &'static str, value: u64| {
            u32::try_from(value).map_err(|_| ScheduleError::TooLarge {
                what,
                value,
                most: u32::MAX.into(),
            })
        };
        let given = facts.given_placement(small("ranks", ranks)?, small("chunks", chunks)?);
        let placement = match (options.text("placement"), given) {
            ("loop", _) => Some(Placement::Loop),
            ("v", _) => Some(Placement::V),
            (_, Some(Some(placement))) => Some(placement),
            (_, Some(None)) => {
                return Err(fail(
                    "needs stages in a loop or in a V, but the jobs stand otherwise".to_owned(),
                ));
            }
            _ => None,
        };
        let microbatches = match (options.count("microbatches"), facts.microbatches) {
            (0, own) => own.unwrap_or(1),
            (asked, Some(own)) if asked != own => {
                return Err(fail(format!(
                    "cannot have {asked} micro-batches where the rank classes run {own}"
                )));
            }
            (asked, _) => asked,
        };
        let limit = match options.text("memory-limit") {
            "" => None,
            text => Some(read_numbers("memory-limit", text)?),
        };
        let stop = match options.text("time-limit") {
            "" => None,
            text => Some(time_limit(read_numbers("time-limit", text)?.at(0))?),
        };
        let optimizer = match options.text("optimizer") {
            "postvalidate" => Optimizer::PostValidate,
            _ => Optimizer::Barrier,
        };
        let request = Request {
            kind,
            ranks: small("ranks", ranks)?,
            microbatches: small("microbatches", microbatches)?,
            chunks: Some(small("chunks", chunks)?),
            costs: read_costs(options.text("costs"))?,
            held_for_weights: read_numbers("w-memory", options.text("w-memory"))?.at(0),
            limit,
            optimizer,
            backward: facts.backward,
            placement,
            round: None,
            time_limit: stop,
        };
        let made = make(&request, &mut |_, _| {})?;
        let mut schedule = made.schedule.clone();
        if options.flag("transfers") {
            let model = CommModel::ALL
                .into_iter()
                .find(|m| m.name() == options.text("model"))
                .unwrap_or(CommModel::Stream1);
            schedule = place_best(&schedule, &made.setting.costs, model, StageSteps::AsGiven)?;
        }
        if options.text("optimizer") != "none" && facts.backward != Some(Backward::None) {
            schedule = with_optimizer(&schedule, optimizer)?;
        }
        Ok((made, schedule))
    }
}

/// What the module says about its pipeline.
struct Facts {
    /// Of the rank classes, where one says so.
    microbatches: Option<u64>,
    /// Size of the pipeline axis, if the mesh has it.
    ranks: Option<u64>,
    /// The rank of every stage where jobs say so.
    placement: Vec<Option<RankId>>,
    /// Whole or split backwards or none, where the module shows it.
    backward: Option<Backward>,
}

/// Where something is wrong, and what.
type Fault = (Loc, String);

/// Stages beyond this are a slip of the pen.
const MOST_STAGES: i64 = 1 << 20;

impl Facts {
    fn of(module: &Module, axis: &str) -> Result<Option<Facts>, Fault> {
        let top: Vec<OpId> = module.block_ops(module.body(module.root())).collect();
        let mut microbatches = None;
        let mut ranks = None;
        let mut seen = Seen::default();
        for &op in &top {
            if module.is(op, "dist.mesh") {
                let mesh =
                    Mesh::from_op(module, op).map_err(|e| (module.loc(op), e.to_string()))?;
                ranks = mesh.axis(axis).map(|a| mesh.sizes()[a] as u64);
            }
        }
        for &class in top.iter().filter(|op| module.is(**op, "builtin.module")) {
            if let Some(own) = module.i64_attr(class, "dist.microbatches") {
                microbatches = microbatches.max(Some(own.max(1) as u64));
            }
            seen.class(module, class, rank_of_class(module, class, axis))?;
        }
        if seen.stages.is_empty() {
            return Ok(None);
        }
        let stages = seen.stages.last_key_value().map_or(0, |(s, _)| s + 1);
        let mut placement = vec![None; stages];
        for (stage, rank) in seen.stages {
            placement[stage] = rank;
        }
        let backward = if seen.whole && !seen.split {
            Some(Backward::Whole)
        } else if seen.split {
            Some(Backward::Split)
        } else if seen.forward {
            Some(Backward::None)
        } else {
            None
        };
        Ok(Some(Facts {
            microbatches,
            ranks,
            placement,
            backward,
        }))
    }

    /// The placement of the jobs: `None` where there are none, `Some(None)` where it is neither of the known ones.
    fn given_placement(&self, ranks: u32, chunks: u32) -> Option<Option<Placement>> {
        let table: Vec<RankId> = self.placement.iter().copied().collect::<Option<_>>()?;
        Some(
            [Placement::Loop, Placement::V]
                .into_iter()
                .find(|p| p.table(ranks, chunks) == table),
        )
    }
}

/// The index of a class on the pipeline axis, if it has exactly one.
fn rank_of_class(module: &Module, class: OpId, axis: &str) -> Option<RankId> {
    let mesh = Mesh::of(module, class).ok()?;
    let axis = mesh.axis(axis)?;
    let ranks = RankSet::from_module(module, class, &mesh).ok()?;
    let mut indices = ranks.boxes().iter().flat_map(|b| b[axis].iter().copied());
    let first = indices.next()?;
    indices
        .all(|i| i == first)
        .then_some(RankId(u32::try_from(first).ok()?))
}

/// Stages and kinds of work met so far.
#[derive(Default)]
struct Seen {
    stages: BTreeMap<usize, Option<RankId>>,
    forward: bool,
    whole: bool,
    split: bool,
}

impl Seen {
    fn class(&mut self, module: &Module, class: OpId, rank: Option<RankId>) -> Result<(), Fault> {
        for op in module.walk(class) {
            let Some(stage) = module.i64_attr(op, "dist.stage") else {
                continue;
            };
            if !(0..MOST_STAGES).contains(&stage) {
                return Err((
                    module.loc(op),
                    format!("stage {stage} is beyond what a pipeline has"),
                ));
            }
            // A job says where it runs; a label on an op of an unpartitioned function does not.
            let is_job = module.is(op, "func.func");
            let rank = rank.filter(|_| is_job);
            let known = self.stages.entry(stage as usize).or_insert(rank);
            match (*known, rank) {
                (Some(a), Some(b)) if a != b => {
                    let what = format!("stage {stage} has jobs on ranks {} and {}", a.0, b.0);
                    return Err((module.loc(op), what));
                }
                (None, Some(_)) => *known = rank,
                _ => {}
            }
            if is_job {
                match module.str_attr(op, "dist.kind") {
                    Some("forward") => self.forward = true,
                    Some("backward") => self.whole = true,
                    Some("backward_b" | "backward_w") => self.split = true,
                    _ => {}
                }
            } else {
                match module.str_attr(op, "dist.role") {
                    Some("forward") => self.forward = true,
                    Some("backward") => self.whole = true,
                    _ => {}
                }
                self.split |= module.attr(op, "dist.part").is_some();
            }
        }
        Ok(())
    }
}

/// Writes the op behind the mesh, in place of the one that is there.
fn insert(module: &mut Module, root: OpId, kind: &str, schedule: &Schedule) {
    let cx = module.cx().clone();
    let attrs = mlir_text::plan(kind, schedule).attrs(&cx);
    let top: Vec<OpId> = module.block_ops(module.body(root)).collect();
    let old = top
        .iter()
        .copied()
        .find(|op| module.is(*op, "dist.schedule"));
    let mesh = top.iter().copied().find(|op| module.is(*op, "dist.mesh"));
    let loc = module.loc(mesh.unwrap_or(root));
    let block = module.body(root);
    let mut rewriter = Rewriter::new(module);
    match (old, mesh) {
        (Some(op), _) => rewriter.before(op),
        (None, Some(op)) => rewriter.after(op),
        (None, None) => rewriter.at_start(block),
    };
    rewriter.build("dist.schedule", loc, &[], &[], &attrs);
    if let Some(op) = old {
        rewriter.erase(op);
    }
}
