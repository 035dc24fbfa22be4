//! What operands an instruction takes.

use super::tcgen05;
use crate::instruction::{Atomic, Conversion, Operand, Operation};

/// Looks at the number and the kind of an instruction's operands, so that the runner need not.
pub(super) fn check(operation: Operation, operands: &[Operand]) -> Result<(), String> {
    let expected = match operation {
        Operation::Return
        | Operation::CommitCopies
        | Operation::WaitAllCopies
        | Operation::FenceBarriers
        | Operation::FenceProxy
        | Operation::CommitBulk
        | Operation::FenceProducts
        | Operation::ArriveAtCluster { .. }
        | Operation::WaitForCluster { .. }
        | Operation::CommitProducts => 0..=0,
        Operation::RankOfAddress => 2..=2,
        Operation::MapAddress => 3..=3,
        Operation::Branch
        | Operation::WarpBarrier
        | Operation::WaitCopies
        | Operation::Hint
        | Operation::WaitBulk { .. }
        | Operation::WaitProducts
        | Operation::SetRegisters { .. } => 1..=1,
        Operation::BlockBarrier => 1..=2,
        Operation::ArriveAtBarrier
        | Operation::ParameterAddress
        | Operation::InitialiseBarrier
        | Operation::StoreTensor { .. } => 2..=2,
        Operation::Expect { arrives: false } => 2..=2,
        Operation::Arrive => 2..=3,
        Operation::Expect { arrives: true } => 3..=3,
        Operation::LoadTensor {
            multicast: false, ..
        } => 3..=3,
        Operation::LoadTensor {
            multicast: true, ..
        } => 4..=4,
        Operation::TryWait => 3..=4,
        Operation::MultiplyGroup { .. } => 8..=8,
        Operation::Move(_)
        | Operation::Unary(..)
        | Operation::Load(..)
        | Operation::Store(..)
        | Operation::StrongLoad { .. }
        | Operation::StrongStore { .. }
        | Operation::LoadMatrix { .. }
        | Operation::StoreMatrix { .. } => 2..=2,
        Operation::Fence(_) => 0..=0,
        Operation::Atomic {
            operation, returns, ..
        } => {
            let inputs = 1 + usize::from(operation == Atomic::CompareAndSwap);
            let count = 1 + inputs + usize::from(returns);
            count..=count
        }
        Operation::Convert(Conversion::NarrowPair(_)) => 3..=3,
        Operation::Convert(_) => 2..=2,
        Operation::Binary(..) | Operation::Mixed(..) | Operation::Compare(..) => 3..=3,
        Operation::MultiplyAdd(_)
        | Operation::MixedMultiplyAdd(_)
        | Operation::ExtractBits(_)
        | Operation::Select(_)
        | Operation::MultiplyMatrix(_)
        | Operation::MultiplyTf32 => 4..=4,
        Operation::CopyAsync => 3..=4,
        Operation::Exchange => 5..=5,
        Operation::Elect => 2..=2,
        Operation::TensorMemory(_) => 0..=5,
    };
    if !expected.contains(&operands.len()) {
        return Err(format!("{} operands", operands.len()));
    }
    if let Operation::TensorMemory(operation) = operation {
        return tcgen05::check(operation, operands);
    }
    let is_address = |index: usize| matches!(operands[index], Operand::Address(..));
    let is_vector = |index: usize, size: usize| matches!(&operands[index], Operand::Vector(list) if list.len() == size);
    let fits = match operation {
        Operation::Load(..) | Operation::StrongLoad { .. } => is_address(1),
        Operation::Store(..) | Operation::StrongStore { .. } => is_address(0),
        Operation::Atomic { returns, .. } => is_address(returns.into()),
        Operation::CopyAsync => {
            let size = &operands[2];
            let sizes = [4, 8, 16].map(Operand::Immediate);
            is_address(0) && is_address(1) && sizes.contains(size)
        }
        Operation::LoadMatrix { count, .. } => {
            is_address(1) && (is_vector(0, count.into()) || count == 1)
        }
        Operation::MultiplyMatrix(_) | Operation::MultiplyTf32 => {
            is_vector(0, 4) && is_vector(1, 4) && is_vector(2, 2) && is_vector(3, 4)
        }
        Operation::WaitCopies
        | Operation::WaitBulk { .. }
        | Operation::WaitProducts
        | Operation::SetRegisters { .. } => matches!(operands[0], Operand::Immediate(_)),
        Operation::BlockBarrier => {
            matches!(operands[0], Operand::Immediate(0..16))
                && operands.get(1).is_none_or(is_thread_count)
        }
        Operation::ArriveAtBarrier => {
            matches!(operands[0], Operand::Immediate(0..16)) && is_thread_count(&operands[1])
        }
        Operation::InitialiseBarrier | Operation::Expect { arrives: false } => is_address(0),
        Operation::Arrive | Operation::Expect { arrives: true } | Operation::TryWait => {
            is_address(1)
        }
        Operation::LoadTensor { rank, .. } => {
            is_address(0) && is_tensor(&operands[1], rank) && is_address(2)
        }
        Operation::StoreTensor { rank, .. } => is_tensor(&operands[0], rank) && is_address(1),
        Operation::MultiplyGroup { columns, .. } => {
            let signs = [Operand::Immediate(1), Operand::Immediate(u64::MAX)];
            let orders = [Operand::Immediate(0), Operand::Immediate(1)];
            let registers = matches!(&operands[0], Operand::Vector(list)
                if list.iter().all(|one| matches!(one, Operand::Register(_))));
            is_vector(0, usize::from(columns) / 2)
                && registers
                && operands[4..6].iter().all(|sign| signs.contains(sign))
                && operands[6..].iter().all(|order| orders.contains(order))
        }
        Operation::WarpBarrier => {
            matches!(operands[0], Operand::Immediate(mask) if mask as u32 == u32::MAX)
        }
        Operation::Elect => {
            is_vector(0, 2)
                && matches!(operands[1], Operand::Immediate(mask) if mask as u32 == u32::MAX)
        }
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err("operands that are not modelled".to_owned())
    }
}

/// A number of threads that a named barrier can wait for.
fn is_thread_count(operand: &Operand) -> bool {
    matches!(operand, Operand::Immediate(count @ 32..=1024) if count.is_multiple_of(32))
}

fn is_tensor(operand: &Operand, rank: u8) -> bool {
    matches!(operand, Operand::Tensor(_, place) if place.len() == usize::from(rank))
}
