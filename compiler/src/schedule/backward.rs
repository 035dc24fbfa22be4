//! Backwards as one step or as two: between the forms of a given schedule.

use std::collections::HashSet;

use super::action::{Action, Compute, Op};
use super::check::check;
use super::cost::Costs;
use super::error::ScheduleError;
use super::list::Schedule;
use super::simulate::{CommModel, edge_of, simulate};

/// Every B as I and W, one right after the other.
pub fn split(ranks: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    let apart = |action: Action| match action {
        Action::Compute(op) if op.kind == Compute::Backward => vec![
            Action::Compute(Op {
                kind: Compute::InputGrad,
                ..op
            }),
            Action::Compute(Op {
                kind: Compute::WeightGrad,
                ..op
            }),
        ],
        // A group runs its parts together; taken apart, forwards go first.
        Action::Overlap(ops) => {
            let mut parts: Vec<Action> = ops.iter().map(|op| Action::Compute(*op)).collect();
            parts.sort_by_key(|a| a.ops()[0].kind != Compute::Forward);
            split(vec![parts]).remove(0)
        }
        other => vec![other],
    };
    ranks
        .into_iter()
        .map(|list| list.into_iter().flat_map(apart).collect())
        .collect()
}

/// Every I and W as B, at the place of I.
pub fn merge(ranks: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    let whole = |action: Action| match action {
        Action::Compute(op) if op.kind == Compute::InputGrad => Some(Action::Compute(Op {
            kind: Compute::Backward,
            ..op
        })),
        Action::Compute(op) if op.kind == Compute::WeightGrad => None,
        other => Some(other),
    };
    ranks
        .into_iter()
        .map(|list| list.into_iter().filter_map(whole).collect())
        .collect()
}

/// Nothing but the forwards.
pub fn forwards(ranks: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    let keep = |action: Action| {
        action
            .ops()
            .iter()
            .find(|op| op.kind == Compute::Forward)
            .map(|op| Action::Compute(*op))
    };
    ranks
        .into_iter()
        .map(|list| list.into_iter().filter_map(keep).collect())
        .collect()
}

/// Makes I and W one B wherever they stand side by side and nobody gets the gradient later than it is used: no time
/// changes, and a whole backward is cheaper to run than its two parts.
///
/// # Errors
/// What [`check`] and [`simulate`] find.
pub fn merge_where_free(schedule: &Schedule, costs: &Costs) -> Result<Schedule, ScheduleError> {
    let timeline = simulate(check(schedule)?, costs, CommModel::Dep)?;
    // When each input gradient starts, for the question whether the one before can be late.
    let mut starts = std::collections::HashMap::new();
    for (list, intervals) in schedule.ranks().iter().zip(&timeline.computes) {
        for (action, interval) in list.iter().zip(intervals) {
            for op in action
                .ops()
                .iter()
                .filter(|op| matches!(op.kind, Compute::InputGrad | Compute::Backward))
            {
                if let Some(interval) = interval {
                    starts.insert((op.stage.0, op.microbatch.0), interval.start);
                }
            }
        }
    }
    let mut merged: HashSet<(u32, u32)> = HashSet::new();
    for (list, intervals) in schedule.ranks().iter().zip(&timeline.computes) {
        for i in 1..list.len() {
            let (Action::Compute(a), Action::Compute(b)) = (&list[i - 1], &list[i]) else {
                continue;
            };
            let pair = a.kind == Compute::InputGrad && b.kind == Compute::WeightGrad;
            let (Some(first), Some(second)) = (intervals[i - 1], intervals[i]) else {
                continue;
            };
            if !pair
                || (a.stage, a.microbatch) != (b.stage, b.microbatch)
                || second.start > first.end
            {
                continue;
            }
            let harmless = match a.stage.0.checked_sub(1) {
                None => true,
                Some(below) => {
                    let rank = schedule.stage_rank()[a.stage.index()];
                    let same = schedule.stage_rank()[below as usize] == rank;
                    let hop = costs.of_edge(edge_of(super::action::Direction::Backward, a.stage));
                    let arrives = second.end + if same { 0.0 } else { hop };
                    starts
                        .get(&(below, a.microbatch.0))
                        .is_none_or(|start| arrives <= *start)
                }
            };
            if harmless {
                merged.insert((a.stage.0, a.microbatch.0));
            }
        }
    }
    let pick = |action: &Action| match action {
        Action::Compute(op) if merged.contains(&(op.stage.0, op.microbatch.0)) => match op.kind {
            Compute::InputGrad => Some(Action::Compute(Op {
                kind: Compute::Backward,
                ..*op
            })),
            Compute::WeightGrad => None,
            _ => Some(action.clone()),
        },
        other => Some(other.clone()),
    };
    Schedule::new(
        schedule
            .ranks()
            .iter()
            .map(|list| list.iter().filter_map(pick).collect())
            .collect(),
    )
}
