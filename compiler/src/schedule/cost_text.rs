//! Costs as people write them: `f=3/4/4/5,b=4,w=3,comm=0.2`, or the same keys as a JSON object.

use serde_json::Value;

use super::cost::{Costs, PerIndex};
use super::error::ScheduleError;

/// Reads `key=number` pairs separated by commas; several numbers of one key are separated by `/`. What is not named keeps its
/// default: every step takes one unit and transfers none.
///
/// # Errors
/// A key that is no cost, or a value that is no number.
pub fn read_costs(text: &str) -> Result<Costs, ScheduleError> {
    let mut costs = Costs::default();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (key, value) = part.split_once('=').ok_or_else(|| unknown(part))?;
        set(&mut costs, key.trim(), read_numbers("costs", value)?)?;
    }
    Ok(costs)
}

/// Reads a JSON object with numbers or lists of numbers.
///
/// # Errors
/// What is no such object.
pub fn read_costs_json(text: &str) -> Result<Costs, ScheduleError> {
    let fail = |row: usize, what: String| ScheduleError::File { row, what };
    let value: Value = serde_json::from_str(text)
        .map_err(|e| fail(e.line().saturating_sub(1), format!("not JSON: {e}")))?;
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

/// One number, or several separated by `/`.
///
/// # Errors
/// What is no number.
pub fn read_numbers(what: &'static str, text: &str) -> Result<PerIndex, ScheduleError> {
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

fn set(costs: &mut Costs, key: &str, value: PerIndex) -> Result<(), ScheduleError> {
    match key {
        "f" => costs.forward = value,
        "b" => costs.input_grad = value,
        "w" => costs.weight_grad = value,
        "comm" => costs.transfer = value,
        "recompute" => costs.recompute = value,
        "mb" => costs.microbatch = value,
        "step" => costs.step = value,
        "state" => costs.state = value.at(0),
        "validate" => costs.validate = value.at(0),
        "rollback" => costs.rollback = value.at(0),
        "overlap" => costs.overlap = value.at(0),
        _ => return Err(unknown(key)),
    }
    Ok(())
}

fn unknown(part: &str) -> ScheduleError {
    let what = format!(
        "`{part}` is no cost; write key=number with f, b, w, comm, recompute, mb, step, state, validate, rollback or overlap"
    );
    ScheduleError::File { row: 0, what }
}
