//! ZB-H2 (Qi et al. 2023, figure 3): 2(p−r)−1 forwards first and 2r weight gradients held back, so that every rank holds
//! 2p−1 activations. Idle (p−1)·max(0, F+I−2W) within a rank's span for m ≥ 2p−1.

use super::{Shape, zb_h1};
use crate::schedule::action::Action;

/// The list of one rank.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    zb_h1::held_back(shape, rank, 2 * (shape.ranks - rank) - 1, 2 * rank)
}
