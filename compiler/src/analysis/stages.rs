//! Which pipeline stage every op of a step belongs to, from labels on some of them.
//!
//! A forward op without a label belongs to the latest stage of what it reads. A backward op belongs to the stage of its *anchor*, the
//! forward op that it is the gradient of: `matmul_grad %x, %w, %d` that of `matmul %x, %w`. An op of another name has as its anchor the
//! last forward op that reads one of its forward operands and comes no later than the anchors of the gradients that it reads, since a
//! backward pass goes through the forward pass from its end. What it reads from other backward ops comes from its own stage or a later
//! one, so it is never in a later stage than those. A backward op that reads neither, such as a load, goes where it is read.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Ident, OpId, ValueId};
use rustc_hash::FxHashMap;

use super::step::{Origin, Role, Step};

/// The attribute that labels an op's stage.
pub const STAGE: &str = "dist.stage";

/// The forward ops that backward ops follow.
pub struct Anchors {
    /// By position. Nothing for other ops, for free ones, and where nothing leads to one.
    of: Vec<Option<u32>>,
    /// By position: whether the op reads something of the forward pass that says so.
    own: Vec<bool>,
}

impl Anchors {
    /// Finds the anchors of a step.
    pub fn of(step: &Step) -> Self {
        let readers = Readers::of(step);
        let mut anchors = Self {
            of: Vec::with_capacity(step.ops.len()),
            own: Vec::with_capacity(step.ops.len()),
        };
        for at in 0..step.ops.len() {
            let (own, latest) = match step.roles[at] {
                Role::Backward if !step.free[at] => anchors.find(step, &readers, at),
                _ => (None, None),
            };
            anchors.of.push(own.or(latest));
            anchors.own.push(own.is_some());
        }
        anchors
    }

    /// The position of an op's anchor.
    pub fn get(&self, at: usize) -> Option<usize> {
        self.of[at].map(|anchor| anchor as usize)
    }

    /// The anchor by what the op reads of the forward pass, and the earliest anchor of the gradients that it reads.
    fn find(&self, step: &Step, readers: &Readers, at: usize) -> (Option<u32>, Option<u32>) {
        let module = step.module;
        let mut latest: Option<u32> = None;
        let mut forward = Vec::new();
        for value in module.operands(step.ops[at]) {
            match step.origin(value) {
                Origin::Op(source)
                    if step.roles[source] == Role::Backward && !step.free[source] =>
                {
                    if let Some(anchor) = self.of[source] {
                        latest = Some(latest.map_or(anchor, |l| l.min(anchor)));
                    }
                }
                _ => forward.push(value),
            }
        }
        let bound = latest.unwrap_or(u32::MAX);
        let name = module.name_str(step.ops[at]);
        let own = name.strip_suffix("_grad").and_then(|base| {
            let base = module.cx().ident(base);
            let of = |&v: &ValueId| readers.last_named(step, v, base, bound);
            forward.iter().filter_map(of).min()
        });
        let any = || forward.iter().filter_map(|&v| readers.last(v, bound)).min();
        (own.or_else(any), latest)
    }
}

/// Forward ops by what they read, in program order.
struct Readers {
    by_value: FxHashMap<ValueId, Vec<u32>>,
    by_name: FxHashMap<(ValueId, Ident), Vec<u32>>,
}

impl Readers {
    fn of(step: &Step) -> Self {
        let mut readers = Self {
            by_value: FxHashMap::default(),
            by_name: FxHashMap::default(),
        };
        for (at, &op) in step.ops.iter().enumerate() {
            if step.roles[at] != Role::Forward || step.free[at] {
                continue;
            }
            for value in step.module.operands(op) {
                readers.by_value.entry(value).or_default().push(at as u32);
                let key = (value, step.module.name(op));
                readers.by_name.entry(key).or_default().push(at as u32);
            }
        }
        readers
    }

    /// The last reader of a value that stands no later than `bound`.
    fn last(&self, value: ValueId, bound: u32) -> Option<u32> {
        last(self.by_value.get(&value)?, bound)
    }

