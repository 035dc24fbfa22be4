//! Interleaved 1F1B (Narayanan et al. 2021) for any number of micro-batches.
//!
//! Micro-batches go through the chunks in rounds of g. A rank runs (v−1)g + 2(p−1−r) forwards ahead, then one backward
//! for every forward. Whole rounds are built and the micro-batches from m on deleted: a part of a valid order is a valid
//! order, so no number of micro-batches needs a special case. g = max(p, ⌈m / max(1, ⌊m/p⌋)⌉) idles least; g = p holds
//! fewer activations.

use super::Shape;
use crate::schedule::action::{Action, Compute};

/// The round that idles least.
pub fn longest_round(shape: Shape) -> u32 {
    let rounds = (shape.microbatches / shape.ranks).max(1);
    shape.ranks.max(shape.microbatches.div_ceil(rounds))
}

/// The list of one rank.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    let (p, m, v) = (shape.ranks, shape.microbatches, shape.chunks);
    let round = shape.round.unwrap_or_else(|| longest_round(shape)).max(p);
    let rounds = m.div_ceil(round);
    let total = rounds * round * v;
    let warm_up = ((v - 1) * round + 2 * (p - 1 - rank)).min(total);
    // The k-th step of a rank, as (chunk in running order, micro-batch).
    let at = |k: u32| (k / round % v, k / (round * v) * round + k % round);
    let forward = |k: u32| {
        let (chunk, j) = at(k);
        Action::compute(Compute::Forward, chunk * p + rank, j)
    };
    let backward = |k: u32| {
        let (chunk, j) = at(k);
        Action::compute(Compute::Backward, (v - 1 - chunk) * p + rank, j)
    };
    let mut list: Vec<Action> = (0..warm_up).map(forward).collect();
    for k in 0..total - warm_up {
        list.push(forward(warm_up + k));
        list.push(backward(k));
    }
    list.extend((total - warm_up..total).map(backward));
    list.retain(|action| action.ops()[0].microbatch.0 < m);
    list
}
