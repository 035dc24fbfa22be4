//! `promote-linear` and `fuse-linear` keep the meaning: before and after, all ranks compute the same losses, gradients and
//! globals on the reference device.

mod programs;

use programs::generated::{models, train};
use programs::inspect::{messages, run};
use programs::random::{PIPELINE, differences, specs};
use programs::{Clip, LossScaling, Optimizer, Shape, Spec, Stored, build};
use proptest::prelude::*;
use raddle_dialect::diag::Severity;
use raddle_dialect::ir::FloatKind;
use raddle_runtime::validate::Options;

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
                Options {
                    steps: 2,
                    ..Options::exact(1)
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
                ..Options::exact(3)
            };
            let found = differences(&build(&spec), options);
            assert!(found.is_empty(), "{spec:?}: {found:#?}");
        }
    }
}

/// Small, so that many programs are run.
const SMALL: Shape = Shape {
    batch: 1,
    sequence: 4,
    hidden: 4,
    inner: 8,
};

/// The biases promoted, and what differs afterwards.
fn promoted(spec: &Spec) -> (usize, Vec<String>) {
    let module = build(spec);
    let (_, found) = run(module.clone(), PIPELINE);
    let said = messages(&found, Severity::Remark);
    let count = said.iter().filter(|m| m.starts_with("promoted")).count();
    let options = Options {
        steps: 2,
        ..Options::new(7)
    };
    (count, differences(&module, options))
}

fn windows() -> impl Iterator<Item = Spec> {
    (0..4).map(|window| Spec {
        dp: if window & 1 == 0 { 1 } else { 2 },
        sequence_parallel: window & 2 != 0,
        shape: SMALL,
        ..Spec::default()
    })
}

/// Parameters in f32 and cast (o1), in half precision beside a master copy (o2), or alone (o3), in fp16 and bf16.
#[test]
fn every_amp_level_in_both_types() {
    for window in windows() {
        for kind in [FloatKind::F16, FloatKind::BF16] {
            for (i, stored) in [Stored::Full, Stored::LowWithMaster, Stored::Low]
                .into_iter()
                .enumerate()
            {
                let optimizers = [Optimizer::Adamw, Optimizer::Momentum, Optimizer::Adamax];
                let spec = Spec {
                    amp: Some(kind),
                    stored,
                    optimizer: optimizers[i],
                    loss_scaling: LossScaling::Combined,
                    clip: Clip::GlobalSum,
                    ..window.clone()
                };
                let (count, found) = promoted(&spec);
                assert_eq!((count, found), (1, vec![]), "{spec:?}");
            }
        }
    }
}

/// Stages are classes of their own that send each other activations and gradients; each has its own first rank, on a mesh of two axes
/// or three. Chunks of a stage are interleaved with those of the others.
#[test]
fn pipeline_stages_and_interleaved_chunks() {
    for window in windows() {
        for chunks in [1, 2] {
            for clip in [Clip::None, Clip::GlobalStack] {
                let spec = Spec {
                    stages: 2,
                    chunks,
                    clip,
                    residual: chunks == 2,
                    loss_scaling: match clip {
                        Clip::None => LossScaling::None,
                        _ => LossScaling::Combined,
                    },
                    ..window.clone()
                };
                let (count, found) = promoted(&spec);
                assert_eq!((count, found), (2 * chunks, vec![]), "{spec:?}");
            }
        }
    }
}

/// A norm above the limit is clipped, one below is not; with the removed terms in the norm, both stay as they were.
#[test]
fn a_global_norm_above_and_below_the_limit() {
    for window in windows() {
        for clip in [Clip::GlobalStack, Clip::GlobalSum] {
            for within_limit in [false, true] {
                let spec = Spec {
                    layers: 2,
                    clip,
                    within_limit,
                    ..window.clone()
                };
                let (count, found) = promoted(&spec);
                assert_eq!((count, found), (2, vec![]), "{spec:?}");
            }
        }
    }
}

/// Gradients accumulated over micro-batches, and an optimizer that runs once.
#[test]
fn accumulated_gradients() {
    for window in windows() {
        for tied_bias in [false, true] {
            let spec = Spec {
                layers: 2,
                microbatches: 2,
                tied_bias,
                clip: Clip::GlobalStack,
                ..window.clone()
            };
            let (count, found) = promoted(&spec);
            assert_eq!((count, found), (2, vec![]), "{spec:?}");
        }
    }
}

/// As JAX writes it: gradients of products are products with transposed operands over all tokens, gradients of biases are sums.
#[test]
fn programs_in_the_style_of_jax() {
    for window in windows() {
        for optimizer in [Optimizer::Sgd, Optimizer::Adamw] {
            let spec = Spec {
                explicit: true,
                plain_products: true,
                optimizer,
                layers: 2,
                residual: true,
                ..window.clone()
            };
            let (count, found) = promoted(&spec);
            assert_eq!((count, found), (2, vec![]), "{spec:?}");
        }
    }
}

/// Random programs, in several tests so that they run side by side: 2,000 in all.
macro_rules! random_programs {
    ($($name:ident)*) => {$(
        proptest! {
            #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn $name(spec in specs(), seed in any::<u64>()) {
                let options = Options { steps: 1, ..Options::exact(seed) };
                let found = differences(&build(&spec), options);
                prop_assert!(found.is_empty(), "{:#?}", found);
            }
        }
    )*};
}

random_programs! {
    random_programs_keep_their_meaning_1
    random_programs_keep_their_meaning_2
    random_programs_keep_their_meaning_3
    random_programs_keep_their_meaning_4
    random_programs_keep_their_meaning_5
    random_programs_keep_their_meaning_6
    random_programs_keep_their_meaning_7
    random_programs_keep_their_meaning_8
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Perceptrons and GPTs that are written forward and differentiated.
    #[test]
    fn generated_programs_keep_their_meaning(spec in models(), seed in any::<u64>()) {
        let options = Options { steps: 1, ..Options::exact(seed) };
        let found = differences(&train(&spec), options);
        prop_assert!(found.is_empty(), "{:#?}", found);
    }
}
