//! Builds a schedule in time order: whenever a rank is free, a [`Policy`] picks its next step.
//!
//! Steps of one stage and kind run in micro-batch order. A forward may start only if its rank, afterwards, still has
//! room for the rest of its oldest micro-batch; so the oldest micro-batch of all can always go on, and no choice a
//! policy makes can lock the pipeline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::problem::{F, I, Problem, ROOM, Score, W};

/// How a free rank picks.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// By rule, among what is ready.
    Rule(Rule),
    /// The forward or input gradient with the lowest entry in this table is next, even if it must be waited for.
    Strict(&'a [f64]),
}

/// Rules among ready forwards and input gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Input gradients first, the highest stage first.
    GradientFirst,
    /// Forwards first, the highest stage first.
    ForwardFirst,
    /// The other kind than last time.
    Alternate,
    /// The oldest micro-batch first.
    OldestFirst,
}

/// A way to build.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// Which forward or input gradient.
    pub order: Order<'a>,
    /// A weight gradient runs in a gap at least this many times as long as itself.
    pub gap: f64,
    /// Idle time each rank can afford within its span: a shorter gap than a weight gradient is left open while it lasts,
    /// and filled with one, late as that makes what comes after, when it would be overdrawn.
    pub budget: Option<&'a [f64]>,
    /// Under a strict order, whether another step that fits in front of the next one may run there.
    pub flexible: Flexible,
}

/// Whether gaps of a strict order may be filled with other forwards and input gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flexible {
    Yes,
    No,
}

#[derive(Clone, Copy)]
struct Moment(f64, u32);

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

/// Tables reused from one building to the next.
pub struct Builder<'p> {
    problem: &'p Problem,
    /// Next micro-batch of each kind and stage.
    next: [Vec<u32>; 3],
    end: Vec<f64>,
    free: Vec<f64>,
    first: Vec<f64>,
    held: Vec<f64>,
    pending: Vec<u32>,
    last_kind: Vec<usize>,
    /// Idle time of each rank since its first step.
    idle: Vec<f64>,
    events: BinaryHeap<Reverse<Moment>>,
    lists: Vec<Vec<u32>>,
    left: usize,
}

/// A forward or input gradient that a rank might run next.
#[derive(Clone, Copy)]
struct Candidate {
    kind: usize,
    stage: usize,
    j: usize,
    /// When its input is there; infinite if that is not known yet.
    ready: f64,
}

