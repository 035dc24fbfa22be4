//! Paddle's job lists: one line per rank, jobs such as `forward:3`, `backward_b1:0` or `optimizer:0`; the number before the
//! colon is the chunk, absent where a rank has one. Chunk c of rank r is stage c·p + r, as in Paddle's interleaving.

use super::action::{Action, ActionSyntax, Compute};
use super::error::ScheduleError;
use super::list::{Placement, Schedule};

/// Whether a text looks like job lists.
pub fn is_job_list(text: &str) -> bool {
    text.contains("forward") && text.contains(':')
}

/// Reads job lists.
///
/// # Errors
/// The first job that is none, with its row and column from zero, or lists that are no schedule.
pub fn read_job_list(text: &str) -> Result<Schedule, ScheduleError> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let ranks = lines.len() as u32;
    let mut lists = Vec::new();
    for (row, line) in lines.iter().enumerate() {
        let mut list = Vec::new();
        for job in line.split_whitespace() {
            let column = job.as_ptr() as usize - line.as_ptr() as usize;
            match parse_job(job, row as u32, ranks) {
                Ok(action) => list.extend(action),
                Err(problem) => {
                    return Err(ScheduleError::Syntax {
                        row,
                        column,
                        text: job.to_owned(),
                        problem,
                    });
                }
            }
        }
        lists.push(list);
    }
    Schedule::new(lists)
}

fn parse_job(job: &str, rank: u32, ranks: u32) -> Result<Option<Action>, ActionSyntax> {
    let (name, microbatch) = job.split_once(':').ok_or(ActionSyntax::Unknown)?;
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let kind = match word {
        "forward" => Compute::Forward,
        "backward" => Compute::Backward,
        "backward_b" => Compute::InputGrad,
        "backward_w" => Compute::WeightGrad,
        "optimizer" => return Ok(None),
        _ => return Err(ActionSyntax::Unknown),
    };
    let number = |digits: &str| match digits {
        "" => Ok(0),
        digits => digits
            .parse::<u32>()
            .ok()
            .filter(|n| *n < 1 << 20)
            .ok_or(ActionSyntax::TooLarge),
    };
    if microbatch.is_empty() {
        return Err(ActionSyntax::MicrobatchMissing);
    }
    let chunk = number(&name[word.len()..])?;
    let stage = u64::from(chunk) * u64::from(ranks) + u64::from(rank);
    let stage = u32::try_from(stage)
        .ok()
        .filter(|s| *s < 1 << 24)
        .ok_or(ActionSyntax::TooLarge)?;
    Ok(Some(Action::compute(kind, stage, number(microbatch)?)))
}

/// Writes job lists, with the optimizer's job at the end of each.
///
/// # Errors
/// A placement that is not Paddle's.
pub fn write_job_list(schedule: &Schedule) -> Result<String, ScheduleError> {
    let ranks = schedule.ranks().len() as u32;
    let chunks = schedule.stages() as u32 / ranks.max(1);
    if Placement::Loop.table(ranks, chunks) != schedule.stage_rank() {
        return Err(ScheduleError::File {
            row: 0,
            what: "Paddle's job lists have stages in a loop only".to_owned(),
        });
    }
    let mut text = String::new();
    for list in schedule.ranks() {
        for op in list.iter().flat_map(Action::ops) {
            let word = match op.kind {
                Compute::Forward => "forward",
                Compute::Backward => "backward",
                Compute::InputGrad => "backward_b",
                Compute::WeightGrad => "backward_w",
            };
            let chunk = if chunks > 1 {
                (op.stage.0 / ranks).to_string()
            } else {
                String::new()
            };
            text.push_str(&format!("{word}{chunk}:{} ", op.microbatch.0));
        }
        text.push_str("optimizer:0\n");
    }
    Ok(text)
}
