//! How much activation memory each rank holds. The order of its list decides: a rank runs one action at a time.

use super::action::{Action, Compute};
use super::check::Complete;
use super::cost::Memory;

/// What a list holds after each of its actions has started and after it has ended, in the unit of [`Memory`].
pub fn memory_curve(actions: &[Action], memory: &Memory) -> Vec<[f64; 2]> {
    let mut held = 0.0;
    let mut curve = Vec::with_capacity(actions.len());
    for action in actions {
        for op in action.ops().iter().filter(|op| op.kind == Compute::Forward) {
            held += memory.activation.at(op.stage.index());
        }
        let during = held;
        for op in action.ops() {
            let s = op.stage.index();
            held -= match op.kind {
                Compute::Forward => 0.0,
                Compute::InputGrad => memory.activation.at(s) - memory.held_for_weights.at(s),
                Compute::WeightGrad => memory.held_for_weights.at(s),
                Compute::Backward => memory.activation.at(s),
            };
        }
        curve.push([during, held]);
    }
    curve
}

/// The most each rank ever holds.
pub fn peak_memory(complete: Complete<'_>, memory: &Memory) -> Vec<f64> {
    let peak = |actions: &Vec<Action>| {
        memory_curve(actions, memory)
            .into_iter()
            .flatten()
            .fold(0.0, f64::max)
    };
    complete.schedule().ranks().iter().map(peak).collect()
}
