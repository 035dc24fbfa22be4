//! Where each send and receive goes.
//!
//! One total order of all computes and transfers is made that extends data order and every rank's list; each rank gets its
//! part of it. Whatever a communication model puts before a compute or a transfer comes earlier in that one order, so no
//! model can deadlock, fully blocking transfers included, and both ends of an untagged channel see messages in the same
//! order. The order is free otherwise, and how long transfers hold each other up depends on it: [`place_best`] tries
//! several for one model. Steps of parameters and of the optimizer that the lists have stay with the computes they stand before.

use super::action::{
    Action, Compute, Direction, MicrobatchId, RankId, StageId, StageStep, Transfer,
};
use super::check::check;
use super::cost::Costs;
use super::error::ScheduleError;
use super::list::Schedule;
use super::simulate::{CommModel, Timeline, receiver_of, simulate};

/// Which steps around the parameters are placed besides those that are there already; where some are, they stay where they
/// stand among the computes and no others are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageSteps {
    /// Gathering before the first use, reduction after the last gradient, as PyTorch writes them.
    Placed,
    /// None.
    AsGiven,
}

/// Places transfers with computes by end time and each transfer right after its producer.
///
/// # Errors
/// What [`check`] and [`simulate`] find in the computes.
pub fn place(
    schedule: &Schedule,
    costs: &Costs,
    steps: StageSteps,
) -> Result<Schedule, ScheduleError> {
    let bare = schedule.compute_only();
    let timeline = simulate(check(&bare)?, costs, CommModel::Dep)?;
    lower(&bare, &timeline, 0.0, &Steps::of(schedule, steps))
}

/// Places transfers in several ways and takes the one with the shortest makespan under `model`.
///
/// # Errors
/// What [`check`] and [`simulate`] find in the computes.
pub fn place_best(
    schedule: &Schedule,
    costs: &Costs,
    model: CommModel,
    steps: StageSteps,
) -> Result<Schedule, ScheduleError> {
    let bare = schedule.compute_only();
    let ideal = simulate(check(&bare)?, costs, CommModel::Dep)?;
    let steps = Steps::of(schedule, steps);
    let mut best: Option<(f64, Schedule)> = None;
    for late in [0.0, 0.5, 1.0, 0.25, 0.75] {
        let mut timeline = ideal.clone();
        // The times a placement leads to are the next order to try.
        for _ in 0..4 {
            let placed = lower(&bare, &timeline, late, &steps)?;
            let run = simulate(check(&placed)?, costs, model)?;
            let makespan = run
                .computes
                .iter()
                .flatten()
                .flatten()
                .map(|i| i.end)
                .fold(0.0, f64::max);
            timeline = Timeline {
                computes: compute_intervals(&placed, &run),
                ..run
            };
            if best
                .as_ref()
                .is_none_or(|(other, _)| makespan < *other - 1e-9 * other)
            {
                best = Some((makespan, placed));
            } else {
                break;
            }
        }
    }
    best.map(|(_, placed)| placed)
        .ok_or(ScheduleError::CountZero { what: "ranks" })
}

/// The intervals of computes alone, as the lists without transfers have them.
fn compute_intervals(
    placed: &Schedule,
    run: &Timeline,
) -> Vec<Vec<Option<super::simulate::Interval>>> {
    let of_rank = |(list, intervals): (&Vec<Action>, &Vec<Option<super::simulate::Interval>>)| {
        list.iter()
            .zip(intervals)
            .filter(|(a, _)| a.is_compute())
            .map(|(_, i)| *i)
            .collect()
    };
    placed
        .ranks()
        .iter()
        .zip(&run.computes)
        .map(of_rank)
        .collect()
}

/// The steps around the parameters that the given lists have.
struct Steps {
    /// Per rank and compute: those that stand before it; and behind the last one.
    before: Vec<Vec<Vec<Action>>>,
    /// How many of them start gathering, with nothing to wait for: they go ahead of the transfers.
    early: Vec<Vec<usize>>,
    /// Whether to place the usual ones.
    more: bool,
}

impl Steps {
    fn of(schedule: &Schedule, steps: StageSteps) -> Steps {
        let mut more = steps == StageSteps::Placed;
        let mut before = Vec::with_capacity(schedule.ranks().len());
        for list in schedule.ranks() {
            let mut rank = vec![Vec::new()];
            for action in list {
                match action {
                    Action::Compute(_) | Action::Overlap(_) => rank.push(Vec::new()),
                    Action::Stage(step, _) => {
                        more &= !step.in_torch();
                        rank.last_mut().expect("never empty").push(action.clone());
                    }
                    _ => {}
                }
            }
            before.push(rank);
        }
        let gathers = |a: &&Action| matches!(a, Action::Stage(StageStep::Unshard, _));
        let early = before
            .iter()
            .map(|rank: &Vec<Vec<Action>>| {
                rank.iter()
                    .map(|group| group.iter().take_while(gathers).count())
                    .collect()
            })
            .collect();
        Steps {
            before,
            early,
            more,
        }
    }
}

