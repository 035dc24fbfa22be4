//! `promote-linear` and `fuse-linear` keep the meaning: before and after, all ranks compute the same losses, gradients and
//! globals on the reference device.

mod programs;

use programs::inspect::run;
use programs::{BiasReduction, Clip, LossScaling, Optimizer, Spec, build};
use proptest::prelude::*;
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{FloatKind, Verified};
use raddle_runtime::validate::{Kind, Options, check_init, compare};

const PIPELINE: &str = "builtin.module(promote-linear,fuse-linear,canonicalize,cse)";

/// Runs a program before and after the passes; gives what differs.
fn differences(module: &Verified, pipeline: &str, options: Options) -> Vec<String> {
    let mut diagnostics = Diagnostics::new();
    let before = lower(module, &mut diagnostics).expect("the program runs");
    let (module, _) = run(module.clone(), pipeline);
    let after = lower(&module, &mut diagnostics).expect("the rewritten program runs");
    let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.compared[&Kind::Gradient] > 0 && report.compared[&Kind::Global] > 0);
    let mut found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
    found.extend(check_init(&after).unwrap_or_else(|e| panic!("{e}")));
    found
}

#[test]
fn every_window_with_every_clip() {
    for window in 0..8 {
        for clip in [
            Clip::None,
            Clip::Value,
            Clip::Norm,
            Clip::GlobalStack,
            Clip::GlobalSum,
            Clip::PerRank,
        ] {
            let spec = Spec {
                layers: 2,
                dp: if window & 1 == 0 { 1 } else { 2 },
                sequence_parallel: window & 2 != 0,
                amp: (window & 4 != 0).then_some(FloatKind::BF16),
                clip,
                ..Spec::default()
            };
            let found = differences(
                &build(&spec),
                PIPELINE,
                Options {
                    steps: 2,
                    ..Options::new(1)
                },
            );
            assert!(found.is_empty(), "{spec:?}: {found:#?}");
        }
    }
}

#[test]
fn every_optimizer_in_every_window() {
    for optimizer in Optimizer::ALL {
        for window in 0..8 {
            let spec = Spec {
                layers: 1,
                dp: if window & 1 == 0 { 1 } else { 2 },
                sequence_parallel: window & 2 != 0,
                amp: (window & 4 != 0).then_some(FloatKind::BF16),
                optimizer,
                ..Spec::default()
            };
            let options = Options {
                steps: 2,
                ..Options::new(3)
            };
            let found = differences(&build(&spec), PIPELINE, options);
            assert!(found.is_empty(), "{spec:?}: {found:#?}");
        }
    }
}

fn specs() -> impl Strategy<Value = Spec> {
    let shape = (
        1..4usize,
        1..3i64,
        prop_oneof![Just(2i64), Just(4)],
        any::<bool>(),
    );
    let amp = prop_oneof![
        Just(None),
        Just(Some(FloatKind::F16)),
        Just(Some(FloatKind::BF16))
    ];
    let optimizer = prop::sample::select(&Optimizer::ALL[..]);
    let clip = prop_oneof![
        Just(Clip::None),
        Just(Clip::Value),
        Just(Clip::Norm),
        Just(Clip::GlobalStack),
        Just(Clip::GlobalSum),
        Just(Clip::PerRank)
    ];
    let scaling = prop_oneof![
        Just(LossScaling::None),
        Just(LossScaling::Combined),
        Just(LossScaling::Local)
    ];
    let reduction = prop_oneof![
        Just(BiasReduction::Sum),
        Just(BiasReduction::Scaled),
        Just(BiasReduction::Average),
        Just(BiasReduction::Joint)
    ];
    let flags = (any::<[bool; 7]>(), reduction);
    (shape, amp, optimizer, clip, scaling, flags).prop_map(
        |(
            (layers, dp, mp, sequence_parallel),
            amp,
            optimizer,
            clip,
            loss_scaling,
            (flags, bias_reduction),
        )| Spec {
            layers,
            dp,
            mp,
            sequence_parallel,
            amp,
            optimizer,
            clip,
            loss_scaling,
            recompute: flags[0],
            residual: flags[1],
            tied_bias: flags[2],
            bias: !(flags[3] && flags[4]),
            bias_reduction,
            bias_first: flags[4],
            explicit: flags[5] && flags[3],
            grid: flags[6],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_keep_their_meaning(spec in specs(), seed in any::<u64>()) {
        let options = Options { steps: 2, ..Options::new(seed) };
        let found = differences(&build(&spec), PIPELINE, options);
        prop_assert!(found.is_empty(), "{:#?}", found);
    }
}
