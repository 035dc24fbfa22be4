//! Local search on the lists themselves: take a step out of a critical block and put it elsewhere in its rank.
//!
//! The critical path is a chain of blocks, each a run of steps on one rank without idle time between them. The path gets
//! shorter only if a step leaves its block at one end or the other, so those moves are tried (with some others, to get
//! out of corners) under simulated annealing. Steps of one stage and kind keep their micro-batch order.
//!
//! Before a move is run on the clock, the longest path through the steps it touches is estimated from their earliest
//! starts and from the tails behind them (Balas and Vazacopoulos 1998); most moves are turned down by that alone, in time
//! of the window and not of the schedule.

use std::time::Instant;

use super::pattern::Random;
use super::pool::RUN;
use super::problem::{Clock, NONE, Objective, Problem, Score};

/// How to anneal.
#[derive(Clone, Copy, Debug)]
pub struct Annealing {
    /// Work to spend, in the units of the pool.
    pub work: f64,
    /// First temperature, in parts of the mean time of a step.
    pub heat: f64,
    /// How far a step may go.
    pub window: usize,
    /// When to stop in any case.
    pub deadline: Instant,
}

/// Anneals from `lists` and gives the best lists met, with their score.
pub fn improve(
    p: &Problem,
    lists: Vec<Vec<u32>>,
    how: Annealing,
    random: &mut Random,
) -> Option<(Vec<Vec<u32>>, Score)> {
    let mut state = State::new(p, lists)?;
    let mut best = (state.lists.clone(), state.score);
    let mean = p.time.iter().sum::<f64>() / p.steps() as f64;
    let mut step = 0u32;
    while state.work < how.work {
        step += 1;
        if step.is_multiple_of(64) && Instant::now() > how.deadline {
            break;
        }
        let left = 1.0 - state.work / how.work;
        // What a move may cost is drawn first, so that an estimate can turn it down.
        let allowed = -how.heat * mean * left * left * random.unit().max(1e-300).ln();
        state.work += MOVE;
        let Some(change) = state.pick(how.window, random) else {
            continue;
        };
        if state.attempt(change, allowed) && state.score.beats(&best.1) {
            best = (state.lists.clone(), state.score);
            if p.reaches_bound(&best.1) {
                break;
            }
        }
    }
    Some(best)
}

/// A step of a rank that goes from one place in its list to another.
#[derive(Clone, Copy)]
struct Change {
    rank: usize,
    from: usize,
    to: usize,
}

struct State<'p> {
    p: &'p Problem,
    clock: Clock,
    lists: Vec<Vec<u32>>,
    /// Ends, tails and places of the steps in the current lists.
    end: Vec<f64>,
    tail: Vec<f64>,
    place: Vec<u32>,
    score: Score,
    energy: f64,
    /// Work spent.
    work: f64,
    /// The critical path, last step first, as (rank, place, whether the step before it on its rank is the reason).
    path: Vec<(u32, u32, bool)>,
}

/// Moves the entry at `from` to `to`.
fn shift(list: &mut [u32], from: usize, to: usize) {
    if from < to {
        list[from..=to].rotate_left(1);
    } else {
        list[to..=from].rotate_right(1);
    }
}

impl<'p> State<'p> {
    fn new(p: &'p Problem, lists: Vec<Vec<u32>>) -> Option<State<'p>> {
        let mut clock = Clock::new(p);
        let score = clock.run(p, &lists)?;
        let mut place = vec![0; p.steps()];
        for list in &lists {
            for (i, op) in list.iter().enumerate() {
                place[*op as usize] = i as u32;
            }
        }
        let end = clock.end.clone();
        let tail = vec![0.0; p.steps()];
        let mut state = State {
            p,
            clock,
            lists,
            end,
            tail,
            place,
            score,
            energy: 0.0,
            work: 0.0,
            path: Vec::new(),
        };
        state.energy = state.energy_of(&score);
        state.measure();
        Some(state)
    }

    fn energy_of(&self, score: &Score) -> f64 {
        let ranks = self.p.ranks;
        let mean = (0..ranks)
            .map(|r| self.clock.last[r] - self.clock.first[r])
            .sum::<f64>()
            / ranks as f64;
        score.first + 0.1 * mean + 0.01 * score.second
    }

    /// Tries a move that may cost up to `allowed`; whether it was kept.
    fn attempt(&mut self, change: Change, allowed: f64) -> bool {
        let Change { rank, from, to } = change;
        shift(&mut self.lists[rank], from, to);
        let promising =
            self.estimate(change) <= self.score.first + allowed + 1e-9 * self.score.first;
        if promising {
            self.work += RUN * self.p.steps() as f64;
        }
        if promising
            && self.p.list_fits(rank, &self.lists[rank])
            && let Some(score) = self.clock.run(self.p, &self.lists)
        {
            let energy = self.energy_of(&score);
            if energy <= self.energy + allowed {
                (self.score, self.energy) = (score, energy);
                self.end.copy_from_slice(&self.clock.end);
                for i in from.min(to)..=from.max(to) {
                    self.place[self.lists[rank][i] as usize] = i as u32;
                }
                self.measure();
                return true;
            }
        }
        shift(&mut self.lists[rank], to, from);
        false
    }

    /// The longest path through the steps a move touches, from their arrivals and the tails behind them as they were.
    fn estimate(&self, change: Change) -> f64 {
        let p = self.p;
        let list = &self.lists[change.rank];
        let (low, high) = (change.from.min(change.to), change.from.max(change.to));
        let base = self.base(change.rank);
        let mut free = if low == 0 {
            0.0
        } else {
            self.end[list[low - 1] as usize]
        };
        // Ends of the window after the move; small, so kept on the side.
        let mut ends = [0.0f64; MOST_WINDOW];
        for i in low..=high {
            let op = list[i] as usize;
            let before = p.before[op];
            let arrived = if before == NONE {
                0.0
            } else {
                self.end[before as usize] + p.lag[op]
            };
            free = free.max(arrived) + p.time[op];
            ends[i - low] = free;
        }
        let mut behind = match list.get(high + 1) {
            Some(next) => p.time[*next as usize] + self.tail[*next as usize],
            None => -base,
        };
        let mut longest = f64::NEG_INFINITY;
        for i in (low..=high).rev() {
            let op = list[i] as usize;
            let tail = behind.max(self.cross_tail(op));
            longest = longest.max(ends[i - low] + tail);
            behind = p.time[op] + tail;
        }
        longest
    }

    /// What is taken off a rank's last end in the first objective.
    fn base(&self, rank: usize) -> f64 {
        match self.p.objective {
            Objective::Span => self.clock.first[rank],
            Objective::Makespan => self
                .clock
                .first
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min),
        }
    }

