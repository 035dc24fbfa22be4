//! Is a schedule complete and causal? Every stage runs F once and B, or I and then W, once for every micro-batch, and
//! no rank lists a step before a step of its own that it needs.

use super::action::{Compute, MicrobatchId, Op, RankId, StageId};
use super::error::{ActionPlace, ScheduleError};
use super::list::Schedule;

/// A schedule that [`check`] found complete and causal. Simulation and memory take nothing less.
#[derive(Clone, Copy, Debug)]
pub struct Complete<'a>(&'a Schedule);

impl<'a> Complete<'a> {
    /// The schedule itself.
    pub fn schedule(&self) -> &'a Schedule {
        self.0
    }
}

const FORWARD: u8 = Compute::Forward.bit();
const INPUT: u8 = Compute::InputGrad.bit();
const WEIGHT: u8 = Compute::WeightGrad.bit();
const WHOLE: u8 = Compute::Backward.bit();

/// Checks completeness and local order. A schedule without any backward is taken as forward-only.
///
/// # Errors
/// The first step that is missing, doubled or too early, with its place.
pub fn check(schedule: &Schedule) -> Result<Complete<'_>, ScheduleError> {
    let (stages, microbatches) = (schedule.stages(), schedule.microbatches());
    let ops = schedule.ops().count();
    if stages * microbatches > ops {
        return Err(first_missing_forward(schedule));
    }
    let mut done = vec![0u8; stages * microbatches];
    let mut pending: Vec<(usize, u8)> = Vec::new();
    for (r, actions) in schedule.ranks().iter().enumerate() {
        for (position, action) in actions.iter().enumerate() {
            pending.clear();
            for op in action.ops() {
                let place = ActionPlace {
                    rank: RankId(r as u32),
                    position,
                };
                check_op(*op, place, &done, &mut pending, microbatches)?;
            }
            for (at, bits) in &pending {
                done[*at] |= bits;
            }
        }
    }
    let forward_only = schedule.is_forward_only();
    for r in 0..schedule.ranks().len() {
        let rank = RankId(r as u32);
        for stage in schedule.stages_of(rank) {
            for j in 0..microbatches {
                let have = done[stage.index() * microbatches + j];
                let microbatch = MicrobatchId(j as u32);
                if have & FORWARD == 0 {
                    return Err(ScheduleError::ForwardMissing {
                        rank,
                        stage,
                        microbatch,
                    });
                }
                if !forward_only && have & (WHOLE | WEIGHT) == 0 {
                    return Err(ScheduleError::BackwardMissing {
                        rank,
                        stage,
                        microbatch,
                    });
                }
            }
        }
    }
    Ok(Complete(schedule))
}

fn check_op(
    op: Op,
    place: ActionPlace,
    done: &[u8],
    pending: &mut Vec<(usize, u8)>,
    microbatches: usize,
) -> Result<(), ScheduleError> {
    let at = op.stage.index() * microbatches + op.microbatch.index();
    let before = done[at];
    let now = before
        | pending
            .iter()
            .filter(|(i, _)| *i == at)
            .fold(0, |bits, (_, b)| bits | b);
    let own = op.kind.bit();
    if now & own != 0 {
        return Err(ScheduleError::Twice { place, op });
    }
    let (needs, letter) = match op.kind {
        Compute::Forward => (0, ' '),
        Compute::InputGrad | Compute::Backward => (FORWARD, 'F'),
        Compute::WeightGrad => (INPUT, 'I'),
    };
    if before & needs != needs {
        return Err(ScheduleError::TooEarly {
            place,
            op,
            needs: letter,
        });
    }
    let other = match op.kind {
        Compute::InputGrad => WHOLE,
        Compute::Backward => INPUT,
        _ => 0,
    };
    if now & other != 0 {
        return Err(ScheduleError::WholeAndSplit { place, op });
    }
    pending.push((at, own));
    Ok(())
}

/// Fewer steps than forwards are wanted, so some forward is missing; found without a table of all of them.
fn first_missing_forward(schedule: &Schedule) -> ScheduleError {
    let forwards: std::collections::HashSet<(u32, u32)> = schedule
        .ops()
        .filter(|op| op.kind == Compute::Forward)
        .map(|op| (op.stage.0, op.microbatch.0))
        .collect();
    for (s, rank) in schedule.stage_rank().iter().enumerate() {
        for j in 0..schedule.microbatches() {
            if !forwards.contains(&(s as u32, j as u32)) {
                return ScheduleError::ForwardMissing {
                    rank: *rank,
                    stage: StageId(s as u32),
                    microbatch: MicrobatchId(j as u32),
                };
            }
        }
    }
    unreachable!("fewer distinct steps than stages times micro-batches")
}