    /// Likewise of those with a name; what defines the value counts too.
    fn last_named(&self, step: &Step, value: ValueId, name: Ident, bound: u32) -> Option<u32> {
        if let Origin::Op(at) = step.origin(value)
            && step.module.name(step.ops[at]) == name
            && step.roles[at] == Role::Forward
            && at as u32 <= bound
        {
            return Some(at as u32);
        }
        last(self.by_name.get(&(value, name))?, bound)
    }
}

fn last(sorted: &[u32], bound: u32) -> Option<u32> {
    let before = sorted.partition_point(|&at| at <= bound);
    sorted[..before].last().copied()
}

/// The stage of every op that is neither free nor in the optimizer.
pub struct Stages {
    of: Vec<Option<u32>>,
    /// One more than the last stage.
    pub count: u32,
}

impl Stages {
    /// Assigns a stage to every op, following the labels.
    ///
    /// # Errors
    /// A diagnostic for every label that is no stage, and for ops that read from a stage from which nothing flows to theirs.
    pub fn of(step: &Step) -> Result<Self, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let labels = labels(step, &mut wrong);
        let count = labels.iter().flatten().max().map_or(1, |last| last + 1);
        Self::follow(step, &labels, count, wrong)
    }

    /// Likewise, with the stages of forward ops given, by position, and how many stages there are.
    ///
    /// # Errors
    /// As [`Stages::of`].
    pub fn given(
        step: &Step,
        forward: &[Option<u32>],
        count: u32,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let mut labels = labels(step, &mut wrong);
        for (label, &given) in labels.iter_mut().zip(forward) {
            *label = given.or(*label);
        }
        Self::follow(step, &labels, count, wrong)
    }

    fn follow(
        step: &Step,
        labels: &[Option<u32>],
        count: u32,
        mut wrong: Vec<Diagnostic>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut stages = Self {
            of: vec![None; step.ops.len()],
            count,
        };
        stages.forward(step, labels);
        stages.backward(step, labels);
        stages.check(step, &mut wrong);
        if wrong.is_empty() {
            Ok(stages)
        } else {
            Err(wrong)
        }
    }

    /// The stage of the op at a position.
    pub fn get(&self, at: usize) -> Option<u32> {
        self.of[at]
    }

    fn forward(&mut self, step: &Step, labels: &[Option<u32>]) {
        let fixed = |at: &usize| step.roles[*at] == Role::Forward && !step.free[*at];
        let forward: Vec<usize> = (0..step.ops.len()).filter(fixed).collect();
        for &at in &forward {
            let read = step.sources(at).filter_map(|s| self.of[s]).max();
            self.of[at] = labels[at].or(read);
        }
        // What reads inputs only goes where it is read, if someone said what the first stage is, and to the first stage otherwise; what
        // reads nothing at all goes where it is read.
        let says_first = labels.contains(&Some(0));
        let mut reads_inputs = vec![false; step.ops.len()];
        for &at in &forward {
            let mut operands = step.module.operands(step.ops[at]);
            reads_inputs[at] = operands.any(|v| match step.origin(v) {
                Origin::Op(source) => reads_inputs[source],
                Origin::Argument(_) => true,
            });
        }
        let mut readers: Vec<Option<u32>> = vec![None; step.ops.len()];
        for &at in forward.iter().rev() {
            let read = readers[at].filter(|_| says_first || !reads_inputs[at]);
            let stage = self.of[at].or(read);
            let stage = stage.unwrap_or(0);
            self.of[at] = Some(stage);
            for source in step.sources(at) {
                let earliest = readers[source].map_or(stage, |r| r.min(stage));
                readers[source] = Some(earliest);
            }
        }
    }

    fn backward(&mut self, step: &Step, labels: &[Option<u32>]) {
        let anchors = Anchors::of(step);
        for (at, label) in labels.iter().enumerate() {
            if step.roles[at] != Role::Backward || step.free[at] {
                continue;
            }
            let gradients = step
                .sources(at)
                .filter(|&s| step.roles[s] == Role::Backward);
            let bound = gradients.filter_map(|s| self.of[s]).min();
            let own = anchors.get(at).and_then(|a| self.of[a]);
            let stage = match (own, bound) {
                (Some(own), Some(bound)) => Some(own.min(bound)),
                (own, bound) => own.or(bound),
            };
            self.of[at] = label.or(stage);
        }
        self.rise(step);
        self.sink(step, labels, &anchors);
    }

    /// A backward op that reads nothing that has a stage goes to the latest stage that reads it, as the load of a sum of gradients goes to
    /// the op that adds to it; to the last stage if none does.
    fn rise(&mut self, step: &Step) {
        let module = step.module;
        for at in (0..step.ops.len()).rev() {
            if self.of[at].is_some() || step.roles[at] != Role::Backward || step.free[at] {
                continue;
            }
            let mut latest = None;
            for result in module.results(step.ops[at]) {
                let readers = module
                    .uses(result)
                    .filter_map(|u| self.of[step.position(u.op)?]);
                latest = latest.max(readers.max());
            }
            self.of[at] = Some(latest.unwrap_or(self.count - 1));
        }
    }

    /// What only changes the form of a gradient goes to the stage that reads it: the gradient itself is often read there as well, and need
    /// not be sent twice.
    fn sink(&mut self, step: &Step, labels: &[Option<u32>], anchors: &Anchors) {
        let module = step.module;
        for at in (0..step.ops.len()).rev() {
            let op = step.ops[at];
            let form = matches!(
                module.name_str(op),
                "dist.reshape" | "dist.transpose" | "dist.identity"
            );
            let (Some(stage), true) = (self.of[at], form) else {
                continue;
            };
            if labels[at].is_some() || anchors.own[at] || step.roles[at] != Role::Backward {
                continue;
            }
            let readers = module.uses(module.result(op, 0));
            let readers = readers.map(|u| step.position(u.op).and_then(|at| self.of[at]));
            // Nothing, if something without a stage reads it.
            let latest = readers.collect::<Option<Vec<_>>>();
            let latest = latest.and_then(|r| r.into_iter().max());
            self.of[at] = Some(latest.map_or(stage, |l| l.min(stage)));
        }
    }

    /// Forward values flow to later stages, gradients to earlier ones.
    fn check(&self, step: &Step, wrong: &mut Vec<Diagnostic>) {
        let module = step.module;
        for at in 0..step.ops.len() {
            let Some(stage) = self.of[at] else { continue };
            for source in step.sources(at) {
                let Some(other) = self.of[source] else {
                    continue;
                };
                let backward = match (step.roles[source], step.roles[at]) {
                    (Role::Forward, Role::Forward) => other > stage,
                    (Role::Backward, Role::Forward) => true,
                    // Sums of gradients of a parameter on several stages are not moved.
                    (Role::Backward, Role::Backward) => {
                        other < stage && !is_sum(module.name_str(step.ops[at]))
                    }
                    _ => false,
                };
                if backward {
                    let (op, from) = (step.ops[at], step.ops[source]);
                    let message = format!(
                        "'{}' in the {} pass of stage {stage} reads a value of the {} pass of stage {other}",
                        module.name_str(op),
                        step.roles[at].name(),
                        step.roles[source].name(),
                    );
                    let diagnostic = Diagnostic::error("E0641", module.loc(op), message)
                        .note(Some(module.loc(from).into()), "computed here")
                        .help("forward values flow to later stages, gradients to earlier ones; change the 'dist.stage' of one of the two");
                    wrong.push(diagnostic);
                }
            }
        }
    }
}

/// Whether an op adds its operands up.
pub fn is_sum(name: &str) -> bool {
    matches!(name, "dist.sum" | "dist.add")
}

/// Stages beyond this are refused: no pipeline has them, and they would make tables of that size.
pub const MOST_STAGES: i64 = 1 << 14;

fn labels(step: &Step, wrong: &mut Vec<Diagnostic>) -> Vec<Option<u32>> {
    let module = step.module;
    let mut read = |op: OpId| {
        let attr = module.attr(op, STAGE)?;
        let label = module.cx().as_i64(attr);
        let stage = label.filter(|l| (0..MOST_STAGES).contains(l));
        if stage.is_none() {
            let message = format!(
                "'{}' has a '{STAGE}' that is no stage: an integer from 0 to {}",
                module.name_str(op),
                MOST_STAGES - 1
            );
            wrong.push(Diagnostic::error("E0640", module.loc(op), message));
        }
        stage.map(|l| l as u32)
    };
    step.ops.iter().map(|&op| read(op)).collect()
}