/// A transfer in the making.
struct Wanted {
    direction: Direction,
    sender: StageId,
    microbatch: MicrobatchId,
    key: f64,
    producer: usize,
    /// The place of the compute that uses it: the transfer must stand before it.
    limit: usize,
}

fn lower(
    bare: &Schedule,
    timeline: &Timeline,
    late: f64,
    steps: &Steps,
) -> Result<Schedule, ScheduleError> {
    let stage_rank = bare.stage_rank();
    let m = bare.microbatches();
    // Computes in an order that extends data order and lists: by end, then start, then topologically.
    let topological = topological_order(bare);
    let mut order: Vec<usize> = (0..topological.len()).collect();
    let time = |k: &usize| {
        let (r, i) = topological[*k];
        timeline.computes[r][i].map_or((0.0, 0.0), |t| (t.end, t.start))
    };
    order.sort_by(|a, b| time(a).0.total_cmp(&time(b).0).then(a.cmp(b)));
    // Who uses each activation and gradient: the place in the order and the start.
    let mut user = vec![[(order.len(), f64::INFINITY); 2]; bare.stages() * m];
    for (position, k) in order.iter().enumerate() {
        let (r, i) = topological[*k];
        for op in bare.ranks()[r][i].ops() {
            let side = match op.kind {
                Compute::Forward => 0,
                Compute::InputGrad | Compute::Backward => 1,
                Compute::WeightGrad => continue,
            };
            user[op.stage.index() * m + op.microbatch.index()][side] = (position, time(k).1);
        }
    }
    let mut transfers: Vec<Wanted> = Vec::new();
    for (position, k) in order.iter().enumerate() {
        let (r, i) = topological[*k];
        for op in bare.ranks()[r][i].ops() {
            let (direction, last) = match op.kind {
                Compute::Forward => (Direction::Forward, op.stage.index() + 1 == bare.stages()),
                Compute::InputGrad | Compute::Backward => (Direction::Backward, op.stage.0 == 0),
                Compute::WeightGrad => continue,
            };
            if last {
                continue;
            }
            let receiver = receiver_of(direction, op.stage);
            if stage_rank[receiver.index()] == stage_rank[op.stage.index()] {
                continue;
            }
            let made = time(k).0;
            let (limit, used) =
                user[receiver.index() * m + op.microbatch.index()][direction as usize];
            let key = if used.is_finite() {
                made + late * (used - made).max(0.0)
            } else {
                made
            };
            transfers.push(Wanted {
                direction,
                sender: op.stage,
                microbatch: op.microbatch,
                key,
                producer: position,
                limit,
            });
        }
    }
    // A transfer stands before the first compute whose end lies behind its key, but never before its producer; its
    // consumer ends later than it starts, so it comes behind.
    let ends: Vec<f64> = order.iter().map(|k| time(k).0).collect();
    let mut slots: Vec<(usize, f64, usize)> = transfers
        .iter()
        .enumerate()
        .map(|(n, t)| {
            (
                ends.partition_point(|end| *end <= t.key)
                    .max(t.producer + 1)
                    .min(t.limit),
                t.key,
                n,
            )
        })
        .collect();
    slots.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    let first = |r: usize| steps.before[r][0][..steps.early[r][0]].to_vec();
    let mut ranks: Vec<Vec<Action>> = (0..bare.ranks().len()).map(first).collect();
    let mut next = 0;
    for position in 0..=order.len() {
        while next < slots.len() && slots[next].0 == position {
            let t = &transfers[slots[next].2];
            let to = receiver_of(t.direction, t.sender);
            let end = |stage| Transfer {
                direction: t.direction,
                stage,
                microbatch: t.microbatch,
            };
            ranks[stage_rank[t.sender.index()].index()].push(Action::Send(end(t.sender)));
            ranks[stage_rank[to.index()].index()].push(Action::Recv(end(to)));
            next += 1;
        }
        if let Some(k) = order.get(position) {
            let (r, i) = topological[*k];
            let (before, after) = (&steps.before[r], &steps.early[r]);
            ranks[r].extend(before[i][after[i]..].iter().cloned());
            ranks[r].push(bare.ranks()[r][i].clone());
            ranks[r].extend(before[i + 1][..after[i + 1]].iter().cloned());
        }
    }
    for (r, list) in ranks.iter_mut().enumerate() {
        let (last, early) = (steps.before[r].last(), steps.early[r].last());
        list.extend(
            last.into_iter()
                .flatten()
                .skip(early.copied().unwrap_or(0))
                .cloned(),
        );
        wait_for_sends(list);
        if steps.more {
            place_stage_steps(list, &bare.stages_of(RankId(r as u32)).collect::<Vec<_>>());
        }
    }
    Schedule::new(ranks)
}

