//! Jobs from a step: one function for each chunk of a rank's forward pass, its backward pass or the two parts of that, and one for the
//! optimizer.
//!
//! ```text
//! func @step(%x) {                                    func @forward(%x {dist.input, dist.value = "arg0"}) -> (… {dist.value = "v0"}) {
//!   %w = dist.load @w                                   %w = dist.load @w
//!   %y = dist.matmul %x, %w {dist.role = "forward"}     %y = dist.matmul %x, %w …
//!   dist.send %y …              ──▶                     dist.send %y …
//!   %d = dist.recv …                                  }
//!   %g = dist.matmul %x, %d {dist.role = "backward"}  func @backward(%x {dist.input, dist.value = "arg0"}) {
//!   …                                                   %d = dist.recv …
//! ```
//!
//! Works on any class whose step is labelled, whether its sends and receives were written by partition-stages or by whoever wrote the
//! program. Values that jobs share have names; loads and constants are repeated instead.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, BlockId, CloneMap, Module, OpId, Position, Rewriter, ValueId};
use rustc_hash::FxHashMap;

use super::functions::{self, Signature};
use crate::analysis::jobs::{INPUT, LOSS, RESULT, VALUE, value_attrs};
use crate::analysis::stages::STAGE;
use crate::analysis::step::{Origin, Role, Step, step_of};
use crate::transforms::split_backward::PART;

/// What to outline.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    /// The class.
    pub class: OpId,
    /// The stage of ops without a label.
    pub stage: u32,
    /// What becomes of backward ops.
    pub backward: BackwardJobs,
}

/// How many jobs a backward pass is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackwardJobs {
    /// One.
    Whole,
    /// What other stages wait for, and the gradients of parameters.
    Split,
}

impl BackwardJobs {
    /// Split if any op of a module is labelled as only a parameter's gradient needs it.
    pub fn of(module: &Module) -> Self {
        let labelled = module
            .walk(module.root())
            .any(|op| module.str_attr(op, PART) == Some("w"));
        match labelled {
            true => Self::Split,
            false => Self::Whole,
        }
    }
}

/// One job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Job {
    phase: Phase,
    /// Counted so that jobs of one phase come in order: backward passes run from the last stage to the first.
    rank: i64,
}

