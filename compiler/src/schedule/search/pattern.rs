//! Steady patterns: when each step of one micro-batch runs if a new one enters every period.
//!
//! Modulo scheduling, as compilers pipeline loops: the steps of a micro-batch are placed one after another along its
//! way up and down the stages, each at the first moment from which its rank is free in every period. A step may be
//! put off to a later gap by chance, so that one period has many patterns. The sum of the lifetimes over the period is
//! the memory of the steady state.

use super::problem::{F, I, Problem};

/// A small fast generator of random numbers (SplitMix64); the same seed gives the same schedule.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Start of every forward and input gradient of micro-batch 0.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub period: f64,
    pub forward: Vec<f64>,
    pub input: Vec<f64>,
}

impl Pattern {
    /// Places one micro-batch at a period; `delay` is the chance with which a step is put off, `extra` the time by which a
    /// step is put off beyond its arrival on each chunk's way up and way down.
    pub fn place(
        p: &Problem,
        period: f64,
        delay: f64,
        extra: &[[f64; 2]],
        random: &mut Random,
    ) -> Pattern {
        let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); p.ranks];
        let mut forward = vec![0.0; p.stages];
        let mut input = vec![0.0; p.stages];
        let mut at = 0.0;
        for s in 0..p.stages {
            let chunk = (s / p.ranks).min(extra.len() - 1);
            if s > 0 {
                at += extra[chunk][0];
            }
            let start = slot(
                &mut taken[p.rank_of[s] as usize],
                at,
                p.mean[F][s],
                period,
                delay,
                random,
            );
            forward[s] = start;
            at = start + p.mean[F][s] + p.hop.get(s).copied().unwrap_or(0.0);
        }
        for s in (0..p.stages).rev() {
            let chunk = (s / p.ranks).min(extra.len() - 1);
            at += extra[chunk][1];
            let start = slot(
                &mut taken[p.rank_of[s] as usize],
                at,
                p.mean[I][s],
                period,
                delay,
                random,
            );
            input[s] = start;
            at = start + p.mean[I][s] + if s > 0 { p.hop[s - 1] } else { 0.0 };
        }
        Pattern {
            period,
            forward,
            input,
        }
    }

    /// Activations each rank holds in the steady state, and of them the largest share of its limit.
    pub fn load(&self, p: &Problem) -> f64 {
        let mut worst: f64 = 0.0;
        for (r, mine) in p.stages_of.iter().enumerate() {
            let held: f64 = mine
                .iter()
                .map(|s| *s as usize)
                .map(|s| p.act[s] * (self.input[s] + p.mean[I][s] - self.forward[s]) / self.period)
                .sum();
            worst = worst.max(held / p.limit[r]);
        }
        worst
    }

    /// The start of every forward and input gradient.
    pub fn table(&self, p: &Problem) -> Vec<f64> {
        let mut table = vec![0.0; p.steps()];
        for s in 0..p.stages {
            for j in 0..p.m {
                let enters = j as f64 * self.period;
                table[p.op(F, s, j)] = self.forward[s] + enters;
                if p.kinds > 1 {
                    table[p.op(I, s, j)] = self.input[s] + enters;
                }
            }
        }
        table
    }
}

/// The first start from `from` on at which a step of this length meets nothing taken, in any period.
fn slot(
    taken: &mut Vec<(f64, f64)>,
    from: f64,
    length: f64,
    period: f64,
    delay: f64,
    random: &mut Random,
) -> f64 {
    let slack = period * 1e-9;
    let mut skip = usize::from(delay > 0.0 && random.unit() < delay);
    let mut at = from;
    for _ in 0..2 * taken.len() + 4 {
        let phase = at.rem_euclid(period);
        let hit = taken.iter().find(|(begin, size)| {
            let gap = (begin - phase).rem_euclid(period);
            let gap = if gap > period - slack { 0.0 } else { gap };
            gap < length - slack || (phase - begin).rem_euclid(period) < size - slack
        });
        match hit {
            Some((begin, size)) => {
                let to_end = (begin + size - phase).rem_euclid(period);
                at += if to_end < slack { period } else { to_end };
            }
            None if skip > 0 => {
                skip -= 1;
                at += length;
            }
            None => break,
        }
    }
    taken.push((at.rem_euclid(period), length));
    at
}
