//! Random programs, and the check that the passes keep what they compute.

use proptest::prelude::*;
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{FloatKind, Verified};
use raddle_runtime::validate::{Kind, Options, check_init, compare};

use super::inspect::run;
use super::{BiasReduction, Clip, LossScaling, Optimizer, Shape, Spec, Stored};

/// What the programs go through.
pub const PIPELINE: &str = "builtin.module(promote-linear,fuse-linear,canonicalize,cse)";

/// Runs a program before and after the passes; gives what differs.
pub fn differences(module: &Verified, options: Options) -> Vec<String> {
    let mut diagnostics = Diagnostics::new();
    let before = lower(module, &mut diagnostics).expect("the program runs");
    let (module, _) = run(module.clone(), PIPELINE);
    let after = lower(&module, &mut diagnostics).expect("the rewritten program runs");
    let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.compared[&Kind::Gradient] > 0 && report.compared[&Kind::Global] > 0);
    let mut found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
    found.extend(check_init(&after).unwrap_or_else(|e| panic!("{e}")));
    found
}

/// Programs of every kind, with tensors as small as they can be.
pub fn specs() -> impl Strategy<Value = Spec> {
    let mesh = (
        prop_oneof![2 => Just(1i64), 1 => Just(2)],
        prop_oneof![6 => Just(2i64), 1 => Just(3), 1 => Just(4)],
        any::<bool>(),
        prop_oneof![8 => Just((1usize, 1usize)), 1 => Just((2, 1)), 1 => Just((2, 2)), 1 => Just((1, 2))],
    );
    let shape = (1..3i64, 1..3i64, 2..5i64, 1..3i64);
    let amp = prop_oneof![
        Just(None),
        Just(Some(FloatKind::F16)),
        Just(Some(FloatKind::BF16))
    ];
    let stored = prop_oneof![
        Just(Stored::Full),
        Just(Stored::LowWithMaster),
        Just(Stored::Low)
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
    let update = (
        optimizer,
        clip,
        scaling,
        reduction,
        prop_oneof![3 => Just(1i64), 1 => Just(2)],
    );
    let layers = prop_oneof![4 => Just(1usize), 2 => Just(2), 1 => Just(3)];
    let model = (layers, mesh, shape, amp, stored);
    (model, update, any::<[bool; 9]>()).prop_map(|(model, update, flags)| {
        let (layers, (dp, mp, sequence_parallel, (stages, chunks)), shape, amp, stored) = model;
        let (batch, rows, hidden, columns) = shape;
        let (optimizer, clip, loss_scaling, bias_reduction, microbatches) = update;
        Spec {
            layers,
            dp,
            mp,
            sequence_parallel,
            amp,
            stored: match (stored, optimizer) {
                _ if amp.is_none() => Stored::Full,
                // These keep no master copy.
                (Stored::LowWithMaster, Optimizer::DecayedAdagrad | Optimizer::DgcMomentum) => {
                    Stored::Low
                }
                _ => stored,
            },
            optimizer,
            clip,
            loss_scaling,
            recompute: flags[0],
            residual: flags[1],
            tied_bias: flags[2],
            bias: !(flags[3] && flags[4]),
            // The mean over all axes at once cannot wait for the last micro-batch.
            bias_reduction: match bias_reduction {
                BiasReduction::Joint if microbatches > 1 || stages > 1 => BiasReduction::Scaled,
                other => other,
            },
            bias_first: flags[4],
            explicit: flags[5] && flags[3],
            grid: flags[6],
            plain_products: flags[7],
            stages,
            chunks,
            microbatches,
            within_limit: flags[8],
            shape: Shape {
                batch,
                sequence: rows * mp,
                hidden,
                inner: columns * mp,
            },
        }
    })
}
