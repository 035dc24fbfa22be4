//! ZB-V (Qi et al. 2023, section 6) for F = I = W: two chunks per rank in a V, the memory of 1F1B, and no bubble from 2p
//! micro-batches on. PyTorch calls it `ZBVZeroBubble`. With other costs it is a good start for the search.

use super::{Shape, Steps};
use crate::schedule::action::{Action, Compute};

/// The list of one rank. It is built for 2p−1 micro-batches or more; those from m on are deleted.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    let p = shape.ranks;
    let m = shape.microbatches.max(2 * p - 1);
    let (first, second) = (rank, 2 * p - 1 - rank);
    let mut steps = Steps::default();
    // Runs a step unless all micro-batches had it; whether it ran.
    let mut run = |kind, stage| {
        let left = steps.next.get(&(kind, stage)).is_none_or(|next| *next < m);
        if left {
            steps.next(kind, stage);
        }
        left
    };
    for _ in 0..2 * (p - rank) - 1 {
        run(Compute::Forward, first);
    }
    for _ in 0..rank {
        run(Compute::Forward, second);
        run(Compute::Forward, first);
    }
    for _ in 0..p - rank {
        run(Compute::Forward, second);
        run(Compute::InputGrad, second);
        run(Compute::WeightGrad, second);
    }
    for _ in p..m {
        run(Compute::Forward, first);
        run(Compute::InputGrad, first);
        run(Compute::WeightGrad, first);
        run(Compute::Forward, second);
        run(Compute::InputGrad, second);
        run(Compute::WeightGrad, second);
    }
    for _ in 0..rank {
        run(Compute::InputGrad, first);
        run(Compute::InputGrad, second);
    }
    for _ in 0..p - rank {
        run(Compute::InputGrad, first);
        run(Compute::WeightGrad, first);
    }
    for stage in [second, first] {
        while run(Compute::WeightGrad, stage) {}
    }
    steps
        .list
        .retain(|action| action.ops()[0].microbatch.0 < shape.microbatches);
    steps.list
}
