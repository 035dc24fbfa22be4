//! What each forward op costs in a micro-batch, together with the backward ops that follow it.

use crate::analysis::cost::{Cost, Rates};
use crate::analysis::stages::Anchors;
use crate::analysis::step::{Role, Step};

/// By position of a forward op: time in microseconds.
pub(super) struct Weights {
    pub time_us: Vec<f64>,
    pub rates: Rates,
}

impl Weights {
    /// Weighs the ops of a step. A forward pass without a backward pass stands for both: its products come back twice.
    pub fn of(step: &Step, rates: &Rates) -> Self {
        let anchors = Anchors::of(step);
        let mut time_us = vec![0.0; step.ops.len()];
        let mut trained = false;
        for at in 0..step.ops.len() {
            let time = rates.time_us(Cost::of(step.module, step.ops[at]));
            match step.roles[at] {
                Role::Forward => time_us[at] += time,
                Role::Backward => {
                    trained = true;
                    if let Some(anchor) = anchors.get(at) {
                        time_us[anchor] += time;
                    }
                }
                Role::Optimizer => {}
            }
        }
        if !trained {
            time_us.iter_mut().for_each(|t| *t *= 3.0);
        }
        Self {
            time_us,
            rates: *rates,
        }
    }
}
