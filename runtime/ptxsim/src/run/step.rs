//! One instruction of one warp: which lanes execute it, and who does what it says.

use super::block::Block;
use super::warp::{LANES, RETURNED, Warp, each};
use crate::finding::FindingKind;
use crate::global::OpenMemory;
use crate::instruction::{Instruction, Operand, Operation};

/// Which lanes of a warp execute which instruction.
pub(super) struct Step<'k> {
    pub instruction: &'k Instruction,
    pub lanes: u32,
    /// The instruction's number.
    pub place: usize,
}

impl Block<'_> {
    /// The lanes that a guard lets pass.
    pub(super) fn guard(&mut self, warp: &Warp, instruction: &Instruction, here: u32) -> u32 {
        let Some((register, negated)) = instruction.guard else {
            return here;
        };
        let (values, defined) = warp.values(&Operand::Register(register), self.around);
        self.check_defined(warp, instruction, here & !defined);
        lanes_where(|lane| (values[lane] & 1 == 1) != negated)
    }

    pub(super) fn step(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
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
        if warp.products.are_under_way() || warp.tensor.loads_are_under_way() {
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
            Operation::ArriveAtCluster { releases, .. } => {
                self.arrive_at_cluster(warp, step, releases);
            }
            Operation::WaitForCluster { .. } => self.wait_for_cluster(warp, step),
            Operation::MapAddress | Operation::RankOfAddress => self.map_address(warp, step),
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
            Operation::Elect => elect(warp, step),
            Operation::TensorMemory(operation) => self.use_tensor_memory(warp, step, operation),
            Operation::SetRegisters { increases } => self.set_registers(warp, step, increases),
            Operation::Load(..) | Operation::Store(..) => self.access(warp, memory, step),
            Operation::Atomic { .. }
            | Operation::StrongLoad { .. }
            | Operation::StrongStore { .. }
            | Operation::Fence(_) => self.use_strongly(warp, memory, step),
            Operation::CopyAsync
            | Operation::CommitCopies
            | Operation::WaitCopies
            | Operation::WaitAllCopies => self.copy(warp, memory, step),
            Operation::LoadMatrix { count, transposed } => {
                self.load_matrix(warp, step, (count, transposed))
            }
            Operation::StoreMatrix { count, transposed } => {
                self.store_matrix(warp, step, (count, transposed));
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

    pub(super) fn check_defined(&mut self, warp: &Warp, instruction: &Instruction, missing: u32) {
        if missing != 0 {
            let fault = (
                FindingKind::Uninitialised,
                "a register is used that has no value".to_owned(),
            );
            self.report(warp, instruction, missing.trailing_zeros() as usize, fault);
        }
    }
}

/// `elect.sync`: the first lane of those that take part, always the same.
fn elect(warp: &mut Warp, step: &Step<'_>) {
    let Operand::Vector(results) = &step.instruction.operands[0] else {
        return;
    };
    let leader = step.lanes.trailing_zeros() as usize;
    warp.set(&results[0], step.lanes, &[leader as u64; LANES]);
    let is_leader = std::array::from_fn(|lane| u64::from(lane == leader));
    warp.set(&results[1], step.lanes, &is_leader);
}

pub(super) fn lanes_where(holds: impl Fn(usize) -> bool) -> u32 {
    (0..LANES)
        .filter(|&lane| holds(lane))
        .fold(0, |lanes, lane| lanes | 1 << lane)
}
