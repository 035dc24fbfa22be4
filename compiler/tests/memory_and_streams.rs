//! `plan-memory` and `overlap-comm` on jobs of real pipelines: storage ends once, after every read, and streams wait where they must.

mod paddle_files;
mod programs;

use std::collections::BTreeMap;

use paddle_files::{bring_in, pipelines};
use programs::inspect::run;
use raddle_compiler::analysis::memory::readers::{Job, last, readers, value_name};
use raddle_compiler::analysis::memory::report::memory;
use raddle_compiler::analysis::memory::{classes, functions};
use raddle_compiler::analysis::streams;
use raddle_compiler::bundle::lower;
use raddle_compiler::generate::{Spec, generate};
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Context, Module, Verified, VerifyOptions, verify};
use raddle_runtime::validate::{Kind, Options, compare};

/// Pipelines that are cut into jobs.
fn pipelines_in_jobs() -> Vec<(String, Verified)> {
    let mut found = Vec::new();
    for (name, cases) in pipelines() {
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let cut = match name.starts_with("VPP") {
            true => "infer-stages{stages=4},split-backward,partition-stages{chunks=2}",
            false => "split-backward,partition-stages",
        };
        found.push((name, run(module, &format!("builtin.module({cut})")).0));
    }
    let cx = Context::new();
    let spec = Spec {
        microbatches: 3,
        batch: 6,
        layers: 4,
        ..Spec::default()
    };
    let module = generate(&cx, &spec).expect("a program");
    let module = verify(module, VerifyOptions::default(), &mut Diagnostics::new());
    let module = module.ok().expect("a program that verifies");
    for (stages, chunks) in [(2, 1), (4, 2)] {
        let cut = format!(
            "builtin.module(append-backward{{optimizer=adamw}},infer-stages{{stages={stages}}},split-backward,\
             partition-stages{{chunks={chunks}}})"
        );
        found.push((format!("generated, {stages}"), run(module.clone(), &cut).0));
    }
    found
}

const ORDERS: [&str; 4] = [
    "plan-memory,overlap-comm",
    "overlap-comm,plan-memory",
    "plan-memory,overlap-comm{mode=synchronised}",
    "overlap-comm{mode=synchronised},plan-memory",
];

#[test]
fn storage_ends_once_and_streams_wait() {
    for (name, module) in pipelines_in_jobs() {
        for order in ORDERS {
            let (module, _) = run(module.clone(), &format!("builtin.module({order})"));
            let found: Vec<_> = streams::check(&module)
                .into_iter()
                .map(|d| d.message)
                .collect();
            assert!(found.is_empty(), "{name}, {order}: {found:#?}");
            check_frees(&module, &format!("{name}, {order}"));
            let mut diagnostics = Diagnostics::new();
            let bundle = lower(&module, &mut diagnostics);
            assert!(bundle.is_some() && !diagnostics.has_errors(), "{name}");
        }
    }
}

/// Every value between jobs is freed by its last reader and by no other job; every value of a job by itself, once.
fn check_frees(module: &Module, what: &str) {
    for class in classes(module) {
        let readers = readers(module, class);
        let mut freed: BTreeMap<&str, usize> = BTreeMap::new();
        for function in functions(module, class) {
            let block = module.body(function);
            let is_job = Job::of(module, function).is_some_and(Job::per_microbatch);
            for op in module.block_ops(block) {
                if !module.is(op, "dist.free") {
                    continue;
                }
                let value = module.operand(op, 0);
                let index = module.args(block).iter().position(|&arg| arg == value);
                let Some(index) = index else {
                    let frees = module.uses(value).filter(|u| module.is(u.op, "dist.free"));
                    assert_eq!(frees.count(), 1, "{what}: a value is freed twice");
                    continue;
                };
                let name = value_name(module, function, "arg_attrs", index).unwrap();
                assert_eq!(
                    last(&readers[name]),
                    Some((function, index)),
                    "{what}: {name}"
                );
                *freed.entry(name).or_default() += 1;
            }
            if is_job {
                for op in module.block_ops(block) {
                    let plain = !matches!(
                        module.name_str(op),
                        "dist.load" | "dist.reshape" | "dist.identity"
                    );
                    for value in module.results(op).filter(|_| plain) {
                        let kept = views_returned(module, value);
                        let freed = module.uses(value).any(|u| module.is(u.op, "dist.free"));
                        assert!(kept != freed, "{what}: {}", module.name_str(op));
                    }
                }
            }
        }
        for (name, readers) in &readers {
            // What a job only passes on is not its to free.
            let times = freed.get(name.as_str()).copied().unwrap_or(0);
            let expected = usize::from(last(readers).is_some());
            assert_eq!(times, expected, "{what}: {name}");
        }
    }
}

fn views_returned(module: &Module, value: raddle_dialect::ir::ValueId) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        for use_ in module.uses(value) {
            match module.name_str(use_.op) {
                "func.return" => return true,
                "dist.reshape" | "dist.identity" => open.push(module.result(use_.op, 0)),
                _ => {}
            }
        }
    }
    false
}

#[test]
fn numbers_stay() {
    let jobs = pipelines_in_jobs();
    for (name, module) in &jobs[jobs.len() - 1..] {
        let mut diagnostics = Diagnostics::new();
        let before = lower(module, &mut diagnostics).expect("the program runs");
        for order in &ORDERS[1..3] {
            let (after, _) = run(module.clone(), &format!("builtin.module({order})"));
            let after = lower(&after, &mut diagnostics).expect("the planned program runs");
            let options = Options {
                steps: 1,
                ..Options::new(3)
            };
            let report =
                compare(&before, &after, options).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(report.failures.is_empty() && report.compared[&Kind::Global] > 0);
        }
    }
}

/// The schedule decides how much is held, the split how much of it is W's.
#[test]
fn schedules_change_the_peak() {
    let jobs = pipelines_in_jobs();
    let (_, module) = jobs
        .iter()
        .find(|(name, _)| name == "generated, 2")
        .unwrap();
    let peaks = |pipeline: &str| -> Vec<(u64, u64)> {
        let (module, _) = run(module.clone(), &format!("builtin.module({pipeline})"));
        let memory = memory(&module).into_iter();
        memory
            .map(|m| {
                (
                    m.peak_activations_bytes + m.peak_stash_bytes,
                    m.microbatch_bytes,
                )
            })
            .collect()
    };
    let all_first = peaks("schedule-pipeline{kind=gpipe}");
    let alternating = peaks("schedule-pipeline{kind=zb-h1}");
    // Of three micro-batches one after the other holds all; the last stage of the other ever holds one or two.
    for (stage, (gpipe, microbatch)) in all_first.iter().enumerate() {
        assert!(
            *gpipe >= 3 * microbatch,
            "stage {stage}: {gpipe} < 3 · {microbatch}"
        );
        assert!(alternating[stage].0 < *gpipe, "stage {stage}");
    }
}
