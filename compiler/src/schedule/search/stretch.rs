//! From few micro-batches to many: the middle of a good short run, repeated.
//!
//! A short run is found first. In its middle one micro-batch follows another at some pace; the long run is made by letting
//! the micro-batches in between follow at that pace, and what came after the middle as it did. Start times give the order.

use super::pool::Pool;
use super::problem::{Clock, F, I, Problem};
use super::seeds;

/// Micro-batches that show start, steady state and end.
pub fn few_microbatches(p: &Problem) -> usize {
    (2 * p.ranks + 2).max(12).min(p.m)
}

/// The same problem with the first `m` micro-batches.
pub fn shortened(p: &Problem, m: usize) -> Problem {
    p.with_microbatches(m)
}

/// Builds long runs from the lists of a short one and offers them to the pool.
pub fn stretched(p: &Problem, small: &Problem, lists: &[Vec<u32>], pool: &mut Pool<'_>) {
    let mut clock = Clock::new(small);
    if pool.done() || clock.run(small, lists).is_none() {
        return;
    }
    let last = small.m - 1;
    // Where the run is steady: behind the warm-up and ahead of the drain.
    for middle in [small.m / 2, small.m * 2 / 5] {
        let (low, high) = (
            middle.saturating_sub(small.m / 6),
            (middle + small.m / 6).min(last),
        );
        if high <= low {
            continue;
        }
        let extra = p.m - small.m;
        let mut table = vec![0.0; p.steps()];
        for kind in [F, I].into_iter().take(p.kinds) {
            // One pace for all stages, or they would drift apart.
            let start = |s: usize, j: usize| {
                let op = small.op(kind, s, j);
                clock.end[op] - small.time[op]
            };
            let pace = (0..p.stages)
                .map(|s| small_pace(&clock, small, s, low, high))
                .sum::<f64>()
                / p.stages as f64;
            for s in 0..p.stages {
                for j in 0..p.m {
                    table[p.op(kind, s, j)] = if j <= middle {
                        start(s, j)
                    } else if j <= middle + extra {
                        start(s, middle) + (j - middle) as f64 * pace
                    } else {
                        start(s, j - extra) + extra as f64 * pace
                    };
                }
            }
        }
        seeds::refill(&table, pool, 3);
        if pool.done() {
            return;
        }
    }
}

/// How fast micro-batches follow each other through stage `s` between two of them.
fn small_pace(clock: &Clock, small: &Problem, s: usize, low: usize, high: usize) -> f64 {
    (clock.end[small.op(F, s, high)] - clock.end[small.op(F, s, low)]) / (high - low) as f64
}
