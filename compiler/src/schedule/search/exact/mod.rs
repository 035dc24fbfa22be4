//! Small problems to the end: is there a schedule shorter than the best one known, or is none possible?
//!
//! Depth first: the rank that is free first takes its next step, every choice in turn; a step whose input is still to be computed
//! may be promised, and then the rank waits for it. A branch ends where a bound says that it cannot get below the target, or
//! where an explored state had done the same steps no later. Micro-batches are alike, so steps of one stage and kind run in their
//! order; a weight gradient that fits in front of a step runs there.
//!
//! For the span, a rank may put its first step off, which moves its clock against the others'. So times are kept as path lengths
//! from the first step of every rank: what is too long on such a path is too long whatever is put off. A complete order that only
//! putting off would make short enough is beyond the lists of this room, and then nothing is claimed to be proven.

mod bounds;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Instant;

use super::problem::{Clock, F, I, NONE, Objective, Problem, ROOM, Score, W};

/// Stages times micro-batches up to which a problem is worth the attempt.
pub const MOST: usize = 32;

/// What came out.
pub struct Outcome {
    /// A shorter schedule than the one given, if one was found.
    pub better: Option<(Vec<Vec<u32>>, Score)>,
    /// Whether nothing shorter in the first objective exists.
    pub proven: bool,
    /// States looked at.
    pub nodes: u64,
}

/// Looks for something shorter than `best` in the first objective, in at most `nodes` states.
pub fn solve(p: &Problem, best: Score, nodes: u64, deadline: Instant) -> Outcome {
    let mut search = Exact::new(p, best, nodes, deadline);
    if search.suits() {
        search.descend();
    } else {
        search.open = true;
    }
    Outcome {
        better: search.better.take(),
        proven: !search.open,
        nodes: nodes - search.nodes,
    }
}

/// A time no later than any: from an origin that does not reach a step.
const NEVER: f64 = f64::NEG_INFINITY;

/// Numbers kept of explored states at most.
const MOST_KEPT: usize = 12_000_000;

/// States kept per set of steps done.
const MOST_TWINS: usize = 24;

struct Exact<'p> {
    p: &'p Problem,
    clock: Clock,
    /// Frames of time: one per rank for the span, one for the makespan.
    origins: usize,
    /// The least that two different results can differ by.
    unit: f64,
    target: f64,
    nodes: u64,
    deadline: Instant,
    /// Something was left unexplored.
    open: bool,
    better: Option<(Vec<Vec<u32>>, Score)>,
    /// Steps done per kind and stage.
    count: Vec<u8>,
    /// The step each rank waits for.
    promise: Vec<u32>,
    end: Vec<f64>,
    now: Vec<f64>,
    held: Vec<f64>,
    /// Work that each rank has left.
    left: Vec<f64>,
    lists: Vec<Vec<u32>>,
    seen: HashMap<Box<[u8]>, Vec<Box<[f64]>>>,
    kept: usize,
}

/// A next step of a rank, in the order in which choices are tried.
#[derive(Clone, Copy)]
struct Choice {
    op: u32,
    /// When it can start in the first frame.
    at: f64,
    promised: bool,
}

