//! A schedule as text of the `dist` dialect, in generic form: one `dist.schedule` with one action string per rank.

use super::action::Action;
use super::list::Schedule;

/// The op, without a module around it.
pub fn write_mlir(schedule: &Schedule) -> String {
    let lines: Vec<String> = schedule
        .ranks()
        .iter()
        .map(|list| {
            format!(
                "\"{}\"",
                list.iter()
                    .map(Action::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        })
        .collect();
    let stages: Vec<String> = schedule
        .stage_rank()
        .iter()
        .map(|r| r.0.to_string())
        .collect();
    format!(
        "\"dist.schedule\"() {{actions = [\n  {}],\n  microbatches = {} : i64, stage_ranks = array<i64: {}>}} : () -> ()\n",
        lines.join(",\n  "),
        schedule.microbatches(),
        stages.join(", ")
    )
}
