//! Costs from the command line or a file.

use std::path::Path;

use anyhow::Context;
use raddle_compiler::schedule::cost_text::{read_costs, read_costs_json};
use raddle_compiler::schedule::{Costs, ScheduleError};

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
        return Ok(read_costs_json(&text));
    }
    Ok(text.map_or(Ok(Costs::default()), read_costs))
}
