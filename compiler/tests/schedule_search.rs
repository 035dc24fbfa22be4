//! The search against what others reached: never longer than the Zero Bubble authors' schedules in the same memory, and as
//! short as the optima that CP-SAT proved.

mod schedule_data;

use std::time::Duration;

use proptest::prelude::*;
use raddle_compiler::schedule::bound::{BackwardParts, PipelineQuery};
use raddle_compiler::schedule::optimizer::Optimizer;
use raddle_compiler::schedule::search::{Effort, Found, Objective, Problem, Wish, search};
use raddle_compiler::schedule::{
    Backward, CommModel, Costs, Kind, Memory, PerIndex, Placement, Request, Schedule,
    ScheduleError, Setting, evaluate, make,
};
use serde_json::Value;

use schedule_data::data;

fn numbers(value: &Value) -> PerIndex {
    match value {
        Value::Array(list) => {
            PerIndex::Each(list.iter().map(|v| v.as_f64().expect("number")).collect())
        }
        one => PerIndex::Same(one.as_f64().expect("number")),
    }
}

fn costs(row: &Value) -> Costs {
    Costs {
        forward: numbers(&row["T_F"]),
        input_grad: numbers(&row["T_B"]),
        weight_grad: numbers(&row["T_W"]),
        transfer: numbers(&row["T_C"]),
        ..Costs::default()
    }
}

/// Searches harder and harder, up to the default effort, until the first objective is as short as `target`.
fn reach(problem: &Problem, target: f64) -> Found {
    let mut found = None;
    for work in [1e6, 1e7, 5e7, 2e8] {
        let next = search(
            problem,
            Effort {
                work,
                time_limit: None,
            },
            &mut |_, _| {},
        );
        let enough = next.score.first <= target * (1.0 + 1e-9);
        found = Some(next);
        if enough {
            break;
        }
    }
    found.expect("searched")
}

#[test]
fn as_short_as_every_proven_optimum() {
    let (mut compared, mut proven) = (0, 0);
    for (n, row) in data::<Vec<Value>>("optimum_small.json.gz")
        .iter()
        .enumerate()
        .filter(|(_, row)| row["status"] == "OPTIMAL")
    {
        let stage_rank: Vec<_> = row["placement"]
            .as_array()
            .expect("placement")
            .iter()
            .map(|r| raddle_compiler::schedule::RankId(r.as_u64().expect("rank") as u32))
            .collect();
        let chunks = row["v"].as_u64().expect("chunks") as f64;
        let costs = costs(row);
        let memory = Memory::uniform(1.0 / chunks, row["wact_ratio"].as_f64().expect("ratio"));
        let limit = row["mem_limit_stage_acts"].as_f64().map(PerIndex::Same);
        let problem = Problem::new(&Wish {
            pipeline: PipelineQuery {
                stage_rank: &stage_rank,
                microbatches: row["m"].as_u64().expect("m") as usize,
                costs: &costs,
                memory: &memory,
                limit: limit.as_ref(),
                backward: if row["split"] == true {
                    BackwardParts::Split
                } else {
                    BackwardParts::Whole
                },
            },
            objective: if row["objective"] == "span" {
                Objective::Span
            } else {
                Objective::Makespan
            },
        })
        .expect("possible");
        let optimum = row["value"].as_f64().expect("value");
        let effort = Effort {
            work: 20e6,
            time_limit: None,
        };
        let found = search(&problem, effort, &mut |_, _| {});
        proven += usize::from(found.proven || problem.bound.reached_first(&found.score));
        // Not shorter either: then the clock would be wrong.
        assert!(
            (found.score.first - optimum).abs() <= 1e-9 * optimum,
            "row {n}: {:?} for {optimum}",
            found.score
        );
        let lists = found
            .lists
            .iter()
            .map(|l| l.iter().map(|op| problem.action(*op as usize)).collect())
            .collect();
        let schedule = Schedule::new(lists).expect("schedule");
        let report = evaluate(
            &schedule,
            &Setting {
                costs,
                memory,
                limit,
            },
            CommModel::Dep,
        )
        .expect("sound");
        assert_ne!(report.fits, Some(false), "row {n}");
        let time = if row["objective"] == "span" {
            report.span
        } else {
            report.makespan
        };
        assert!((time - optimum).abs() <= 1e-9 * optimum, "row {n}");
        compared += 1;
    }
    assert_eq!(compared, 225);
    // A tenth of a second proves nearly all; the benchmark's table shows all of them proven within three.
    assert!(proven > 215, "{proven}");
}

