//! What a state of the exhaustive search cannot beat: the work each rank has left, and the waits that the way of a micro-batch to
//! the last stage and back forces on it.

use super::{Exact, NEVER};
use crate::schedule::search::problem::{F, I, W};

impl Exact<'_> {
    /// Whether no bound puts this state beyond the target.
    pub(super) fn is_promising(&self) -> bool {
        let p = self.p;
        for rank in 0..p.ranks {
            let q = if self.origins == 1 { 0 } else { rank };
            let now = self.now(q, rank);
            if now == NEVER {
                continue;
            }
            if now + self.left[rank] > self.target {
                return false;
            }
            for s in p.stages_of[rank].iter().map(|s| *s as usize) {
                if self.done(I, s) == p.m {
                    continue;
                }
                let wait = self.next_gradient(q, s) - now - self.runnable(rank, s);
                if now + self.left[rank] + wait.max(0.0) > self.target {
                    return false;
                }
                let weight = if p.kinds > 2 {
                    p.time[p.op(W, s, 0)]
                } else {
                    0.0
                };
                if self.last_gradient(q, s) + weight > self.target {
                    return false;
                }
            }
        }
        true
    }

    /// The earliest start of the next input gradient of a stage.
    fn next_gradient(&self, q: usize, s: usize) -> f64 {
        let p = self.p;
        let j = self.done(I, s);
        let mut forward = NEVER;
        for t in 0..p.stages {
            let op = p.op(F, t, j);
            forward = if j < self.done(F, t) {
                self.end(q, op)
            } else {
                let arrives = forward + if t > 0 { p.hop[t - 1] } else { 0.0 };
                arrives.max(self.now(q, p.rank_of[t] as usize)) + p.time[op]
            };
        }
        let mut input = forward;
        for t in (s..p.stages).rev() {
            let op = p.op(I, t, j);
            let arrives = input + if t + 1 < p.stages { p.hop[t] } else { 0.0 };
            let start = arrives.max(self.now(q, p.rank_of[t] as usize));
            if t == s {
                return start;
            }
            input = if j < self.done(I, t) {
                self.end(q, op)
            } else {
                start + p.time[op]
            };
        }
        input
    }

    /// The earliest end of the last input gradient of a stage: every stage behind it has its own to run first.
    fn last_gradient(&self, q: usize, s: usize) -> f64 {
        let p = self.p;
        let mut end = NEVER;
        for t in (s..p.stages).rev() {
            let [f, i] =
                [F, I].map(|kind| (p.m - self.done(kind, t)) as f64 * p.time[p.op(kind, t, 0)]);
            let last = p.op(I, t, p.m - 1);
            let arrives = end + if t + 1 < p.stages { p.hop[t] } else { 0.0 };
            end = if self.done(I, t) == p.m {
                self.end(q, last)
            } else {
                (self.now(q, p.rank_of[t] as usize) + f + i).max(arrives + p.time[last])
            };
        }
        end
    }

    /// The most work a rank can do before the next input gradient of a stage.
    fn runnable(&self, rank: usize, s: usize) -> f64 {
        let p = self.p;
        let mut work = 0.0;
        for t in p.stages_of[rank].iter().map(|t| *t as usize) {
            let forwards = (p.m - self.done(F, t)) as f64;
            let gradients = if t == s {
                0.0
            } else {
                (p.m - self.done(I, t)) as f64
            };
            work += forwards * p.time[p.op(F, t, 0)] + gradients * p.time[p.op(I, t, 0)];
            if p.kinds > 2 {
                let pending = (self.done(I, t) - self.done(W, t)) as f64 + gradients;
                work += pending * p.time[p.op(W, t, 0)];
            }
            // With one stage memory counts the forwards that can run before a gradient has.
            if p.stages_of[rank].len() == 1 && p.act[t] > 0.0 && p.limit[rank].is_finite() {
                let pending = (self.done(I, t) - self.done(W, t)) as f64;
                let freed = if p.kinds > 2 {
                    pending * p.held[t]
                } else {
                    0.0
                };
                let room = (p.limit[rank] - self.held[rank] + freed) / p.act[t] + 1e-9;
                let over = (forwards - room.floor()).max(0.0);
                work -= over * p.time[p.op(F, t, 0)];
            }
        }
        work
    }
}
