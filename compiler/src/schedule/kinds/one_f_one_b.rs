//! 1F1B (PipeDream-Flush): rank r runs p−r forwards ahead, then one backward for every forward. Idle as FThenB, peak
//! min(m, p−r).

use super::{Shape, Steps, interleaved_1f1b};
use crate::schedule::action::{Action, Compute};

/// The list of one rank. Several chunks make it Megatron's interleaved form.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    if shape.chunks > 1 {
        return interleaved_1f1b::list(shape, rank);
    }
    ahead(shape, rank, shape.ranks - rank)
}

/// One forward, one backward, with `warm_up` forwards before the first backward.
pub(super) fn ahead(shape: Shape, rank: u32, warm_up: u32) -> Vec<Action> {
    let mut steps = Steps::default();
    let warm_up = warm_up.min(shape.microbatches);
    for _ in 0..warm_up {
        steps.next(Compute::Forward, rank);
    }
    for _ in warm_up..shape.microbatches {
        steps.next(Compute::Backward, rank);
        steps.next(Compute::Forward, rank);
    }
    for _ in 0..warm_up {
        steps.next(Compute::Backward, rank);
    }
    steps.list
}
