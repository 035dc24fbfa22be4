//! How much memory the ranks of a class hold: globals by what they are for, and the most that the jobs of a step need at once.
//!
//! The jobs run in the order of the module's `dist.schedule`; without one, all forwards before all backwards. What a job leaves to
//! later ones is an activation until B of its stage has run; what W still reads then is W's stash.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use raddle_bundle::FunctionKind;
use raddle_dialect::TensorType;
use raddle_dialect::ir::{Module, OpId};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::OpAttributes;
use raddle_dialect::ops::schedule::Plan;
use rustc_hash::{FxHashMap, FxHashSet};

use super::lifetimes::Lifetimes;
use super::readers::{Job, readers, value_name};
use super::{classes, functions, value_bytes};
use crate::schedule::{Action, Compute};

/// What the ranks of one class hold, in bytes on each rank.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassMemory {
    /// The class's name.
    pub class: String,
    /// The stages that it runs.
    pub stages: Vec<i64>,
    /// Parameters.
    pub weights_bytes: u64,
    /// Sums of gradients.
    pub gradients_bytes: u64,
    /// What the optimizer keeps.
    pub optimizer_bytes: u64,
    /// Other globals.
    pub buffers_bytes: u64,
    /// What one micro-batch leaves for its backward.
    pub microbatch_bytes: u64,
    /// What one micro-batch's B leaves for its W.
    pub stash_bytes: u64,
    /// When jobs of micro-batches hold most: activations of all micro-batches.
    pub peak_activations_bytes: u64,
    /// Then: what W of all micro-batches still reads.
    pub peak_stash_bytes: u64,
    /// Then: what the running job needs for itself.
    pub peak_workspace_bytes: u64,
    /// What the optimizer needs for itself, when no activations are held any more.
    pub update_bytes: u64,
    /// The job that runs when most is held.
    pub peak_job: String,
}

impl ClassMemory {
    /// Globals, and the most that the jobs need.
    pub fn peak_bytes(&self) -> u64 {
        self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.buffers_bytes
            + self.moment_bytes().max(self.update_bytes)
    }

    /// What jobs of micro-batches hold at most.
    fn moment_bytes(&self) -> u64 {
        self.peak_activations_bytes + self.peak_stash_bytes + self.peak_workspace_bytes
    }
}

/// The memory of every class.
pub fn memory(module: &Module) -> Vec<ClassMemory> {
    let plan = plan(module);
    let of = |class| of_class(module, class, plan.as_ref());
    classes(module).into_iter().map(of).collect()
}

