//! What is wrong, with the place where it shows.

use super::block::Block;
use super::step::lanes_where;
use super::warp::{LANES, Warp, each};
use crate::finding::{Finding, FindingKind, Place};
use crate::instruction::Instruction;
use crate::memory::Fault;

impl Block<'_> {
    /// Lanes wait for each other at different instructions.
    pub(super) fn report_parted(&mut self, warp: &Warp, meeting: u32) {
        let Some(place) = each(meeting).map(|lane| warp.places[lane]).min() else {
            return;
        };
        let here = meeting & lanes_where(|lane| warp.places[lane] == place);
        if let Some(instruction) = self.kernel.instructions.get(place) {
            let message = format!("a whole warp must execute this, but only lanes {here:#010x} do");
            let lane = here.trailing_zeros() as usize;
            self.report(warp, instruction, lane, (FindingKind::Divergence, message));
        }
    }

    /// The line of the instruction that a warp executed last.
    pub(super) fn line_before(&self, warp: &Warp) -> u32 {
        let place = warp.places.iter().copied().min().unwrap_or(0);
        let before = self.kernel.instructions.get(place.wrapping_sub(1));
        before.map_or(0, |instruction| instruction.line)
    }

    pub(super) fn report(
        &mut self,
        warp: &Warp,
        instruction: &Instruction,
        lane: usize,
        fault: Fault,
    ) {
        let (kind, message) = fault;
        let known =
            |finding: &Finding| finding.kind == kind && finding.place.line == instruction.line;
        if self.findings.iter().any(known) {
            return;
        }
        let thread = warp.thread(lane.min(LANES - 1));
        self.add_finding(instruction.line, thread, (kind, message));
    }

    /// Reports a fault that no instruction of a warp is executed for just now.
    pub(super) fn add_finding(&mut self, line: u32, thread: u32, (kind, message): Fault) {
        let known = |finding: &Finding| finding.kind == kind && finding.place.line == line;
        if self.findings.iter().any(known) {
            return;
        }
        self.findings.push(Finding {
            kind,
            place: Place {
                line,
                block: self.around.block,
                thread,
            },
            message,
        });
    }

    /// Everyone waits, and nothing is under way.
    pub(super) fn report_deadlock(&mut self, warps: &[Warp], why: &str) {
        let mut waits: Vec<String> = Vec::new();
        let mut first = None;
        for warp in warps.iter().filter(|warp| !warp.has_returned()) {
            let (line, what) = match (&warp.asks_again, warp.waits_at) {
                (Some((line, what)), _) => (*line, what.clone()),
                (None, Some(name)) => (self.line_before(warp), format!("named barrier {name}")),
                (None, None) => (self.line_before(warp), "nothing".to_owned()),
            };
            first = first.or(Some((line, warp.thread(0), warp.rank)));
            let of = match self.agents.ranks {
                1 => String::new(),
                ranks => format!(" of block {}", self.cluster * ranks + warp.rank),
            };
            waits.push(format!(
                "warp {}{of} waits for {what} (line {line})",
                warp.index
            ));
        }
        let (line, thread, rank) = first.unwrap_or((0, 0, 0));
        for rank in 0..self.agents.ranks {
            self.enter(rank);
            let of = match self.agents.ranks {
                1 => String::new(),
                _ => format!(" of block {}", self.around.block),
            };
            for barrier in &self.barriers {
                waits.push(format!(
                    "the barrier at {}{of} {}",
                    barrier.address(),
                    barrier.state()
                ));
            }
        }
        self.enter(rank);
        if !why.is_empty() {
            waits.push(why.to_owned());
        }
        let fault = (FindingKind::Deadlock, waits.join("; "));
        self.add_finding(line, thread, fault);
    }
}
