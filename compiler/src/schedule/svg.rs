//! A timeline as an SVG picture: one row per rank, forwards, input gradients and weight gradients in their colours,
//! transfers as thin bars, and under each row what activations the rank holds.
//!
//! Steps that are wide enough carry their micro-batch. Where they are not, all steps of a rank and colour are one path, so
//! that 64 ranks × 512 micro-batches still make a file a browser opens.

use std::fmt::Write;

use super::action::{Action, Compute, Direction};
use super::cost::{Memory, PerIndex};
use super::list::Schedule;
use super::memory::memory_curve;
use super::report::Report;
use super::table::short;

/// What goes on the picture besides the timeline.
#[derive(Clone, Debug)]
pub struct Drawing<'a> {
    /// Over the picture.
    pub title: &'a str,
    /// For the memory curves.
    pub memory: &'a Memory,
    /// Drawn as a line over the curves.
    pub limit: Option<&'a PerIndex>,
}

const PLOT_WIDTH: f64 = 1280.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 84.0;
const TOP: f64 = 74.0;
const BOTTOM: f64 = 46.0;

/// Fill of the optimizer's steps.
const OPTIMIZER: &str = "#b58db6";

/// Fill of each kind: two shades, for even and odd chunks of a rank.
fn fill(kind: Compute, chunk: usize) -> &'static str {
    let shades = match kind {
        Compute::Forward => ["#4f83c4", "#8fb4e0"],
        Compute::InputGrad => ["#45a29a", "#8acbc4"],
        Compute::WeightGrad => ["#73b054", "#b2d79b"],
        Compute::Backward => ["#e39a3b", "#f2c684"],
    };
    shades[chunk % 2]
}

struct Frame {
    /// Pixels per unit of time.
    scale: f64,
    row: f64,
    bar: f64,
    comm: f64,
    curve: f64,
}

impl Frame {
    fn new(ranks: usize, end: f64, transfers: bool) -> Frame {
        // Rows shrink as ranks grow, down to what can still be seen.
        let row = (900.0 / ranks.max(1) as f64).clamp(15.0, 56.0);
        let comm = if transfers { row * 0.12 } else { 0.0 };
        let bar = row * 0.52;
        Frame {
            scale: PLOT_WIDTH / end.max(1e-12),
            row,
            bar,
            comm,
            curve: row * 0.92 - bar - comm,
        }
    }

    fn x(&self, time: f64) -> f64 {
        LEFT + time * self.scale
    }

    fn y(&self, rank: usize) -> f64 {
        TOP + rank as f64 * self.row
    }
}

/// Draws the picture.
pub fn write_svg(schedule: &Schedule, report: &Report, drawing: &Drawing<'_>) -> String {
    let ranks = schedule.ranks().len();
    let timeline = &report.timeline;
    let computes = timeline.computes.iter().flatten().flatten();
    let end = computes.map(|i| i.end).fold(report.makespan, f64::max);
    let frame = Frame::new(ranks, end, !timeline.transfers.is_empty());
    let (width, height) = (
        LEFT + PLOT_WIDTH + RIGHT,
        TOP + ranks as f64 * frame.row + BOTTOM,
    );
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">"
    );
    let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
    head(&mut out, schedule, report, drawing);
    grid(&mut out, &frame, ranks, end);
    let most = report.peak_max().max(
        drawing
            .limit
            .map_or(0.0, |l| (0..ranks).map(|r| l.at(r)).fold(0.0, f64::max)),
    );
    for r in 0..ranks {
        row(&mut out, &frame, schedule, report, r);
        curve(&mut out, &frame, schedule, report, drawing, (r, most));
    }
    transfers(&mut out, &frame, schedule, report);
    critical(&mut out, &frame, report);
    out.push_str("</svg>\n");
    out
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn head(out: &mut String, schedule: &Schedule, report: &Report, drawing: &Drawing<'_>) {
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"24\" font-size=\"17\" font-weight=\"bold\" fill=\"#222\">{}</text>",
        escape(drawing.title)
    );
    let line = format!(
        "makespan {} · span {} · bubble {:.1}% / {:.1}% · peak {} activations",
        short(report.makespan),
        short(report.span),
        100.0 * report.bubble_makespan(),
        100.0 * report.bubble_span(),
        short(report.peak_max())
    );
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"44\" font-size=\"12.5\" fill=\"#555\">{line}</text>"
    );
    let mut x = LEFT + PLOT_WIDTH;
    let chunks = schedule.stages() / schedule.ranks().len().max(1);
    let mut entries: Vec<(&str, Vec<&str>)> = Vec::new();
    for (kind, word) in [
        (Compute::Forward, "forward"),
        (Compute::Backward, "backward"),
        (Compute::InputGrad, "input gradient"),
        (Compute::WeightGrad, "weight gradient"),
    ] {
        if schedule.ops().any(|op| op.kind == kind) {
            entries.push((
                word,
                (0..chunks.clamp(1, 2)).map(|c| fill(kind, c)).collect(),
            ));
        }
    }
    if !report.timeline.transfers.is_empty() {
        entries.push(("transfer", vec!["#c2504e", "#8c6bb1"]));
    }
    if report.step_makespan.is_some() {
        entries.push(("optimizer", vec![OPTIMIZER]));
    }
    entries.push(("memory held", vec!["#d9d9d9"]));
    entries.push(("critical path", Vec::new()));
    for (word, colours) in entries.iter().rev() {
        x -= word.len() as f64 * 6.0 + 10.0;
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"24\" font-size=\"12\" fill=\"#333\">{word}</text>"
        );
        x -= 4.0;
        for colour in colours.iter().rev() {
            x -= 13.0;
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"14\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
            );
        }
        x -= 16.0;
    }
}

