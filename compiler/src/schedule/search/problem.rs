//! A scheduling problem as flat tables, and the clock for an order of its steps.
//!
//! A step is a number: kind · stages · micro-batches + stage · micro-batches + micro-batch, kinds F, I, W in this order.
//! With whole backwards there is no W and I stands for B. Only data dependencies and the order of each rank count
//! ([`CommModel::Dep`](crate::schedule::simulate::CommModel)).

use crate::schedule::action::{Action, Compute, RankId};
use crate::schedule::bound::{BackwardParts, PipelineQuery, lower_bounds};
use crate::schedule::error::ScheduleError;

/// No step, no rank.
pub const NONE: u32 = u32::MAX;

/// Step kinds.
pub const F: usize = 0;
pub const I: usize = 1;
pub const W: usize = 2;

/// What is to be short first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The span, then the makespan: the optimizer waits for no one.
    Span,
    /// The makespan, then the span: the optimizer is a barrier.
    Makespan,
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct Wish<'a> {
    /// The pipeline and its limits.
    pub pipeline: PipelineQuery<'a>,
    /// What is to be short first.
    pub objective: Objective,
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Problem {
    pub ranks: usize,
    pub stages: usize,
    pub m: usize,
    pub kinds: usize,
    pub rank_of: Vec<u32>,
    /// Stages of each rank, lowest first.
    pub stages_of: Vec<Vec<u32>>,
    /// Time of each step.
    pub time: Vec<f64>,
    /// Time of the edge from stage s to s + 1, zero within a rank.
    pub hop: Vec<f64>,
    pub act: Vec<f64>,
    pub held: Vec<f64>,
    pub limit: Vec<f64>,
    /// When each rank's first forward can start.
    pub head: Vec<f64>,
    pub objective: Objective,
    /// Lower bounds of (first, second) objective.
    pub bound: Score,
    /// The step on another stage that each step waits for, how long its output travels, and the rank that waits for it.
    pub before: Vec<u32>,
    pub lag: Vec<f64>,
    pub to_rank: Vec<u32>,
    /// The step on another stage that waits for each step, and the rank of each step.
    pub after: Vec<u32>,
    pub rank_of_op: Vec<u32>,
    /// Average time of all of a stage's steps, for pacing.
    pub mean: [Vec<f64>; 3],
}

/// The objectives in the order in which they count.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Score {
    pub first: f64,
    pub second: f64,
}

impl Score {
    /// Worse than anything.
    pub const WORST: Score = Score {
        first: f64::INFINITY,
        second: f64::INFINITY,
    };

    /// Whether another score is as good as this bound in the first objective.
    pub fn reached_first(&self, other: &Score) -> bool {
        other.first <= self.first * (1.0 + 1e-9)
    }

    /// Shorter in the first objective, or as short and shorter in the second; differences of rounding do not count.
    pub fn beats(&self, other: &Score) -> bool {
        let slack = 1e-9 * self.first.abs().max(1e-9);
        self.first < other.first - slack
            || (self.first <= other.first + slack && self.second < other.second - slack)
    }
}

/// Slack of memory comparisons.
pub const ROOM: f64 = 1e-9;