/// (rank, place) of every compute, each behind what it waits for.
fn topological_order(bare: &Schedule) -> Vec<(usize, usize)> {
    let (stages, m) = (bare.stages(), bare.microbatches());
    let mut done = vec![[false; 2]; stages * m];
    let mut at = vec![0; bare.ranks().len()];
    let mut order = Vec::new();
    let mut blocked: std::collections::HashMap<(usize, usize), Vec<usize>> =
        std::collections::HashMap::new();
    let mut work: Vec<usize> = (0..bare.ranks().len()).rev().collect();
    while let Some(r) = work.pop() {
        'rank: while at[r] < bare.ranks()[r].len() {
            let ops = bare.ranks()[r][at[r]].ops();
            for op in ops {
                let needs = match op.kind {
                    Compute::Forward if op.stage.0 > 0 => Some((op.stage.index() - 1, 0)),
                    Compute::InputGrad | Compute::Backward if op.stage.index() + 1 < stages => {
                        Some((op.stage.index() + 1, 1))
                    }
                    _ => None,
                };
                if let Some((s, side)) = needs
                    && !done[s * m + op.microbatch.index()][side]
                {
                    blocked
                        .entry((s * m + op.microbatch.index(), side))
                        .or_default()
                        .push(r);
                    break 'rank;
                }
            }
            for op in ops {
                let side = match op.kind {
                    Compute::Forward => 0,
                    Compute::InputGrad | Compute::Backward => 1,
                    Compute::WeightGrad => continue,
                };
                let key = op.stage.index() * m + op.microbatch.index();
                done[key][side] = true;
                work.extend(blocked.remove(&(key, side)).into_iter().flatten());
            }
            order.push((r, at[r]));
            at[r] += 1;
        }
    }
    order
}

/// A buffer that is sent may be let go only when the send has ended: a forward's behind the backward of its stage and
/// micro-batch, a gradient's at the very end, as PyTorch does it.
fn wait_for_sends(list: &mut Vec<Action>) {
    let mut sent = std::collections::HashSet::new();
    let mut out = Vec::with_capacity(list.len() * 3 / 2);
    let mut last = Vec::new();
    for action in list.drain(..) {
        let mut wait = Vec::new();
        if let Action::Send(t) = &action {
            match t.direction {
                Direction::Forward => drop(sent.insert((t.stage, t.microbatch))),
                Direction::Backward => last.push(Action::WaitSend(*t)),
            }
        }
        for op in action.ops() {
            let backward = matches!(op.kind, Compute::InputGrad | Compute::Backward);
            if backward && sent.remove(&(op.stage, op.microbatch)) {
                let (stage, microbatch) = (op.stage, op.microbatch);
                wait.push(Action::WaitSend(Transfer {
                    direction: Direction::Forward,
                    stage,
                    microbatch,
                }));
            }
        }
        out.push(action);
        out.extend(wait);
    }
    let mut rest: Vec<_> = sent.into_iter().collect();
    rest.sort_unstable();
    out.extend(rest.into_iter().map(|(stage, microbatch)| {
        Action::WaitSend(Transfer {
            direction: Direction::Forward,
            stage,
            microbatch,
        })
    }));
    out.extend(last);
    *list = out;
}

/// Gathers a stage's parameters before its first step, and reduces its gradients and lets the parameters go after its
/// last one. A rank reduces one stage at a time: PyTorch takes no second reduction before the first is awaited.
fn place_stage_steps(list: &mut Vec<Action>, stages: &[StageId]) {
    let mut last = std::collections::HashMap::new();
    for (i, action) in list.iter().enumerate() {
        // Behind the sends of what is computed: others wait for those.
        let sends = || {
            let rest = list[i + 1..].iter();
            rest.take_while(|a| matches!(a, Action::Send(_) | Action::WaitSend(_)))
                .count()
        };
        for op in action.ops().iter().filter(|op| op.kind != Compute::Forward) {
            last.insert(op.stage, i + sends());
        }
    }
    let mut out: Vec<Action> = stages
        .iter()
        .map(|s| Action::Stage(StageStep::Unshard, *s))
        .collect();
    let mut reducing: Option<StageId> = None;
    let wait = |stage| Action::Stage(StageStep::WaitReduceGrad, stage);
    for (i, action) in list.drain(..).enumerate() {
        out.push(action);
        for stage in stages.iter().filter(|s| last.get(s) == Some(&i)) {
            out.extend(reducing.replace(*stage).map(wait));
            out.push(Action::Stage(StageStep::ReduceGrad, *stage));
        }
    }
    out.extend(reducing.map(wait));
    for stage in stages {
        out.push(Action::Stage(StageStep::Reshard, *stage));
    }
    *list = out;
}