/// A round step for about ten marks.
fn tick(end: f64) -> f64 {
    let raw = end / 10.0;
    let base = 10f64.powf(raw.max(1e-300).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|k| k * base)
        .into_iter()
        .find(|step| *step >= raw)
        .unwrap_or(raw)
}

fn grid(out: &mut String, frame: &Frame, ranks: usize, end: f64) {
    let bottom = TOP + ranks as f64 * frame.row;
    let step = tick(end);
    let mut k = 0.0;
    while k * step <= end * (1.0 + 1e-9) && k < 1000.0 {
        let x = frame.x(k * step);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.2} {TOP}V{bottom:.1}\" stroke=\"#e4e4e4\"/><text x=\"{x:.2}\" y=\"{:.1}\" font-size=\"11\" fill=\"#777\" text-anchor=\"middle\">{}</text>",
            bottom + 17.0,
            short(k * step)
        );
        k += 1.0;
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"#555\" text-anchor=\"middle\">time</text>",
        LEFT + PLOT_WIDTH / 2.0,
        bottom + 36.0
    );
}

fn row(out: &mut String, frame: &Frame, schedule: &Schedule, report: &Report, r: usize) {
    let y = frame.y(r) + frame.row * 0.04;
    let size = (frame.bar * 0.55).clamp(7.0, 13.0);
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{:.1}\" fill=\"#333\" text-anchor=\"end\">rank {r}</text>",
        LEFT - 8.0,
        y + frame.bar * 0.5 + size * 0.35,
        size.min(12.0)
    );
    let mut first_stage: Vec<u32> = schedule
        .stages_of(super::action::RankId(r as u32))
        .map(|s| s.0)
        .collect();
    first_stage.sort_unstable();
    let chunk = |stage: u32| first_stage.binary_search(&stage).unwrap_or(0);
    // Narrow steps, one path per colour, in the order colours first appear.
    let mut narrow: Vec<(&'static str, String)> = Vec::new();
    let mut labels = String::new();
    for (action, interval) in schedule.ranks()[r].iter().zip(&report.timeline.computes[r]) {
        let Some(t) = interval else { continue };
        let (x, wide) = (frame.x(t.start), (t.end - t.start) * frame.scale);
        let ops = action.ops();
        if ops.is_empty() {
            optimizer_step(
                &mut narrow,
                &mut labels,
                action,
                (x, wide),
                (y, frame.bar, size),
            );
            continue;
        }
        let part = frame.bar / ops.len() as f64;
        for (k, op) in ops.iter().enumerate() {
            let colour = fill(op.kind, chunk(op.stage.0));
            let top = y + k as f64 * part;
            let edge = if wide > 5.0 { 0.6 } else { 0.0 };
            let path = path_of(&mut narrow, colour);
            let (w, h) = (
                (wide - edge).max(0.15),
                part - if ops.len() > 1 { 0.6 } else { 0.0 },
            );
            let _ = write!(path, "M{x:.2} {top:.2}h{w:.2}v{h:.2}h-{w:.2}z");
            let name = op.microbatch.0.to_string();
            let fits = size.min(part * 0.9);
            if wide >= name.len() as f64 * fits * 0.6 + 2.0 && fits >= 6.5 {
                let _ = write!(
                    labels,
                    "<text x=\"{:.2}\" y=\"{:.2}\" font-size=\"{fits:.1}\">{name}</text>",
                    x + (wide - edge) / 2.0,
                    top + part * 0.5 + fits * 0.35
                );
            }
        }
    }
    for (colour, path) in narrow {
        let _ = writeln!(out, "<path fill=\"{colour}\" d=\"{path}\"/>");
    }
    if !labels.is_empty() {
        let _ = writeln!(
            out,
            "<g fill=\"#10202e\" text-anchor=\"middle\">{labels}</g>"
        );
    }
}

/// The path that collects what has this colour.
fn path_of<'a>(paths: &'a mut Vec<(&'static str, String)>, colour: &'static str) -> &'a mut String {
    let at = paths.iter().position(|(c, _)| *c == colour);
    let at = at.unwrap_or_else(|| {
        paths.push((colour, String::new()));
        paths.len() - 1
    });
    &mut paths[at].1
}