/// A table, one line per class.
pub fn table(classes: &[ClassMemory]) -> String {
    let mut rows = vec![
        [
            "class",
            "stages",
            "weights",
            "gradients",
            "optimizer",
            "buffers",
            "activations",
            "W stash",
            "workspace",
            "update",
            "peak",
            "at",
        ]
        .map(str::to_owned),
    ];
    for class in classes {
        let stages: Vec<_> = class.stages.iter().map(i64::to_string).collect();
        rows.push([
            class.class.clone(),
            stages.join(","),
            class.weights_bytes.to_string(),
            class.gradients_bytes.to_string(),
            class.optimizer_bytes.to_string(),
            class.buffers_bytes.to_string(),
            class.peak_activations_bytes.to_string(),
            class.peak_stash_bytes.to_string(),
            class.peak_workspace_bytes.to_string(),
            class.update_bytes.to_string(),
            class.peak_bytes().to_string(),
            class.peak_job.clone(),
        ]);
    }
    let mut widths = [0; 12];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::from("memory in bytes per rank\n");
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match column {
                0 | 1 | 11 => write!(line, "{cell:<width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn plan(module: &Module) -> Option<Plan> {
    let ops = module.block_ops(module.body(module.root()));
    let op = ops.into_iter().find(|&op| module.is(op, "dist.schedule"))?;
    Plan::read(&OpAttributes { module, op }).ok()
}

/// A function as the play sees it.
struct Played<'m> {
    name: &'m str,
    job: Job,
    /// Names of what it reads of other jobs or of the data.
    reads: Vec<&'m str>,
    /// Names and sizes of what it leaves.
    leaves: Vec<(&'m str, u64)>,
    /// Names and sizes of data that it may be the first to read.
    data: Vec<(&'m str, u64)>,
    workspace_bytes: u64,
}

fn of_class(module: &Module, class: OpId, plan: Option<&Plan>) -> ClassMemory {
    let mut memory = ClassMemory {
        class: module.symbol_name(class).unwrap_or_default().to_owned(),
        ..ClassMemory::default()
    };
    globals(module, class, &mut memory);
    let played: Vec<Played<'_>> = functions(module, class)
        .into_iter()
        .filter_map(|function| played(module, function))
        .collect();
    let mut stages: Vec<i64> = played
        .iter()
        .filter(|p| p.job.per_microbatch())
        .map(|p| p.job.stage)
        .collect();
    stages.sort_unstable();
    stages.dedup();
    memory.stages = stages;
    let microbatches = module
        .i64_attr(class, "dist.microbatches")
        .and_then(|m| usize::try_from(m).ok())
        .unwrap_or(1);
    let scheduled = plan.and_then(|plan| scheduled(module, class, plan, &played));
    let order = scheduled.unwrap_or_else(|| by_default(&played, microbatches));
    let counts = readers(module, class);
    let counts: FxHashMap<&str, usize> = counts
        .iter()
        .map(|(name, readers)| (name.as_str(), readers.len()))
        .collect();
    let mut play = Play {
        counts: &counts,
        w_of_stage: played
            .iter()
            .filter(|p| p.job.kind == FunctionKind::BackwardW)
            .map(|p| (p.job.stage, p))
            .collect(),
        held: HashMap::default(),
        totals: [0; 2],
        memory: &mut memory,
    };
    for (index, microbatch) in order {
        play.run(&played[index], microbatch);
    }
    microbatch(&played, &mut memory);
    memory
}

fn globals(module: &Module, class: OpId, memory: &mut ClassMemory) {
    let ops = functions(module, class)
        .into_iter()
        .flat_map(|function| module.walk(function));
    let sums: FxHashSet<&str> = ops
        .filter(|&op| module.is(op, "dist.accumulate"))
        .filter_map(|op| module.symbol_attr(op, "global"))
        .collect();
    for (name, op) in module.symbols(class) {
        if !module.is(op, "dist.global") {
            continue;
        }
        let ty = module.attr(op, "type").and_then(|a| module.cx().as_type(a));
        let ty = ty.and_then(|ty| TensorType::of(module.cx(), ty).ok());
        let bytes = ty.and_then(|ty| ty.bytes());
        let bytes = bytes.and_then(|b| u64::try_from(b).ok()).unwrap_or(0);
        let total = match module.str_attr(op, "kind") {
            Some("parameter") => &mut memory.weights_bytes,
            Some("state") => &mut memory.optimizer_bytes,
            _ if sums.contains(name) => &mut memory.gradients_bytes,
            _ => &mut memory.buffers_bytes,
        };
        *total += bytes;
    }
}

fn played(module: &Module, function: OpId) -> Option<Played<'_>> {
    let job = Job::of(module, function)?;
    if job.kind == FunctionKind::Init {
        return None;
    }
    let block = module.body(function);
    let lifetimes = Lifetimes::of(module, block);
    let (mut reads, mut data, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    let cx = module.cx();
    let dicts = module
        .attr(function, "arg_attrs")
        .and_then(|a| cx.as_array(a));
    for (index, &arg) in module.args(block).iter().enumerate() {
        let Some(name) = value_name(module, function, "arg_attrs", index) else {
            continue;
        };
        reads.push(name);
        let dict = dicts.and_then(|d| d.get(index));
        if dict.is_some_and(|&d| cx.dict_get(d, "dist.input").is_some()) {
            data.push((name, value_bytes(module, arg)));
        }
    }
    let returned = module.block_ops(block).last();
    for (index, value) in returned
        .into_iter()
        .flat_map(|op| module.operands(op))
        .enumerate()
    {
        if let Some(name) = value_name(module, function, "res_attrs", index) {
            leaves.push((name, value_bytes(module, value)));
        }
    }
    Some(Played {
        name: module.symbol_name(function).unwrap_or_default(),
        job,
        reads,
        leaves,
        data,
        workspace_bytes: lifetimes.peak_bytes(),
    })
}

/// The jobs of a class's rank in the order of the schedule: function and micro-batch.
fn scheduled(
    module: &Module,
    class: OpId,
    plan: &Plan,
    played: &[Played<'_>],
) -> Option<Vec<(usize, usize)>> {
    let mut by_job: BTreeMap<(u8, i64), usize> = BTreeMap::new();
    for (index, function) in played.iter().enumerate() {
        let kind = match function.job.kind {
            FunctionKind::Forward => 0,
            FunctionKind::Backward => 1,
            FunctionKind::BackwardB => 2,
            FunctionKind::BackwardW => 3,
            _ => continue,
        };
        by_job.insert((kind, function.job.stage), index);
    }
    let mesh = Mesh::of(module, class).ok()?;
    let ranks = RankSet::from_module(module, class, &mesh).ok()?;
    let axis = mesh.axis("pp")?;
    let [index] = ranks.boxes().first()?[axis][..] else {
        return None;
    };
    let mut order = Vec::new();
    for op in plan.actions.get(index)?.iter().flat_map(Action::ops) {
        let at = |kind| by_job.get(&(kind, op.stage.index() as i64)).copied();
        let jobs = match op.kind {
            Compute::Forward => vec![at(0)],
            Compute::Backward => vec![at(1), at(2), at(3)],
            Compute::InputGrad => vec![at(2).or(at(1))],
            Compute::WeightGrad => vec![at(3)],
        };
        let microbatch = op.microbatch.index();
        order.extend(jobs.into_iter().flatten().map(|job| (job, microbatch)));
    }
    let optimizer = played
        .iter()
        .position(|p| p.job.kind == FunctionKind::Optimizer);
    order.extend(optimizer.map(|index| (index, 0)));
    Some(order)
}

/// All forwards, then all backwards, then the optimizer.
fn by_default(played: &[Played<'_>], microbatches: usize) -> Vec<(usize, usize)> {
    let phase = |kind| match kind {
        FunctionKind::Step | FunctionKind::Forward => 0,
        FunctionKind::Optimizer => 2,
        _ => 1,
    };
    let mut order = Vec::new();
    for wanted in 0..3 {
        let mut jobs: Vec<usize> = (0..played.len())
            .filter(|&index| phase(played[index].job.kind) == wanted)
            .collect();
        jobs.sort_by_key(|&index| {
            let Job { kind, stage } = played[index].job;
            let stage = if wanted == 1 { -stage } else { stage };
            (stage, kind == FunctionKind::BackwardW)
        });
        let times = if wanted == 2 { 1 } else { microbatches };
        for microbatch in 0..times {
            order.extend(jobs.iter().map(|&index| (index, microbatch)));
        }
    }
    order
}

/// Activations, and W's stash.
const ACTIVATION: usize = 0;
const STASH: usize = 1;

/// A value between jobs.
struct Held {
    bytes: u64,
    readers_left: usize,
    class: usize,
}

struct Play<'a> {
    counts: &'a FxHashMap<&'a str, usize>,
    w_of_stage: FxHashMap<i64, &'a Played<'a>>,
    held: HashMap<(usize, &'a str), Held>,
    totals: [u64; 2],
    memory: &'a mut ClassMemory,
}

impl<'a> Play<'a> {
    fn hold(&mut self, microbatch: usize, name: &'a str, bytes: u64, class: usize) {
        let Some(&readers_left) = self.counts.get(name) else {
            return;
        };
        self.held.entry((microbatch, name)).or_insert_with(|| {
            self.totals[class] += bytes;
            Held {
                bytes,
                readers_left,
                class,
            }
        });
    }

    fn run(&mut self, function: &Played<'a>, microbatch: usize) {
        for &(name, bytes) in &function.data {
            self.hold(microbatch, name, bytes, ACTIVATION);
        }
        let backward = matches!(
            function.job.kind,
            FunctionKind::Backward | FunctionKind::BackwardB
        );
        let class = if backward { STASH } else { ACTIVATION };
        for &(name, bytes) in &function.leaves {
            self.hold(microbatch, name, bytes, class);
        }
        self.note(function, microbatch);
        for name in &function.reads {
            let Some(held) = self.held.get_mut(&(microbatch, *name)) else {
                continue;
            };
            held.readers_left -= 1;
            if held.readers_left == 0 {
                self.totals[held.class] -= held.bytes;
                self.held.remove(&(microbatch, *name));
            }
        }
        let w = self
            .w_of_stage
            .get(&function.job.stage)
            .filter(|_| backward);
        for name in w.into_iter().flat_map(|w| &w.reads) {
            if let Some(held) = self.held.get_mut(&(microbatch, *name))
                && held.class == ACTIVATION
            {
                self.totals[ACTIVATION] -= held.bytes;
                self.totals[STASH] += held.bytes;
                held.class = STASH;
            }
        }
    }

    /// The running job may make this the fullest moment.
    fn note(&mut self, function: &Played<'a>, microbatch: usize) {
        let memory = &mut *self.memory;
        let most = memory.moment_bytes().max(memory.update_bytes);
        let workspace_bytes = function.workspace_bytes;
        let now = self.totals[ACTIVATION] + self.totals[STASH] + workspace_bytes;
        let job = match function.job.per_microbatch() {
            true if now > memory.moment_bytes() => {
                memory.peak_activations_bytes = self.totals[ACTIVATION];
                memory.peak_stash_bytes = self.totals[STASH];
                memory.peak_workspace_bytes = workspace_bytes;
                format!("{} of micro-batch {microbatch}", function.name)
            }
            false if workspace_bytes > memory.update_bytes => {
                memory.update_bytes = workspace_bytes;
                function.name.to_owned()
            }
            _ => return,
        };
        if now > most || memory.peak_job.is_empty() {
            memory.peak_job = job;
        }
    }
}

/// What one micro-batch leaves for its backward, and its B for W.
fn microbatch(played: &[Played<'_>], memory: &mut ClassMemory) {
    let mut by_backward: FxHashSet<&str> = FxHashSet::default();
    let mut by_w: FxHashSet<&str> = FxHashSet::default();
    for function in played {
        match function.job.kind {
            FunctionKind::Backward | FunctionKind::BackwardB => {
                by_backward.extend(function.reads.iter().copied())
            }
            FunctionKind::BackwardW => by_w.extend(function.reads.iter().copied()),
            _ => {}
        }
    }
    for function in played {
        for &(name, bytes) in &function.leaves {
            let read = by_backward.contains(name) || by_w.contains(name);
            if function.job.kind == FunctionKind::Forward && read {
                memory.microbatch_bytes += bytes;
            }
            if by_w.contains(name) {
                memory.stash_bytes += bytes;
            }
        }
    }
}
