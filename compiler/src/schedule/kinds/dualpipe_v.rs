//! DualPipeV (DeepSeek-AI 2025): two chunks per rank in a V, forwards of one chunk overlapped with backwards of the other.
//! Peak p + ½. The eight phases carry the numbers they have in DeepSeek's implementation.

use std::collections::VecDeque;

use super::{Shape, Steps};
use crate::schedule::action::{Action, Compute, Op};

/// The list of one rank, for m ≥ 2p.
pub fn list(shape: Shape, rank: u32) -> Vec<Action> {
    let (p, m) = (shape.ranks, shape.microbatches);
    let mut v = V {
        steps: Steps::default(),
        first: rank,
        second: 2 * p - 1 - rank,
        weights: VecDeque::new(),
    };
    let after = p - rank - 1;
    for _ in 0..2 * after {
        v.forward(v.first);
    }
    for _ in 0..rank + 1 {
        v.forward(v.first);
        v.forward(v.second);
    }
    for _ in 0..after {
        v.split(v.second);
        v.weight();
        v.forward(v.second);
    }
    for i in 0..m - 2 * p + rank + 1 {
        if i == 0 && rank == p - 1 {
            v.forward(v.first);
            v.backward(v.second);
        } else {
            v.overlap(v.first, v.second);
        }
        v.overlap(v.second, v.first);
    }
    for _ in 0..after {
        v.backward(v.second);
        v.overlap(v.second, v.first);
    }
    let last = rank + 1;
    for i in 0..last {
        let (half, odd) = (last / 2, rank % 2 == 1);
        v.either(v.second, i > half || (i == half && odd));
        v.either(v.first, i >= half);
    }
    for _ in 0..after {
        v.weight();
        v.split(v.first);
    }
    while !v.weights.is_empty() {
        v.weight();
    }
    v.steps.list
}

/// The list of one rank for m < 2p, where the phases do not fit: all forwards, then all backwards, second chunk first.
pub fn short_list(shape: Shape, rank: u32) -> Vec<Action> {
    let (first, second) = (rank, 2 * shape.ranks - 1 - rank);
    let all = |kind, stage| (0..shape.microbatches).map(move |j| Action::compute(kind, stage, j));
    all(Compute::Forward, first)
        .chain(all(Compute::Forward, second))
        .chain(all(Compute::Backward, second))
        .chain(all(Compute::Backward, first))
        .collect()
}

/// A rank's two stages and its weight gradients still to run, oldest first.
struct V {
    steps: Steps,
    first: u32,
    second: u32,
    weights: VecDeque<Op>,
}

impl V {
    fn forward(&mut self, stage: u32) {
        self.steps.next(Compute::Forward, stage);
    }

    fn backward(&mut self, stage: u32) {
        let j = self.next_backward(stage);
        self.steps
            .list
            .push(Action::compute(Compute::Backward, stage, j));
    }

    fn split(&mut self, stage: u32) {
        let j = self.next_backward(stage);
        self.steps
            .list
            .push(Action::compute(Compute::InputGrad, stage, j));
        self.weights
            .push_back(Op::new(Compute::WeightGrad, stage, j));
    }

    fn either(&mut self, stage: u32, split: bool) {
        if split {
            self.split(stage)
        } else {
            self.backward(stage)
        }
    }

    fn weight(&mut self) {
        if let Some(op) = self.weights.pop_front() {
            self.steps.list.push(Action::Compute(op));
        }
    }

    fn overlap(&mut self, forward: u32, backward: u32) {
        let next = self
            .steps
            .next
            .entry((Compute::Forward, forward))
            .or_default();
        let f = Op::new(Compute::Forward, forward, *next);
        *next += 1;
        let b = Op::new(Compute::Backward, backward, self.next_backward(backward));
        self.steps.list.push(Action::Overlap(Box::new([f, b])));
    }

    fn next_backward(&mut self, stage: u32) -> u32 {
        let next = self
            .steps
            .next
            .entry((Compute::Backward, stage))
            .or_default();
        *next += 1;
        *next - 1
    }
}
