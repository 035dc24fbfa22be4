//! The optimizer's steps at the end of each rank's list.
//!
//! Norm clipping and the search for NaN need numbers of all ranks. A barrier reduces them first and then steps, so every
//! rank waits for the slowest. Post-validation (Qi et al. 2023, section 4) steps at once: a rank takes the partial state of
//! the ranks before it, hands it on with its own, decides by it, and steps; when the full state comes back in the warm-up of
//! the next step, it compares, and where the decision was wrong it rolls the step back and repeats it.

use super::action::{Action, StageStep};
use super::error::ScheduleError;
use super::list::Schedule;

/// How ranks agree before they update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Optimizer {
    /// Step on partial state, validate later, roll back where that was wrong.
    #[default]
    PostValidate,
    /// Reduce over all ranks first.
    Barrier,
}

/// Appends the steps of the optimizer to every rank's list; lists that have some already stay as they are.
///
/// # Errors
/// None for lists that are a schedule already.
pub fn with_optimizer(
    schedule: &Schedule,
    optimizer: Optimizer,
) -> Result<Schedule, ScheduleError> {
    let has_some = |action: &Action| matches!(action, Action::Stage(step, _) if !step.in_torch());
    if schedule.ranks().iter().flatten().any(has_some) {
        return Ok(schedule.clone());
    }
    let last = schedule.ranks().len().saturating_sub(1);
    let mut ranks = schedule.ranks().to_vec();
    for (r, list) in ranks.iter_mut().enumerate() {
        let stages: Vec<_> = schedule
            .stages_of(super::action::RankId(r as u32))
            .collect();
        let Some(&first) = stages.first() else {
            continue;
        };
        let each = |step: StageStep| stages.iter().map(move |stage| Action::Stage(step, *stage));
        match optimizer {
            Optimizer::Barrier => {
                list.push(Action::Stage(StageStep::SyncState, first));
                list.extend(each(StageStep::Step));
            }
            Optimizer::PostValidate => {
                if r > 0 {
                    list.push(Action::Stage(StageStep::RecvState, first));
                }
                if r < last {
                    list.push(Action::Stage(StageStep::SendState, first));
                }
                list.extend(each(StageStep::Step));
                list.push(Action::Stage(StageStep::Validate, first));
                list.extend(each(StageStep::Rollback));
            }
        }
    }
    Schedule::new(ranks)
}
