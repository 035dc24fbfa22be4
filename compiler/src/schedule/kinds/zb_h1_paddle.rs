//! ZB-H1 exactly as PaddlePaddle 3.0 emits it, for comparison and for running its job lists: rank r splits its first r
//! backwards and its last one, and runs the r weight gradients at the very end. Two units longer than the paper's at
//! p = 4, six at p = 8.

use super::Shape;
use crate::schedule::action::{Action, Compute};

/// The list of one rank. Paddle refuses m < p; here the pattern is cut to the micro-batches there are.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    let m = shape.microbatches;
    let warm_up = (shape.ranks - rank).min(m);
    let split = rank.min(m);
    let step = |kind, j| Action::compute(kind, rank, j);
    let mut list: Vec<Action> = (0..warm_up).map(|j| step(Compute::Forward, j)).collect();
    for j in 0..m {
        let last_is_split = j + 1 == m && rank > 0;
        if j < split || last_is_split {
            list.push(step(Compute::InputGrad, j));
            if j >= split {
                list.push(step(Compute::WeightGrad, j));
            }
        } else {
            list.push(step(Compute::Backward, j));
        }
        if warm_up + j < m {
            list.push(step(Compute::Forward, warm_up + j));
        }
    }
    list.extend((0..split).map(|j| step(Compute::WeightGrad, j)));
    list
}
