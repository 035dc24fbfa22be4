//! Times no schedule with a given placement can beat when only data dependencies and memory limits count.
//!
//! Take rank r, a stage s on it and the j-th input gradient of s. It starts at `ia(s, j)` at the earliest. Before it, r
//! can run at most `can`: the forwards that fit in memory, j−1 input and weight gradients of s and of r's earlier
//! stages, and any of its later stages. So r is idle for `ia − can` or longer, and the span of r is at least its work
//! plus that idle time (`ia` counted from r's own first forward), its makespan likewise (`ia` counted from the very first
//! forward). A rank with one stage and a memory limit also idles in two disjoint windows, see `two_windows`.
//! Where micro-batches differ in cost, every count of k steps is taken as the k cheapest or the k dearest of them.

use super::action::RankId;
use super::cost::{Costs, Memory, PerIndex};
use super::error::ScheduleError;

/// What a bound or a search is asked for: a pipeline, and what it may take.
#[derive(Clone, Copy, Debug)]
pub struct PipelineQuery<'a> {
    /// The rank of every stage.
    pub stage_rank: &'a [RankId],
    /// How many micro-batches.
    pub microbatches: usize,
    /// Times.
    pub costs: &'a Costs,
    /// Memory per activation.
    pub memory: &'a Memory,
    /// Memory per rank, if limited.
    pub limit: Option<&'a PerIndex>,
    /// Whether backwards may be split.
    pub backward: BackwardParts,
}

/// Whether a backward is one step or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardParts {
    /// I and W.
    Split,
    /// B.
    Whole,
    /// Nothing but forwards.
    None,
}

/// The bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct LowerBounds {
    /// Work of the busiest rank.
    pub work: f64,
    /// Of max over ranks (last end − first start).
    pub span: f64,
    /// Of last end − first start over all ranks.
    pub makespan: f64,
    /// Per rank: work, span, makespan.
    pub per_rank: Vec<[f64; 3]>,
}

/// Computes the bounds in time ranks × stages × micro-batches.
///
/// # Errors
/// A limit below one activation.
pub fn lower_bounds(query: &PipelineQuery<'_>) -> Result<LowerBounds, ScheduleError> {
    let model = Model::new(query);
    let (stages, m) = (query.stage_rank.len(), query.microbatches);
    let ranks = query
        .stage_rank
        .iter()
        .map(|r| r.index() + 1)
        .max()
        .unwrap_or(0);
    let mut result = LowerBounds {
        work: 0.0,
        span: 0.0,
        makespan: 0.0,
        per_rank: Vec::new(),
    };
    if stages == 0 || m == 0 {
        return Ok(result);
    }
    let whole = model.arrivals(0)?;
    let mut chain = 0.0;
    for s in 0..stages {
        if s > 0 {
            chain += model.b[s - 1] * model.least + model.hop[s - 1];
        }
        let tail = model.w[0] * model.least;
        result.makespan = result
            .makespan
            .max(whole.input(s, m) + model.b[s] * model.least + chain + tail);
    }
    for r in 0..ranks {
        let mine: Vec<usize> = (0..stages)
            .filter(|s| query.stage_rank[*s].index() == r)
            .collect();
        let Some(&head) = mine.first() else {
            result.per_rank.push([0.0; 3]);
            continue;
        };
        let work = model.total
            * mine
                .iter()
                .map(|s| model.f[*s] + model.b[*s] + model.w[*s])
                .sum::<f64>();
        let own;
        let from_own = if head == 0 {
            &whole
        } else {
            own = model.arrivals(head)?;
            &own
        };
        let (mut span, mut makespan) = (work, whole.forward(head, 1) + work);
        for &s in &mine {
            for j in 1..=m {
                let can = model.can_before(r, &mine, s, j);
                span = span.max(work + from_own.input(s, j) - can);
                makespan = makespan.max(work + whole.input(s, j) - can);
            }
        }
        if let Some(limit) = query.limit
            && let [only] = mine[..]
        {
            span = span.max(work + two_windows(&model, only, query.memory, limit.at(r)));
        }
        let makespan = makespan.max(span + whole.forward(head, 1));
        result.per_rank.push([work, span, makespan]);
        result.work = result.work.max(work);
        result.span = result.span.max(span);
        result.makespan = result.makespan.max(makespan);
    }
    Ok(result)
}