/// A bar for a step of the optimizer that takes time, with its first letter.
fn optimizer_step(
    paths: &mut Vec<(&'static str, String)>,
    labels: &mut String,
    action: &Action,
    (x, wide): (f64, f64),
    (y, bar, size): (f64, f64, f64),
) {
    let Action::Stage(step, _) = action else {
        return;
    };
    if wide <= 0.0 {
        return;
    }
    let w = (wide - 0.6).max(0.15);
    let path = path_of(paths, OPTIMIZER);
    let _ = write!(path, "M{x:.2} {y:.2}h{w:.2}v{bar:.2}h-{w:.2}z");
    if wide >= size + 2.0 {
        let letter = &step.word()[..1];
        let (at, base) = (x + w / 2.0, y + bar * 0.5 + size * 0.35);
        let _ = write!(
            labels,
            "<text x=\"{at:.2}\" y=\"{base:.2}\" font-size=\"{size:.1}\">{letter}</text>"
        );
    }
}

/// The critical path: its computes outlined, and a line from each to the next.
fn critical(out: &mut String, frame: &Frame, report: &Report) {
    let (mut boxes, mut lines) = (String::new(), String::new());
    let mut before: Option<(f64, f64)> = None;
    for step in &report.timeline.critical_path {
        let Some((rank, _)) = step.place else {
            continue;
        };
        let (x, w) = (
            frame.x(step.interval.start),
            (step.interval.end - step.interval.start) * frame.scale,
        );
        let y = frame.y(rank) + frame.row * 0.04;
        let middle = y + frame.bar / 2.0;
        let _ = write!(boxes, "M{x:.2} {y:.2}h{w:.2}v{:.2}h-{w:.2}z", frame.bar);
        if let Some((bx, by)) = before
            && by != middle
        {
            let _ = write!(lines, "M{bx:.2} {by:.2}L{x:.2} {middle:.2}");
        }
        before = Some((x + w, middle));
    }
    let width = (frame.row * 0.022).clamp(0.35, 1.1);
    let _ = writeln!(
        out,
        "<g fill=\"none\" stroke=\"#1b1b1b\" stroke-width=\"{width:.2}\"><title>critical path</title><path d=\"{boxes}\"/><path d=\"{lines}\" stroke-dasharray=\"3 2\"/></g>"
    );
}

fn curve(
    out: &mut String,
    frame: &Frame,
    schedule: &Schedule,
    report: &Report,
    drawing: &Drawing<'_>,
    (r, most): (usize, f64),
) {
    let base = frame.y(r) + frame.row * 0.96;
    let high = |held: f64| {
        base - if most > 0.0 {
            held / most * frame.curve * 0.94
        } else {
            0.0
        }
    };
    let list = &schedule.ranks()[r];
    let held = memory_curve(list, drawing.memory);
    let mut path = String::new();
    let mut end = LEFT;
    for ((action, interval), held) in list.iter().zip(&report.timeline.computes[r]).zip(&held) {
        let (Some(t), true) = (
            interval,
            matches!(action, Action::Compute(_) | Action::Overlap(_)),
        ) else {
            continue;
        };
        let _ = if path.is_empty() {
            write!(path, "M{:.2} {base:.2}", frame.x(t.start))
        } else {
            write!(path, "H{:.2}", frame.x(t.start))
        };
        let _ = write!(
            path,
            "V{:.2}H{:.2}V{:.2}",
            high(held[0]),
            frame.x(t.end),
            high(held[1])
        );
        end = frame.x(t.end);
    }
    if path.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<path d=\"{path}H{end:.2}V{base:.2}z\" fill=\"#dcdcdc\" stroke=\"#9a9a9a\" stroke-width=\"0.6\"/>"
    );
    if let Some(limit) = drawing.limit {
        let y = high(limit.at(r));
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.2}H{:.2}\" stroke=\"#c2504e\" stroke-width=\"0.7\" stroke-dasharray=\"4 3\"/>",
            LEFT + PLOT_WIDTH
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{base:.1}\" font-size=\"{:.1}\" fill=\"#777\">peak {}</text>",
        LEFT + PLOT_WIDTH + 6.0,
        (frame.row * 0.34).clamp(6.5, 11.0),
        short(report.peak[r])
    );
}

fn transfers(out: &mut String, frame: &Frame, schedule: &Schedule, report: &Report) {
    for (direction, colour) in [
        (Direction::Forward, "#c2504e"),
        (Direction::Backward, "#8c6bb1"),
    ] {
        let mut path = String::new();
        for t in report
            .timeline
            .transfers
            .iter()
            .filter(|t| t.direction == direction)
        {
            let (x, wide) = (
                frame.x(t.interval.start),
                (t.interval.end - t.interval.start) * frame.scale,
            );
            for stage in [t.sender, t.receiver] {
                let r = schedule.stage_rank()[stage.index()].index();
                let (y, w) = (frame.y(r) + frame.row * 0.04 + frame.bar, wide.max(0.4));
                let _ = write!(path, "M{x:.2} {y:.2}h{w:.2}v{:.2}h-{w:.2}z", frame.comm);
            }
        }
        if !path.is_empty() {
            let _ = writeln!(out, "<path fill=\"{colour}\" d=\"{path}\"/>");
        }
    }
}
