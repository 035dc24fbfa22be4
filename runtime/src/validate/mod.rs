//! Validation: does a rewritten program still compute what it did?
//!
//! Two bundles run side by side on the reference device, on all ranks, for a few steps, from the same random inputs and the
//! same random state. Losses, the gradient that reaches each optimizer op, and every global must agree. The two may run on different
//! meshes: one that was cut into pipeline stages has an axis more, and each rank of the other is held against all ranks at its place on
//! the axes that both have.

mod init;
pub(crate) mod places;
pub(crate) mod state;
mod trace;

use std::collections::{BTreeMap, HashMap};

use raddle_bundle::{Bundle, FunctionKind};
use raddle_dialect::reference::Tensor;

pub use init::check_init;

use crate::device::reference::{Mode, Program};
use crate::{RuntimeError, Training};
use places::Places;
use state::Draw;
use trace::GradientTrace;

/// How to validate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of inputs and state.
    pub seed: u64,
    /// Training steps to run.
    pub steps: usize,
    /// Largest accepted ‖a−b‖ / ‖a‖ in exact mode.
    pub tolerance: f64,
    /// Whether to run in rounded mode too.
    pub rounded: Rounded,
}

/// What is said of the programs as their element types round them, which is not judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounded {
    /// The largest differences.
    Reported,
    /// Nothing, which takes half the time.
    LeftOut,
}

impl Options {
    /// Three steps at 1e-10.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            steps: 3,
            tolerance: 1e-10,
            rounded: Rounded::Reported,
        }
    }

    /// Three steps at 1e-10, and only in exact mode.
    pub fn exact(seed: u64) -> Self {
        Self {
            rounded: Rounded::LeftOut,
            ..Self::new(seed)
        }
    }
}

/// What was compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The value that a step returns.
    Loss,
    /// The gradient that reaches an optimizer op.
    Gradient,
    /// A global after a step.
    Global,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Loss => "loss",
            Kind::Gradient => "gradient",
            Kind::Global => "global",
        })
    }
}

/// A value that changed.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What it is.
    pub kind: Kind,
    /// The global's or parameter's name; for a loss its number.
    pub name: String,
    /// The rank on which it was read before.
    pub rank: usize,
    /// The step, from 0.
    pub step: usize,
    /// ‖a−b‖ / ‖a‖; infinite if the value is gone or has another shape.
    pub relative: f64,
    /// What happened, if not a number.
    pub why: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Difference {
            kind,
            name,
            rank,
            step,
            ..
        } = self;
        write!(f, "{kind} '{name}' on rank {rank} in step {step} ")?;
        match &self.why {
            Some(why) => f.write_str(why),
            None => write!(f, "differs by {:.3e}", self.relative),
        }
    }
}

/// The outcome of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many values were compared, by kind.
    pub compared: BTreeMap<Kind, usize>,
    /// Largest relative difference in exact mode, by kind.
    pub largest: BTreeMap<Kind, f64>,
    /// Largest relative difference in rounded mode, by kind: reported, not judged.
    pub largest_rounded: BTreeMap<Kind, f64>,
    /// Differences over the tolerance, in the order found.
    pub failures: Vec<Difference>,
}

