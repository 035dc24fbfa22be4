//! Eager 1F1B: 2(p−r)−1 forwards before the first backward, so that a transfer has a whole step to arrive in. For
//! m ≥ 2p−1 the peak is 2(p−r)−1.

use super::{Shape, interleaved_1f1b, one_f_one_b};
use crate::schedule::action::Action;

/// The list of one rank. Several chunks make it Megatron's interleaved form, whose warm-up is as long.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    if shape.chunks > 1 {
        return interleaved_1f1b::list(shape, rank);
    }
    one_f_one_b::ahead(shape, rank, 2 * (shape.ranks - rank) - 1)
}
