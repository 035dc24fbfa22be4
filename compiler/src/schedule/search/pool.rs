//! The best few schedules so far, and the work that is left.

use std::time::Instant;

use super::build::{Builder, Policy};
use super::problem::{Clock, Objective, Problem, Score};

/// Work units of building one step, and of running one on the clock.
pub const BUILD: f64 = 20.0;
pub const RUN: f64 = 2.0;

/// A pool.
pub struct Pool<'p> {
    p: &'p Problem,
    builder: Builder<'p>,
    clock: Clock,
    entries: Vec<(Score, Vec<Vec<u32>>)>,
    most: usize,
    left: f64,
    deadline: Instant,
}

impl<'p> Pool<'p> {
    /// An empty pool with this much work to spend.
    pub fn new(p: &'p Problem, work: f64, deadline: Instant) -> Pool<'p> {
        let (builder, clock) = (Builder::new(p), Clock::new(p));
        Pool {
            p,
            builder,
            clock,
            entries: Vec::new(),
            most: 8,
            left: work,
            deadline,
        }
    }

    /// The best schedule; there is one after the first build.
    pub fn into_best(mut self) -> (Vec<Vec<u32>>, Score) {
        if self.entries.is_empty() {
            return (Vec::new(), Score::WORST);
        }
        let (score, lists) = self.entries.swap_remove(0);
        (lists, score)
    }

    /// All entries, best first; the pool is empty then.
    pub fn take(&mut self) -> Vec<(Vec<Vec<u32>>, Score)> {
        std::mem::take(&mut self.entries)
            .into_iter()
            .map(|(score, lists)| (lists, score))
            .collect()
    }

    /// The lists of all entries, best first.
    pub fn lists(&self) -> impl Iterator<Item = &Vec<Vec<u32>>> {
        self.entries.iter().map(|(_, lists)| lists)
    }

    /// Copies of all entries, best first.
    pub fn entries(&self) -> Vec<Vec<Vec<u32>>> {
        self.lists().cloned().collect()
    }

    /// Forgets all but the best few.
    pub fn keep(&mut self, most: usize) {
        self.entries.truncate(most);
    }

    /// The score of the best entry.
    pub fn best_score(&self) -> Score {
        self.entries
            .first()
            .map_or(Score::WORST, |(score, _)| *score)
    }

    /// Work left.
    pub fn left(&self) -> f64 {
        self.left
    }

    /// Takes work off.
    pub fn spend(&mut self, work: f64) {
        self.left -= work.max(0.0);
    }

    /// When to stop in any case.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether nothing is left to do: the bound is reached, or the work or the time is over.
    pub fn done(&self) -> bool {
        !self.entries.is_empty()
            && (self.left <= 0.0
                || self.p.reaches_bound(&self.best_score())
                || Instant::now() > self.deadline)
    }

    /// Takes a schedule in if it is new, fits the limits and is among the best. Scores tell schedules apart.
    pub fn offer(&mut self, lists: Vec<Vec<u32>>, score: Score) {
        let at = self
            .entries
            .partition_point(|(other, _)| !score.beats(other));
        let twin = at > 0 && !self.entries[at - 1].0.beats(&score);
        if at < self.most && !twin && score.first.is_finite() && self.p.fits(&lists) {
            self.entries.insert(at, (score, lists));
            self.entries.truncate(self.most);
        }
    }

    /// Builds under a policy.
    pub fn build(&mut self, policy: &Policy<'_>) -> Score {
        self.left -= BUILD * self.p.steps() as f64;
        let (lists, score) = self.builder.build(policy);
        self.offer(lists, score);
        score
    }

    /// Runs given lists.
    pub fn run(&mut self, lists: Vec<Vec<u32>>) {
        self.left -= RUN * self.p.steps() as f64;
        if let Some(score) = self.clock.run(self.p, &lists) {
            self.offer(lists, score);
        }
    }

    /// The idle time each rank can afford if the first objective is to be this part of the way from its bound to the best
    /// so far.
    pub fn budget(&self, part: f64) -> Vec<f64> {
        let p = self.p;
        let best = self.best_score().first;
        let target = p.bound.first
            + if best.is_finite() {
                part * (best - p.bound.first)
            } else {
                0.0
            };
        let idle = |r: usize| {
            let work: f64 = p.stages_of[r].iter().map(|s| p.work_of(*s as usize)).sum();
            let head = if p.objective == Objective::Makespan {
                p.head[r]
            } else {
                0.0
            };
            (target - work - head).max(0.0)
        };
        (0..p.ranks).map(idle).collect()
    }
}
