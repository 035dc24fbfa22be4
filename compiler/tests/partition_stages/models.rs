//! Generated models, trained as users train them: perceptrons and GPTs, micro-batches, amp, clipping, every number of stages.

use raddle_compiler::generate::{Model, Norm, SequenceParallel, Spec, Tied};
use raddle_dialect::ir::Verified;
use raddle_runtime::validate::{Kind, Options};

use super::training::forward;
use super::{bundle, hold, passed};

fn gpt() -> Spec {
    Spec {
        model: Model::Gpt,
        layers: 2,
        hidden: 4,
        heads: 2,
        vocab: 4,
        seq: 2,
        batch: 2,
        mesh: vec![("mp".into(), 1)],
        norm: Norm::Layer,
        ..Spec::default()
    }
}

fn mlp() -> Spec {
    Spec {
        layers: 3,
        hidden: 4,
        inner: 4,
        seq: 2,
        batch: 4,
        mesh: vec![("mp".into(), 2)],
        microbatches: 2,
        ..Spec::default()
    }
}

/// How a program is cut.
struct Cut {
    stages: usize,
    chunks: usize,
    split: bool,
    placement: &'static str,
}

impl Cut {
    fn pipeline(&self) -> String {
        let Cut {
            stages,
            chunks,
            split,
            placement,
        } = self;
        let split = if *split { "split-backward," } else { "" };
        format!(
            "infer-stages{{stages={stages}}},{split}partition-stages{{chunks={chunks} placement={placement}}}"
        )
    }
}

fn keeps_its_meaning(trained: &Verified, cut: &Cut, seed: u64) {
    let after = passed(trained.clone(), &cut.pipeline());
    let report = hold(&bundle(trained), &bundle(&after), Options::new(seed));
    let failures: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}: {failures:#?}", cut.pipeline());
}

/// All stage counts that divide into the chunks, split or not.
fn every_cut(trained: &Verified) {
    for stages in 1..=4 {
        for chunks in 1..=2 {
            if stages % chunks != 0 {
                continue;
            }
            for split in [false, true] {
                let placement = if split { "v" } else { "loop" };
                let cut = Cut {
                    stages,
                    chunks,
                    split,
                    placement,
                };
                keeps_its_meaning(trained, &cut, 11);
            }
        }
    }
}

#[test]
fn gpt_with_tied_embeddings() {
    let spec = Spec {
        tied: Tied::Yes,
        microbatches: 2,
        ..gpt()
    };
    every_cut(&passed(forward(&spec), "append-backward{clip=global-norm}"));
}

#[test]
fn perceptron_with_micro_batches() {
    every_cut(&passed(forward(&mlp()), "append-backward{optimizer=sgd}"));
}

#[test]
fn tied_without_accumulators_and_with_few_ranks_between() {
    // With one micro-batch the two gradients of the table meet in the optimizer; on four ranks two of them have no part of it.
    let spec = Spec {
        tied: Tied::Yes,
        vocab: 32,
        layers: 3,
        ..gpt()
    };
    let trained = passed(
        forward(&spec),
        "append-backward{clip=global-norm clip-stack=true}",
    );
    for (stages, chunks) in [(4, 1), (4, 2), (2, 1)] {
        let cut = Cut {
            stages,
            chunks,
            split: true,
            placement: "loop",
        };
        keeps_its_meaning(&trained, &cut, 5);
    }
}

#[test]
fn dropout_does_not_depend_on_the_schedule() {
    let spec = Spec {
        dropout: 0.3,
        microbatches: 3,
        batch: 3,
        ..gpt()
    };
    every_cut(&passed(forward(&spec), "append-backward{clip=norm}"));
}

#[test]
fn on_a_mesh_with_a_cut_sequence() {
    let spec = Spec {
        mesh: vec![("dp".into(), 2), ("mp".into(), 2)],
        sequence_parallel: SequenceParallel::On,
        microbatches: 2,
        batch: 4,
        tied: Tied::Yes,
        ..gpt()
    };
    let trained = passed(forward(&spec), "append-backward{clip=global-norm}");
    let cut = Cut {
        stages: 3,
        chunks: 1,
        split: true,
        placement: "loop",
    };
    keeps_its_meaning(&trained, &cut, 5);
}

