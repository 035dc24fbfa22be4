//! A ring of waits as an SVG picture: the lists of the ranks in it, around the actions that wait, and an arrow from each of
//! them to the one it waits for. Both ends of a transfer are joined by a double line: neither starts without the other.

use std::fmt::Write;

use super::action::Action;
use super::error::Wait;
use super::list::Schedule;
use super::svg::escape;

/// Actions shown before and behind those of the ring.
const AROUND: usize = 2;
/// Actions of a rank shown in one piece at most; what lies between is left out.
const GAP: usize = 3;

const CELL: f64 = 92.0;
const HIGH: f64 = 30.0;
const ROW: f64 = 92.0;
const LEFT: f64 = 84.0;
const TOP: f64 = 86.0;

/// Where an action of a list is drawn.
struct Cell {
    rank: usize,
    /// Place in its list; `None` for the mark of what is left out.
    position: Option<usize>,
    x: f64,
    y: f64,
}

/// Draws the ring.
pub fn write_ring_svg(title: &str, schedule: &Schedule, ring: &[Wait]) -> String {
    let cells = cells(schedule, ring);
    let width = cells
        .iter()
        .map(|c| c.x + CELL)
        .fold(LEFT + 4.0 * CELL, f64::max)
        + 60.0;
    let rows = cells.iter().map(|c| c.y).fold(TOP, f64::max);
    let height = rows + ROW;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"#b3302c\"/></marker></defs>"
    );
    let _ = writeln!(
        out,
        "<text x=\"20\" y=\"28\" font-size=\"17\" font-weight=\"bold\" fill=\"#222\">{}</text>\n<text x=\"20\" y=\"48\" font-size=\"12.5\" fill=\"#555\">deadlock: each marked action waits for the one its arrow points to; a list runs from left to right</text>",
        escape(title)
    );
    lists(&mut out, schedule, ring, &cells);
    arrows(&mut out, ring, &cells);
    out.push_str("</svg>\n");
    out
}

/// The cells of every rank in the ring.
fn cells(schedule: &Schedule, ring: &[Wait]) -> Vec<Cell> {
    let mut wanted: std::collections::BTreeMap<usize, std::collections::BTreeSet<usize>> =
        std::collections::BTreeMap::new();
    for place in ring.iter().flat_map(|wait| &wait.places) {
        let rank = place.rank.index();
        let length = schedule.ranks().get(rank).map_or(0, Vec::len);
        let (from, to) = (
            place.position.saturating_sub(AROUND),
            (place.position + AROUND + 1).min(length),
        );
        wanted.entry(rank).or_default().extend(from..to);
    }
    let mut cells = Vec::new();
    for (row, (rank, positions)) in wanted.into_iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        let mut x = LEFT;
        let mut next = 0;
        for position in positions {
            if position > next + GAP || (position > next && next == 0) {
                cells.push(Cell {
                    rank,
                    position: None,
                    x,
                    y,
                });
                x += CELL / 2.0;
            } else {
                for between in next..position {
                    cells.push(Cell {
                        rank,
                        position: Some(between),
                        x,
                        y,
                    });
                    x += CELL;
                }
            }
            cells.push(Cell {
                rank,
                position: Some(position),
                x,
                y,
            });
            x += CELL;
            next = position + 1;
        }
    }
    cells
}

fn lists(out: &mut String, schedule: &Schedule, ring: &[Wait], cells: &[Cell]) {
    let mut named = None;
    for cell in cells {
        if named != Some(cell.rank) {
            named = Some(cell.rank);
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"13\" fill=\"#333\" text-anchor=\"end\">rank {}</text>",
                LEFT - 12.0,
                cell.y + HIGH * 0.65,
                cell.rank
            );
        }
        let Some(position) = cell.position else {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"15\" fill=\"#888\" text-anchor=\"middle\">…</text>",
                cell.x + CELL / 4.0,
                cell.y + HIGH * 0.65
            );
            continue;
        };
        let action = &schedule.ranks()[cell.rank][position];
        let in_ring = ring
            .iter()
            .flat_map(|wait| &wait.places)
            .any(|p| p.rank.index() == cell.rank && p.position == position);
        let (edge, wide) = if in_ring {
            ("#b3302c", 2.0)
        } else {
            ("#b5b5b5", 0.8)
        };
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{HIGH}\" rx=\"3\" fill=\"{}\" stroke=\"{edge}\" stroke-width=\"{wide}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"#10202e\" text-anchor=\"middle\">{}</text>",
            cell.x,
            cell.y,
            CELL - 8.0,
            fill(action),
            cell.x + (CELL - 8.0) / 2.0,
            cell.y + HIGH * 0.64,
            escape(&action.to_string())
        );
    }
}

fn fill(action: &Action) -> &'static str {
    match action {
        Action::Compute(_) | Action::Overlap(_) => "#cfe0f3",
        Action::Send(_) | Action::Recv(_) | Action::WaitSend(_) => "#f7ddd3",
        Action::Stage(..) => "#e6e6e6",
    }
}

/// From each link to the one before it: where both stand on one rank, back along its list.
fn arrows(out: &mut String, ring: &[Wait], cells: &[Cell]) {
    let spots = |wait: &Wait| -> Vec<(usize, f64, f64)> {
        let find = |rank: usize, position: usize| {
            cells
                .iter()
                .find(|c| c.rank == rank && c.position == Some(position))
        };
        wait.places
            .iter()
            .filter_map(|p| find(p.rank.index(), p.position))
            .map(|c| (c.rank, c.x + (CELL - 8.0) / 2.0, c.y))
            .collect()
    };
    for (i, wait) in ring.iter().enumerate() {
        let own = spots(wait);
        if let [a, b] = own[..] {
            let (top, bottom) = if a.2 < b.2 { (a, b) } else { (b, a) };
            for shift in [-2.0, 2.0] {
                let _ = writeln!(
                    out,
                    "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#8c6bb1\" stroke-width=\"1.3\"/>",
                    top.1 + shift,
                    top.2 + HIGH,
                    bottom.1 + shift,
                    bottom.2
                );
            }
        }
        let other = spots(&ring[(i + ring.len() - 1) % ring.len()]);
        let pair = own
            .iter()
            .flat_map(|a| other.iter().map(move |b| (a, b)))
            .min_by_key(|(a, b)| (a.0 != b.0, a.1 < b.1));
        let Some((from, to)) = pair else { continue };
        let path = if from.0 == to.0 {
            // Over the list, so that it does not cross the actions between.
            let y = from.2 - 2.0;
            let bow = y - 24.0;
            format!(
                "M{:.1} {y:.1}C{:.1} {bow:.1} {:.1} {bow:.1} {:.1} {y:.1}",
                from.1, from.1, to.1, to.1
            )
        } else if from.2 < to.2 {
            format!(
                "M{:.1} {:.1}L{:.1} {:.1}",
                from.1,
                from.2 + HIGH,
                to.1,
                to.2 - 2.0
            )
        } else {
            format!(
                "M{:.1} {:.1}L{:.1} {:.1}",
                from.1,
                from.2,
                to.1,
                to.2 + HIGH + 2.0
            )
        };
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#b3302c\" stroke-width=\"1.5\" marker-end=\"url(#arrow)\"/>"
        );
    }
}
