//! One block: its warps take turns between barriers.

use super::warp::{LANES, RETURNED, Surroundings, Warp, each};
use super::{Counters, Delivery, Launch, Outcome};
use crate::finding::{Finding, FindingKind, Place};
use crate::instruction::{Instruction, Operand, Operation};
use crate::memory::{Fault, Memory};
use crate::parse::Kernel;
use crate::shared::{Shared, User};

/// Instructions after which a warp counts as running without end.
const PATIENCE: u64 = 1 << 32;

/// One block.
pub(super) struct Block<'k> {
    kernel: &'k Kernel,
    pub(super) parameters: &'k [u8],
    pub(super) delivery: Delivery,
    pub(super) around: Surroundings,
    pub(super) shared: Shared,
    pub(super) counters: Counters,
    /// `bar.sync` so far.
    rounds: u32,
    findings: Vec<Finding>,
}

/// Which lanes of a warp execute which instruction.
pub(super) struct Step<'k> {
    pub instruction: &'k Instruction,
    pub lanes: u32,
}

impl<'k> Block<'k> {
    pub(super) fn new(
        kernel: &'k Kernel,
        launch: &Launch,
        parameters: &'k [u8],
        index: u32,
    ) -> Block<'k> {
        Block {
            kernel,
            parameters,
            delivery: launch.delivery,
            around: Surroundings {
                block: index,
                blocks: launch.blocks,
                threads: launch.threads,
            },
            shared: Shared::new(
                kernel
                    .static_shared_bytes
                    .saturating_add(launch.shared_bytes),
            ),
            counters: Counters::default(),
            rounds: 0,
            findings: Vec::new(),
        }
    }

    /// Runs the block to its end, or to a fault that ends it.
    pub(super) fn run(mut self, memory: &mut Memory, outcome: &mut Outcome) {
        let warps = self.around.threads / LANES as u32;
        let mut warps: Vec<Warp> = (0..warps)
            .map(|index| Warp::new(index, self.kernel.registers))
            .collect();
        while !self.is_over() && warps.iter().any(|warp| !warp.has_returned()) {
            for warp in &mut warps {
                if !self.is_over() && !warp.waits_at_barrier && !warp.has_returned() {
                    self.run_warp(warp, memory);
                }
            }
            // Everyone is at the barrier, or has returned, which also lets the others pass.
            for warp in &mut warps {
                warp.waits_at_barrier = false;
            }
            self.rounds += 1;
        }
        outcome.counters += self.counters;
        for finding in self.findings {
            let known = |other: &Finding| {
                other.kind == finding.kind && other.place.line == finding.place.line
            };
            if !outcome.findings.iter().any(known) {
                outcome.findings.push(finding);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.kind.ends_block())
    }

    /// Runs a warp until it waits at a barrier, returns, or ends the block.
    fn run_warp(&mut self, warp: &mut Warp, memory: &mut Memory) {
        let kernel = self.kernel;
        while !warp.waits_at_barrier && !self.is_over() {
            let place = warp.places.iter().copied().min().unwrap_or(RETURNED);
            if place == RETURNED {
                return;
            }
            let here = lanes_where(|lane| warp.places[lane] == place);
            let Some(instruction) = kernel.instructions.get(place) else {
                // Beyond the last instruction a kernel returns.
                for lane in each(here) {
                    warp.places[lane] = RETURNED;
                }
                continue;
            };
            self.counters.warp_instructions += 1;
            let lanes = here & self.guard(warp, instruction, here);
            for lane in each(here) {
                warp.places[lane] = place + 1;
            }
            let step = Step { instruction, lanes };
            self.step(warp, memory, &step);
            if self.counters.warp_instructions > PATIENCE {
                let fault = (
                    FindingKind::Deadlock,
                    "the kernel does not come to an end".to_owned(),
                );
                self.report(warp, instruction, 0, fault);
            }
        }
    }

    /// The lanes that a guard lets pass.
    fn guard(&mut self, warp: &Warp, instruction: &Instruction, here: u32) -> u32 {
        let Some((register, negated)) = instruction.guard else {
            return here;
        };
        let (values, defined) = warp.values(&Operand::Register(register), self.around);
        self.check_defined(warp, instruction, here & !defined);
        lanes_where(|lane| (values[lane] & 1 == 1) != negated)
    }

    fn step(&mut self, warp: &mut Warp, memory: &mut Memory, step: &Step<'_>) {
        let Step { instruction, lanes } = *step;
        if instruction.operation.is_collective() && lanes != u32::MAX {
            let message =
                format!("a whole warp must execute this, but only lanes {lanes:#010x} do");
            self.report(
                warp,
                instruction,
                lanes.trailing_zeros() as usize,
                (FindingKind::Divergence, message),
            );
            return;
        }
        match instruction.operation {
            Operation::Branch => {
                if let Operand::Label(target) = instruction.operands[0] {
                    for lane in each(lanes) {
                        warp.places[lane] = target;
                    }
                }
            }
            Operation::Return => {
                for lane in each(lanes) {
                    warp.places[lane] = RETURNED;
                }
            }
            Operation::BlockBarrier => warp.waits_at_barrier = true,
            Operation::WarpBarrier => warp.rounds += 1,
            Operation::Load(..) | Operation::Store(..) => self.access(warp, memory, step),
            Operation::CopyAsync
            | Operation::CommitCopies
            | Operation::WaitCopies
            | Operation::WaitAllCopies => self.copy(warp, memory, step),
            Operation::LoadMatrix { count, transposed } => {
                self.load_matrix(warp, step, (count, transposed))
            }
            Operation::MultiplyMatrix(element) => self.multiply_matrix(warp, step, element),
            _ => self.compute(warp, step),
        }
    }

    /// The values of an operand; lanes that have none are reported, and get what happens to be there.
    pub(super) fn read(&mut self, warp: &Warp, step: &Step<'_>, operand: &Operand) -> [u64; LANES] {
        let (values, defined) = warp.values(operand, self.around);
        self.check_defined(warp, step.instruction, step.lanes & !defined);
        values
    }

    fn check_defined(&mut self, warp: &Warp, instruction: &Instruction, missing: u32) {
        if missing != 0 {
            let fault = (
                FindingKind::Uninitialised,
                "a register is used that has no value".to_owned(),
            );
            self.report(warp, instruction, missing.trailing_zeros() as usize, fault);
        }
    }

    /// Who a lane is to shared memory.
    pub(super) fn user(&self, warp: &Warp, lane: usize) -> User {
        User {
            thread: warp.thread(lane),
            block_round: self.rounds,
            warp_round: warp.rounds,
        }
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
        let place = Place {
            line: instruction.line,
            block: self.around.block,
            thread: warp.thread(lane.min(LANES - 1)),
        };
        self.findings.push(Finding {
            kind,
            place,
            message,
        });
    }
}

pub(super) fn lanes_where(holds: impl Fn(usize) -> bool) -> u32 {
    (0..LANES)
        .filter(|&lane| holds(lane))
        .fold(0, |lanes, lane| lanes | 1 << lane)
}
