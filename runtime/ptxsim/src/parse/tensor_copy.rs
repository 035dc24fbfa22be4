//! The names of copies of boxes of tensor maps (PTX ISA, "cp.async.bulk.tensor" and "cp.reduce.async.bulk.tensor").

use crate::instruction::Operation;

/// What such an instruction does; `None` if it is not modelled, or something else.
pub(super) fn operation(parts: &[&str]) -> Option<Operation> {
    let (rank, adds, to, from, rest) = match parts {
        ["cp", "async", "bulk", "tensor", rank, to, from, rest @ ..] => {
            (rank, false, *to, *from, rest)
        }
        [
            "cp",
            "reduce",
            "async",
            "bulk",
            "tensor",
            rank,
            to,
            from,
            "add",
            rest @ ..,
        ] => (rank, true, *to, *from, rest),
        _ => return None,
    };
    let rank = tensor_rank(rank)?;
    // The load mode, which is this one if none is given.
    let rest = rest.strip_prefix(&["tile"]).unwrap_or(rest);
    match (adds, to, from, rest) {
        (false, "shared::cluster" | "shared::cta", "global", ["mbarrier::complete_tx::bytes"]) => {
            Some(Operation::LoadTensor {
                rank,
                multicast: false,
            })
        }
        (
            false,
            "shared::cluster",
            "global",
            ["mbarrier::complete_tx::bytes", "multicast::cluster"],
        ) => Some(Operation::LoadTensor {
            rank,
            multicast: true,
        }),
        (_, "global", "shared::cta", ["bulk_group"]) => Some(Operation::StoreTensor { rank, adds }),
        _ => None,
    }
}

fn tensor_rank(name: &str) -> Option<u8> {
    match name {
        "1d" => Some(1),
        "2d" => Some(2),
        "3d" => Some(3),
        "4d" => Some(4),
        "5d" => Some(5),
        _ => None,
    }
}