/// One row of the authors' results as a request, with memory in activations of a rank.
fn request(row: &Value, kind: Kind, memory_unit: f64) -> Request {
    let small = |key: &str| row[key].as_u64().expect("count") as u32;
    let limit = row["peak_mem_max"].as_f64().expect("peak") / memory_unit + 1e-4;
    Request {
        kind,
        ranks: small("p"),
        microbatches: small("m"),
        chunks: None,
        costs: costs(row),
        held_for_weights: row["mem_w_over_mem_b"].as_f64().unwrap_or(1.0),
        limit: Some(PerIndex::Same(limit)),
        optimizer: Optimizer::PostValidate,
        backward: None,
        placement: None,
        round: None,
        time_limit: None,
    }
}

/// The problem of a request with two chunks per rank in a V or one in a row.
fn with_problem<T>(request: &Request, then: impl FnOnce(&Problem) -> T) -> T {
    let chunks = request.kind.default_chunks();
    let stage_rank = request
        .kind
        .default_placement()
        .table(request.ranks, chunks);
    let memory = Memory::uniform(1.0 / f64::from(chunks), request.held_for_weights);
    let problem = Problem::new(&Wish {
        pipeline: PipelineQuery {
            stage_rank: &stage_rank,
            microbatches: request.microbatches as usize,
            costs: &request.costs,
            memory: &memory,
            limit: request.limit.as_ref(),
            backward: BackwardParts::Split,
        },
        objective: Objective::Span,
    })
    .expect("possible");
    then(&problem)
}

