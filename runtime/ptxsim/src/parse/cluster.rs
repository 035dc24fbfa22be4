//! Names of what blocks of a cluster do with each other (PTX ISA, "barrier.cluster", "mapa", "getctarank").

use crate::instruction::Operation;

/// What an instruction does; `None` if it has nothing to do with clusters, or is not modelled.
pub(super) fn operation(parts: &[&str]) -> Option<Operation> {
    match parts {
        ["barrier", "cluster", "arrive", rest @ ..] => {
            let (releases, rest) = match rest {
                ["release", rest @ ..] => (true, rest),
                ["relaxed", rest @ ..] => (false, rest),
                rest => (true, rest),
            };
            let aligned = is_aligned(rest)?;
            Some(Operation::ArriveAtCluster { releases, aligned })
        }
        ["barrier", "cluster", "wait", rest @ ..] => {
            let rest = match rest {
                ["acquire", rest @ ..] => rest,
                rest => rest,
            };
            let aligned = is_aligned(rest)?;
            Some(Operation::WaitForCluster { aligned })
        }
        ["mapa", "shared::cluster", "u32" | "u64"] | ["mapa", "u64"] => Some(Operation::MapAddress),
        ["getctarank", "shared::cluster", "u32" | "u64"] | ["getctarank", "u64"] => {
            Some(Operation::RankOfAddress)
        }
        _ => None,
    }
}

fn is_aligned(rest: &[&str]) -> Option<bool> {
    match rest {
        [] => Some(false),
        ["aligned"] => Some(true),
        _ => None,
    }
}