impl Problem {
    /// Builds the tables.
    ///
    /// # Errors
    /// A limit that does not hold one micro-batch.
    pub fn new(wish: &Wish<'_>) -> Result<Problem, ScheduleError> {
        let objective = wish.objective;
        let wish = &wish.pipeline;
        let (stages, m) = (wish.stage_rank.len(), wish.microbatches);
        let ranks = wish
            .stage_rank
            .iter()
            .map(|r| r.index() + 1)
            .max()
            .unwrap_or(0);
        let rank_of: Vec<u32> = wish.stage_rank.iter().map(|r| r.0).collect();
        let mut stages_of = vec![Vec::new(); ranks];
        for (s, r) in rank_of.iter().enumerate() {
            stages_of[*r as usize].push(s as u32);
        }
        let c = wish.costs;
        let kinds = match wish.backward {
            BackwardParts::Split => 3,
            BackwardParts::Whole => 2,
            BackwardParts::None => 1,
        };
        let input = |s: usize| c.input_grad.at(s) + c.recompute.at(s);
        let base = |kind: usize, s: usize| match kind {
            F => c.forward.at(s),
            I if kinds == 2 => input(s) + c.weight_grad.at(s),
            I => input(s),
            _ => c.weight_grad.at(s),
        };
        let mut time = Vec::with_capacity(kinds * stages * m);
        let mean_factor = (0..m).map(|j| c.microbatch.at(j)).sum::<f64>() / m as f64;
        let mut mean: [Vec<f64>; 3] = Default::default();
        for (kind, mean) in mean.iter_mut().enumerate().take(kinds) {
            for s in 0..stages {
                time.extend((0..m).map(|j| base(kind, s) * c.microbatch.at(j)));
                mean.push(base(kind, s) * mean_factor);
            }
        }
        for missing in &mut mean[kinds..] {
            *missing = vec![0.0; stages];
        }
        let hop: Vec<f64> = (0..stages.saturating_sub(1))
            .map(|s| {
                if rank_of[s] == rank_of[s + 1] {
                    0.0
                } else {
                    c.transfer.at(s)
                }
            })
            .collect();
        let act: Vec<f64> = (0..stages)
            .map(|s| {
                if kinds == 1 {
                    0.0
                } else {
                    wish.memory.activation.at(s)
                }
            })
            .collect();
        let held: Vec<f64> = (0..stages)
            .map(|s| {
                if kinds == 3 {
                    wish.memory.held_for_weights.at(s)
                } else {
                    0.0
                }
            })
            .collect();
        let limit: Vec<f64> = (0..ranks)
            .map(|r| wish.limit.map_or(f64::INFINITY, |l| l.at(r)))
            .collect();
        for (r, mine) in stages_of.iter().enumerate() {
            let smallest = smallest_limit(mine, &act, &held);
            if smallest > limit[r] + ROOM {
                return Err(ScheduleError::LimitTooSmall {
                    rank: RankId(r as u32),
                    limit: limit[r],
                    smallest,
                });
            }
        }
        let mut head = vec![f64::INFINITY; ranks];
        let mut reached = 0.0;
        for s in 0..stages {
            let r = rank_of[s] as usize;
            head[r] = head[r].min(reached);
            reached += time[s * m] + hop.get(s).copied().unwrap_or(0.0);
        }
        let bounds = lower_bounds(wish)?;
        let bound = match objective {
            Objective::Span => Score {
                first: bounds.span,
                second: bounds.makespan,
            },
            Objective::Makespan => Score {
                first: bounds.makespan,
                second: bounds.span,
            },
        };
        let mut problem = Problem {
            ranks,
            stages,
            m,
            kinds,
            rank_of,
            stages_of,
            time,
            hop,
            act,
            held,
            limit,
            head,
            objective,
            bound,
            before: Vec::new(),
            lag: Vec::new(),
            to_rank: Vec::new(),
            after: Vec::new(),
            rank_of_op: Vec::new(),
            mean,
        };
        problem.link();
        Ok(problem)
    }

    fn link(&mut self) {
        let n = self.steps();
        self.before = vec![NONE; n];
        self.lag = vec![0.0; n];
        self.to_rank = vec![NONE; n];
        self.after = vec![NONE; n];
        self.rank_of_op = vec![0; n];
        for op in 0..n {
            let (kind, s, j) = self.parts(op);
            if let Some((before, lag)) = self.waits_for(kind, s, j) {
                (self.before[op], self.lag[op]) = (before as u32, lag);
            }
            if let Some((after, stage)) = self.awaited_by(kind, s, j) {
                (self.after[op], self.to_rank[op]) = (after as u32, self.rank_of[stage]);
            }
            self.rank_of_op[op] = self.rank_of[s];
        }
    }

