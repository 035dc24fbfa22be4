//! PyTorch's schedule files: no header, row k is rank k, one action per cell, an empty cell is an idle step.
//!
//! Files of PyTorch 2.5 write the input gradient as `B` where a `W` follows, and have no `I`; they are recognised by
//! that. Files of every later release write `I`, `W` and, for both at once, `B`.

use super::action::{Action, Compute, Op, StageStep};
use super::error::ScheduleError;
use super::list::Schedule;

/// Which files to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Computes alone, for PyTorch to place the transfers (`compute_only`).
    ComputeOnly,
    /// Everything, for PyTorch to run as it is (`compute_comms`), from release 2.15 on.
    ComputeAndTransfers,
    /// The same without `WAIT_SEND_F`, `WAIT_SEND_B` and `WAIT_REDUCE_GRAD`, which releases before 2.15 take for a `W`.
    ComputeAndTransfersWithoutWaits,
}

/// Reads a schedule file.
///
/// # Errors
/// The first cell that is no action, with its row and column from zero, or lists that are no schedule.
pub fn read_csv(text: &str) -> Result<Schedule, ScheduleError> {
    let mut ranks = Vec::new();
    for (row, line) in text.lines().enumerate() {
        let mut actions = Vec::new();
        let mut column = 0;
        for cell in line.split(',') {
            let bare = cell.trim().trim_matches('"');
            match Action::parse(bare) {
                Ok(action) => actions.extend(action),
                Err(problem) => {
                    return Err(ScheduleError::Syntax {
                        row,
                        column,
                        text: bare.to_owned(),
                        problem,
                    });
                }
            }
            column += cell.chars().count() + 1;
        }
        ranks.push(actions);
    }
    if ranks.iter().all(Vec::is_empty) {
        return Err(ScheduleError::File {
            row: 0,
            what: "the file holds no action".to_owned(),
        });
    }
    name_input_gradients(&mut ranks);
    Schedule::new(ranks)
}

/// PyTorch 2.5: where a file has W but no I, a B with a W of the same stage and micro-batch is the input gradient.
fn name_input_gradients(ranks: &mut [Vec<Action>]) {
    let ops = || ranks.iter().flatten().flat_map(Action::ops);
    if ops().any(|op| op.kind == Compute::InputGrad)
        || !ops().any(|op| op.kind == Compute::WeightGrad)
    {
        return;
    }
    let split: std::collections::HashSet<_> = ops()
        .filter(|op| op.kind == Compute::WeightGrad)
        .map(|op| (op.stage, op.microbatch))
        .collect();
    let rename = |op: &mut Op| {
        if op.kind == Compute::Backward && split.contains(&(op.stage, op.microbatch)) {
            op.kind = Compute::InputGrad;
        }
    };
    for action in ranks.iter_mut().flatten() {
        match action {
            Action::Compute(op) => rename(op),
            Action::Overlap(ops) => ops.iter_mut().for_each(rename),
            _ => {}
        }
    }
}

/// Writes a schedule file. Steps of the optimizer, which PyTorch does not know, are left out.
pub fn write_csv(schedule: &Schedule, contents: Contents) -> String {
    let mut text = String::new();
    for actions in schedule.ranks() {
        let wanted = actions.iter().filter(|action| match (contents, action) {
            (Contents::ComputeOnly, action) => action.is_compute(),
            (Contents::ComputeAndTransfers, Action::Stage(step, _)) => step.in_torch(),
            (Contents::ComputeAndTransfersWithoutWaits, Action::Stage(step, _)) => {
                step.in_torch() && *step != StageStep::WaitReduceGrad
            }
            (Contents::ComputeAndTransfersWithoutWaits, Action::WaitSend(_)) => false,
            _ => true,
        });
        for (i, action) in wanted.enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(&action.to_string());
        }
        text.push('\n');
    }
    text
}