struct Model<'a> {
    query: &'a PipelineQuery<'a>,
    f: Vec<f64>,
    b: Vec<f64>,
    w: Vec<f64>,
    hop: Vec<f64>,
    act: Vec<f64>,
    /// Sum of the k smallest and of the k largest micro-batch factors.
    small: Vec<f64>,
    large: Vec<f64>,
    least: f64,
    total: f64,
}

/// Earliest starts of the j-th F and j-th I of the stages from `from` on, j counted from 1.
struct Arrivals {
    from: usize,
    m: usize,
    forward: Vec<f64>,
    input: Vec<f64>,
}

impl Arrivals {
    fn at(&self, s: usize, j: usize) -> usize {
        (s - self.from) * (self.m + 1) + j
    }

    fn forward(&self, s: usize, j: usize) -> f64 {
        self.forward[self.at(s, j)]
    }

    fn input(&self, s: usize, j: usize) -> f64 {
        self.input[self.at(s, j)]
    }
}

/// Absorbs rounding where a memory limit is divided by an activation.
const SLACK: f64 = 1e-9;

impl<'a> Model<'a> {
    fn new(query: &'a PipelineQuery<'a>) -> Model<'a> {
        let c = query.costs;
        let stages = query.stage_rank.len();
        let per_stage = |value: &dyn Fn(usize) -> f64| (0..stages).map(value).collect::<Vec<f64>>();
        let input = per_stage(&|s| c.input_grad.at(s) + c.recompute.at(s));
        let weight = per_stage(&|s| c.weight_grad.at(s));
        let none = vec![0.0; stages];
        let (b, w) = match query.backward {
            BackwardParts::Split => (input, weight),
            BackwardParts::Whole => (
                input.iter().zip(&weight).map(|(i, w)| i + w).collect(),
                none,
            ),
            BackwardParts::None => (none.clone(), none),
        };
        let mut factors: Vec<f64> = (0..query.microbatches)
            .map(|j| c.microbatch.at(j))
            .collect();
        factors.sort_by(f64::total_cmp);
        let sums = |values: &mut dyn Iterator<Item = &f64>| {
            let mut sums = vec![0.0];
            for value in values {
                sums.push(sums[sums.len() - 1] + value);
            }
            sums
        };
        let (small, large) = (sums(&mut factors.iter()), sums(&mut factors.iter().rev()));
        Model {
            query,
            f: per_stage(&|s| c.forward.at(s)),
            b,
            w,
            hop: (0..stages.saturating_sub(1))
                .map(|s| {
                    if query.stage_rank[s] != query.stage_rank[s + 1] {
                        c.transfer.at(s)
                    } else {
                        0.0
                    }
                })
                .collect(),
            act: per_stage(&|s| query.memory.activation.at(s)),
            total: small[query.microbatches],
            least: factors.first().copied().unwrap_or(0.0),
            small,
            large,
        }
    }

    fn arrivals(&self, from: usize) -> Result<Arrivals, ScheduleError> {
        let (stages, m) = (self.f.len(), self.query.microbatches);
        let stage_rank = self.query.stage_rank;
        let mut mates: Vec<Vec<usize>> = vec![Vec::new(); stages];
        for s in from..stages {
            mates[stage_rank[s].index()].push(s);
        }
        let size = (stages - from) * (m + 1);
        let mut a = Arrivals {
            from,
            m,
            forward: vec![0.0; size],
            input: vec![0.0; size],
        };
        let mut head: Vec<Option<f64>> = vec![None; stages];
        for j in 1..=m {
            for (s, rank) in stage_rank.iter().enumerate().skip(from) {
                let rank = rank.index();
                let arrived = if s == from {
                    0.0
                } else {
                    a.forward(s - 1, j) + self.f[s - 1] * self.least + self.hop[s - 1]
                };
                let head = *head[rank].get_or_insert(arrived);
                let mut before = self.small[j - 1] * self.f[s];
                for &u in mates[rank].iter().filter(|u| **u < s) {
                    before += self.small[j] * self.f[u];
                }
                let mut start = arrived.max(head + before);
                if let Some(finished) = self.finished_before(s, j, rank)? {
                    start = start.max(a.input(s, finished) + self.b[s] * self.least);
                }
                let at = a.at(s, j);
                a.forward[at] = start;
            }
            for s in (from..stages).rev() {
                let rank = stage_rank[s].index();
                let arrived = if s == stages - 1 {
                    a.forward(s, j) + self.f[s] * self.least
                } else {
                    a.input(s + 1, j) + self.b[s + 1] * self.least + self.hop[s]
                };
                let mut must = self.small[j - 1] * self.b[s];
                for &u in &mates[rank] {
                    must += self.small[j] * (self.f[u] + if u > s { self.b[u] } else { 0.0 });
                }
                let at = a.at(s, j);
                a.input[at] = arrived.max(head[rank].unwrap_or(0.0) + must);
            }
        }
        Ok(a)
    }

    /// How many input gradients of `s` must be over before memory allows its j-th forward.
    fn finished_before(
        &self,
        s: usize,
        j: usize,
        rank: usize,
    ) -> Result<Option<usize>, ScheduleError> {
        let Some(limit) = self.query.limit.map(|l| l.at(rank)) else {
            return Ok(None);
        };
        if self.act[s] <= 0.0 || self.query.backward == BackwardParts::None {
            return Ok(None);
        }
        let need = -((limit - self.act[s] * j as f64) / self.act[s] + SLACK).trunc();
        if need < 1.0 {
            return Ok(None);
        }
        if need as usize >= j {
            return Err(ScheduleError::LimitTooSmall {
                rank: RankId(rank as u32),
                limit,
                smallest: self.act[s],
            });
        }
        Ok(Some(need as usize))
    }

    /// The most that rank `r` can have run before the j-th input gradient of `s` starts.
    fn can_before(&self, r: usize, mine: &[usize], s: usize, j: usize) -> f64 {
        let m = self.query.microbatches;
        let done = |t: usize| if t > s { m } else { j - 1 };
        let mut forwards = self.total * mine.iter().map(|t| self.f[*t]).sum::<f64>();
        if let Some(limit) = self.query.limit.map(|l| l.at(r))
            && mine.iter().all(|t| self.act[*t] > 0.0)
            && self.query.backward != BackwardParts::None
        {
            let room = limit
                + mine
                    .iter()
                    .map(|t| done(*t) as f64 * self.act[*t])
                    .sum::<f64>();
            let head = mine[0];
            if mine
                .iter()
                .all(|t| self.f[*t] == self.f[head] && self.act[*t] == self.act[head])
            {
                let count = (room / self.act[head] + SLACK) as usize;
                forwards = forwards.min(self.dearest(count, mine.len()) * self.f[head]);
            } else {
                let rate = mine
                    .iter()
                    .map(|t| self.f[*t] / self.act[*t])
                    .fold(0.0, f64::max);
                let dearest = self.large[1.min(m)].max(1.0);
                forwards = forwards.min(rate * room * dearest);
            }
        }
        forwards
            + mine
                .iter()
                .map(|t| self.large[done(*t)] * (self.b[*t] + self.w[*t]))
                .sum::<f64>()
    }

    /// The factors of `count` steps spread over `chunks` stages, the dearest micro-batches of each.
    fn dearest(&self, count: usize, chunks: usize) -> f64 {
        let m = self.query.microbatches;
        let count = count.min(m * chunks);
        let (each, rest) = (count / chunks, count % chunks);
        self.large[each] * (chunks - rest) as f64
            + if rest > 0 {
                self.large[each + 1] * rest as f64
            } else {
                0.0
            }
    }
}

