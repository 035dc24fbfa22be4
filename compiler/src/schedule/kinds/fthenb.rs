//! FThenB (GPipe): all forwards, then all backwards. Idle (p−1)(F+B), peak m. With several chunks on a rank a forward
//! goes through them breadth first, as in looped BFS, and the backwards take the micro-batches in the same order.

use super::Shape;
use crate::schedule::action::{Action, Compute};

/// The list of one rank.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    let all = |kind, chunk: u32| {
        (0..shape.microbatches).map(move |j| Action::compute(kind, chunk * shape.ranks + rank, j))
    };
    let forwards = (0..shape.chunks).flat_map(|chunk| all(Compute::Forward, chunk));
    let backwards = (0..shape.chunks)
        .rev()
        .flat_map(|chunk| all(Compute::Backward, chunk));
    forwards.chain(backwards).collect()
}
