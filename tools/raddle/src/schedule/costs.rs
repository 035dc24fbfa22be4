//! Costs from the command line or a file.

use std::path::Path;

use anyhow::Context;
use raddle_compiler::schedule::{Costs, PerIndex, ScheduleError};
use serde_json::Value;

/// Reads costs; without any, every step takes one unit and transfers none.
///
/// # Errors
/// A file that cannot be read; inside, costs that cannot be understood.
pub fn read(
    text: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<Result<Costs, ScheduleError>> {
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        return Ok(from_json(&text));
    }
    Ok(text.map_or(Ok(Costs::default()), from_text))
}

fn from_text(text: &str) -> Result<Costs, ScheduleError> {
    let mut costs = Costs::default();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (key, value) = part.split_once('=').ok_or_else(|| unknown(part))?;
        set(&mut costs, key.trim(), numbers("costs", value)?)?;
    }
    Ok(costs)
}

fn from_json(text: &str) -> Result<Costs, ScheduleError> {
    let fail = |row: usize, what: String| ScheduleError::File { row, what };
    let value: Value =
        serde_json::from_str(text).map_err(|e| fail(e.line(), format!("not JSON: {e}")))?;
    let object = value
        .as_object()
        .ok_or_else(|| fail(0, "costs are a JSON object".to_owned()))?;
    let mut costs = Costs::default();
    for (key, value) in object {
        let number = |v: &Value| {
            v.as_f64()
                .ok_or_else(|| fail(0, format!("`{key}` holds {v}, which is no number")))
        };
        let numbers = match value {
            Value::Array(list) if !list.is_empty() => {
                PerIndex::Each(list.iter().map(number).collect::<Result<_, _>>()?)
            }
            one => PerIndex::Same(number(one)?),
        };
        set(&mut costs, key, numbers)?;
    }
    Ok(costs)
}

fn set(costs: &mut Costs, key: &str, value: PerIndex) -> Result<(), ScheduleError> {
    match key {
        "f" => costs.forward = value,
        "b" => costs.input_grad = value,
        "w" => costs.weight_grad = value,
        "comm" => costs.transfer = value,
        "recompute" => costs.recompute = value,
        "mb" => costs.microbatch = value,
        "overlap" => costs.overlap = value.at(0),
        _ => return Err(unknown(key)),
    }
    Ok(())
}

fn unknown(part: &str) -> ScheduleError {
    let what = format!(
        "`{part}` is no cost; write key=number with f, b, w, comm, recompute, mb or overlap"
    );
    ScheduleError::File { row: 0, what }
}

/// One number, or several separated by `/`.
///
/// # Errors
/// What is no number.
pub fn numbers(what: &'static str, text: &str) -> Result<PerIndex, ScheduleError> {
    let one = |part: &str| {
        part.trim().parse::<f64>().map_err(|_| ScheduleError::File {
            row: 0,
            what: format!("`{part}` in {what} is no number"),
        })
    };
    if text.contains('/') {
        return Ok(PerIndex::Each(
            text.split('/').map(one).collect::<Result<_, _>>()?,
        ));
    }
    Ok(PerIndex::Same(one(text)?))
}
