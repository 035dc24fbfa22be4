//! Where transfers and other steps go: what a placement must keep, how long it may stall, and what the optimizer's steps add.

use raddle_compiler::schedule::kinds::{Kind, Shape, lists};
use raddle_compiler::schedule::optimizer::{Optimizer, with_optimizer};
use raddle_compiler::schedule::torch_csv::read_csv;
use raddle_compiler::schedule::transfers::{StageSteps, place, place_best};
use raddle_compiler::schedule::{CommModel, Costs, PerIndex, Schedule, Setting, evaluate};

fn rule(kind: Kind, ranks: u32, microbatches: u32, chunks: u32) -> Schedule {
    let shape = Shape {
        ranks,
        microbatches,
        chunks,
        round: None,
    };
    Schedule::new(lists(kind, shape).expect("a rule").0).expect("sound")
}

#[test]
fn one_stream_stalls_interleaving_no_more_than_the_data_do() {
    // PyTorch's own lowering of this schedule idles 0.48 of the time on one stream, and early receives cost 0.3 more.
    let schedule = rule(Kind::Interleaved1F1B, 8, 16, 2);
    let costs = Costs::uniform(1.0, 1.0, 1.0, 0.1);
    let setting = Setting {
        costs: costs.clone(),
        ..Setting::default()
    };
    for model in [
        CommModel::Stream1,
        CommModel::Group,
        CommModel::Pair,
        CommModel::PairDir,
        CommModel::Eager,
    ] {
        let placed = place_best(&schedule, &costs, model, StageSteps::AsGiven).expect("placed");
        let report = evaluate(&placed, &setting, model).expect("no deadlock");
        assert!(
            report.bubble_makespan() <= 0.2 + 1e-9,
            "{}: {}",
            model.name(),
            report.bubble_makespan()
        );
    }
}

#[test]
fn steps_of_a_file_stay_where_they_stand_among_the_computes() {
    let file = "0UNSHARD,0F0,0F1,0B0,0RESHARD,0UNSHARD,0B1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n\
                1UNSHARD,1F0,1B0,1F1,1REDUCE_GRAD,1B1,1STEP\n";
    let given = read_csv(file).expect("sound");
    let costs = Costs::default();
    for steps in [StageSteps::AsGiven, StageSteps::Placed] {
        let placed = place_best(&given, &costs, CommModel::Stream1, steps).expect("placed");
        for (have, want) in placed.ranks().iter().zip(given.ranks()) {
            // Without the transfers the list is the one that was given.
            let mut have: Vec<String> = have.iter().map(ToString::to_string).collect();
            have.retain(|word| !["SEND", "RECV"].iter().any(|w| word.contains(w)));
            let want: Vec<String> = want.iter().map(ToString::to_string).collect();
            assert_eq!(have, want);
        }
        assert!(placed.has_transfers());
    }
}

#[test]
fn steps_of_parameters_are_placed_around_the_computes() {
    let schedule = rule(Kind::Interleaved1F1B, 2, 4, 2);
    let placed = place(&schedule, &Costs::default(), StageSteps::Placed).expect("placed");
    for (rank, list) in placed.ranks().iter().enumerate() {
        let words: Vec<String> = list.iter().map(ToString::to_string).collect();
        let at = |word: String| {
            let found = words.iter().position(|w| *w == word);
            found.unwrap_or_else(|| panic!("no {word} in {words:?}"))
        };
        for stage in [rank, rank + 2] {
            assert!(at(format!("{stage}UNSHARD")) < at(format!("{stage}F0")));
            assert!(at(format!("{stage}B3")) < at(format!("{stage}REDUCE_GRAD")));
            assert!(at(format!("{stage}REDUCE_GRAD")) < at(format!("{stage}WAIT_REDUCE_GRAD")));
            assert!(at(format!("{stage}WAIT_REDUCE_GRAD")) < at(format!("{stage}RESHARD")));
        }
    }
}

#[test]
fn the_optimizer_waits_for_all_or_for_the_ranks_before_it() {
    // Rank 0 computes from 0 to 6, rank 1 from 1 to 4.
    let schedule = rule(Kind::OneFOneB, 2, 1, 1);
    let setting = Setting {
        costs: Costs {
            step: PerIndex::Each(vec![3.0, 4.0]),
            state: 2.0,
            validate: 0.5,
            rollback: 1.0,
            ..Costs::default()
        },
        ..Setting::default()
    };
    let times = |optimizer| {
        let lists = with_optimizer(&schedule, optimizer).expect("steps");
        let report = evaluate(&lists, &setting, CommModel::Dep).expect("sound");
        // The schedule's own numbers do not change.
        assert_eq!((report.makespan, report.span), (6.0, 6.0));
        let ends: Vec<f64> = report
            .timeline
            .computes
            .iter()
            .map(|r| r.iter().flatten().map(|i| i.end).fold(0.0, f64::max))
            .collect();
        (report.step_makespan, report.step_span, ends)
    };
    // The barrier ends at 8 for both; the updates at 11 and 12.
    let (makespan, span, ends) = times(Optimizer::Barrier);
    assert_eq!((makespan, span), (Some(12.0), Some(11.0)));
    assert_eq!(ends, [11.0, 12.0]);
    // Rank 0 updates from 6 to 9. Its state reaches rank 1 at 8, which updates until 12 and validates until 12.5. The whole
    // state is back on rank 0 at 10; it validates and, if it must, repeats the update.
    let (makespan, span, ends) = times(Optimizer::PostValidate);
    assert_eq!((makespan, span), (Some(12.0), Some(11.0)));
    assert_eq!(ends, [11.5, 13.5]);
}

#[test]
fn a_barrier_costs_what_post_validation_saves() {
    // Zero Bubble H1: every rank ends at its own time, so a barrier makes all wait for the last.
    let schedule = rule(Kind::ZbH1, 4, 8, 1);
    let setting = Setting {
        costs: Costs {
            step: PerIndex::Same(1.0),
            ..Costs::default()
        },
        ..Setting::default()
    };
    let span = |optimizer| {
        let lists = with_optimizer(&schedule, optimizer).expect("steps");
        let report = evaluate(&lists, &setting, CommModel::Dep).expect("sound");
        report.step_span.expect("steps")
    };
    assert!(span(Optimizer::PostValidate) <= span(Optimizer::Barrier));
}
