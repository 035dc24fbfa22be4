//! Schedule files of every format, and what a diagnostic shows of them.

use std::path::Path;

use anyhow::Context;
use raddle_compiler::schedule::optimizer::Optimizer;
use raddle_compiler::schedule::{
    CommModel, Costs, Made, Memory, PerIndex, Schedule, ScheduleError, Setting, evaluate, job_list,
    json, mlir_text, torch_csv,
};

/// A failure and the lines that show its place.
pub type Failure = (ScheduleError, Option<String>);

/// Reads a schedule, whatever its format: JSON starts with a brace, a module has a `dist.schedule`,
/// job lists name `forward`, all else is PyTorch's CSV.
///
/// # Errors
/// A file that cannot be read; inside, what is wrong with its text.
pub fn read(path: &Path) -> anyhow::Result<Result<Schedule, Failure>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let is_json = text.trim_start().starts_with('{');
    let schedule = if is_json {
        json::read_json(&text)
    } else if mlir_text::is_mlir(&text) {
        mlir_text::read_mlir(&text)
    } else if job_list::is_job_list(&text) {
        job_list::read_job_list(&text)
    } else {
        torch_csv::read_csv(&text)
    };
    Ok(schedule.map_err(|error| {
        let place = place(path, &text, &error, is_json);
        (error, place)
    }))
}

/// The line of the file and a mark under the text that is wrong.
fn place(path: &Path, text: &str, error: &ScheduleError, is_json: bool) -> Option<String> {
    let (row, column, length) = match error {
        ScheduleError::Syntax {
            row, column, text, ..
        } => (*row, *column, text.chars().count()),
        ScheduleError::File { row, .. } => (*row, 0, 1),
        _ => return Some(format!("  --> {}", path.display())),
    };
    if is_json {
        return Some(format!(
            "  --> {}: rank {row}, position {column}",
            path.display()
        ));
    }
    let line: Vec<char> = text.lines().nth(row)?.chars().collect();
    let from = column.saturating_sub(30);
    let to = (column + length + 30).min(line.len());
    let shown: String = line[from.min(to)..to].iter().collect();
    let marks = format!("{}{}", " ".repeat(column - from), "^".repeat(length.max(1)));
    Some(format!(
        "  --> {}:{}:{}\n   |\n   | {shown}\n   | {marks}",
        path.display(),
        row + 1,
        column + 1
    ))
}

/// A given order with its numbers, as if it had been made.
///
/// # Errors
/// Lists that are incomplete or out of order, and costs that do not fit.
pub fn as_made(
    schedule: Schedule,
    costs: Costs,
    held_for_weights: f64,
    limit: Option<PerIndex>,
    optimizer: Optimizer,
) -> Result<Made, ScheduleError> {
    let setting = setting(&schedule, costs, held_for_weights, limit);
    let report = evaluate(&schedule, &setting, CommModel::Dep)?;
    let (time, bound) = match optimizer {
        Optimizer::PostValidate => (report.span, report.bound_span),
        Optimizer::Barrier => (report.makespan, report.bound_makespan),
    };
    let optimal = report.fits != Some(false) && time <= bound * (1.0 + 1e-9);
    Ok(Made {
        schedule,
        setting,
        report,
        optimal,
        notes: Vec::new(),
    })
}

/// Costs and memory for a given schedule; one activation is that of a whole rank.
pub fn setting(
    schedule: &Schedule,
    costs: Costs,
    held_for_weights: f64,
    limit: Option<PerIndex>,
) -> Setting {
    let chunks = (schedule.stages() as f64 / schedule.ranks().len().max(1) as f64).max(1.0);
    Setting {
        costs,
        memory: Memory::uniform(1.0 / chunks, held_for_weights),
        limit,
    }
}