    /// The same pipeline with the first `m` micro-batches. Its bound is the work of the busiest rank: weak, but no search
    /// for a start needs a good one.
    pub fn with_microbatches(&self, m: usize) -> Problem {
        let mut small = self.clone();
        small.m = m;
        small.time = (0..self.kinds * self.stages)
            .flat_map(|row| self.time[row * self.m..row * self.m + m].iter().copied())
            .collect();
        small.link();
        let work = |r: &Vec<u32>| r.iter().map(|s| small.work_of(*s as usize)).sum::<f64>();
        let span = small.stages_of.iter().map(work).fold(0.0, f64::max);
        small.bound = Score {
            first: span,
            second: span,
        };
        small
    }

    /// The number of a step.
    pub fn op(&self, kind: usize, s: usize, j: usize) -> usize {
        (kind * self.stages + s) * self.m + j
    }

    /// Kind, stage and micro-batch of a step.
    pub fn parts(&self, op: usize) -> (usize, usize, usize) {
        let row = op / self.m;
        (row / self.stages, row % self.stages, op % self.m)
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.time.len()
    }

    /// The step on another stage that this one waits for, and how long its output travels.
    pub fn waits_for(&self, kind: usize, s: usize, j: usize) -> Option<(usize, f64)> {
        match kind {
            F if s > 0 => Some((self.op(F, s - 1, j), self.hop[s - 1])),
            I if s + 1 < self.stages => Some((self.op(I, s + 1, j), self.hop[s])),
            _ => None,
        }
    }

    /// The step on another stage that waits for this one.
    pub fn awaited_by(&self, kind: usize, s: usize, j: usize) -> Option<(usize, usize)> {
        match kind {
            F if s + 1 < self.stages => Some((self.op(F, s + 1, j), s + 1)),
            I if s > 0 => Some((self.op(I, s - 1, j), s - 1)),
            _ => None,
        }
    }

    /// Time of all steps of a stage.
    pub fn work_of(&self, s: usize) -> f64 {
        (0..self.kinds).map(|kind| self.mean[kind][s]).sum::<f64>() * self.m as f64
    }

    /// What a step adds to its rank's memory when it starts and when it has ended.
    pub fn memory_of(&self, kind: usize, s: usize) -> (f64, f64) {
        match kind {
            F => (self.act[s], 0.0),
            I => (0.0, self.held[s] - self.act[s]),
            _ => (0.0, -self.held[s]),
        }
    }

    /// The score of ends and first starts.
    pub fn score(&self, first: &[f64], last: &[f64]) -> Score {
        let begin = first.iter().copied().fold(f64::INFINITY, f64::min);
        let end = last.iter().copied().fold(0.0, f64::max);
        let span = first
            .iter()
            .zip(last)
            .map(|(a, b)| b - a)
            .fold(0.0, f64::max);
        match self.objective {
            Objective::Span => Score {
                first: span,
                second: end - begin,
            },
            Objective::Makespan => Score {
                first: end - begin,
                second: span,
            },
        }
    }

    /// Whether a score is as good as the bounds allow in both objectives.
    pub fn reaches_bound(&self, score: &Score) -> bool {
        !self.bound.beats(score)
    }

    /// The action of a step.
    pub fn action(&self, op: usize) -> Action {
        let (kind, s, j) = self.parts(op);
        let kind = match kind {
            F => Compute::Forward,
            I if self.kinds == 2 => Compute::Backward,
            I => Compute::InputGrad,
            _ => Compute::WeightGrad,
        };
        Action::compute(kind, s as u32, j as u32)
    }

    /// The steps of action lists, in the numbers of this problem; overlap groups are taken apart, a B becomes I and W
    /// where this problem splits, and I with W become B at the place of I where it does not.
    pub fn ops_of(&self, ranks: &[Vec<Action>]) -> Vec<Vec<u32>> {
        let take = |actions: &Vec<Action>| {
            let mut list = Vec::new();
            for op in actions.iter().flat_map(Action::ops) {
                let mut push =
                    |kind| list.push(self.op(kind, op.stage.index(), op.microbatch.index()) as u32);
                match op.kind {
                    Compute::Forward => push(F),
                    Compute::InputGrad if self.kinds > 1 => push(I),
                    Compute::WeightGrad if self.kinds > 2 => push(W),
                    Compute::Backward if self.kinds > 1 => {
                        push(I);
                        if self.kinds > 2 {
                            push(W);
                        }
                    }
                    _ => {}
                }
            }
            list
        };
        ranks.iter().map(take).collect()
    }

