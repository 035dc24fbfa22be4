//! The instructions of tensor memory (PTX ISA, "TensorCore 5th Generation Family Instructions"): their names, and what operands
//! they take.

use crate::instruction::{Fragment, FragmentShape, Operand, TensorMemory};

/// What an instruction does; `None` if it is not modelled. The parts are those after `tcgen05`.
pub(super) fn operation(parts: &[&str]) -> Option<TensorMemory> {
    Some(match parts {
        [
            "alloc",
            "cta_group::1",
            "sync",
            "aligned",
            "shared::cta",
            "b32",
        ] => TensorMemory::Allocate,
        ["dealloc", "cta_group::1", "sync", "aligned", "b32"] => TensorMemory::Deallocate,
        ["relinquish_alloc_permit", "cta_group::1", "sync", "aligned"] => TensorMemory::Relinquish,
        ["fence::before_thread_sync"] => TensorMemory::FenceBefore,
        ["fence::after_thread_sync"] => TensorMemory::FenceAfter,
        ["mma", "cta_group::1", "kind::f16"] => TensorMemory::Multiply,
        // What is kept for the next product changes nothing but speed.
        [
            "mma",
            "cta_group::1",
            "kind::f16",
            "collector::a::discard"
            | "collector::a::fill"
            | "collector::a::use"
            | "collector::a::lastuse",
        ] => TensorMemory::Multiply,
        ["commit", "cta_group::1", "mbarrier::arrive::one", "b64"]
        | [
            "commit",
            "cta_group::1",
            "mbarrier::arrive::one",
            "shared::cluster",
            "b64",
        ] => TensorMemory::Commit,
        ["ld", "sync", "aligned", shape, count, "b32"] => {
            TensorMemory::Load(fragment(shape, count)?)
        }
        ["st", "sync", "aligned", shape, count, "b32"] => {
            TensorMemory::Store(fragment(shape, count)?)
        }
        ["wait::ld", "sync", "aligned"] => TensorMemory::WaitForLoads,
        ["wait::st", "sync", "aligned"] => TensorMemory::WaitForStores,
        _ => return None,
    })
}

fn fragment(shape: &str, count: &str) -> Option<Fragment> {
    let (shape, each) = match shape {
        "32x32b" => (FragmentShape::Lanes32, 1),
        "16x128b" => (FragmentShape::Lanes16Bits128, 2),
        "16x256b" => (FragmentShape::Lanes16Bits256, 4),
        _ => return None,
    };
    let count: u8 = count.strip_prefix('x')?.parse().ok()?;
    let registers = each * u32::from(count);
    let exists = count.is_power_of_two() && registers <= 128;
    exists.then_some(Fragment {
        shape,
        registers: registers as u8,
    })
}

/// Looks at the number and the kind of an instruction's operands.
pub(super) fn check(operation: TensorMemory, operands: &[Operand]) -> Result<(), String> {
    let expected = match operation {
        TensorMemory::Relinquish
        | TensorMemory::FenceBefore
        | TensorMemory::FenceAfter
        | TensorMemory::WaitForLoads
        | TensorMemory::WaitForStores => 0,
        TensorMemory::Commit => 1,
        TensorMemory::Allocate
        | TensorMemory::Deallocate
        | TensorMemory::Load(_)
        | TensorMemory::Store(_) => 2,
        TensorMemory::Multiply => 5,
    };
    if operands.len() != expected {
        return Err(format!("{} operands", operands.len()));
    }
    let is_address = |index: usize| matches!(operands[index], Operand::Address(..));
    let is_list = |index: usize, fragment: Fragment| match &operands[index] {
        Operand::Vector(list) => list.len() == usize::from(fragment.registers),
        _ => fragment.registers == 1,
    };
    let fits = match operation {
        TensorMemory::Allocate | TensorMemory::Commit => is_address(0),
        // The other form reads the left operand from tensor memory.
        TensorMemory::Multiply => is_address(0) && !is_address(1),
        TensorMemory::Load(fragment) => is_list(0, fragment) && is_address(1),
        TensorMemory::Store(fragment) => is_address(0) && is_list(1, fragment),
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err("operands that are not modelled".to_owned())
    }
}
