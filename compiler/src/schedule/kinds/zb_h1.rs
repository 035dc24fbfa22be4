//! ZB-H1 (Qi et al. 2023, figure 2): 1F1B's order, with rank r holding r weight gradients back, so that every rank holds
//! p activations. Idle (p−1)(I + max(F−W, 0)) for m ≥ p, peak min(m, p).

use super::{Shape, Steps};
use crate::schedule::action::{Action, Compute};

/// The list of one rank.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    held_back(shape, rank, shape.ranks - rank, rank)
}

/// One forward, one input gradient, with `warm_up` forwards first and `held` weight gradients held back while there are
/// forwards to run.
pub(super) fn held_back(shape: Shape, rank: u32, warm_up: u32, held: u32) -> Vec<Action> {
    let m = shape.microbatches;
    let mut steps = Steps::default();
    let mut pending = 0;
    for j in 0..m + warm_up {
        if j >= warm_up {
            steps.next(Compute::InputGrad, rank);
            pending += 1;
            if pending > held {
                steps.next(Compute::WeightGrad, rank);
                pending -= 1;
            }
        }
        if j < m {
            steps.next(Compute::Forward, rank);
        }
    }
    for _ in 0..pending {
        steps.next(Compute::WeightGrad, rank);
    }
    steps.list
}