/// Idle time of a rank with the one stage `s` under a memory limit, from two disjoint windows.
///
/// Between the end of F(j) and the start of I(j) lies a round trip to the last stage. In the first window (j = 1) only
/// the forwards that fit can run. In the last one (j = m) no forward is left, and memory bounds the I and W that are.
fn two_windows(model: &Model<'_>, s: usize, memory: &Memory, limit: f64) -> f64 {
    let m = model.query.microbatches;
    let (act, held) = (memory.activation.at(s), memory.held_for_weights.at(s));
    if act <= 0.0 || model.query.backward == BackwardParts::None {
        return 0.0;
    }
    let fit = (limit / act + SLACK) as usize;
    if m <= fit || fit == 0 {
        return 0.0;
    }
    let beyond: f64 = (s + 1..model.f.len())
        .map(|t| (model.f[t] + model.b[t]) * model.least)
        .sum();
    let trip = beyond + 2.0 * model.hop[s..].iter().sum::<f64>();
    let first = (trip - model.large[fit - 1] * model.f[s]).max(0.0);
    let mut best: f64 = 0.0;
    for flying in 1..=fit {
        let room = ((limit - act * flying as f64) / held + SLACK).max(0.0) as usize;
        let pending = if held == 0.0 { m } else { room.min(m - flying) };
        let weights = (flying - 1 + pending).min(m);
        best = best.max(model.large[flying - 1] * model.b[s] + model.large[weights] * model.w[s]);
    }
    first + (trip - best).max(0.0)
}
