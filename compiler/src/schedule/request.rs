//! From a wish to a schedule: the one door to all kinds.

use std::time::Duration;

use super::action::Action;
use super::backward;
use super::bound::{BackwardParts, PipelineQuery};
use super::cost::{Costs, Memory, PerIndex};
use super::error::ScheduleError;
use super::kinds::{self, Kind, Shape};
use super::list::{Placement, Schedule};
use super::optimizer::Optimizer;
use super::report::{Report, Setting, evaluate};
use super::search::{Effort, Objective, Problem, Score, Wish, search};
use super::simulate::CommModel;

/// Whether backwards are one step or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backward {
    /// I and W.
    Split,
    /// B.
    Whole,
    /// Split where that gains something, whole elsewhere.
    Auto,
    /// No backward at all.
    None,
}

/// A wish for a schedule.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which kind.
    pub kind: Kind,
    /// Ranks of the pipeline axis.
    pub ranks: u32,
    /// Micro-batches of a step.
    pub microbatches: u32,
    /// Stages on each rank, if the kind leaves a choice.
    pub chunks: Option<u32>,
    /// Times, per stage.
    pub costs: Costs,
    /// The part of an activation that stays for the weight gradient.
    pub held_for_weights: f64,
    /// Most activations a rank may hold; 1 is a rank's whole activation of one micro-batch.
    pub limit: Option<PerIndex>,
    /// Whether the optimizer is a barrier.
    pub optimizer: Optimizer,
    /// Whole or split backwards, if not as the kind has them.
    pub backward: Option<Backward>,
    /// Where stages live, if not as the kind has them.
    pub placement: Option<Placement>,
    /// Micro-batches in a round of the interleaved kinds.
    pub round: Option<u32>,
    /// When to stop searching.
    pub time_limit: Option<Duration>,
}

/// A schedule and what it was measured with.
#[derive(Clone, Debug)]
pub struct Made {
    /// The schedule, computes only.
    pub schedule: Schedule,
    /// Costs, memory and limit.
    pub setting: Setting,
    /// Its numbers under [`CommModel::Dep`].
    pub report: Report,
    /// Whether nothing shorter exists: the first objective is at its lower bound, or all else was tried.
    pub optimal: bool,
    /// What a reader should know, for example what a kind fell back to.
    pub notes: Vec<String>,
}

/// Ranks, micro-batches, chunks and actions beyond these are refused: a list of that size is a slip of the pen.
const MOST_RANKS: u64 = 1 << 14;
const MOST_MICROBATCHES: u64 = 1 << 20;
const MOST_ACTIONS: u64 = 30_000_000;

/// A time limit in seconds.
///
/// # Errors
/// What is no time.
pub fn time_limit(seconds: f64) -> Result<Duration, ScheduleError> {
    if !seconds.is_finite() || seconds <= 0.0 {
        return Err(ScheduleError::File {
            row: 0,
            what: format!("a time limit of {seconds} seconds is none; give a number above 0"),
        });
    }
    Ok(Duration::from_secs_f64(seconds.clamp(0.001, 1e6)))
}

