//! Looped BFS (Lamy-Poirier 2022): all forwards of a chunk, then of the next; the backwards undo exactly that order, so
//! the last activation made is the first one freed.

use super::Shape;
use crate::schedule::action::{Action, Compute};

/// The list of one rank.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    let stage = |chunk: u32| chunk * shape.ranks + rank;
    let order =
        (0..shape.chunks).flat_map(|chunk| (0..shape.microbatches).map(move |j| (stage(chunk), j)));
    let forwards = order
        .clone()
        .map(|(s, j)| Action::compute(Compute::Forward, s, j));
    let mut backwards: Vec<Action> = order
        .map(|(s, j)| Action::compute(Compute::Backward, s, j))
        .collect();
    backwards.reverse();
    forwards.chain(backwards).collect()
}