    /// The longest path behind a step by way of the step on another stage that waits for it.
    fn cross_tail(&self, op: usize) -> f64 {
        match self.p.after[op] {
            NONE => f64::NEG_INFINITY,
            after => {
                let after = after as usize;
                self.p.lag[after] + self.p.time[after] + self.tail[after]
            }
        }
    }

    /// Tails and the critical path of the current lists.
    fn measure(&mut self) {
        let p = self.p;
        for k in (0..self.clock.order.len()).rev() {
            let op = self.clock.order[k] as usize;
            let rank = p.rank_of_op[op] as usize;
            let own = match self.lists[rank].get(self.place[op] as usize + 1) {
                Some(next) => p.time[*next as usize] + self.tail[*next as usize],
                None => -self.base(rank),
            };
            self.tail[op] = own.max(self.cross_tail(op));
        }
        let late = |r: usize| self.clock.last[r] - self.base(r);
        let worst = (0..p.ranks)
            .max_by(|a, b| late(*a).total_cmp(&late(*b)))
            .unwrap_or(0);
        self.path.clear();
        let (mut r, mut at) = (worst, self.lists[worst].len() - 1);
        loop {
            let op = self.lists[r][at] as usize;
            let start = self.end[op] - p.time[op];
            let before = p.before[op];
            let own = at > 0
                && self.end[self.lists[r][at - 1] as usize] >= start - 1e-9 * start.abs().max(1e-9);
            self.path.push((r as u32, at as u32, own));
            if own {
                at -= 1;
            } else if before == NONE || at == 0 {
                break;
            } else {
                r = p.rank_of_op[before as usize] as usize;
                at = self.place[before as usize] as usize;
            }
        }
    }

    /// Whether `a` and `b` must keep their order.
    fn tied(&self, a: u32, b: u32) -> bool {
        let (ka, sa, ja) = self.p.parts(a as usize);
        let (kb, sb, jb) = self.p.parts(b as usize);
        sa == sb && (ka == kb || ja == jb)
    }

    /// A move that keeps the order of what is tied.
    fn pick(&self, window: usize, random: &mut Random) -> Option<Change> {
        let window = window.min(MOST_WINDOW - 1);
        let (rank, from, want) = if random.unit() < 0.8 {
            // A block of the path, and a step in it, moved to one end of the block.
            let k = random.below(self.path.len());
            let (r, at, _) = self.path[k];
            let mut first = k;
            while self.path[first].2 && first - k < window {
                first += 1;
            }
            let mut last = k;
            while last > 0 && self.path[last - 1].2 && k - last < window {
                last -= 1;
            }
            let (low, high) = (self.path[first].1 as usize, self.path[last].1 as usize);
            match random.below(4) {
                0 => (r as usize, at as usize, low),
                1 => (r as usize, at as usize, high),
                2 => (r as usize, high, at as usize),
                _ => (r as usize, low, at as usize),
            }
        } else {
            let r = random.below(self.p.ranks);
            let at = random.below(self.lists[r].len());
            let away = 1 + random.below(window);
            (
                r,
                at,
                if random.unit() < 0.5 {
                    at.saturating_sub(away)
                } else {
                    at + away
                },
            )
        };
        let list = &self.lists[rank];
        let want = want.min(list.len() - 1);
        let op = list[from];
        let mut to = from;
        if want > from {
            while to < want && !self.tied(op, list[to + 1]) {
                to += 1;
            }
        } else {
            while to > want && !self.tied(list[to - 1], op) {
                to -= 1;
            }
        }
        (to != from).then_some(Change { rank, from, to })
    }
}

/// Steps a move can touch.
const MOST_WINDOW: usize = 128;

/// Work units of picking and estimating one move.
const MOVE: f64 = 20.0;
