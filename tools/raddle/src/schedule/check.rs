//! `raddle schedule --check`: the proof of a given action list, or what is wrong with it.

use std::path::Path;
use std::process::ExitCode;

use raddle_compiler::schedule::cost_text::read_numbers;
use raddle_compiler::schedule::error::labels;
use raddle_compiler::schedule::ring_svg::write_ring_svg;
use raddle_compiler::schedule::svg::{Drawing, write_svg};
use raddle_compiler::schedule::transfers::{StageSteps, place};
use raddle_compiler::schedule::{
    CommModel, RankId, Report, Schedule, ScheduleError, Setting, check, evaluate, json, table,
};

use super::{Format, Options, costs, file, report_error, write};

/// The model of a name.
///
/// # Errors
/// No model of that name.
pub fn model(name: &str) -> Result<CommModel, ScheduleError> {
    CommModel::ALL
        .into_iter()
        .find(|m| m.name() == name)
        .ok_or_else(|| ScheduleError::UnknownModel {
            name: name.to_owned(),
            known: CommModel::ALL.map(CommModel::name).join(", "),
        })
}

/// Checks one file.
///
/// # Errors
/// A file that cannot be read.
pub fn run(options: &Options, path: &Path) -> anyhow::Result<ExitCode> {
    let schedule = match file::read(path)? {
        Ok(schedule) => schedule,
        Err((error, place)) => {
            report_error(&error, place.as_deref());
            return Ok(ExitCode::FAILURE);
        }
    };
    let costs = costs::read(options.costs.as_deref(), options.costs_file.as_deref())?;
    let limit = options
        .memory_limit
        .as_deref()
        .map(|text| read_numbers("memory-limit", text))
        .transpose();
    let models = options
        .model
        .as_deref()
        .map_or(Ok(CommModel::ALL.to_vec()), |name| {
            model(name).map(|m| vec![m])
        });
    let setting = match (costs, limit) {
        (Ok(costs), Ok(limit)) => file::setting(&schedule, costs, options.w_memory, limit),
        (Err(error), _) | (_, Err(error)) => {
            report_error(&error, None);
            return Ok(ExitCode::FAILURE);
        }
    };
    let models = match models {
        Ok(models) => models,
        Err(error) => {
            report_error(&error, None);
            return Ok(ExitCode::FAILURE);
        }
    };
    let sound = match options.format {
        Format::Json => print_json(&schedule, &setting, &models),
        Format::Svg => draw(options, path, &schedule, &setting, &models)?,
        _ => prove(path, &schedule, &setting, &models),
    };
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Draws the ring of waits under the first model that deadlocks, or else the timeline under the first model.
fn draw(
    options: &Options,
    path: &Path,
    schedule: &Schedule,
    setting: &Setting,
    models: &[CommModel],
) -> anyhow::Result<bool> {
    let title = path.display().to_string();
    let mut first = None;
    for model in models {
        if *model != CommModel::Dep && !schedule.has_transfers() && models.len() > 1 {
            continue;
        }
        match evaluate(schedule, setting, *model) {
            Ok(report) => drop(first.get_or_insert(report)),
            Err(error) => {
                report_error(&error, None);
                if let ScheduleError::Deadlock { cycle } = &error {
                    let title = format!("{title}, model {}", model.name());
                    let picture = write_ring_svg(&title, schedule, cycle);
                    write(options.output.as_deref(), &picture)?;
                }
                return Ok(false);
            }
        }
    }
    let Some(report) = first else {
        return Ok(true);
    };
    let drawing = Drawing {
        title: &title,
        memory: &setting.memory,
        limit: setting.limit.as_ref(),
    };
    let picture = write_svg(schedule, &report, &drawing);
    write(options.output.as_deref(), &picture)?;
    for mismatch in &report.mismatches {
        eprintln!("MESSAGE ORDER {mismatch}");
    }
    Ok(report.fits != Some(false) && report.mismatches.is_empty())
}

fn prove(path: &Path, schedule: &Schedule, setting: &Setting, models: &[CommModel]) -> bool {
    if let Err(error) = check(schedule) {
        let place = error.place().map(|at| {
            let line = table::excerpt(schedule, at.rank.index(), at.position);
            format!("  --> {}: {at}\n   | …{line}…", path.display())
        });
        report_error(&error, place.as_deref());
        return false;
    }
    println!(
        "{}: {} ranks, {} stages, {} micro-batches: complete and in order",
        path.display(),
        schedule.ranks().len(),
        schedule.stages(),
        schedule.microbatches()
    );
    let mut sound = true;
    let mut mismatches = Vec::new();
    let placed;
    let (mut shown, given) = (schedule, schedule.has_transfers());
    if !given && schedule.ranks().len() > 1 && models.iter().any(|m| *m != CommModel::Dep) {
        match place(schedule, &setting.costs, StageSteps::AsGiven) {
            Ok(lists) => {
                println!(
                    "no transfers in the file; they are placed in one order of all computes and transfers"
                );
                placed = lists;
                shown = &placed;
            }
            Err(error) => {
                report_error(&error, None);
                return false;
            }
        }
    }
    for model in models {
        let lists = if *model == CommModel::Dep {
            schedule
        } else {
            shown
        };
        match evaluate(lists, setting, *model) {
            Ok(report) => {
                println!("  {:8} {}", model.name(), table::summary(&report));
                if sound && let Some(error) = over_memory(&report, setting) {
                    report_error(&error, None);
                }
                sound &= report.fits != Some(false);
                mismatches = report.mismatches;
            }
            Err(error) => {
                println!("  {:8} FAILS", model.name());
                report_error(&error, None);
                sound = false;
                // A malformed file fails alike under every model.
                if !matches!(error, ScheduleError::Deadlock { .. }) {
                    break;
                }
            }
        }
    }
    for mismatch in &mismatches {
        println!("  MESSAGE ORDER {mismatch}");
        sound = false;
    }
    if !mismatches.is_empty() {
        println!(
            "  help: an untagged channel would deliver these to the wrong receive; send in the order of the receives"
        );
    }
    sound
}

/// The rank that holds the most where a limit is passed.
fn over_memory(report: &Report, setting: &Setting) -> Option<ScheduleError> {
    let limit = setting
        .limit
        .as_ref()
        .filter(|_| report.fits == Some(false))?;
    let over = |(r, peak): &(usize, &f64)| **peak > limit.at(*r);
    let (r, peak) = report
        .peak
        .iter()
        .enumerate()
        .filter(over)
        .max_by(|a, b| a.1.total_cmp(b.1))?;
    Some(ScheduleError::OverMemory {
        rank: RankId(r as u32),
        peak: *peak,
        limit: limit.at(r),
    })
}

fn print_json(schedule: &Schedule, setting: &Setting, models: &[CommModel]) -> bool {
    let mut sound = true;
    let mut rows = Vec::new();
    for model in models {
        if *model != CommModel::Dep && !schedule.has_transfers() && models.len() > 1 {
            continue;
        }
        match evaluate(schedule, setting, *model) {
            Ok(report) => {
                sound &= report.fits != Some(false) && report.mismatches.is_empty();
                rows.push(json::numbers(&report));
            }
            Err(error) => {
                sound = false;
                let cycle = match &error {
                    ScheduleError::Deadlock { cycle } => labels(cycle),
                    _ => Vec::new(),
                };
                let row = serde_json::json!({
                    "model": model.name(), "code": error.code(), "error": error.to_string(), "cycle": cycle,
                });
                rows.push(row);
            }
        }
    }
    let text = serde_json::to_string_pretty(&rows).unwrap_or_default();
    println!("{text}");
    sound
}