    /// Whether every rank's list stays within its limit.
    pub fn fits(&self, lists: &[Vec<u32>]) -> bool {
        lists
            .iter()
            .enumerate()
            .all(|(r, list)| self.list_fits(r, list))
    }

    /// Whether one rank's list stays within its limit.
    pub fn list_fits(&self, r: usize, list: &[u32]) -> bool {
        let (mut now, limit) = (0.0, self.limit[r] + ROOM);
        list.iter().all(|op| {
            let (kind, s, _) = self.parts(*op as usize);
            let (before, after) = self.memory_of(kind, s);
            now += before;
            let fits = now <= limit;
            now += after;
            fits
        })
    }
}

/// The least memory in which a rank with these stages can run one micro-batch after another.
pub fn smallest_limit(stages: &[u32], act: &[f64], held: &[f64]) -> f64 {
    // All forwards first, then the gradients from the highest stage down; a weight gradient frees at once.
    let _ = held;
    stages.iter().map(|s| act[*s as usize]).sum()
}

/// Runs lists on the clock; keeps its tables from one run to the next.
pub struct Clock {
    /// End of every step of the last run.
    pub end: Vec<f64>,
    /// First start and last end of every rank.
    pub first: Vec<f64>,
    pub last: Vec<f64>,
    /// The steps in an order in which each comes after what it waits for.
    pub order: Vec<u32>,
    position: Vec<usize>,
    blocked_on: Vec<u32>,
    work: Vec<u32>,
}

impl Clock {
    /// Tables for one problem.
    pub fn new(problem: &Problem) -> Clock {
        Clock {
            end: vec![f64::NAN; problem.steps()],
            first: vec![0.0; problem.ranks],
            last: vec![0.0; problem.ranks],
            order: Vec::with_capacity(problem.steps()),
            position: vec![0; problem.ranks],
            blocked_on: vec![NONE; problem.ranks],
            work: Vec::new(),
        }
    }

    /// Runs everything as early as the lists allow; `None` where they wait in a ring. Lists must be complete and causal
    /// within each rank.
    pub fn run(&mut self, problem: &Problem, lists: &[Vec<u32>]) -> Option<Score> {
        self.end.fill(f64::NAN);
        self.position.fill(0);
        self.blocked_on.fill(NONE);
        self.last.fill(0.0);
        self.work.clear();
        self.order.clear();
        self.work.extend((0..problem.ranks as u32).rev());
        while let Some(r) = self.work.pop() {
            let rank = r as usize;
            let list = &lists[rank];
            let mut at = self.position[rank];
            let mut free = self.last[rank];
            while at < list.len() {
                let op = list[at] as usize;
                let mut start = free;
                let before = problem.before[op];
                if before != NONE {
                    let ready = self.end[before as usize];
                    if ready.is_nan() {
                        self.blocked_on[rank] = before;
                        break;
                    }
                    start = start.max(ready + problem.lag[op]);
                }
                if at == 0 {
                    self.first[rank] = start;
                }
                free = start + problem.time[op];
                self.end[op] = free;
                self.order.push(op as u32);
                at += 1;
                let other = problem.to_rank[op];
                if other != NONE && self.blocked_on[other as usize] == op as u32 {
                    self.blocked_on[other as usize] = NONE;
                    self.work.push(other);
                }
            }
            self.position[rank] = at;
            self.last[rank] = free;
        }
        let done = self
            .position
            .iter()
            .zip(lists)
            .all(|(at, list)| *at == list.len());
        done.then(|| problem.score(&self.first, &self.last))
    }
}