#[test]
fn not_longer_than_the_authors_with_unit_costs() {
    // The quick rows; the rest is in the benchmark table.
    let mut compared = 0;
    for row in data::<Vec<Value>>("zb_unit.json.gz")
        .iter()
        .filter(|row| row["span"].is_number())
    {
        let steps = row["p"].as_u64().expect("p") * row["m"].as_u64().expect("m");
        let kind = match row["schedule"].as_str().expect("name") {
            "ZB-1p" | "ZB-H1" | "ZB-1.5p" | "ZB-2p" if steps <= 128 => Kind::Auto,
            "V-Half" | "V-Min" if steps <= 16 => Kind::AutoV,
            _ => continue,
        };
        let theirs = row["span"].as_f64().expect("span");
        let found = with_problem(&request(row, kind, 1.0), |problem| reach(problem, theirs));
        assert!(
            found.score.first <= theirs * (1.0 + 1e-9),
            "{:?} for {theirs} in {row}",
            found.score
        );
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn the_same_wish_gives_the_same_schedule() {
    let row = serde_json::json!({"p": 4, "m": 8, "T_F": 14407, "T_B": 14380, "T_W": 9676, "T_C": 1610, "peak_mem_max": 3});
    let run = || {
        with_problem(&request(&row, Kind::AutoV, 1.0), |problem| {
            search(
                problem,
                Effort {
                    work: 5e6,
                    time_limit: None,
                },
                &mut |_, _| {},
            )
            .lists
        })
    };
    assert_eq!(run(), run());
}

fn any_kind() -> impl Strategy<Value = Kind> {
    (0..Kind::ALL.len()).prop_map(|i| Kind::ALL[i])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is asked for, the schedule is sound under every model with the transfers placed by Raddle, within the
    /// limit, and never shorter than its bound.
    #[test]
    fn every_kind_is_sound_for_every_shape(
        kind in any_kind(),
        ranks in 1u32..6,
        microbatches in 1u32..12,
        chunks in 1u32..4,
        times in prop::collection::vec(1u32..20, 60),
        comm in 0u32..8,
        ratio in 0u32..5,
        backward in 0u32..4,
        barrier in any::<bool>(),
        room in 0u32..5,
    ) {
        let fixed = kind.default_chunks() == 2 && !matches!(kind, Kind::Interleaved1F1B | Kind::LoopedBfs);
        let one = matches!(kind, Kind::ZbH1 | Kind::ZbH1Paddle | Kind::ZbH2);
        let chunks = if fixed { 2 } else if one { 1 } else { chunks };
        let stages = (ranks * chunks) as usize;
        let each = |from: usize| PerIndex::Each((0..stages).map(|s| f64::from(times[(from + 3 * s) % 60]) / 4.0).collect());
        let mut request = Request {
            kind,
            ranks,
            microbatches,
            chunks: Some(chunks),
            costs: Costs {
                forward: each(0),
                input_grad: each(1),
                weight_grad: each(2),
                transfer: PerIndex::Same(f64::from(comm) / 4.0),
                ..Costs::default()
            },
            held_for_weights: f64::from(ratio) / 4.0,
            limit: None,
            optimizer: if barrier { Optimizer::Barrier } else { Optimizer::PostValidate },
            backward: [None, Some(Backward::Split), Some(Backward::Whole), Some(Backward::Auto)][backward as usize],
            placement: None,
            round: None,
            time_limit: Some(Duration::from_millis(5)),
        };
        if matches!(kind, Kind::Auto | Kind::AutoV) && room > 0 {
            request.limit = Some(PerIndex::Same(f64::from(room)));
        }
        let made = make(&request, &mut |_, _| {}).expect("every shape has a schedule");
        prop_assert_ne!(made.report.fits, Some(false));
        prop_assert!(made.report.span >= made.report.bound_span * (1.0 - 1e-9));
        prop_assert!(made.report.makespan >= made.report.bound_makespan * (1.0 - 1e-9));
        for model in CommModel::ALL {
            use raddle_compiler::schedule::transfers::{StageSteps, place, place_best};
            let placed = place(&made.schedule, &made.setting.costs, StageSteps::Placed).expect("placed");
            if ranks == 1 && model != CommModel::Dep {
                continue;
            }
            let report = evaluate(&placed, &made.setting, model).expect("no deadlock");
            prop_assert!(report.mismatches.is_empty());
            let best = place_best(&made.schedule, &made.setting.costs, model, StageSteps::AsGiven).expect("placed");
            let better = evaluate(&best, &made.setting, model).expect("no deadlock");
            prop_assert!(better.makespan <= report.makespan * (1.0 + 1e-9));
            prop_assert!(better.mismatches.is_empty());
        }
    }
}

#[test]
fn limits_that_hold_no_micro_batch_name_the_smallest_that_does() {
    let row = serde_json::json!({"p": 4, "m": 8, "T_F": 1, "T_B": 1, "T_W": 1, "T_C": 0, "peak_mem_max": 0.5});
    let fits = |wish: &Request| make(wish, &mut |_, _| {}).expect("now it fits").report.fits;
    for kind in [Kind::Auto, Kind::AutoV] {
        let mut wish = request(&row, kind, 1.0);
        wish.time_limit = Some(Duration::from_millis(5));
        wish.limit = Some(PerIndex::Same(0.75));
        let error = make(&wish, &mut |_, _| {}).expect_err("too small");
        let ScheduleError::LimitTooSmall { smallest, .. } = error else {
            panic!("{error}")
        };
        wish.limit = Some(PerIndex::Same(smallest));
        assert_eq!(fits(&wish), Some(true));
    }
    let mut wish = request(&row, Kind::OneFOneB, 1.0);
    wish.limit = Some(PerIndex::Same(2.0));
    let error = make(&wish, &mut |_, _| {}).expect_err("too small");
    let ScheduleError::OverMemory { peak, .. } = error else {
        panic!("{error}")
    };
    wish.limit = Some(PerIndex::Same(peak));
    assert_eq!(fits(&wish), Some(true));
}

#[test]
fn placement_names_its_ranks() {
    assert_eq!(
        Placement::V
            .table(3, 2)
            .iter()
            .map(|r| r.0)
            .collect::<Vec<_>>(),
        [0, 1, 2, 2, 1, 0]
    );
    assert_eq!(
        Placement::Loop
            .table(3, 2)
            .iter()
            .map(|r| r.0)
            .collect::<Vec<_>>(),
        [0, 1, 2, 0, 1, 2]
    );
}