/// Makes a schedule. `progress` hears how far a search is and its best score.
///
/// # Errors
/// A wish that contradicts itself, or a limit that is too small; the error says which limit would do.
pub fn make(
    request: &Request,
    progress: &mut dyn FnMut(f64, Score),
) -> Result<Made, ScheduleError> {
    let chunks = request
        .chunks
        .unwrap_or_else(|| request.kind.default_chunks());
    sizes(request, chunks)?;
    let placement = placement(request, chunks)?;
    let stages = request.ranks as usize * chunks as usize;
    request
        .costs
        .validate(stages, request.microbatches as usize)?;
    let activation = 1.0 / f64::from(chunks);
    let memory = Memory::uniform(activation, request.held_for_weights);
    if !(0.0..=1.0).contains(&request.held_for_weights) {
        return Err(ScheduleError::NoFraction {
            what: "--w-memory",
            value: request.held_for_weights,
        });
    }
    let mut notes = Vec::new();
    let limit = request
        .limit
        .clone()
        .or_else(|| own_limit(request.kind, request.ranks).map(PerIndex::Same));
    if let Some(limit) = &limit {
        limit.validate("memory-limit", request.ranks as usize)?;
    }
    let setting = Setting {
        costs: request.costs.clone(),
        memory,
        limit,
    };
    let (schedule, proven) = if request.kind.is_searched() {
        searched(request, chunks, placement, &setting, progress)?
    } else {
        (ruled(request, chunks, &setting, &mut notes)?, false)
    };
    let report = evaluate(&schedule, &setting, CommModel::Dep)?;
    let (first, bound) = match request.optimizer {
        Optimizer::PostValidate => (report.span, report.bound_span),
        Optimizer::Barrier if schedule.splits_backward() || schedule.is_forward_only() => {
            (report.makespan, report.bound_makespan)
        }
        Optimizer::Barrier => (report.makespan, report.bound_makespan_whole),
    };
    let optimal = proven || first <= bound * (1.0 + 1e-9);
    Ok(Made {
        schedule,
        setting,
        report,
        optimal,
        notes,
    })
}

fn sizes(request: &Request, chunks: u32) -> Result<(), ScheduleError> {
    for (what, value, most) in [
        ("--stages", request.ranks.into(), MOST_RANKS),
        (
            "--microbatches",
            request.microbatches.into(),
            MOST_MICROBATCHES,
        ),
        ("--chunks", chunks.into(), MOST_RANKS),
    ] {
        if value == 0 {
            return Err(ScheduleError::CountZero { what });
        }
        if value > most {
            return Err(ScheduleError::TooLarge { what, value, most });
        }
    }
    let actions =
        3 * u64::from(request.ranks) * u64::from(request.microbatches) * u64::from(chunks);
    if actions > MOST_ACTIONS {
        return Err(ScheduleError::TooLarge {
            what: "the number of actions",
            value: actions,
            most: MOST_ACTIONS,
        });
    }
    if let Some(round) = request.round.filter(|round| *round < request.ranks) {
        let what = format!(
            "takes a round of at least {} micro-batches, not {round}",
            request.ranks
        );
        return Err(ScheduleError::KindSetting {
            kind: request.kind.name(),
            what,
        });
    }
    Ok(())
}

fn placement(request: &Request, chunks: u32) -> Result<Placement, ScheduleError> {
    let own = request.kind.default_placement();
    let wanted = request.placement.unwrap_or(own);
    let fail = |what: &str| {
        Err(ScheduleError::KindSetting {
            kind: request.kind.name(),
            what: what.to_owned(),
        })
    };
    let two = matches!(
        request.kind,
        Kind::ZbV | Kind::VHalf | Kind::VMin | Kind::DualPipeV | Kind::AutoV
    );
    let one = matches!(request.kind, Kind::ZbH1 | Kind::ZbH1Paddle | Kind::ZbH2);
    if two && chunks != 2 {
        return fail("has two chunks per rank");
    }
    if one && chunks != 1 {
        return fail("has one chunk per rank");
    }
    if wanted != own && request.kind != Kind::Auto && chunks > 1 {
        return fail("has a placement of its own; only auto takes any");
    }
    Ok(wanted)
}

/// The limit that makes a V kind what it is, in activations of a rank.
fn own_limit(kind: Kind, ranks: u32) -> Option<f64> {
    let p = f64::from(ranks);
    match kind {
        Kind::ZbV => Some(p),
        Kind::VHalf => Some((p / 2.0).floor() + 1.0),
        Kind::VMin => {
            // Two thirds of p chunks; where the pattern's steps would meet, two more.
            let chunks = 2 * ranks.div_ceil(3) + if ranks % 3 == 2 { 2 } else { 0 };
            Some(f64::from(chunks.min(ranks + 1)) / 2.0)
        }
        _ => None,
    }
}

