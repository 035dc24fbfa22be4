//! Which job of a micro-batch is the last to read a value that jobs leave to each other.
//!
//! On one rank, forwards run from the first stage to the last and before every backward; of a stage, B runs before W; B of a stage runs
//! before B of the stages before it. When W runs in relation to the B of other stages is up to the schedule.

use std::collections::BTreeMap;

use raddle_bundle::FunctionKind;
use raddle_dialect::ir::{Module, OpId};

use super::functions;

/// The kind of a job, with the stage that it is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// What it does.
    pub kind: FunctionKind,
    /// Which stage.
    pub stage: i64,
}

impl Job {
    /// What a function is, by `dist.kind` and `dist.stage`.
    pub fn of(module: &Module, function: OpId) -> Option<Self> {
        let kind = FunctionKind::parse(module.str_attr(function, "dist.kind")?)?;
        let stage = module.i64_attr(function, "dist.stage").unwrap_or(0);
        Some(Self { kind, stage })
    }

    /// Whether it runs once per micro-batch.
    pub fn per_microbatch(self) -> bool {
        !matches!(self.kind, FunctionKind::Optimizer | FunctionKind::Init)
    }

    /// Whether it has run when `later` does, in whatever order the schedule runs them.
    pub fn comes_before(self, later: Self) -> bool {
        use FunctionKind::{Backward, BackwardB, BackwardW, Forward};
        if self == later {
            return true;
        }
        match (self.kind, later.kind) {
            (Forward, Forward) => self.stage <= later.stage,
            (Forward, _) => true,
            // Those of the stages after it wait for nothing of this one.
            (Backward | BackwardB, Backward | BackwardB | BackwardW) => self.stage >= later.stage,
            _ => false,
        }
    }
}

/// The jobs that read a value: function, job, number of the argument.
pub type Readers = Vec<(OpId, Job, usize)>;

/// By name, who reads a value that goes from job to job, or that is data.
pub fn readers(module: &Module, class: OpId) -> BTreeMap<String, Readers> {
    let mut found: BTreeMap<String, Readers> = BTreeMap::new();
    for function in functions(module, class) {
        let Some(job) = Job::of(module, function).filter(|job| job.per_microbatch()) else {
            continue;
        };
        let block = module.body(function);
        for index in 0..module.args(block).len() {
            if let Some(name) = value_name(module, function, "arg_attrs", index) {
                found
                    .entry(name.to_owned())
                    .or_default()
                    .push((function, job, index));
            }
        }
    }
    found
}

/// The reader that all others come before; none if that depends on the schedule.
pub fn last(readers: &Readers) -> Option<(OpId, usize)> {
    let last = readers
        .iter()
        .find(|(_, job, _)| readers.iter().all(|(_, other, _)| other.comes_before(*job)));
    last.map(|&(function, _, index)| (function, index))
}

/// The `dist.value` of an argument or result.
pub fn value_name<'m>(
    module: &'m Module,
    function: OpId,
    list: &str,
    index: usize,
) -> Option<&'m str> {
    let cx = module.cx();
    let dicts = module.attr(function, list).and_then(|a| cx.as_array(a))?;
    cx.as_str(cx.dict_get(*dicts.get(index)?, "dist.value")?)
}