impl Report {
    /// Whether the programs agree.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Runs both programs and compares them. Where only the second trains, as after `append-backward`, there is nothing but the first step's
/// losses to compare.
///
/// # Errors
/// If a program cannot be run at all; differences are in the report.
pub fn compare(before: &Bundle, after: &Bundle, options: Options) -> Result<Report, RuntimeError> {
    let before = Program::load(before)?;
    let after = Program::load(after)?;
    let mut report = Report::default();
    let places = Places::new(before.mesh(), after.mesh());
    // What a pass adds starts from what it may hold.
    let mut draws = state::draws(&after);
    draws.extend(state::draws(&before));
    let begun = trains(&after) && !trains(&before);
    let options = Options {
        steps: if begun { 1 } else { options.steps },
        ..options
    };
    let run = |program, mode| record(program, &before, &draws, mode, options);
    let is_compared = |difference: &Difference| !begun || difference.kind == Kind::Loss;
    let exact = [run(&before, Mode::Exact)?, run(&after, Mode::Exact)?];
    for difference in differences(&places, &exact).filter(is_compared) {
        *report.compared.entry(difference.kind).or_default() += 1;
        let largest = report.largest.entry(difference.kind).or_default();
        *largest = largest.max(difference.relative);
        if difference.relative.is_nan() || difference.relative > options.tolerance {
            report.failures.push(difference);
        }
    }
    if options.rounded == Rounded::LeftOut {
        return Ok(report);
    }
    let rounded = [run(&before, Mode::Rounded)?, run(&after, Mode::Rounded)?];
    for difference in differences(&places, &rounded).filter(is_compared) {
        let largest = report.largest_rounded.entry(difference.kind).or_default();
        *largest = largest.max(difference.relative);
    }
    Ok(report)
}

/// Whether a step changes anything.
fn trains(program: &Program) -> bool {
    let functions = program.classes().iter().flat_map(|c| &c.functions);
    let mut steps = functions.filter(|f| f.plain.kind != FunctionKind::Init);
    steps.any(|f| f.plain.instrs.iter().any(|i| i.op == "dist.store"))
}

/// Everything that a run shows: by kind, step, name and rank.
type Record = BTreeMap<(Kind, usize, String), HashMap<usize, Tensor>>;

/// Runs `program` from the random state and inputs that belong to `origin`.
fn record<'p>(
    program: &'p Program,
    origin: &'p Program,
    draws: &HashMap<&str, Draw>,
    mode: Mode,
    options: Options,
) -> Result<Record, RuntimeError> {
    let mut training = Training::from(program, origin, draws, (mode, options.seed));
    let mut trace = GradientTrace::new(program);
    let mut record = Record::new();
    for step in 0..options.steps {
        let returned = training.step(&mut trace, &mut ())?;
        for (rank, values) in returned.into_iter().enumerate() {
            for returned in values {
                let name = format!("{} of micro-batch {}", returned.index, returned.microbatch);
                let key = (Kind::Loss, step, name);
                record.entry(key).or_default().insert(rank, returned.value);
            }
        }
        for ((rank, parameter), gradient) in trace.take() {
            let key = (Kind::Gradient, step, parameter);
            record.entry(key).or_default().insert(rank, gradient);
        }
        for rank in 0..program.mesh().ranks() {
            for (name, value) in training.machine().globals(rank) {
                let key = (Kind::Global, step, name.clone());
                record.entry(key).or_default().insert(rank, value.clone());
            }
        }
    }
    Ok(record)
}

/// Every value of the first record held against the second's.
fn differences<'a>(
    places: &'a Places,
    [a, b]: &'a [Record; 2],
) -> impl Iterator<Item = Difference> + 'a {
    a.iter().flat_map(move |(key, values)| {
        let (kind, step, name) = key;
        let others = b.get(key);
        let mut ranks: Vec<_> = values.keys().copied().collect();
        ranks.sort_unstable();
        ranks.into_iter().map(move |rank| {
            let others = others.map(|o| places.counterparts(rank, o));
            let of_each = others.unwrap_or_default();
            let of_each = of_each.into_iter().map(|t| relative(&values[&rank], t));
            let worst = of_each.max_by(|a, b| {
                // Not a number is worse than any number.
                a.0.is_nan().cmp(&b.0.is_nan()).then(a.0.total_cmp(&b.0))
            });
            let (relative, why) = worst
                .unwrap_or_else(|| (f64::INFINITY, Some("is gone from every rank".to_owned())));
            Difference {
                kind: *kind,
                name: name.clone(),
                rank,
                step: *step,
                relative,
                why,
            }
        })
    })
}

fn relative(a: &Tensor, b: &Tensor) -> (f64, Option<String>) {
    if a.shape != b.shape {
        let why = format!("was {} and is {}", a.ty(), b.ty());
        return (f64::INFINITY, Some(why));
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let size = norm(&mut a.data.iter().copied());
    // Equal infinities agree.
    let apart = |(&x, &y): (&f64, &f64)| if x == y { 0.0 } else { x - y };
    let difference = norm(&mut a.data.iter().zip(b.data.iter()).map(apart));
    let relative = match (difference == 0.0, size == 0.0) {
        (true, _) => 0.0,
        (false, true) => difference,
        (false, false) => difference / size,
    };
    (relative, None)
}
