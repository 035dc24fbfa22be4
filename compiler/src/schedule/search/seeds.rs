//! Where the search starts: kinds that follow a rule, builds under every policy, and steady patterns.

use super::build::{Flexible, Order, Policy, Rule};
use super::lockstep::{self, Filling};
use super::pattern::{Pattern, Random};
use super::pool::Pool;
use super::problem::{F, I, Problem};
use crate::schedule::kinds::{Kind, Shape, lists};

/// Settings of gap filling.
const GAPS: [f64; 3] = [1.0, 0.0, 0.5];

/// The parts of the way to the best so far that budgets of idle time aim at.
const TARGETS: [f64; 6] = [0.0, 0.5, 0.9, 0.98, 0.2, 0.75];

/// With more steps than this, a build is too dear to be tried in many ways.
const LARGE: usize = 60_000;

fn policy(order: Order<'_>) -> Policy<'_> {
    Policy {
        order,
        gap: 1.0,
        budget: None,
        flexible: Flexible::Yes,
    }
}

/// Kinds, rules, and forwards run ahead.
pub fn cheap(p: &Problem, pool: &mut Pool<'_>) {
    for rule in [
        Rule::GradientFirst,
        Rule::Alternate,
        Rule::ForwardFirst,
        Rule::OldestFirst,
    ] {
        for gap in GAPS {
            pool.build(&Policy {
                gap,
                ..policy(Order::Rule(rule))
            });
            if pool.done() {
                return;
            }
        }
    }
    if p.stages > p.ranks && p.steps() < LARGE {
        // Greedy under a budget of idle time, which shrinks as schedules get shorter.
        for rule in [Rule::GradientFirst, Rule::Alternate, Rule::OldestFirst] {
            for target in TARGETS {
                let budget = pool.budget(target);
                pool.build(&Policy {
                    budget: Some(&budget),
                    ..policy(Order::Rule(rule))
                });
                if pool.done() {
                    return;
                }
            }
        }
    }
    if lockstep::suits(p) {
        in_lockstep(p, pool);
        if pool.done() {
            return;
        }
    }
    for lists in from_kinds(p) {
        let table = places(p, &lists);
        pool.run(lists);
        if pool.done() {
            return;
        }
        refill(&table, pool, 2);
    }
    if p.stages == p.ranks {
        let ways = [
            (1.0, 0),
            (1.0, 1),
            (1.0, 2),
            (0.9, 0),
            (1.1, 0),
            (1.25, 0),
            (1.5, 0),
            (2.0, 0),
            (0.75, 0),
        ];
        for (stretch, more) in ways {
            let table = ahead(p, &warm_ups(p, stretch, more));
            refill(&table, pool, TARGETS.len());
            if pool.done() {
                return;
            }
        }
    }
}

/// V shapes in lockstep under every setting; the idle time of one run is what the next one allows, while that helps.
fn in_lockstep(p: &Problem, pool: &mut Pool<'_>) {
    let settings = [(true, true), (true, false), (false, true), (false, false)];
    for (forwards, gradients) in settings {
        let filling = Filling {
            forwards,
            gradients,
        };
        let mut allowed: Option<Vec<f64>> = None;
        let mut least = f64::INFINITY;
        for _ in 0..8 {
            pool.spend(super::pool::BUILD * p.steps() as f64);
            let Some((lists, idle)) = lockstep::build(p, filling, allowed.as_deref()) else {
                break;
            };
            let most = idle.iter().copied().fold(0.0, f64::max);
            pool.run(lists);
            if pool.done() {
                return;
            }
            if most >= least {
                break;
            }
            least = most;
            allowed = Some(idle);
        }
    }
}

/// Builds forwards and input gradients in the order of a table, and weight gradients between them in several ways.
pub fn refill(table: &[f64], pool: &mut Pool<'_>, targets: usize) {
    for flexible in [Flexible::Yes, Flexible::No] {
        for gap in GAPS {
            pool.build(&Policy {
                gap,
                flexible,
                ..policy(Order::Strict(table))
            });
            if pool.done() {
                return;
            }
        }
        for target in TARGETS.iter().take(targets) {
            let budget = pool.budget(*target);
            pool.build(&Policy {
                flexible,
                budget: Some(&budget),
                ..policy(Order::Strict(table))
            });
            if pool.done() {
                return;
            }
        }
    }
}

/// The place of each step in its list.
pub fn places(p: &Problem, lists: &[Vec<u32>]) -> Vec<f64> {
    let mut table = vec![0.0; p.steps()];
    for list in lists {
        for (i, op) in list.iter().enumerate() {
            table[*op as usize] = i as f64;
        }
    }
    table
}

/// The lists of the kinds with this problem's placement.
fn from_kinds(p: &Problem) -> Vec<Vec<Vec<u32>>> {
    let chunks = p.stages / p.ranks;
    if chunks * p.ranks != p.stages || p.kinds == 1 {
        return Vec::new();
    }
    let shape = Shape {
        ranks: p.ranks as u32,
        microbatches: p.m as u32,
        chunks: chunks as u32,
        round: None,
    };
    let mut wanted = Vec::new();
    if (0..p.stages).all(|s| p.rank_of[s] as usize == s % p.ranks) {
        if chunks == 1 {
            wanted.extend(
                [Kind::OneFOneB, Kind::Eager1F1B, Kind::ZbH1, Kind::ZbH2].map(|kind| (kind, shape)),
            );
        } else {
            wanted.push((Kind::Interleaved1F1B, shape));
            wanted.push((
                Kind::Interleaved1F1B,
                Shape {
                    round: Some(shape.ranks),
                    ..shape
                },
            ));
        }
    } else if chunks == 2 && (0..p.stages).all(|s| p.rank_of[s] as usize == s.min(p.stages - 1 - s))
    {
        wanted.push((Kind::ZbV, shape));
    }
    wanted
        .into_iter()
        .filter_map(|(kind, shape)| lists(kind, shape))
        .map(|(lists, _)| p.ops_of(&lists))
        .collect()
}

/// How many forwards each rank runs before its first input gradient comes back: as many as fit in the round trip, times
/// `stretch`, and `more` where there is a round trip; but never more than memory holds or the rank before runs.
fn warm_ups(p: &Problem, stretch: f64, more: usize) -> Vec<usize> {
    let mut trip = 0.0;
    let mut warm = vec![1; p.stages];
    for s in (0..p.stages).rev() {
        let room = if p.act[s] > 0.0 {
            ((p.limit[s] + 1e-9) / p.act[s]).min(p.m as f64) as usize
        } else {
            p.m
        };
        let fit = (stretch * trip / p.mean[F][s].max(1e-12) + 1e-9).min(p.m as f64) as usize;
        let more = if trip > 0.0 { more } else { 0 };
        warm[s] = (1 + fit + more).min(room).max(1);
        trip += p.mean[F][s] + p.mean[I][s] + if s > 0 { 2.0 * p.hop[s - 1] } else { 0.0 };
    }
    for s in 1..p.stages {
        warm[s] = warm[s].min(warm[s - 1]);
    }
    warm
}

/// One forward for one input gradient after `warm` forwards.
fn ahead(p: &Problem, warm: &[usize]) -> Vec<f64> {
    let mut table = vec![0.0; p.steps()];
    for (s, warm) in warm.iter().enumerate() {
        for j in 0..p.m {
            table[p.op(F, s, j)] = (2 * j + 1) as f64 - 2.0 * *warm as f64;
            if p.kinds > 1 {
                table[p.op(I, s, j)] = (2 * j) as f64;
            }
        }
    }
    table
}

/// Steady patterns of many periods and shapes, until `share` of the work is spent.
pub fn steady(p: &Problem, pool: &mut Pool<'_>, share: f64) {
    if p.stages == p.ranks || p.kinds == 1 {
        return;
    }
    let stop = pool.left() * (1.0 - share);
    let least = p
        .stages_of
        .iter()
        .map(|r| r.iter().map(|s| p.work_of(*s as usize)).sum::<f64>())
        .fold(0.0, f64::max);
    let least = least / p.m as f64;
    let unit = p.mean[F].iter().sum::<f64>() / p.stages as f64;
    let chunks = p.stages.div_ceil(p.ranks);
    let mut random = Random(1);
    for round in 0.. {
        let delay = if round % 2 == 1 {
            0.0
        } else {
            [0.0, 0.02, 0.05, 0.1, 0.2][(round / 2) % 5]
        };
        let mut extra = vec![[0.0; 2]; chunks];
        if round > 0 {
            for extra in extra.iter_mut().flatten() {
                *extra = [0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0][random.below(7)] * unit;
            }
        }
        for step in 0..40 {
            if pool.left() < stop || pool.done() {
                return;
            }
            pool.spend(50.0 * p.stages as f64);
            let jitter = if round == 0 || step == 0 {
                0.0
            } else {
                random.unit()
            };
            let period = least * (1.0 + 0.03 * (step as f64 + jitter));
            let pattern = Pattern::place(p, period, delay, &extra, &mut random);
            let load = pattern.load(p);
            if load > 1.05 {
                continue;
            }
            if round > 0 && load < 0.6 {
                break;
            }
            let table = pattern.table(p);
            let best = pool.best_score().first;
            let first = pool.build(&Policy {
                flexible: Flexible::No,
                ..policy(Order::Strict(&table))
            });
            if first.first < best * 1.1 {
                refill(&table, pool, 3);
            }
        }
    }
}
