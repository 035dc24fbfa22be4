//! The exhaustive search against every order there is.

use std::time::{Duration, Instant};

use super::*;
use crate::schedule::action::RankId;
use crate::schedule::bound::{BackwardParts, PipelineQuery};
use crate::schedule::cost::{Costs, Memory, PerIndex};
use crate::schedule::search::pattern::Random;
use crate::schedule::search::problem::Wish;

/// Every order of one rank's steps in which each kind is in order and nothing comes before what it needs.
fn orders(p: &Problem, s: usize, list: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
    if list.len() == p.kinds * p.m {
        all.push(list.clone());
        return;
    }
    let count = |list: &[u32], kind| {
        let of_kind = |op: &&u32| p.parts(**op as usize).0 == kind;
        list.iter().filter(of_kind).count()
    };
    for kind in 0..p.kinds {
        let j = count(list, kind);
        if j < p.m && (kind == F || count(list, kind - 1) > j) {
            list.push(p.op(kind, s, j) as u32);
            orders(p, s, list, all);
            list.pop();
        }
    }
}

fn shortest(p: &Problem) -> f64 {
    let mut each: Vec<Vec<Vec<u32>>> = Vec::new();
    for s in 0..p.stages {
        let mut all = Vec::new();
        orders(p, s, &mut Vec::new(), &mut all);
        all.retain(|list| p.list_fits(s, list));
        each.push(all);
    }
    let mut clock = Clock::new(p);
    let mut best = f64::INFINITY;
    let combinations: usize = each.iter().map(Vec::len).product();
    for mut n in 0..combinations {
        let mut lists = Vec::new();
        for all in &each {
            lists.push(all[n % all.len()].clone());
            n /= all.len();
        }
        if let Some(score) = clock.run(p, &lists) {
            best = best.min(score.first);
        }
    }
    best
}

#[test]
fn as_short_as_the_shortest_of_all_orders() {
    let mut random = Random(3);
    let mut proven = 0;
    for round in 0..60 {
        let (ranks, m) = [(2, 3), (3, 2), (2, 2), (1, 3)][round % 4];
        let stage_rank: Vec<RankId> = (0..ranks as u32).map(RankId).collect();
        let mut each = |most: usize| {
            PerIndex::Each(
                (0..ranks)
                    .map(|_| 1.0 + random.below(most) as f64)
                    .collect(),
            )
        };
        let costs = Costs {
            forward: each(5),
            input_grad: each(5),
            weight_grad: each(4),
            transfer: PerIndex::Same((round % 3) as f64),
            ..Costs::default()
        };
        let memory = Memory::uniform(1.0, [1.0, 0.5][round % 2]);
        let limit = PerIndex::Same(1.0 + (round % 5) as f64 / 2.0);
        let problem = Problem::new(&Wish {
            pipeline: PipelineQuery {
                stage_rank: &stage_rank,
                microbatches: m,
                costs: &costs,
                memory: &memory,
                limit: Some(&limit),
                backward: [BackwardParts::Split, BackwardParts::Whole][round / 4 % 2],
            },
            objective: [Objective::Span, Objective::Makespan][round / 8 % 2],
        })
        .expect("possible");
        // From nothing: whatever is found first is improved until nothing shorter exists.
        let deadline = Instant::now() + Duration::from_secs(60);
        let outcome = solve(&problem, Score::WORST, 1_000_000, deadline);
        let (lists, score) = outcome.better.expect("some order");
        assert!(problem.fits(&lists));
        if outcome.proven {
            proven += 1;
            assert_eq!(score.first, shortest(&problem), "round {round}: {costs:?}");
        }
    }
    assert!(proven > 50, "{proven}");
}
