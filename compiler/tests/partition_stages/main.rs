//! `infer-stages` and `partition-stages` keep the meaning: on the reference device, pipelines compute the losses, gradients and globals
//! of the program that they were cut from, over three steps.
//!
//! Bounds in exact mode, where sums are in doubles: 1e-10 of a value's norm, as everywhere in validation. Sums over stages are taken in
//! another order than in the whole program; where no sum is, the numbers are equal to the last bit ([`models`] tests that).

mod graphs;
mod handmade;
mod imported;
mod models;
#[path = "../paddle_files/mod.rs"]
mod paddle_files;
#[path = "../programs/mod.rs"]
mod programs;
#[path = "../training/mod.rs"]
mod training;

use raddle_bundle::Bundle;
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::Verified;
use raddle_runtime::validate::{Kind, Options, Report, check_init, compare};

/// A module as it runs.
fn bundle(module: &Verified) -> Bundle {
    let mut diagnostics = Diagnostics::new();
    lower(module, &mut diagnostics).unwrap_or_else(|| {
        let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
        panic!("{messages:#?}")
    })
}

/// A module after passes.
fn passed(module: Verified, pipeline: &str) -> Verified {
    match training::run_passes(module, pipeline) {
        Ok((module, _)) => module,
        Err(messages) => panic!("{pipeline}: {messages:#?}"),
    }
}

/// Holds a pipeline against the program before; what `init` does is checked too.
fn hold(before: &Bundle, after: &Bundle, options: Options) -> Report {
    let report = compare(before, after, options).unwrap_or_else(|e| panic!("{e}"));
    for kind in [Kind::Loss, Kind::Gradient, Kind::Global] {
        assert!(report.compared[&kind] > 0, "no {kind} was compared");
    }
    let init = check_init(after).unwrap_or_else(|e| panic!("{e}"));
    assert!(init.is_empty(), "{init:#?}");
    report
}
