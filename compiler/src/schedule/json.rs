//! Schedules as JSON: `{"ranks": [["0F0", …], …], …}`. What else is in the object is for the reader; only `ranks` is read.

use serde_json::{Map, Value, json};

use super::action::Action;
use super::error::ScheduleError;
use super::list::Schedule;
use super::report::Report;

/// Reads a schedule.
///
/// # Errors
/// No JSON, no list of lists under `ranks`, or an entry that is no action; row and column are rank and place.
pub fn read_json(text: &str) -> Result<Schedule, ScheduleError> {
    let file = |row: usize, what: String| ScheduleError::File { row, what };
    let value: Value = serde_json::from_str(text)
        .map_err(|e| file(e.line().saturating_sub(1), format!("not JSON: {e}")))?;
    let ranks = value["ranks"]
        .as_array()
        .ok_or_else(|| file(0, "no list under the key `ranks`".to_owned()))?;
    let mut lists = Vec::new();
    for (row, rank) in ranks.iter().enumerate() {
        let rank = rank
            .as_array()
            .ok_or_else(|| file(0, format!("the entry of rank {row} is no list")))?;
        let mut list = Vec::new();
        for (column, cell) in rank.iter().enumerate() {
            let text = cell
                .as_str()
                .ok_or_else(|| file(0, format!("rank {row}, position {column} is no text")))?;
            match Action::parse(text) {
                Ok(action) => list.extend(action),
                Err(problem) => {
                    return Err(ScheduleError::Syntax {
                        row,
                        column,
                        text: text.to_owned(),
                        problem,
                    });
                }
            }
        }
        lists.push(list);
    }
    if lists.iter().all(Vec::is_empty) {
        return Err(file(0, "the file holds no action".to_owned()));
    }
    Schedule::new(lists)
}

/// Writes a schedule with its placement and numbers.
pub fn write_json(schedule: &Schedule, report: &Report, extra: Map<String, Value>) -> String {
    let ranks: Vec<Vec<String>> = schedule
        .ranks()
        .iter()
        .map(|list| list.iter().map(ToString::to_string).collect())
        .collect();
    let placement: Vec<u32> = schedule.stage_rank().iter().map(|r| r.0).collect();
    let mut object = Map::new();
    object.insert("stages".to_owned(), json!(schedule.stages()));
    object.insert("microbatches".to_owned(), json!(schedule.microbatches()));
    object.insert("placement".to_owned(), json!(placement));
    object.extend(extra);
    object.insert("report".to_owned(), numbers(report));
    object.insert("ranks".to_owned(), json!(ranks));
    let mut text = serde_json::to_string_pretty(&Value::Object(object)).unwrap_or_default();
    text.push('\n');
    text
}

/// The numbers of a report.
pub fn numbers(report: &Report) -> Value {
    json!({
        "model": report.model.name(),
        "makespan": report.makespan,
        "span": report.span,
        "work": report.work,
        "bubble_makespan": report.bubble_makespan(),
        "bubble_span": report.bubble_span(),
        "bound_makespan": report.bound_makespan,
        "bound_span": report.bound_span,
        "peak": report.peak,
        "fits": report.fits,
        "message_order": report.mismatches.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "critical_path": report.timeline.critical_path.iter().map(|step| &step.label).collect::<Vec<_>>(),
        "step_makespan": report.step_makespan,
        "step_span": report.step_span,
    })
}
