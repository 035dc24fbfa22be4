//! A schedule and its numbers as text for people.

use std::fmt::Write;

use super::action::Action;
use super::error::Wait;
use super::list::Schedule;
use super::report::Report;
use super::simulate::CriticalStep;

/// Actions shown of a rank before the rest is left out.
const SHOWN: usize = 200;

/// Links of the critical path shown at each end of a long one.
const PATH_ENDS: usize = 16;

/// Time and memory with no more digits than they need.
pub fn short(value: f64) -> String {
    if value == value.round() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    format!("{value:.4}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// One line of numbers.
pub fn summary(report: &Report) -> String {
    let mut line = format!(
        "makespan {} (bound {})  span {} (bound {})  bubble {:.4} / {:.4}  peak {}",
        short(report.makespan),
        short(report.bound_makespan),
        short(report.span),
        short(report.bound_span),
        report.bubble_makespan(),
        report.bubble_span(),
        short(report.peak_max()),
    );
    if report.fits == Some(false) {
        line.push_str("  OVER THE LIMIT");
    }
    line
}

/// The whole table.
pub fn write_table(title: &str, schedule: &Schedule, report: &Report) -> String {
    let mut text = format!("{title}\n{}\n", summary(report));
    if let (Some(makespan), Some(span)) = (report.step_makespan, report.step_span) {
        let (makespan, span) = (short(makespan), short(span));
        let _ = writeln!(
            text,
            "to the end of the updates: makespan {makespan}  span {span}"
        );
    }
    let width = schedule.ranks().len().saturating_sub(1).to_string().len();
    for (r, list) in schedule.ranks().iter().enumerate() {
        let busy = report.work[r];
        let computes = list.iter().zip(&report.timeline.computes[r]);
        let ends = computes.filter_map(|(a, i)| (*i).filter(|_| a.is_compute()));
        let (first, last) = ends.fold((f64::INFINITY, 0.0f64), |(a, b), i| {
            (a.min(i.start), b.max(i.end))
        });
        let idle = if first.is_finite() {
            last - first - busy
        } else {
            0.0
        };
        let _ = write!(
            text,
            "rank {r:width$}  peak {:>5}  idle {:>5} ",
            short(report.peak[r]),
            short(idle)
        );
        for action in list.iter().take(SHOWN) {
            let _ = write!(text, " {action}");
        }
        if list.len() > SHOWN {
            let _ = write!(text, " … {} more", list.len() - SHOWN);
        }
        text.push('\n');
    }
    text.push_str(&critical_path(report));
    text
}

/// The links of the critical path, first to last; of a long one its two ends.
fn critical_path(report: &Report) -> String {
    let path = &report.timeline.critical_path;
    let labels = |steps: &[CriticalStep]| {
        let labels: Vec<&str> = steps.iter().map(|step| step.label.as_str()).collect();
        labels.join(" → ")
    };
    if path.len() <= 2 * PATH_ENDS {
        return format!("critical path  {}\n", labels(path));
    }
    let (head, tail) = (&path[..PATH_ENDS], &path[path.len() - PATH_ENDS..]);
    let between = path.len() - 2 * PATH_ENDS;
    format!(
        "critical path  {} → … {between} more … → {}\n",
        labels(head),
        labels(tail)
    )
}

/// A ring of waits as a drawing: each line waits for the one above it, the first for the last.
pub fn draw_ring(cycle: &[Wait]) -> String {
    let mut text = String::new();
    for (i, node) in cycle.iter().enumerate() {
        let edge = match (i, cycle.len()) {
            (0, 1) => "╶⟲",
            (0, _) => "╭▶",
            (i, n) if i + 1 == n => "╰─",
            _ => "│ ",
        };
        let _ = writeln!(text, "  {edge} {}", node.label);
        if i + 1 < cycle.len() {
            text.push_str("  │     ↑ is waited for by\n");
        }
    }
    text
}

/// The place of an action in its file, for messages about lists.
pub fn excerpt(schedule: &Schedule, rank: usize, position: usize) -> String {
    let Some(list) = schedule.ranks().get(rank) else {
        return String::new();
    };
    let from = position.saturating_sub(2);
    let to = (position + 3).min(list.len());
    let cell = |(i, a): (usize, &Action)| {
        if from + i == position {
            format!("»{a}«")
        } else {
            a.to_string()
        }
    };
    list[from.min(to)..to]
        .iter()
        .enumerate()
        .map(cell)
        .collect::<Vec<_>>()
        .join(",")
}
