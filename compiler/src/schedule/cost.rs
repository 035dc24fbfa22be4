//! What steps cost in time and in memory.

use super::action::{Action, Compute, Op, StageId, StageStep};
use super::error::ScheduleError;

/// One number for all, or one for each.
#[derive(Clone, Debug, PartialEq)]
pub enum PerIndex {
    /// The same everywhere.
    Same(f64),
    /// One per index.
    Each(Vec<f64>),
}

impl PerIndex {
    /// The value at an index; an index past the end has the last value.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            PerIndex::Same(value) => *value,
            PerIndex::Each(values) => values.get(index).or(values.last()).copied().unwrap_or(0.0),
        }
    }

    fn values(&self) -> &[f64] {
        match self {
            PerIndex::Same(value) => std::slice::from_ref(value),
            PerIndex::Each(values) => values,
        }
    }

    /// Checks the count and the sign of the values.
    ///
    /// # Errors
    /// A count that is neither one nor `count`, or a value that is negative or not finite.
    pub fn validate(&self, what: &'static str, count: usize) -> Result<(), ScheduleError> {
        if let PerIndex::Each(values) = self
            && values.len() != count
        {
            return Err(ScheduleError::CostCount {
                what,
                given: values.len(),
                wanted: count,
            });
        }
        match self.values().iter().find(|v| !v.is_finite() || **v < 0.0) {
            Some(value) => Err(ScheduleError::CostNegative {
                what,
                value: *value,
            }),
            None => Ok(()),
        }
    }
}

/// Times of steps and transfers, in any one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Forward, per stage.
    pub forward: PerIndex,
    /// Input gradient, per stage.
    pub input_grad: PerIndex,
    /// Weight gradient, per stage.
    pub weight_grad: PerIndex,
    /// Repeating the forward before the backward, per stage; zero where nothing is recomputed.
    pub recompute: PerIndex,
    /// One transfer between stage `s` and `s + 1`, per edge, where they live on different ranks.
    pub transfer: PerIndex,
    /// A factor on every compute step of a micro-batch, per micro-batch.
    pub microbatch: PerIndex,
    /// The optimizer's update of a stage, per stage.
    pub step: PerIndex,
    /// The partial norm and found-inf state from one rank to the next; over all ranks for a barrier.
    pub state: f64,
    /// Comparing the state that a step used with the whole.
    pub validate: f64,
    /// Undoing and repeating a step; zero where validation agrees.
    pub rollback: f64,
    /// How much an overlap group costs beyond its longest part: 1 is the sum of the parts, 0 the longest alone.
    pub overlap: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs::uniform(1.0, 1.0, 1.0, 0.0)
    }
}

impl Costs {
    /// The same costs on every stage.
    pub fn uniform(forward: f64, input_grad: f64, weight_grad: f64, transfer: f64) -> Costs {
        Costs {
            forward: PerIndex::Same(forward),
            input_grad: PerIndex::Same(input_grad),
            weight_grad: PerIndex::Same(weight_grad),
            recompute: PerIndex::Same(0.0),
            transfer: PerIndex::Same(transfer),
            microbatch: PerIndex::Same(1.0),
            step: PerIndex::Same(0.0),
            state: 0.0,
            validate: 0.0,
            rollback: 0.0,
            overlap: 1.0,
        }
    }

    /// Checks counts and signs for a pipeline of `stages` stages and `microbatches` micro-batches.
    ///
    /// # Errors
    /// The first cost that does not fit.
    pub fn validate(&self, stages: usize, microbatches: usize) -> Result<(), ScheduleError> {
        self.forward.validate("f", stages)?;
        self.input_grad.validate("b", stages)?;
        self.weight_grad.validate("w", stages)?;
        self.recompute.validate("recompute", stages)?;
        self.transfer.validate("comm", stages.saturating_sub(1))?;
        self.microbatch.validate("mb", microbatches)?;
        self.step.validate("step", stages)?;
        for (what, value) in [
            ("state", self.state),
            ("validate", self.validate),
            ("rollback", self.rollback),
            ("overlap", self.overlap),
        ] {
            PerIndex::Same(value).validate(what, 1)?;
        }
        Ok(())
    }

    /// Whether the optimizer's steps take any time.
    pub fn times_optimizer(&self) -> bool {
        self.step.values().iter().any(|t| *t > 0.0)
            || [self.state, self.validate, self.rollback]
                .iter()
                .any(|t| *t > 0.0)
    }

    /// The time of one compute step.
    pub fn of_op(&self, op: &Op) -> f64 {
        let s = op.stage.index();
        let base = match op.kind {
            Compute::Forward => self.forward.at(s),
            Compute::InputGrad => self.input_grad.at(s) + self.recompute.at(s),
            Compute::WeightGrad => self.weight_grad.at(s),
            Compute::Backward => {
                self.input_grad.at(s) + self.recompute.at(s) + self.weight_grad.at(s)
            }
        };
        base * self.microbatch.at(op.microbatch.index())
    }

    /// The time of one action on the compute stream; zero for what takes none there.
    pub fn of(&self, action: &Action) -> f64 {
        match action {
            Action::Compute(op) => self.of_op(op),
            Action::Overlap(ops) => {
                let times: Vec<f64> = ops.iter().map(|op| self.of_op(op)).collect();
                let longest = times.iter().copied().fold(0.0, f64::max);
                longest + self.overlap * (times.iter().sum::<f64>() - longest)
            }
            Action::Stage(StageStep::Step, stage) => self.step.at(stage.index()),
            Action::Stage(StageStep::SyncState, _) => self.state,
            Action::Stage(StageStep::Validate, _) => self.validate,
            Action::Stage(StageStep::Rollback, _) => self.rollback,
            _ => 0.0,
        }
    }

    /// The time of a transfer over the edge between stage `lower` and the next.
    pub fn of_edge(&self, lower: StageId) -> f64 {
        self.transfer.at(lower.index())
    }
}

/// What activations occupy, in any one unit. One micro-batch on one stage holds `activation` from the start of its
/// forward to the end of its input gradient; of it, `held_for_weights` stays to the end of its weight gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Per stage.
    pub activation: PerIndex,
    /// Per stage.
    pub held_for_weights: PerIndex,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::uniform(1.0, 1.0)
    }
}

impl Memory {
    /// The same on every stage; `ratio` of the activation stays for the weight gradient.
    pub fn uniform(activation: f64, ratio: f64) -> Memory {
        Memory {
            activation: PerIndex::Same(activation),
            held_for_weights: PerIndex::Same(activation * ratio),
        }
    }

    /// Checks counts and signs, and that a weight gradient holds no more than the whole.
    ///
    /// # Errors
    /// The first number that does not fit.
    pub fn validate(&self, stages: usize) -> Result<(), ScheduleError> {
        self.activation.validate("activation memory", stages)?;
        self.held_for_weights
            .validate("memory held for the weight gradient", stages)
    }
}