impl<'p> Builder<'p> {
    /// Tables for one problem.
    pub fn new(problem: &'p Problem) -> Builder<'p> {
        Builder {
            problem,
            next: [
                vec![0; problem.stages],
                vec![0; problem.stages],
                vec![0; problem.stages],
            ],
            end: vec![f64::NAN; problem.steps()],
            free: vec![0.0; problem.ranks],
            first: vec![f64::INFINITY; problem.ranks],
            held: vec![0.0; problem.ranks],
            pending: vec![0; problem.ranks],
            last_kind: vec![W; problem.ranks],
            idle: vec![0.0; problem.ranks],
            events: BinaryHeap::new(),
            lists: vec![Vec::new(); problem.ranks],
            left: 0,
        }
    }

    /// Builds a schedule: the steps of each rank in order, and the score.
    pub fn build(&mut self, policy: &Policy<'_>) -> (Vec<Vec<u32>>, Score) {
        self.reset();
        let mut stuck = false;
        while self.left > 0 {
            let Some(Reverse(Moment(now, r))) = self.events.pop() else {
                // Every rank waits for what its order puts first: let each run whatever it can.
                if stuck {
                    break;
                }
                stuck = true;
                let now = self.free.iter().copied().fold(0.0, f64::max);
                self.events
                    .extend((0..self.problem.ranks as u32).map(|r| Reverse(Moment(now, r))));
                continue;
            };
            if self.free[r as usize] > now {
                continue;
            }
            if self.decide(policy, r as usize, now, stuck) {
                stuck = false;
            }
        }
        let score = if self.left == 0 {
            self.problem.score(&self.first, &self.free)
        } else {
            Score::WORST
        };
        (
            std::mem::replace(&mut self.lists, vec![Vec::new(); self.problem.ranks]),
            score,
        )
    }

    fn reset(&mut self) {
        for next in &mut self.next {
            next.fill(0);
        }
        self.end.fill(f64::NAN);
        self.free.fill(0.0);
        self.first.fill(f64::INFINITY);
        self.held.fill(0.0);
        self.pending.fill(0);
        self.last_kind.fill(W);
        self.idle.fill(0.0);
        self.events.clear();
        self.events
            .extend((0..self.problem.ranks as u32).map(|r| Reverse(Moment(0.0, r))));
        self.left = self.problem.steps();
        for (list, stages) in self.lists.iter_mut().zip(&self.problem.stages_of) {
            list.reserve(stages.len() * self.problem.m * self.problem.kinds);
        }
    }

    /// Lets a free rank pick; false if it picked nothing.
    fn decide(&mut self, policy: &Policy<'_>, r: usize, now: f64, stuck: bool) -> bool {
        let p = self.problem;
        let reserve = self.reserve(r);
        let mut best: Option<(Candidate, [f64; 2])> = None;
        let mut soonest = f64::INFINITY;
        let mut filler: Option<(Candidate, [f64; 2])> = None;
        for s in p.stages_of[r].iter().map(|s| *s as usize) {
            for kind in [F, I] {
                let Some(c) = self.candidate(kind, s) else {
                    continue;
                };
                if kind == F && !self.has_room(r, s, c.j, reserve) {
                    continue;
                }
                let is_ready = c.ready <= now;
                let key = match policy.order {
                    Order::Rule(rule) => self.rule_key(rule, r, &c),
                    Order::Strict(table) => [table[p.op(kind, s, c.j)], 0.0],
                };
                let may_wait = matches!(policy.order, Order::Strict(_)) && !stuck;
                if (is_ready || may_wait) && best.as_ref().is_none_or(|(_, k)| key < *k) {
                    best = Some((c, key));
                }
                if is_ready && may_wait && filler.as_ref().is_none_or(|(_, k)| key < *k) {
                    filler = Some((c, key));
                }
                if !is_ready {
                    soonest = soonest.min(c.ready);
                }
            }
        }
        if let Some((c, _)) = best {
            if c.ready <= now {
                self.run(r, c.kind, c.stage, c.j, now);
                return true;
            }
            soonest = c.ready;
            if policy.flexible == Flexible::Yes
                && let Some((fill, _)) = filler
                && now + p.time[p.op(fill.kind, fill.stage, fill.j)] <= c.ready + 1e-12
            {
                self.run(r, fill.kind, fill.stage, fill.j, now);
                return true;
            }
        }
        if self.pending[r] > 0 {
            let (s, j) = self.oldest_weight(r);
            let gap = soonest - now;
            let fits = gap >= policy.gap * p.time[p.op(W, s, j)] - 1e-12;
            let idle = self.idle[r] + (now - self.free[r]).max(0.0) + gap;
            if fits || policy.budget.is_some_and(|budget| idle > budget[r] + 1e-12) {
                self.run(r, W, s, j, now);
                return true;
            }
        }
        // Nothing fits, but waiting costs more idle time than there is: run what is ready, late as it makes the next step.
        if let (Some((fill, _)), Some(budget)) = (filler, policy.budget)
            && policy.flexible == Flexible::Yes
            && self.idle[r] + (now - self.free[r]).max(0.0) + (soonest - now) > budget[r] + 1e-12
        {
            self.run(r, fill.kind, fill.stage, fill.j, now);
            return true;
        }
        if soonest.is_finite() {
            self.events.push(Reverse(Moment(soonest, r as u32)));
        }
        false
    }

    fn rule_key(&self, rule: Rule, r: usize, c: &Candidate) -> [f64; 2] {
        let high = -(c.stage as f64);
        match rule {
            Rule::GradientFirst => [f64::from(u8::from(c.kind == F)), high],
            Rule::ForwardFirst => [f64::from(u8::from(c.kind == I)), high],
            Rule::Alternate => [f64::from(u8::from(c.kind == self.last_kind[r])), high],
            Rule::OldestFirst => [c.j as f64, f64::from(u8::from(c.kind == F))],
        }
    }

    fn candidate(&self, kind: usize, s: usize) -> Option<Candidate> {
        let p = self.problem;
        let j = self.next[kind][s] as usize;
        if kind >= p.kinds || j >= p.m {
            return None;
        }
        if kind == I && j >= self.next[F][s] as usize {
            return None;
        }
        let ready = match p.waits_for(kind, s, j) {
            None => 0.0,
            Some((before, hop)) => {
                let end = self.end[before];
                if end.is_nan() {
                    f64::INFINITY
                } else {
                    end + hop
                }
            }
        };
        Some(Candidate {
            kind,
            stage: s,
            j,
            ready,
        })
    }

    /// The oldest micro-batch of a rank and what its forwards there still need.
    fn reserve(&self, r: usize) -> (usize, f64) {
        let p = self.problem;
        if p.limit[r].is_infinite() || p.kinds == 1 {
            return (0, 0.0);
        }
        let mine = &p.stages_of[r];
        let oldest = self.next[I][mine[0] as usize] as usize;
        if oldest >= p.m {
            return (oldest, 0.0);
        }
        let needs = mine
            .iter()
            .map(|s| *s as usize)
            .filter(|s| self.next[F][*s] as usize <= oldest);
        (oldest, needs.map(|s| p.act[s]).sum())
    }

    fn has_room(&self, r: usize, s: usize, j: usize, (oldest, reserve): (usize, f64)) -> bool {
        let p = self.problem;
        if p.limit[r].is_infinite() || p.kinds == 1 {
            return true;
        }
        if j == oldest {
            return self.held[r] + reserve <= p.limit[r] + ROOM;
        }
        self.held[r] + reserve + p.act[s] <= p.limit[r] + ROOM
    }

    fn oldest_weight(&self, r: usize) -> (usize, usize) {
        let p = self.problem;
        let mut best = (0, usize::MAX);
        for s in p.stages_of[r].iter().rev().map(|s| *s as usize) {
            let j = self.next[W][s] as usize;
            if j < self.next[I][s] as usize && j < best.1 {
                best = (s, j);
            }
        }
        best
    }

    fn run(&mut self, r: usize, kind: usize, s: usize, j: usize, now: f64) {
        let p = self.problem;
        let op = p.op(kind, s, j);
        let end = now + p.time[op];
        self.end[op] = end;
        self.next[kind][s] += 1;
        if self.first[r].is_finite() {
            self.idle[r] += now - self.free[r];
        } else {
            self.first[r] = now;
        }
        self.free[r] = end;
        let (before, after) = p.memory_of(kind, s);
        self.held[r] += before + after;
        match kind {
            I if p.kinds > 2 => self.pending[r] += 1,
            W => self.pending[r] -= 1,
            _ => {}
        }
        if kind != W {
            self.last_kind[r] = kind;
        }
        self.lists[r].push(op as u32);
        self.left -= 1;
        self.events.push(Reverse(Moment(end, r as u32)));
        if let Some((_, to)) = p.awaited_by(kind, s, j) {
            let other = p.rank_of[to] as usize;
            if other != r {
                let hop = if kind == F { p.hop[s] } else { p.hop[to] };
                let at = (end + hop).max(self.free[other]);
                self.events.push(Reverse(Moment(at, other as u32)));
            }
        }
    }
}
