//! All numbers of one schedule under one communication model.

use super::action::{Action, RankId, StageStep};
use super::bound::{BackwardParts, PipelineQuery, lower_bounds};
use super::channel::{ChannelMismatch, channel_mismatches};
use super::check::check;
use super::cost::{Costs, Memory, PerIndex};
use super::error::ScheduleError;
use super::list::Schedule;
use super::memory::peak_memory;
use super::simulate::{CommModel, Timeline, simulate};

/// What to measure with.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Times.
    pub costs: Costs,
    /// Memory per activation.
    pub memory: Memory,
    /// Memory per rank, if limited.
    pub limit: Option<PerIndex>,
}

/// The numbers. Times are in the unit of the costs, memory in that of [`Memory`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Under which model.
    pub model: CommModel,
    /// Last end − first start over all ranks: the optimizer waits for everyone.
    pub makespan: f64,
    /// The largest last end − first start of one rank: the optimizer waits for no one.
    pub span: f64,
    /// Compute time of each rank.
    pub work: Vec<f64>,
    /// Peak activation memory of each rank.
    pub peak: Vec<f64>,
    /// No schedule with this placement has a shorter makespan.
    pub bound_makespan: f64,
    /// No schedule with this placement has a shorter span.
    pub bound_span: f64,
    /// As `bound_makespan`, but for whole backwards.
    pub bound_makespan_whole: f64,
    /// Where untagged channels would mix messages up.
    pub mismatches: Vec<ChannelMismatch>,
    /// As `makespan` and `span`, to the end of the optimizer's updates where the lists have them.
    pub step_makespan: Option<f64>,
    pub step_span: Option<f64>,
    /// Whether every rank stays within the limit; `None` without one.
    pub fits: Option<bool>,
    /// When everything runs.
    pub timeline: Timeline,
}

impl Report {
    /// Work of the busiest rank.
    pub fn work_max(&self) -> f64 {
        self.work.iter().copied().fold(0.0, f64::max)
    }

    /// The highest peak of all ranks.
    pub fn peak_max(&self) -> f64 {
        self.peak.iter().copied().fold(0.0, f64::max)
    }

    /// (makespan − work of the busiest rank) / makespan.
    pub fn bubble_makespan(&self) -> f64 {
        bubble(self.makespan, self.work_max())
    }

    /// (span − work of the busiest rank) / span.
    pub fn bubble_span(&self) -> f64 {
        bubble(self.span, self.work_max())
    }
}

fn bubble(time: f64, work: f64) -> f64 {
    if time > 0.0 {
        (time - work) / time
    } else {
        0.0
    }
}

/// A limit that holds nothing at all is far below what these lists need, and that is what to say.
fn over_limit(error: ScheduleError, peak: &[f64], setting: &Setting) -> ScheduleError {
    let worst = peak.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    match (error, worst, &setting.limit) {
        (ScheduleError::LimitTooSmall { .. }, Some((r, peak)), Some(limit)) => {
            ScheduleError::OverMemory {
                rank: RankId(r as u32),
                peak: *peak,
                limit: limit.at(r),
            }
        }
        (error, _, _) => error,
    }
}

/// Slack of memory comparisons, against rounding in sums of fractions.
pub const MEMORY_SLACK: f64 = 1e-9;

/// Checks, simulates and measures.
///
/// # Errors
/// What [`check`], [`simulate`] and [`lower_bounds`] find.
pub fn evaluate(
    schedule: &Schedule,
    setting: &Setting,
    model: CommModel,
) -> Result<Report, ScheduleError> {
    let complete = check(schedule)?;
    setting
        .costs
        .validate(schedule.stages(), schedule.microbatches())?;
    setting.memory.validate(schedule.stages())?;
    if let Some(limit) = &setting.limit {
        limit.validate("memory-limit", schedule.ranks().len())?;
    }
    let timeline = simulate(complete, &setting.costs, model)?;
    let (mut first, mut last, mut span) = (f64::INFINITY, 0.0f64, 0.0f64);
    let mut work = Vec::new();
    let (mut step_last, mut step_span) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (actions, intervals) in schedule.ranks().iter().zip(&timeline.computes) {
        let (mut begin, mut end, mut busy) = (f64::INFINITY, 0.0f64, 0.0);
        for (action, interval) in actions.iter().zip(intervals) {
            let Some(interval) = interval else { continue };
            if action.is_compute() {
                begin = begin.min(interval.start);
                end = end.max(interval.end);
                busy += interval.end - interval.start;
            } else if matches!(action, Action::Stage(StageStep::Step, _)) && begin.is_finite() {
                step_last = step_last.max(interval.end);
                step_span = step_span.max(interval.end - begin);
            }
        }
        work.push(busy);
        if begin.is_finite() {
            first = first.min(begin);
            last = last.max(end);
            span = span.max(end - begin);
        }
    }
    let makespan = if first.is_finite() { last - first } else { 0.0 };
    let backward = if schedule.is_forward_only() {
        BackwardParts::None
    } else {
        BackwardParts::Split
    };
    let mut query = PipelineQuery {
        stage_rank: schedule.stage_rank(),
        microbatches: schedule.microbatches(),
        costs: &setting.costs,
        memory: &setting.memory,
        limit: setting.limit.as_ref(),
        backward,
    };
    let peak = peak_memory(complete, &setting.memory);
    let split = lower_bounds(&query).map_err(|error| over_limit(error, &peak, setting))?;
    if backward == BackwardParts::Split {
        query.backward = BackwardParts::Whole;
    }
    let whole = lower_bounds(&query).map_err(|error| over_limit(error, &peak, setting))?;
    let fits = setting.limit.as_ref().map(|l| {
        peak.iter()
            .enumerate()
            .all(|(r, p)| *p <= l.at(r) + MEMORY_SLACK)
    });
    Ok(Report {
        model,
        makespan,
        span,
        work,
        peak,
        bound_makespan: split.makespan,
        bound_span: split.span,
        bound_makespan_whole: whole.makespan,
        mismatches: if schedule.has_transfers() {
            channel_mismatches(schedule)
        } else {
            Vec::new()
        },
        step_makespan: step_last.is_finite().then_some(step_last - first),
        step_span: step_span.is_finite().then_some(step_span),
        fits,
        timeline,
    })
}
