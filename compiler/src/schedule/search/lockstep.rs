//! Two chunks per rank in a V, built in lockstep: in every round each rank runs one input gradient and one forward.
//!
//! Start-up first: the first micro-batch goes down and up the V, and every rank fills its wait with forwards of its first chunk
//! as far as its memory allows; then ranks add forwards until each has run as many as the rank before it. From there on ranks
//! take turns, the later step of a micro-batch first where its input is there. A weight gradient runs where it fits before the next step, where
//! memory needs it, or, if the [`Filling`] says so, where the rank would otherwise be idle for longer than any rank has been.
//! The idle time one run ends up with is what the next run allows. This is the greedy of Qi et al., "Pipeline Parallelism with
//! Controllable Memory" (2024), for any costs.

use std::collections::VecDeque;

use super::problem::{F, I, Problem, ROOM, W};

/// Where weight gradients may delay a step.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// Forwards.
    pub forwards: bool,
    /// Input gradients of the second chunk; those of the first always.
    pub gradients: bool,
}

/// Builds one schedule and gives the idle time of every rank with it; `None` where memory does not allow this shape.
/// `allowed` is the idle time of each rank in the run before.
pub fn build(
    p: &Problem,
    filling: Filling,
    allowed: Option<&[f64]>,
) -> Option<(Vec<Vec<u32>>, Vec<f64>)> {
    let mut run = Run {
        p,
        count: vec![[[0; 2]; 2]; p.ranks],
        end: vec![f64::NAN; p.steps()],
        now: vec![0.0; p.ranks],
        held: vec![0.0; p.ranks],
        idle: vec![0.0; p.ranks],
        pending: vec![VecDeque::new(); p.ranks],
        lists: vec![Vec::new(); p.ranks],
        filling,
        allowed,
        widest: allowed.map(|a| a.iter().copied().fold(0.0, f64::max)),
    };
    run.first_microbatch()?;
    run.even_out()?;
    for _ in 0..2 * p.m {
        run.gradients()?;
        run.forwards()?;
    }
    for rank in 0..p.ranks {
        while run.weight(rank) {}
    }
    let all = run.lists.iter().map(Vec::len).sum::<usize>();
    (all == p.steps()).then_some((run.lists, run.idle))
}

/// Whether a problem has the shape this is for.
pub fn suits(p: &Problem) -> bool {
    p.kinds == 3
        && p.stages == 2 * p.ranks
        && (0..p.stages).all(|s| p.rank_of[s] as usize == s.min(p.stages - 1 - s))
}

struct Run<'a> {
    p: &'a Problem,
    /// Steps done, per rank, kind (F, I) and chunk.
    count: Vec<[[usize; 2]; 2]>,
    end: Vec<f64>,
    now: Vec<f64>,
    held: Vec<f64>,
    idle: Vec<f64>,
    /// Weight gradients that can run.
    pending: Vec<VecDeque<u32>>,
    lists: Vec<Vec<u32>>,
    filling: Filling,
    allowed: Option<&'a [f64]>,
    widest: Option<f64>,
}

