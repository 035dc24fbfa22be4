//! A schedule as text of the `dist` dialect: a module with one `dist.schedule`, one action string per rank.

use raddle_dialect::diag::{At, Diagnostic, Diagnostics, Severity, Source};
use raddle_dialect::ir::{Context, LocData, Module, Rewriter, VerifyOptions, verify};
use raddle_dialect::ops::OpAttributes;
use raddle_dialect::ops::schedule::Plan;
use raddle_dialect::syntax::{ParseOptions, PrintOptions, parse, print};

use super::error::ScheduleError;
use super::list::Schedule;

/// What the op holds for a schedule.
pub fn plan(kind: &str, schedule: &Schedule) -> Plan {
    Plan {
        kind: kind.to_owned(),
        microbatches: schedule.microbatches(),
        placement: schedule.stage_rank().iter().map(|r| r.index()).collect(),
        actions: schedule.ranks().to_vec(),
    }
}

/// Writes a module with the op.
pub fn write_mlir(kind: &str, schedule: &Schedule) -> String {
    let cx = Context::new();
    let mut module = Module::new(&cx, cx.unknown_loc());
    let attrs = plan(kind, schedule).attrs(&cx);
    Rewriter::new(&mut module).build("dist.schedule", cx.unknown_loc(), &[], &[], &attrs);
    print(&module, PrintOptions::default())
}

/// Whether a text looks like a module with a schedule.
pub fn is_mlir(text: &str) -> bool {
    text.contains("dist.schedule")
}

/// Reads the schedule of a module, whatever else stands in it.
///
/// # Errors
/// The first thing that is wrong with the module, with its line from zero; or that it has no schedule.
pub fn read_mlir(text: &str) -> Result<Schedule, ScheduleError> {
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("schedule", text.as_bytes());
    let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics)
        .and_then(|module| verify(module, VerifyOptions::default(), &mut diagnostics).ok());
    let Some(module) = module else {
        let first = diagnostics.iter().find(|d| d.severity == Severity::Error);
        return Err(first.map_or_else(
            || file(0, "the module cannot be read".to_owned()),
            |d| file(row(&cx, text, d), format!("{} [{}]", d.message, d.code)),
        ));
    };
    let op = module
        .block_ops(module.body(module.root()))
        .find(|op| module.is(*op, "dist.schedule"));
    let Some(op) = op else {
        return Err(file(0, "the module has no dist.schedule".to_owned()));
    };
    let plan = Plan::read(&OpAttributes {
        module: &module,
        op,
    });
    Schedule::new(plan.map_err(|e| file(0, e.to_string()))?.actions)
}

fn file(row: usize, what: String) -> ScheduleError {
    ScheduleError::File { row, what }
}

/// The line of a diagnostic, from zero.
fn row(cx: &Context, text: &str, diagnostic: &Diagnostic) -> usize {
    match diagnostic.at {
        At::Span { start, .. } => text.as_bytes()[..start.min(text.len())]
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        At::Loc(loc) => match cx.loc_data(loc) {
            LocData::File { line, .. } => (*line as usize).saturating_sub(1),
            _ => 0,
        },
    }
}