impl<'p> Exact<'p> {
    fn new(p: &'p Problem, best: Score, nodes: u64, deadline: Instant) -> Exact<'p> {
        let origins = match p.objective {
            Objective::Span => p.ranks,
            Objective::Makespan => 1,
        };
        let work = |r: &Vec<u32>| r.iter().map(|s| p.work_of(*s as usize)).sum();
        let unit = unit(p);
        Exact {
            p,
            clock: Clock::new(p),
            origins,
            unit,
            target: below(best.first, unit),
            nodes,
            deadline,
            open: false,
            better: None,
            count: vec![0; 3 * p.stages],
            promise: vec![NONE; p.ranks],
            end: vec![NEVER; origins * p.steps()],
            now: vec![NEVER; origins * p.ranks],
            held: vec![0.0; p.ranks],
            left: p.stages_of.iter().map(work).collect(),
            lists: vec![Vec::new(); p.ranks],
            seen: HashMap::new(),
            kept: 0,
        }
    }

    /// Micro-batches must be alike, and every rank's first step must be known: the first forward of its first stage.
    fn suits(&self) -> bool {
        let p = self.p;
        let alike = p
            .time
            .chunks(p.m)
            .all(|row| row.iter().all(|t| *t == row[0]));
        alike && p.m < 256 && p.stages * p.m <= MOST && p.rank_of[0] == 0 && p.kinds > 1
    }

    fn done(&self, kind: usize, s: usize) -> usize {
        self.count[kind * self.p.stages + s] as usize
    }

    fn now(&self, origin: usize, rank: usize) -> f64 {
        self.now[origin * self.p.ranks + rank]
    }

    fn end(&self, origin: usize, op: usize) -> f64 {
        self.end[origin * self.p.steps() + op]
    }

    /// When a step's input from another stage is there, in one frame.
    fn arrival(&self, origin: usize, op: usize) -> f64 {
        match self.p.before[op] {
            NONE => NEVER,
            before => self.end(origin, before as usize) + self.p.lag[op],
        }
    }

    fn is_done(&self, op: usize) -> bool {
        let (kind, s, j) = self.p.parts(op);
        j < self.done(kind, s)
    }

    fn input_is_done(&self, op: usize) -> bool {
        self.p.before[op] == NONE || self.is_done(self.p.before[op] as usize)
    }

    /// Whether a rank has nothing but weight gradients left.
    fn is_over(&self, rank: usize) -> bool {
        self.p.stages_of[rank]
            .iter()
            .all(|s| self.done(I, *s as usize) == self.p.m)
    }

    fn descend(&mut self) {
        if self.nodes == 0 || (self.nodes.is_multiple_of(1024) && Instant::now() > self.deadline) {
            self.open = true;
            return;
        }
        self.nodes -= 1;
        let kept_promise = (0..self.p.ranks)
            .find(|r| self.promise[*r] != NONE && self.input_is_done(self.promise[*r] as usize));
        if let Some(rank) = kept_promise {
            let op = std::mem::replace(&mut self.promise[rank], NONE);
            self.run(rank, op);
            self.promise[rank] = op;
            return;
        }
        if (0..self.p.ranks).all(|r| self.is_over(r)) {
            return self.complete();
        }
        if !self.is_promising() || self.is_known() {
            return;
        }
        let free = (0..self.p.ranks)
            .filter(|r| self.promise[*r] == NONE && !self.is_over(*r))
            .min_by(|a, b| self.now(0, *a).total_cmp(&self.now(0, *b)));
        let Some(rank) = free else {
            return;
        };
        for choice in self.choices(rank) {
            if choice.promised {
                self.promise[rank] = choice.op;
                self.descend();
                self.promise[rank] = NONE;
            } else {
                self.run(rank, choice.op);
            }
            if self.open {
                return;
            }
        }
    }

    /// Runs a step, goes on from there, and takes it back.
    fn run(&mut self, rank: usize, op: u32) {
        let p = self.p;
        let (kind, s, _) = p.parts(op as usize);
        let before: Vec<f64> = (0..self.origins).map(|q| self.now(q, rank)).collect();
        let held = self.held[rank];
        let is_first = self.lists[rank].is_empty();
        let time = p.time[op as usize];
        for (q, now) in before.iter().enumerate() {
            let mut start = now.max(self.arrival(q, op as usize));
            // A frame begins with the first step of its rank; that of the makespan with the first step of all.
            if is_first && (q == rank || (self.origins == 1 && rank == 0)) {
                start = start.max(0.0);
            }
            self.end[q * p.steps() + op as usize] = start + time;
            self.now[q * p.ranks + rank] = start + time;
        }
        let (up, down) = p.memory_of(kind, s);
        self.held[rank] += up + down;
        self.left[rank] -= time;
        self.count[kind * p.stages + s] += 1;
        self.lists[rank].push(op);
        self.descend();
        self.lists[rank].pop();
        self.count[kind * p.stages + s] -= 1;
        self.left[rank] += time;
        self.held[rank] = held;
        for (q, now) in before.iter().enumerate() {
            self.now[q * p.ranks + rank] = *now;
        }
    }

    /// The steps a rank can run or wait for next.
    fn choices(&self, rank: usize) -> Vec<Choice> {
        let p = self.p;
        let weight = self.weight(rank);
        let mut choices = Vec::new();
        for s in p.stages_of[rank].iter().map(|s| *s as usize) {
            for kind in [I, F] {
                let j = self.done(kind, s);
                if j >= p.m || (kind == I && j >= self.done(F, s)) {
                    continue;
                }
                if kind == F && self.held[rank] + p.act[s] > p.limit[rank] + ROOM {
                    continue;
                }
                let op = p.op(kind, s, j);
                let promised = !self.input_is_done(op);
                let source = p.before[op];
                if promised && p.rank_of_op[source as usize] as usize == rank {
                    continue;
                }
                let arrives = |q: usize| {
                    if promised {
                        let source = source as usize;
                        self.now(q, p.rank_of_op[source] as usize) + p.time[source] + p.lag[op]
                    } else {
                        self.arrival(q, op)
                    }
                };
                // A weight gradient that fits in front of it, wherever time is counted from, runs there.
                let fits = |w: u32| {
                    (0..self.origins).all(|q| {
                        let now = self.now(q, rank);
                        now == NEVER || arrives(q) >= now + p.time[w as usize]
                    })
                };
                if weight.first().is_some_and(|w| fits(*w)) {
                    continue;
                }
                let at = self.now(0, rank).max(arrives(0));
                choices.push(Choice {
                    op: op as u32,
                    at,
                    promised,
                });
            }
        }
        choices.sort_by(|a, b| {
            (a.promised, a.at)
                .partial_cmp(&(b.promised, b.at))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let at = self.now(0, rank);
        let first_promise = choices.iter().position(|c| c.promised);
        let after_ready = first_promise.unwrap_or(choices.len());
        for op in weight {
            let choice = Choice {
                op,
                at,
                promised: false,
            };
            choices.insert(after_ready, choice);
        }
        choices
    }

    /// Weight gradients that a rank could run: one of those that are alike.
    fn weight(&self, rank: usize) -> Vec<u32> {
        let p = self.p;
        if p.kinds < 3 {
            return Vec::new();
        }
        let mut found: Vec<u32> = Vec::new();
        for s in p.stages_of[rank].iter().map(|s| *s as usize) {
            let j = self.done(W, s);
            if j >= self.done(I, s) {
                continue;
            }
            let op = p.op(W, s, j);
            let alike = |other: &u32| {
                let (_, t, _) = p.parts(*other as usize);
                p.time[op] == p.time[*other as usize] && p.held[s] == p.held[t]
            };
            if !found.iter().any(alike) {
                found.push(op as u32);
            }
        }
        found
    }

    /// Whether a state with the same steps done, none of them later, has been explored; keeps this one otherwise.
    fn is_known(&mut self) -> bool {
        let p = self.p;
        let mut key = self.count.clone();
        key.extend(self.promise.iter().map(|op| match *op {
            NONE => 0,
            op => {
                let (kind, s, _) = p.parts(op as usize);
                (1 + kind * p.stages + s) as u8
            }
        }));
        let mut times = Vec::with_capacity(self.origins * (p.ranks + 8));
        for q in 0..self.origins {
            times.extend((0..p.ranks).map(|r| self.now(q, r)));
            for s in 0..p.stages {
                for (kind, to) in [(F, s + 1), (I, s.wrapping_sub(1))] {
                    if to >= p.stages || p.rank_of[to] == p.rank_of[s] {
                        continue;
                    }
                    let lag = p.hop[s.min(to)];
                    let free = self.now(q, p.rank_of[to] as usize);
                    for j in self.done(kind, to)..self.done(kind, s) {
                        times.push((self.end(q, p.op(kind, s, j)) + lag).max(free));
                    }
                }
            }
        }
        let no_later = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| *a <= *b + 1e-9);
        let twins = self.seen.entry(key.into_boxed_slice()).or_default();
        if twins.iter().any(|other| no_later(other, &times)) {
            return true;
        }
        twins.retain(|other| !no_later(&times, other));
        if twins.len() < MOST_TWINS && self.kept < MOST_KEPT {
            self.kept += times.len();
            twins.push(times.into_boxed_slice());
        }
        false
    }

    /// A complete order: shorter than the best, or one that only putting off first steps would make shorter.
    fn complete(&mut self) {
        let p = self.p;
        let mut lists = self.lists.clone();
        for (rank, list) in lists.iter_mut().enumerate() {
            for s in p.stages_of[rank].iter().map(|s| *s as usize) {
                if p.kinds > 2 {
                    list.extend((self.done(W, s)..p.m).map(|j| p.op(W, s, j) as u32));
                }
            }
        }
        let Some(score) = self.clock.run(p, &lists) else {
            return;
        };
        if score.first <= self.target {
            self.target = below(score.first, self.unit);
            self.better = Some((lists, score));
        } else if self.origins > 1 && !self.has_ring() {
            self.open = true;
        }
    }

    /// Whether the waits of the ranks for each other leave no way to keep every span within the target: rank r starts no
    /// earlier than rank q's start, plus the path from there to r's end, less the target.
    fn has_ring(&self) -> bool {
        let ranks = self.p.ranks;
        let mut way = vec![NEVER; ranks * ranks];
        for q in 0..ranks {
            for r in 0..ranks {
                way[q * ranks + r] = self.now(q, r) + self.left[r] - self.target;
            }
        }
        for k in 0..ranks {
            for q in 0..ranks {
                for r in 0..ranks {
                    let by = way[q * ranks + k] + way[k * ranks + r];
                    way[q * ranks + r] = way[q * ranks + r].max(by);
                }
            }
        }
        (0..ranks).any(|r| way[r * ranks + r] > 1e-9)
    }
}

/// The largest number of which all times are multiples, if they are whole; else nothing.
fn unit(p: &Problem) -> f64 {
    let mut unit = 0u64;
    for time in p.time.iter().chain(&p.hop) {
        if time.fract() != 0.0 || *time > 1e12 {
            return 0.0;
        }
        let (mut a, mut b) = (unit, *time as u64);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        unit = a;
    }
    unit as f64
}

/// The longest time that counts as shorter.
fn below(best: f64, unit: f64) -> f64 {
    if unit > 0.0 {
        best - unit + 1e-6 * unit
    } else {
        best * (1.0 - 2e-9)
    }
}