impl Run<'_> {
    fn stage(&self, rank: usize, chunk: usize) -> usize {
        if chunk == 0 {
            rank
        } else {
            self.p.stages - 1 - rank
        }
    }

    /// The next micro-batch of a kind and chunk on a rank.
    fn next(&self, rank: usize, kind: usize, chunk: usize) -> usize {
        self.count[rank][kind][chunk]
    }

    /// When the input of the next step of this kind and chunk arrives; NaN if it is not computed yet.
    fn arrival(&self, rank: usize, kind: usize, chunk: usize) -> f64 {
        let (s, j) = (self.stage(rank, chunk), self.next(rank, kind, chunk));
        let own = if kind == I {
            self.end[self.p.op(F, s, j)]
        } else {
            0.0
        };
        match self.p.waits_for(kind, s, j) {
            None => own,
            Some((before, _)) if own.is_nan() || self.end[before].is_nan() => f64::NAN,
            Some((before, hop)) => own.max(self.end[before] + hop),
        }
    }

    /// Runs the next step of a kind and chunk; `None` if its input is not there or memory is full.
    fn put(&mut self, rank: usize, kind: usize, chunk: usize) -> Option<()> {
        let p = self.p;
        let (s, j) = (self.stage(rank, chunk), self.next(rank, kind, chunk));
        if j >= p.m {
            return None;
        }
        let arrival = self.arrival(rank, kind, chunk);
        let (before, after) = p.memory_of(kind, s);
        if arrival.is_nan() || self.held[rank] + before > p.limit[rank] + ROOM {
            return None;
        }
        let op = p.op(kind, s, j);
        let start = self.now[rank].max(arrival);
        if !self.lists[rank].is_empty() {
            self.idle[rank] += start - self.now[rank];
        }
        self.now[rank] = start + p.time[op];
        self.end[op] = self.now[rank];
        self.held[rank] += before + after;
        self.count[rank][kind][chunk] += 1;
        self.lists[rank].push(op as u32);
        if kind == I {
            self.pending[rank].push_back(p.op(W, s, j) as u32);
        }
        Some(())
    }

    /// Runs the oldest weight gradient; whether there was one.
    fn weight(&mut self, rank: usize) -> bool {
        let Some(op) = self.pending[rank].pop_front() else {
            return false;
        };
        let (_, s, _) = self.p.parts(op as usize);
        self.now[rank] += self.p.time[op as usize];
        self.end[op as usize] = self.now[rank];
        self.held[rank] += self.p.memory_of(W, s).1;
        self.lists[rank].push(op);
        true
    }

    /// Weight gradients before the next step of this kind and chunk: those that fit, then, if `delay` allows it, one more where
    /// the wait would be longer than the rank can afford.
    fn fill(&mut self, rank: usize, kind: usize, chunk: usize, delay: bool) {
        let arrival = self.arrival(rank, kind, chunk);
        while let Some(op) = self.pending[rank].front()
            && arrival >= self.now[rank] + self.p.time[*op as usize]
        {
            self.weight(rank);
        }
        let most = self.idle.iter().copied().fold(0.0, f64::max);
        let affordable = match (self.allowed, self.widest) {
            (Some(allowed), Some(widest)) => most.max(widest - allowed[rank]),
            _ => most,
        };
        if delay && arrival - self.now[rank] > affordable - self.idle[rank] + 1e-9 {
            self.weight(rank);
        }
    }

    fn first_microbatch(&mut self) -> Option<()> {
        let ranks = self.p.ranks;
        for rank in 0..ranks {
            self.put(rank, F, 0)?;
        }
        for rank in (0..ranks).rev() {
            if rank + 1 < ranks {
                // The rank and those before it run ahead while the micro-batch is on its way; what the V still needs is kept free.
                loop {
                    let (s, j) = (self.stage(rank, 0), self.next(rank, F, 0));
                    let room = self.p.act[s] * (2.0 + 2.0 * rank as f64);
                    let fits = j < self.p.m
                        && self.held[rank] + room <= self.p.limit[rank] + ROOM
                        && self.now[rank] + self.p.time[self.p.op(F, s, j)]
                            <= self.arrival(rank, F, 1);
                    if !fits {
                        break;
                    }
                    for before in 0..=rank {
                        self.put(before, F, 0)?;
                    }
                }
            }
            self.put(rank, F, 1)?;
        }
        Some(())
    }

    /// Forwards until every rank has run as many as the one before it, the chunks in turn.
    fn even_out(&mut self) -> Option<()> {
        let (ranks, m) = (self.p.ranks, self.p.m);
        let mut chunk = 0;
        for rank in 1..ranks {
            loop {
                let [a, b] = [self.count[rank - 1][F], self.count[rank][F]];
                let behind = b[0] + b[1] < a[0] + a[1] || (b[1] <= a[1] && a[1] < m);
                if !behind {
                    break;
                }
                let before: usize = self.lists.iter().map(Vec::len).sum();
                for after in (rank..ranks).rev() {
                    if self.next(after, F, chunk) < m {
                        self.put(after, F, chunk)?;
                    }
                }
                chunk = 1 - chunk;
                let other = (rank..ranks).any(|r| self.next(r, F, chunk) < m);
                if before == self.lists.iter().map(Vec::len).sum::<usize>() && !other {
                    break;
                }
            }
        }
        Some(())
    }

    /// One input gradient on every rank that has one to run.
    fn gradients(&mut self) -> Option<()> {
        let (ranks, m) = (self.p.ranks, self.p.m);
        let mut turns = Vec::with_capacity(ranks);
        let mut second_chunk = Vec::new();
        for rank in 0..ranks {
            let [a, b] = self.count[rank][I];
            if a >= m {
                continue;
            }
            // Gradients come back by way of the second chunk, so it is ahead or level.
            let first =
                a < b && (rank + 1 == ranks || b >= m || !self.arrival(rank, I, 0).is_nan());
            if first {
                turns.push((rank, 0));
            } else {
                second_chunk.push((rank, 1));
            }
        }
        turns.reverse();
        turns.extend(second_chunk);
        for (rank, chunk) in turns {
            self.fill(rank, I, chunk, chunk == 0 || self.filling.gradients);
            self.put(rank, I, chunk)?;
        }
        Some(())
    }

    /// One forward on every rank that has one to run.
    fn forwards(&mut self) -> Option<()> {
        let (ranks, m) = (self.p.ranks, self.p.m);
        for rank in 0..ranks {
            let [a, b] = self.count[rank][F];
            if b >= m {
                continue;
            }
            let chunk = if b >= a {
                0
            } else if rank + 1 == ranks || !self.arrival(rank, F, 1).is_nan() {
                1
            } else if a < m && !self.arrival(rank, F, 0).is_nan() {
                0
            } else {
                continue;
            };
            let act = self.p.act[self.stage(rank, chunk)];
            while self.held[rank] + act > self.p.limit[rank] + ROOM && self.weight(rank) {}
            self.fill(rank, F, chunk, self.filling.forwards);
            self.put(rank, F, chunk)?;
        }
        Some(())
    }
}