impl Job {
    fn role(self) -> Role {
        match self.phase {
            Phase::Forward => Role::Forward,
            Phase::Backward | Phase::Weights => Role::Backward,
            Phase::Optimizer => Role::Optimizer,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Phase {
    Forward,
    Backward,
    Weights,
    Optimizer,
}

/// Replaces the step of a class by its jobs.
///
/// # Errors
/// Diagnostics if a job reads what only a later one has, or there is an optimizer both in the step and beside it.
pub fn outline_jobs(rewriter: &mut Rewriter, outline: &Outline) -> Result<(), Vec<Diagnostic>> {
    let Some(step) = step_of(rewriter, outline.class) else {
        return Ok(());
    };
    let plan = Plan::of(rewriter, step, outline)?;
    carry_out(rewriter, step, plan);
    Ok(())
}

/// What goes where.
struct Plan {
    /// The jobs, in the order in which they are written.
    jobs: Vec<Job>,
    naming: Naming,
    ops: Vec<(OpId, Use)>,
    /// Operands that come from elsewhere.
    reads: Vec<Read>,
    returned: Vec<(ValueId, usize, Job)>,
}

/// Who has an op.
enum Use {
    /// One job.
    In(Job),
    /// Each of these jobs has a copy: it is a load or a constant.
    Copied(Vec<Job>),
}

/// An operand that its job has to be given.
struct Read {
    op: OpId,
    operand: usize,
    value: ValueId,
    from: Source,
    to: Job,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Argument(usize),
    Job(Job),
    Copied,
}

impl Plan {
    fn of(module: &Module, function: OpId, outline: &Outline) -> Result<Self, Vec<Diagnostic>> {
        let Some(step) = Step::of(module, function) else {
            let message = "the step is not a single block";
            return Err(vec![Diagnostic::error(
                "E0644",
                module.loc(function),
                message,
            )]);
        };
        let stages: Vec<u32> = step
            .ops
            .iter()
            .map(|&op| stage(module, op, outline))
            .collect();
        let weights = weights(&step, &stages, outline.backward);
        let count = step.ops.len();
        let job = |at: usize| {
            let stage = i64::from(stages[at]);
            let (phase, rank) = match step.roles[at] {
                Role::Forward => (Phase::Forward, stage),
                Role::Backward if weights[at] => (Phase::Weights, -stage),
                Role::Backward => (Phase::Backward, -stage),
                Role::Optimizer => (Phase::Optimizer, 0),
            };
            Job { phase, rank }
        };
        let is_copied = |at: usize| step.free[at] && module.num_operands(step.ops[at]) == 0;
        let mut copies: Vec<Vec<Job>> = vec![Vec::new(); count];
        let mut plan = Self {
            jobs: Vec::new(),
            naming: Naming {
                stages: Vec::new(),
                backward: outline.backward,
            },
            ops: Vec::new(),
            reads: Vec::new(),
            returned: Vec::new(),
        };
        let mut wrong = Vec::new();
        for (at, &stage) in stages.iter().enumerate() {
            if is_copied(at) {
                continue;
            }
            let (op, to) = (step.ops[at], job(at));
            plan.jobs.push(to);
            let stage = (to.phase != Phase::Optimizer).then_some(stage);
            plan.naming.stages.extend(stage);
            for (operand, value) in module.operands(op).enumerate() {
                let from = match step.origin(value) {
                    Origin::Argument(index) => Source::Argument(index),
                    Origin::Op(source) if is_copied(source) => {
                        if !copies[source].contains(&to) {
                            copies[source].push(to);
                        }
                        Source::Copied
                    }
                    Origin::Op(source) if job(source) == to => continue,
                    Origin::Op(source) => {
                        if !flows(job(source), to) {
                            wrong.push(refused(module, op, step.ops[source]));
                        }
                        Source::Job(job(source))
                    }
                };
                plan.reads.push(Read {
                    op,
                    operand,
                    value,
                    from,
                    to,
                });
            }
        }
        plan.jobs.sort_unstable();
        plan.jobs.dedup();
        plan.naming.stages.sort_unstable();
        plan.naming.stages.dedup();
        let last_forward = plan.jobs.iter().rfind(|j| j.phase == Phase::Forward);
        let last_forward = last_forward.or(plan.jobs.first()).copied();
        for (index, &value) in step.returned.iter().enumerate() {
            let number = result_number(module, function, index);
            let home = match step.origin(value) {
                Origin::Op(at) if !is_copied(at) => Some(job(at)),
                Origin::Op(at) => {
                    let missing = last_forward.filter(|j| !copies[at].contains(j));
                    copies[at].extend(missing);
                    last_forward
                }
                Origin::Argument(_) => last_forward,
            };
            plan.returned.extend(home.map(|home| (value, number, home)));
        }
        for (at, copies) in copies.into_iter().enumerate() {
            let place = match is_copied(at) {
                true => Use::Copied(copies),
                false => Use::In(job(at)),
            };
            plan.ops.push((step.ops[at], place));
        }
        if plan.jobs.last().map(|j| j.phase) == Some(Phase::Optimizer) {
            wrong.extend(twice(module, function, outline.class));
        }
        match wrong.is_empty() {
            true => Ok(plan),
            false => Err(wrong),
        }
    }
}

/// What keeps a step that has ops of the optimizer from having a job for them.
fn twice(module: &Module, step: OpId, class: OpId) -> Option<Diagnostic> {
    if let Some(beside) = module.find_symbol(class, "optimizer") {
        let message = "the step has ops of the optimizer, but there is a function for it";
        return Some(Diagnostic::error("E0644", module.loc(beside), message));
    }
    let microbatches = module.i64_attr(class, "dist.microbatches").unwrap_or(1);
    if microbatches > 1 {
        let message =
            format!("the step updates in each of {microbatches} micro-batches, which no job does");
        let help = "gather gradients with dist.accumulate and update in a function 'optimizer', as append-backward does";
        return Some(Diagnostic::error("E0644", module.loc(step), message).help(help));
    }
    None
}

fn stage(module: &Module, op: OpId, outline: &Outline) -> u32 {
    let label = module.i64_attr(op, STAGE);
    label
        .and_then(|l| u32::try_from(l).ok())
        .unwrap_or(outline.stage)
}

/// Which of the step's results one of a class's step is.
fn result_number(module: &Module, function: OpId, index: usize) -> usize {
    let number = value_attrs(module, function, "res_attrs", index)
        .and_then(|dict| module.cx().as_i64(module.cx().dict_get(dict, RESULT)?));
    number
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(index)
}

/// By position: whether a backward op is one that only gradients of parameters need. What has no label follows what it reads; what the
/// other part reads belongs to it, whatever its label says, and so does what another stage reads.
fn weights(step: &Step, stages: &[u32], backward: BackwardJobs) -> Vec<bool> {
    let module = step.module;
    let mut weights = vec![false; step.ops.len()];
    if backward == BackwardJobs::Whole {
        return weights;
    }
    for at in 0..step.ops.len() {
        if step.roles[at] != Role::Backward {
            continue;
        }
        weights[at] = match module.str_attr(step.ops[at], PART) {
            Some("w") => true,
            Some(_) => false,
            None => step.sources(at).any(|s| weights[s]),
        };
    }
    for at in (0..step.ops.len()).rev() {
        if step.roles[at] == Role::Backward {
            for source in step.sources(at) {
                weights[source] &= weights[at] && stages[source] == stages[at];
            }
        }
    }
    weights
}

/// Whether a value of one job is there when another runs, in any order of the jobs that a schedule may choose.
fn flows(from: Job, to: Job) -> bool {
    match (from.phase, to.phase) {
        (Phase::Weights, to) => to == Phase::Optimizer,
        // Jobs of one phase run in order of their stages, forward and back.
        (a, b) if a == b => from.rank <= to.rank,
        (Phase::Backward, Phase::Weights) => from.rank <= to.rank,
        (a, b) => a < b,
    }
}

fn refused(module: &Module, op: OpId, source: OpId) -> Diagnostic {
    let message = format!(
        "'{}' reads a value that is computed by a later job",
        module.name_str(op)
    );
    Diagnostic::error("E0641", module.loc(op), message)
        .note(Some(module.loc(source).into()), "computed here")
        .help("jobs run in this order: forward, backward (its part b before its part w), optimizer")
}

/// A job's function as it is written.
struct Written {
    function: OpId,
    block: BlockId,
    arguments: Vec<Attr>,
    returned: Vec<(ValueId, Attr)>,
    /// Values that it was given, and where.
    given: FxHashMap<ValueId, ValueId>,
}

fn carry_out(rewriter: &mut Rewriter, step: OpId, plan: Plan) {
    let cx = rewriter.cx().clone();
    let mut written: FxHashMap<Job, Written> = FxHashMap::default();
    let mut at = Position::Before(step);
    for &job in &plan.jobs {
        let (function, block) = plan.naming.create(rewriter, at, step, job);
        at = Position::After(function);
        let new = Written {
            function,
            block,
            arguments: Vec::new(),
            returned: Vec::new(),
            given: FxHashMap::default(),
        };
        written.insert(job, new);
    }
    // Ops keep their order within each job.
    let mut copies: FxHashMap<(ValueId, Job), ValueId> = FxHashMap::default();
    for (op, place) in &plan.ops {
        match place {
            Use::In(job) => rewriter.move_op(*op, Position::End(written[job].block)),
            Use::Copied(jobs) => {
                for job in jobs {
                    rewriter.set_insertion_point(Position::End(written[job].block));
                    let copy = rewriter.clone_op(*op, &mut CloneMap::default());
                    if rewriter.attr(copy, "dist.role").is_some() {
                        let role = cx.string(job.role().name());
                        rewriter.set_attr(copy, "dist.role", Some(role));
                    }
                    let (value, own) = (rewriter.result(*op, 0), rewriter.result(copy, 0));
                    copies.insert((value, *job), own);
                }
            }
        }
    }
    let mut names: FxHashMap<ValueId, Attr> = FxHashMap::default();
    for read in &plan.reads {
        let own = match read.from {
            Source::Copied => copies[&(read.value, read.to)],
            Source::Argument(index) => {
                let dict = input_attrs(rewriter, step, index);
                give(rewriter, written.get_mut(&read.to), read.value, dict)
            }
            Source::Job(from) => {
                let number = names.len();
                let name = *names.entry(read.value).or_insert_with(|| {
                    let name = cx.string(&format!("v{number}"));
                    let dict = cx.dict(vec![(cx.ident(VALUE), name)]);
                    if let Some(from) = written.get_mut(&from) {
                        from.returned.push((read.value, dict));
                    }
                    dict
                });
                give(rewriter, written.get_mut(&read.to), read.value, name)
            }
        };
        rewriter.set_operand(read.op, read.operand, own);
    }
    for &(value, number, job) in &plan.returned {
        let mut dict = vec![(cx.ident(RESULT), cx.i64_attr(number as i64))];
        if number == 0 {
            dict.push((cx.ident(LOSS), cx.unit()));
        }
        let dict = cx.dict(dict);
        let Some(home) = written.get_mut(&job) else {
            continue;
        };
        let known = home.returned.iter_mut().find(|r| r.0 == value);
        if let Some(known) = known {
            let entries = cx.dict_entries(dict).iter().chain(cx.dict_entries(known.1));
            known.1 = cx.dict(entries.copied().collect());
            continue;
        }
        let is_argument = rewriter.defining_op(value).is_none();
        let own = match copies.get(&(value, job)) {
            Some(&own) => own,
            None if is_argument => {
                let index = rewriter.args(rewriter.body(step)).iter();
                let index = index.clone().position(|&a| a == value).unwrap_or_default();
                let given = input_attrs(rewriter, step, index);
                give(rewriter, written.get_mut(&job), value, given)
            }
            None => value,
        };
        if let Some(home) = written.get_mut(&job) {
            home.returned.push((own, dict));
        }
    }
    for job in &plan.jobs {
        let job = &written[job];
        functions::finish(rewriter, job.function, &job.arguments, &job.returned);
    }
    rewriter.erase_block(rewriter.body(step));
    rewriter.erase(step);
}

/// How the functions of a class are named.
struct Naming {
    /// The stages of the class, ascending: chunk c is the stage at c.
    stages: Vec<u32>,
    backward: BackwardJobs,
}

impl Naming {
    fn create(
        &self,
        rewriter: &mut Rewriter,
        at: Position,
        step: OpId,
        job: Job,
    ) -> (OpId, BlockId) {
        let cx = rewriter.cx().clone();
        let loc = rewriter.loc(step);
        let kind = match (job.phase, self.backward) {
            (Phase::Forward, _) => "forward",
            (Phase::Backward, BackwardJobs::Whole) => "backward",
            (Phase::Backward, BackwardJobs::Split) => "backward_b",
            (Phase::Weights, _) => "backward_w",
            (Phase::Optimizer, _) => "optimizer",
        };
        let stage = job.rank.abs();
        let chunk = self.stages.iter().position(|&s| i64::from(s) == stage);
        let mut signature = Signature {
            name: kind.to_owned(),
            kind,
            attrs: vec![],
        };
        if let (Some(chunk), true) = (chunk, job.phase != Phase::Optimizer) {
            signature.attrs = vec![
                ("dist.chunk", cx.i64_attr(chunk as i64)),
                (STAGE, cx.i64_attr(stage)),
            ];
            if self.stages.len() > 1 {
                signature.name = format!("{kind}_{chunk}");
            }
        }
        functions::create(rewriter, at, loc, &signature)
    }
}

/// An argument of a job for a value that it is given.
fn give(rewriter: &mut Rewriter, to: Option<&mut Written>, value: ValueId, dict: Attr) -> ValueId {
    let Some(to) = to else { return value };
    if let Some(&own) = to.given.get(&value) {
        return own;
    }
    let (ty, loc) = (rewriter.ty(value), rewriter.loc(to.function));
    let own = rewriter.add_arg(to.block, ty, loc);
    to.arguments.push(dict);
    to.given.insert(value, own);
    own
}

/// The attributes of an argument that is data from outside.
fn input_attrs(module: &Module, step: OpId, index: usize) -> Attr {
    let cx = module.cx();
    let dict = value_attrs(module, step, "arg_attrs", index).unwrap_or(cx.empty_dict());
    let dict = match cx.dict_get(dict, VALUE) {
        Some(_) => dict,
        None => cx.dict_with(dict, VALUE, Some(cx.string(&format!("arg{index}")))),
    };
    cx.dict_with(dict, INPUT, Some(cx.unit()))
}
