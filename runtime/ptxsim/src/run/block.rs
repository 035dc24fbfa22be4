//! One block: its warps take turns. A warp's turn lasts until it waits for others or has returned.

use std::collections::HashMap;

use super::barrier::{Barrier, NamedBarrier};
use super::tensor::Load;
use super::warp::{LANES, RETURNED, Surroundings, Warp, each};
use super::{Counters, Delivery, Launch, Outcome};
use crate::finding::{Finding, FindingKind, Place};
use crate::instruction::{Instruction, Operand, Operation};
use crate::memory::{Fault, OpenMemory};
use crate::parse::Kernel;
use crate::shared::Shared;
use crate::tensor_map::TensorMap;

/// Named barriers of a block (PTX ISA, "bar").
const NAMED_BARRIERS: usize = 16;

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
    /// Tensor maps by their place among the parameters.
    pub(super) maps: &'k HashMap<u32, TensorMap>,
    pub(super) named: Vec<NamedBarrier>,
    pub(super) barriers: Vec<Barrier>,
    /// Copies from global to shared memory under way.
    pub(super) loads: Vec<Load>,
    /// Changes so far that others may wait for.
    pub(super) changes: u64,
    /// Registers that `setmaxnreg` has given back and not taken.
    pub(super) free_registers: u32,
    /// Decides the order in which the warps take turns; 0 keeps theirs.
    order: u64,
    findings: Vec<Finding>,
}

/// Which lanes of a warp execute which instruction.
pub(super) struct Step<'k> {
    pub instruction: &'k Instruction,
    pub lanes: u32,
    /// The instruction's number.
    pub place: usize,
}

/// What all blocks of a launch share.
pub(super) struct Shape<'k> {
    pub kernel: &'k Kernel,
    pub launch: &'k Launch,
    pub parameters: &'k [u8],
    pub maps: &'k HashMap<u32, TensorMap>,
}

impl<'k> Block<'k> {
    pub(super) fn new(shape: &Shape<'k>, index: u32) -> Block<'k> {
        let Shape { kernel, launch, .. } = *shape;
        let shared_bytes = kernel
            .static_shared_bytes
            .saturating_add(launch.shared_bytes);
        Block {
            kernel,
            parameters: shape.parameters,
            delivery: launch.delivery,
            around: Surroundings {
                block: index,
                blocks: launch.blocks,
                threads: launch.threads,
            },
            shared: Shared::new(shared_bytes, launch.threads),
            counters: Counters::default(),
            maps: shape.maps,
            named: vec![NamedBarrier::default(); NAMED_BARRIERS],
            barriers: Vec::new(),
            loads: Vec::new(),
            changes: 0,
            free_registers: 0,
            order: launch.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            findings: Vec::new(),
        }
    }

    /// Runs the block to its end, or to a fault that ends it.
    pub(super) fn run(mut self, memory: &OpenMemory) -> Outcome {
        let count = self.around.threads as usize / LANES;
        let mut warps: Vec<Warp> = (0..count as u32)
            .map(|index| Warp::new(index, self.kernel.registers))
            .collect();
        let mut order: Vec<usize> = (0..count).collect();
        while !self.is_over() {
            let before = self.changes;
            let mut returned = 0;
            self.shuffle(&mut order);
            for &index in &order {
                let warp = &mut warps[index];
                if warp.waits_at.is_none() && !warp.has_returned() && !self.is_over() {
                    self.run_warp(warp, memory);
                }
                returned += usize::from(warps[index].has_returned());
            }
            // Everyone may have arrived; those who have returned are not waited for.
            self.settle_named(&mut warps);
            if returned == count {
                break;
            }
            if self.changes == before && !self.is_over() {
                // Nobody can go on: what is under way arrives only now.
                match self.loads.pop() {
                    Some(load) => self.finish_load(memory, &load),
                    None => self.report_deadlock(&warps),
                }
            }
        }
        if !self.is_over() {
            self.finish_stores(&mut warps, memory);
        }
        Outcome {
            findings: self.findings,
            counters: self.counters,
        }
    }

    /// Puts the warps into another order (Fisher and Yates), if that is wanted.
    fn shuffle(&mut self, order: &mut [usize]) {
        if self.order == 0 {
            return;
        }
        for last in (1..order.len()).rev() {
            // Marsaglia's xorshift, 2003.
            self.order ^= self.order << 13;
            self.order ^= self.order >> 7;
            self.order ^= self.order << 17;
            order.swap(last, (self.order % (last as u64 + 1)) as usize);
        }
    }

    fn is_over(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.kind.ends_block())
    }