fn ruled(
    request: &Request,
    chunks: u32,
    setting: &Setting,
    notes: &mut Vec<String>,
) -> Result<Schedule, ScheduleError> {
    let shape = Shape {
        ranks: request.ranks,
        microbatches: request.microbatches,
        chunks,
        round: request.round,
    };
    // The longest round idles least; where it holds too much, rounds of p hold less.
    let mut shapes = vec![shape];
    if shape.round.is_none() {
        shapes.push(Shape {
            round: Some(shape.ranks),
            ..shape
        });
    }
    let mut failure = None;
    for shape in shapes {
        let Some((lists, note)) = kinds::lists(request.kind, shape) else {
            break;
        };
        let schedule = Schedule::new(with_backward(request, lists))?;
        let schedule = match request.backward {
            Some(Backward::Auto) => backward::merge_where_free(&schedule, &request.costs)?,
            _ => schedule,
        };
        match over_memory(&schedule, setting)? {
            None => {
                notes.extend(note);
                return Ok(schedule);
            }
            Some(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or(ScheduleError::CountZero { what: "shapes" }))
}

fn with_backward(request: &Request, lists: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    match request.backward {
        None => lists,
        Some(Backward::Split | Backward::Auto) => backward::split(lists),
        Some(Backward::Whole) => backward::merge(lists),
        Some(Backward::None) => backward::forwards(lists),
    }
}

/// The rank that holds the most beyond its limit, as an error.
fn over_memory(
    schedule: &Schedule,
    setting: &Setting,
) -> Result<Option<ScheduleError>, ScheduleError> {
    let Some(limit) = &setting.limit else {
        return Ok(None);
    };
    if schedule.is_forward_only() {
        return Ok(None);
    }
    let peaks = super::memory::peak_memory(super::check::check(schedule)?, &setting.memory);
    let over = peaks
        .iter()
        .enumerate()
        .filter(|(r, peak)| **peak > limit.at(*r) + super::report::MEMORY_SLACK);
    Ok(over
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(r, peak)| ScheduleError::OverMemory {
            rank: super::action::RankId(r as u32),
            peak: *peak,
            limit: limit.at(r),
        }))
}

fn searched(
    request: &Request,
    chunks: u32,
    placement: Placement,
    setting: &Setting,
    progress: &mut dyn FnMut(f64, Score),
) -> Result<(Schedule, bool), ScheduleError> {
    let stage_rank = placement.table(request.ranks, chunks);
    let backward = match request.backward {
        Some(Backward::Whole) => BackwardParts::Whole,
        Some(Backward::None) => BackwardParts::None,
        _ => BackwardParts::Split,
    };
    let objective = match request.optimizer {
        Optimizer::PostValidate => Objective::Span,
        Optimizer::Barrier => Objective::Makespan,
    };
    let problem = Problem::new(&Wish {
        pipeline: PipelineQuery {
            stage_rank: &stage_rank,
            microbatches: request.microbatches as usize,
            costs: &setting.costs,
            memory: &setting.memory,
            limit: setting.limit.as_ref(),
            backward,
        },
        objective,
    })?;
    let found = search(&problem, effort(&problem, request.time_limit), progress);
    let lists = found
        .lists
        .iter()
        .map(|list| list.iter().map(|op| problem.action(*op as usize)).collect())
        .collect();
    let schedule = Schedule::new(lists)?;
    let schedule = match request.backward {
        Some(Backward::Auto) => backward::merge_where_free(&schedule, &request.costs)?,
        _ => schedule,
    };
    Ok((schedule, found.proven))
}

/// Work that a search gets by default: about a second for one chunk per rank, two for several, a little more where the
/// problem is small enough to be solved to the end. A time limit buys as much as fits in it.
fn effort(problem: &Problem, time_limit: Option<Duration>) -> Effort {
    let units = match (problem.steps(), problem.stages > problem.ranks) {
        (0..=2500, _) => 500e6,
        (2501..=12_000, true) => 250e6,
        (_, true) => 500e6,
        (2501..=12_000, false) => 200e6,
        (12_001..=100_000, false) => 50e6,
        (_, false) => 300e6,
    };
    let work = match time_limit {
        Some(limit) => limit.as_secs_f64().max(0.001) * 2e8,
        None => units,
    };
    Effort { work, time_limit }
}