#[test]
fn promoted_biases_before_and_after() {
    // Two rank classes, cut at the same collectives; each is a pipeline of its own.
    let spec = Spec {
        norm: Norm::Layer,
        ..mlp()
    };
    let trained = passed(forward(&spec), "append-backward{clip=global-norm}");
    for pipeline in [
        "promote-linear,infer-stages{stages=3},split-backward,partition-stages",
        "infer-stages{stages=3},promote-linear,partition-stages",
    ] {
        let after = passed(trained.clone(), pipeline);
        let classes = after.block_ops(after.body(after.root()));
        let classes = classes.filter(|&op| after.is(op, "builtin.module"));
        assert_eq!(classes.count(), 6, "{pipeline}");
        let report = hold(&bundle(&trained), &bundle(&after), Options::new(6));
        assert!(report.passed(), "{pipeline}: {:#?}", report.failures);
    }
}

/// The norm of promoted biases is broadcast from the one class to the other, each of which is cut by what its own ops read.
#[test]
fn promoted_norms_meet_across_classes() {
    for microbatches in [1, 2] {
        let spec = Spec {
            mesh: vec![("dp".into(), 2), ("mp".into(), 2)],
            batch: 4,
            microbatches,
            ..gpt()
        };
        let trained = passed(forward(&spec), "append-backward{clip=global-norm}");
        let pipeline = "promote-linear,infer-stages{stages=4},split-backward,partition-stages{chunks=2},verify-collectives";
        let after = passed(trained.clone(), pipeline);
        let report = hold(&bundle(&trained), &bundle(&after), Options::new(8));
        assert!(report.passed(), "{microbatches}: {:#?}", report.failures);
    }
}

/// After `fuse-linear` a gradient is added up by a load, a fused op and a store: the sum is where the store is.
#[test]
fn fused_sums_of_gradients_stay_on_their_stages() {
    let spec = Spec {
        mesh: vec![("dp".into(), 2), ("mp".into(), 2)],
        sequence_parallel: SequenceParallel::On,
        microbatches: 2,
        batch: 4,
        tied: Tied::Yes,
        ..gpt()
    };
    let trained = passed(
        forward(&spec),
        "append-backward{clip=global-norm},promote-linear,fuse-linear",
    );
    let fused = |op| {
        trained.is(op, "dist.fused_linear_grad")
            && trained
                .operands(op)
                .filter_map(|v| trained.defining_op(v))
                .any(|source| {
                    trained.is(source, "dist.load")
                        && trained
                            .symbol_attr(source, "global")
                            .is_some_and(|g| g.ends_with("_grad"))
                })
    };
    assert!(trained.walk(trained.root()).any(fused), "no sum is fused");
    for (stages, chunks, split) in [(2, 1, false), (3, 1, true), (4, 2, true)] {
        let cut = Cut {
            stages,
            chunks,
            split,
            placement: "loop",
        };
        keeps_its_meaning(&trained, &cut, 9);
    }
}

/// A GPT whose products are narrow, with what its training needs for that.
fn amp(passes: &str) {
    let spec = Spec {
        tied: Tied::Yes,
        microbatches: 2,
        batch: 2,
        ..gpt()
    };
    every_cut(&passed(forward(&spec), passes));
}

#[test]
fn amp_o1_in_bf16() {
    amp("apply-amp{level=o1 dtype=bf16},append-backward{clip=global-norm}");
}

#[test]
fn amp_o1_with_found_infs_across_stages() {
    amp("apply-amp{level=o1 dtype=f16},append-backward{clip=global-norm decr-every=1}");
}

#[test]
fn amp_o2_in_bf16() {
    amp("apply-amp{level=o2 dtype=bf16},append-backward{master-grad=true}");
}

#[test]
fn amp_o2_with_found_infs_across_stages() {
    amp("apply-amp{level=o2 dtype=f16},append-backward");
}

#[test]
fn without_a_sum_over_stages_every_bit_is_the_same() {
    let trained = passed(forward(&mlp()), "append-backward{optimizer=adamw}");
    let cut = Cut {
        stages: 3,
        chunks: 1,
        split: false,
        placement: "loop",
    };
    let after = passed(trained.clone(), &cut.pipeline());
    let report = hold(&bundle(&trained), &bundle(&after), Options::new(2));
    for largest in [&report.largest, &report.largest_rounded] {
        for kind in [Kind::Loss, Kind::Gradient, Kind::Global] {
            assert_eq!(largest[&kind], 0.0, "{kind}");
        }
    }
}

#[test]
fn a_schedule_is_played() {
    let trained = passed(forward(&mlp()), "append-backward");
    for kind in ["1f1b", "zb-h1"] {
        let pipeline = format!(
            "infer-stages{{stages=3}},split-backward,partition-stages,schedule-pipeline{{kind={kind}}}"
        );
        let after = bundle(&passed(trained.clone(), &pipeline));
        assert!(after.schedule.is_some());
        let report = hold(&bundle(&trained), &after, Options::new(4));
        assert!(report.passed(), "{kind}: {:#?}", report.failures);
    }
}