    /// Runs a warp until all its lanes wait or have returned, or it ends the block.
    ///
    /// Lanes that part go on by themselves, those with the lowest place first. What a whole warp must execute together
    /// makes those who reach it wait for the others.
    fn run_warp(&mut self, warp: &mut Warp, memory: &OpenMemory) {
        let kernel = self.kernel;
        warp.asks_again = None;
        warp.asking = 0;
        let mut meeting = 0u32;
        while warp.waits_at.is_none() && !self.is_over() {
            let live = lanes_where(|lane| warp.places[lane] != RETURNED);
            let free = live & !(meeting | warp.asking);
            let Some(place) = each(free).map(|lane| warp.places[lane]).min() else {
                if warp.asking == 0 && meeting != 0 {
                    self.report_parted(warp, meeting);
                }
                return;
            };
            let here = lanes_where(|lane| warp.places[lane] == place) & !warp.asking;
            let Some(instruction) = kernel.instructions.get(place) else {
                // Beyond the last instruction a kernel returns.
                for lane in each(here) {
                    warp.places[lane] = RETURNED;
                }
                continue;
            };
            if instruction.operation.is_collective() && here != live {
                meeting |= here;
                continue;
            }
            meeting &= !here;
            self.counters.warp_instructions += 1;
            let lanes = here & self.guard(warp, instruction, here);
            for lane in each(here) {
                warp.places[lane] = place + 1;
            }
            let step = Step {
                instruction,
                lanes,
                place,
            };
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

    /// Lanes wait for each other at different instructions.
    fn report_parted(&mut self, warp: &Warp, meeting: u32) {
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

    /// The lanes that a guard lets pass.
    fn guard(&mut self, warp: &Warp, instruction: &Instruction, here: u32) -> u32 {
        let Some((register, negated)) = instruction.guard else {
            return here;
        };
        let (values, defined) = warp.values(&Operand::Register(register), self.around);
        self.check_defined(warp, instruction, here & !defined);
        lanes_where(|lane| (values[lane] & 1 == 1) != negated)
    }

    fn step(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
        let Step {
            instruction, lanes, ..
        } = *step;
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
        if warp.products.are_under_way() {
            self.check_busy(warp, step);
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
            Operation::BlockBarrier | Operation::ArriveAtBarrier => self.arrive_named(warp, step),
            Operation::WarpBarrier => warp.synchronise(),
            Operation::Hint => {}
            Operation::InitialiseBarrier
            | Operation::Arrive
            | Operation::Expect { .. }
            | Operation::TryWait
            | Operation::FenceBarriers => self.use_barrier(warp, step),
            Operation::FenceProxy => warp.fence(lanes),
            Operation::LoadTensor { .. }
            | Operation::StoreTensor { .. }
            | Operation::CommitBulk
            | Operation::WaitBulk { .. } => self.copy_tensor(warp, memory, step),
            Operation::FenceProducts => warp.touched.fill(false),
            Operation::MultiplyGroup { element, columns } => {
                self.start_product(warp, step, (element, columns.into()));
            }
            Operation::CommitProducts => warp.products.commit(),
            Operation::WaitProducts => self.await_products(warp, step),
            Operation::SetRegisters { increases } => self.set_registers(warp, step, increases),
            Operation::Load(..) | Operation::Store(..) => self.access(warp, memory, step),
            Operation::CopyAsync
            | Operation::CommitCopies
            | Operation::WaitCopies
            | Operation::WaitAllCopies => self.copy(warp, memory, step),
            Operation::LoadMatrix { count, transposed } => {
                self.load_matrix(warp, step, (count, transposed))
            }
            Operation::MultiplyMatrix(element) => self.multiply_matrix(warp, step, element),
            Operation::MultiplyTf32 => self.multiply_tf32(warp, step),
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

    /// `setmaxnreg`: warps give registers back, or wait until there are enough.
    fn set_registers(&mut self, warp: &mut Warp, step: &Step<'_>, increases: bool) {
        let Operand::Immediate(count) = step.instruction.operands[0] else {
            return;
        };
        let count = count as u32;
        let threads = LANES as u32;
        let Some(now) = warp.allotment.or(self.kernel.registers_at_entry()) else {
            let message = "setmaxnreg in a kernel whose registers at entry are not bounded";
            let fault = (FindingKind::Divergence, message.to_owned());
            return self.report(warp, step.instruction, 0, fault);
        };
        let in_range = (24..=256).contains(&count) && count.is_multiple_of(8);
        if !in_range || (increases && count < now) || (!increases && count > now) {
            let message = format!("setmaxnreg to {count} from {now}");
            let fault = (FindingKind::Divergence, message);
            return self.report(warp, step.instruction, 0, fault);
        }
        if increases {
            let more = (count - now) * threads;
            if more > self.free_registers {
                for lane in each(step.lanes) {
                    warp.places[lane] = step.place;
                }
                let free = self.free_registers;
                let what = format!("{more} registers, of which {free} are free");
                warp.asks_again = Some((step.instruction.line, what));
                warp.asking |= step.lanes;
                return;
            }
            self.free_registers -= more;
        } else {
            self.free_registers += (now - count) * threads;
        }
        warp.allotment = Some(count);
        self.changes += 1;
    }
}

impl Kernel {
    /// Registers that a thread has at the start, if the kernel bounds them: by a number, or by the blocks that shall share
    /// the 65536 of a multiprocessor.
    fn registers_at_entry(&self) -> Option<u32> {
        self.most_registers.or_else(|| {
            let (threads, blocks) = (self.required_threads?, self.resident?);
            let each = 65536 / (threads * blocks).max(1);
            Some((each / 8 * 8).min(255))
        })
    }
}

pub(super) fn lanes_where(holds: impl Fn(usize) -> bool) -> u32 {
    (0..LANES)
        .filter(|&lane| holds(lane))
        .fold(0, |lanes, lane| lanes | 1 << lane)
}
