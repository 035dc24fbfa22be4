//! Programs as Paddle writes them, with every clip, optimizer and loss scaling, cut at given places.

use raddle_dialect::ir::{FloatKind, OpId, Rewriter, Verified};
use raddle_runtime::validate::Options;

use super::programs::{Clip, LossScaling, Optimizer, Spec, build, checked};
use super::{bundle, hold, passed};

/// Labels the forward ops after which a new stage begins: stage i begins at the part `cuts[i - 1]` of all forward ops.
fn labelled(module: &Verified, cuts: &[f64]) -> Verified {
    let mut module = module.clone().into_module();
    let forward: Vec<OpId> = module
        .walk(module.root())
        .filter(|&op| module.str_attr(op, "dist.role") == Some("forward"))
        .filter(|&op| !matches!(module.name_str(op), "dist.load" | "dist.fill" | "dist.cast"))
        .collect();
    let cx = module.cx().clone();
    let mut rewriter = Rewriter::new(&mut module);
    let mut stage = 0;
    for (at, &op) in forward.iter().enumerate() {
        while stage < cuts.len() && at as f64 >= cuts[stage] * forward.len() as f64 {
            stage += 1;
        }
        let label = cx.i64_attr(stage as i64);
        rewriter.set_attr(op, "dist.stage", Some(label));
    }
    checked(module)
}

fn even(stages: usize) -> Vec<f64> {
    (1..stages).map(|s| s as f64 / stages as f64).collect()
}

/// What differs after passes.
fn differences(module: &Verified, pipeline: &str, options: Options) -> Vec<String> {
    let after = passed(module.clone(), pipeline);
    let report = hold(&bundle(module), &bundle(&after), options);
    report.failures.iter().map(ToString::to_string).collect()
}

fn options() -> Options {
    Options::new(3)
}

#[test]
fn every_number_of_stages_and_chunks_split_or_not() {
    for (stages, chunks) in [(1, 1), (3, 1), (2, 2), (6, 2)] {
        for placement in ["loop", "v"] {
            for split in ["", "split-backward,"] {
                let spec = Spec {
                    layers: 3,
                    mp: 1,
                    clip: Clip::GlobalStack,
                    optimizer: Optimizer::Adamw,
                    loss_scaling: LossScaling::Combined,
                    ..Spec::default()
                };
                let module = labelled(&build(&spec), &even(stages));
                let pipeline =
                    format!("{split}partition-stages{{chunks={chunks} placement={placement}}}");
                let found = differences(&module, &pipeline, options());
                assert!(found.is_empty(), "{stages} stages, {pipeline}: {found:#?}");
            }
        }
    }
}

#[test]
fn every_clip_and_optimizer() {
    for (index, clip) in [
        Clip::None,
        Clip::Value,
        Clip::Norm,
        Clip::GlobalStack,
        Clip::GlobalSum,
    ]
    .into_iter()
    .enumerate()
    {
        for loss_scaling in [LossScaling::None, LossScaling::Combined, LossScaling::Local] {
            let spec = Spec {
                layers: 2,
                dp: 1 + index as i64 % 2,
                clip,
                loss_scaling,
                optimizer: [Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adamax][index % 3],
                amp: (index % 2 == 1).then_some(FloatKind::BF16),
                tied_bias: true,
                residual: index % 2 == 0,
                recompute: index == 3,
                sequence_parallel: index == 2,
                ..Spec::default()
            };
            let module = labelled(&build(&spec), &even(3));
            let found = differences(&module, "partition-stages", options());
            assert!(found.is_empty(), "{spec:?}: {found:#?}");
        }
    }
}
