//! The search for short schedules under a memory limit.
//!
//! Seeds first: the kinds that follow a rule, builds under every policy, and steady patterns. The best few are annealed for
//! a while, the best of those for longer. A long pipeline run is first searched with few micro-batches, and what is found
//! there is stretched. A problem of few steps is searched exhaustively. All effort is counted in steps, not in seconds, so that the same wish gives the same schedule; a
//! time limit may cut it short.

mod build;
mod exact;
mod local;
mod lockstep;
mod pattern;
mod pool;
pub mod problem;
mod seeds;
mod stretch;

use std::time::{Duration, Instant};

use self::local::Annealing;
use self::pattern::Random;
use self::pool::Pool;
pub use self::problem::{Objective, Problem, Score, Wish};

/// How hard to search.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Work, in units of about ten nanoseconds.
    pub work: f64,
    /// When to stop in any case.
    pub time_limit: Option<Duration>,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The steps of each rank in order, in the numbers of the problem.
    pub lists: Vec<Vec<u32>>,
    /// Their score.
    pub score: Score,
    /// Whether an exhaustive search found nothing shorter in the first objective.
    pub proven: bool,
}

/// Hears how far a search is, from 0 to 1, and the best score so far.
pub type Progress<'a> = &'a mut dyn FnMut(f64, Score);

/// With more steps than this, few micro-batches are searched first.
const LONG: usize = 4000;

/// Work of the short search of a small problem.
const SMALL_WORK: f64 = 20e6;

/// Work that one state of the exhaustive search stands for.
const NODE: f64 = 200.0;

/// Searches.
pub fn search(p: &Problem, effort: Effort, progress: Progress<'_>) -> Found {
    let start = Instant::now();
    let limit = effort.time_limit.unwrap_or(Duration::from_secs(3600));
    let deadline = start
        .checked_add(limit)
        .unwrap_or(start + Duration::from_secs(3600));
    if p.stages * p.m > exact::MOST {
        let mut pool = Pool::new(p, effort.work, deadline);
        run(p, &mut pool, progress);
        let (lists, score) = pool.into_best();
        return Found {
            lists,
            score,
            proven: false,
        };
    }
    small(p, effort, deadline, progress)
}

/// A small problem: a short search, and then to the end. Where that is too far after all, the rest of the search.
fn small(p: &Problem, effort: Effort, deadline: Instant, progress: Progress<'_>) -> Found {
    let mut pool = Pool::new(p, effort.work.min(SMALL_WORK), deadline);
    run(p, &mut pool, progress);
    let mut random = Random(5);
    let mut proven = false;
    let mut nodes = (effort.work / NODE) as u64;
    while nodes > 0 && !p.bound.reached_first(&pool.best_score()) {
        let outcome = exact::solve(p, pool.best_score(), nodes, deadline);
        nodes -= outcome.nodes.min(nodes);
        proven = outcome.proven;
        let Some((lists, score)) = outcome.better else {
            break;
        };
        // Found with regard to the first objective alone; the second may still shrink.
        let how = Annealing {
            work: SMALL_WORK / 4.0,
            heat: 0.5,
            window: 24,
            deadline,
        };
        pool.offer(lists.clone(), score);
        if let Some((lists, score)) = local::improve(p, lists, how, &mut random) {
            pool.offer(lists, score);
        }
        if proven {
            break;
        }
    }
    progress(0.5, pool.best_score());
    if !proven && !p.reaches_bound(&pool.best_score()) && effort.work > SMALL_WORK {
        let mut more = Pool::new(p, effort.work - SMALL_WORK, deadline);
        for (lists, score) in pool.take() {
            more.offer(lists, score);
        }
        run(p, &mut more, progress);
        pool = more;
    }
    let (lists, score) = pool.into_best();
    Found {
        lists,
        score,
        proven,
    }
}

fn run(p: &Problem, pool: &mut Pool<'_>, progress: Progress<'_>) {
    let all = pool.left();
    seeds::cheap(p, pool);
    progress(0.1, pool.best_score());
    if pool.done() {
        return;
    }
    let few = stretch::few_microbatches(p);
    if p.steps() > LONG && few * 3 < p.m * 2 {
        let small = stretch::shortened(p, few);
        let mut inner = Pool::new(&small, pool.left() * 0.6, pool.deadline());
        run(&small, &mut inner, &mut |_, _| {});
        pool.spend(all * 0.6 - inner.left().max(0.0));
        for lists in inner.lists() {
            stretch::stretched(p, &small, lists, pool);
        }
        progress(0.6, pool.best_score());
    } else {
        seeds::steady(p, pool, 0.35);
        progress(0.35, pool.best_score());
    }
    // The order of a good schedule, filled again for what idle time is left by now, is often better still.
    for _ in 0..4 {
        let before = pool.best_score();
        let tables: Vec<Vec<f64>> = pool
            .lists()
            .take(3)
            .map(|lists| seeds::places(p, lists))
            .collect();
        for table in &tables {
            if pool.left() > all * 0.5 {
                seeds::refill(table, pool, usize::MAX);
            }
        }
        if pool.done() {
            return;
        }
        if !pool.best_score().beats(&before) {
            break;
        }
    }
    let mut random = Random(11);
    for (keep, share, heat) in [(6, 0.15, 0.0), (6, 0.4, 1.0), (2, 0.5, 0.5), (1, 1.0, 0.25)] {
        if pool.done() {
            return;
        }
        pool.keep(keep);
        let starts = pool.entries();
        let work = pool.left() * share / starts.len() as f64;
        for lists in starts {
            // Too few moves for so many steps do not cool down; then little heat is better.
            let runs = work / (2.0 * pool::RUN * p.steps() as f64);
            let heat = heat * (runs / (2.0 * p.steps() as f64)).min(1.0);
            let how = Annealing {
                work,
                heat,
                window: 24,
                deadline: pool.deadline(),
            };
            let found = local::improve(p, lists, how, &mut random);
            pool.spend(work);
            if let Some((lists, score)) = found {
                pool.offer(lists, score);
            }
            progress(1.0 - pool.left() / all, pool.best_score());
            if pool.done() {
                return;
            }
        }
    }
}
