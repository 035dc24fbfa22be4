//! `verify-spmd` and `verify-collectives` have nothing to say on programs that are right, before and after promotion.

mod paddle_files;
mod programs;

use paddle_files::{bring_in, complete_groups};
use programs::inspect::run;
use programs::{BiasReduction, Clip, LossScaling, Optimizer, Spec, build};
use raddle_compiler::analysis::{meetings, spmd};
use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{FloatKind, Module};

/// Everything that both checks say, remarks too.
fn checked(module: &Module) -> Vec<Diagnostic> {
    let mut found = spmd::check(module, module.root());
    found.extend(meetings::check(module, module.root()));
    found
}

fn shown(found: &[Diagnostic]) -> Vec<String> {
    let show = |d: &Diagnostic| {
        let notes: Vec<_> = d.notes.iter().map(|n| n.1.as_str()).collect();
        format!("{} {} {notes:?}", d.code, d.message)
    };
    found.iter().map(show).collect()
}

/// All ranks of every program of PaddlePaddle that is there for all ranks. One fault is the programs' own: a global norm that is
/// not reduced over the tensor axis.
#[test]
fn paddles_programs_are_clean_before_and_after_promotion() {
    let mut seen = 0;
    for members in complete_groups() {
        let name = members[0].name.clone();
        let module = bring_in(&members.iter().collect::<Vec<_>>());
        let (promoted, _) = run(module.clone(), "builtin.module(promote-linear)");
        for (module, when) in [(&module, "before"), (&promoted, "after")] {
            let found = checked(module);
            let own_norms = found.iter().filter(|d| d.code == "W0722").count();
            assert!(
                own_norms == found.len() && (own_norms > 0) == name.contains("gnorm"),
                "{name} {when}: {:#?}",
                shown(&found)
            );
        }
        seen += 1;
    }
    assert_eq!(seen, 18);
}

/// Windows, clips, scaling and shapes of layers, as they are built in tests.
#[test]
fn built_programs_are_clean_before_and_after_promotion() {
    for window in 0..8 {
        for (variation, clip) in [
            Clip::None,
            Clip::Value,
            Clip::Norm,
            Clip::GlobalStack,
            Clip::GlobalSum,
            Clip::PerRank,
        ]
        .into_iter()
        .enumerate()
        {
            let optimizers = [
                Optimizer::Sgd,
                Optimizer::Momentum,
                Optimizer::Adamw,
                Optimizer::Adamax,
            ];
            let spec = Spec {
                layers: 2,
                dp: if window & 1 == 0 { 1 } else { 2 },
                sequence_parallel: window & 2 != 0,
                amp: (window & 4 != 0).then_some(FloatKind::BF16),
                clip,
                optimizer: optimizers[(window + variation) % 4],
                loss_scaling: if variation % 2 == 0 {
                    LossScaling::Combined
                } else {
                    LossScaling::None
                },
                recompute: variation % 3 == 0,
                residual: variation % 3 == 1,
                tied_bias: variation % 4 == 3,
                explicit: variation == 5,
                bias_reduction: [BiasReduction::Scaled, BiasReduction::Sum][variation % 2],
                ..Spec::default()
            };
            let module = build(&spec);
            let (promoted, _) = run(module.clone(), "builtin.module(promote-linear)");
            for (module, when) in [(&module, "before"), (&promoted, "after")] {
                let found = checked(module);
                let wrong: Vec<_> = found
                    .iter()
                    .filter(|d| clip != Clip::PerRank || d.code != "W0722")
                    .cloned()
                    .collect();
                assert!(wrong.is_empty(), "{spec:?} {when}: {:#?}", shown(&wrong));
            }
        }
    }
}

/// Models that are written forward and differentiated, on several meshes, with micro-batches and without.
#[test]
fn generated_programs_are_clean_before_and_after_promotion() {
    use programs::generated::{models, train};
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..40 {
        let spec = models().new_tree(&mut runner).expect("a model").current();
        let module = train(&spec);
        let (promoted, _) = run(module.clone(), "builtin.module(promote-linear)");
        for (module, when) in [(&module, "before"), (&promoted, "after")] {
            let mut found = checked(module);
            found.retain(|d| d.severity != Severity::Remark);
            assert!(found.is_empty(), "{spec:?} {when}: {:#?}", shown(&found));
        }
    }
}

/// What is wrong, remarks aside.
fn wrong(module: &Module) -> Vec<String> {
    let mut found = checked(module);
    found.retain(|d| d.severity != Severity::Remark);
    shown(&found)
}

/// Paddle's pipelines, as they come in and as jobs.
#[test]
fn paddles_pipelines_are_clean() {
    let mut seen = 0;
    for (name, cases) in paddle_files::pipelines() {
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        assert_eq!(wrong(&module), [""; 0], "{name}");
        if name.contains("vpp1") {
            let (jobs, _) = run(module, "builtin.module(split-backward,partition-stages)");
            assert_eq!(wrong(&jobs), [""; 0], "{name}");
        }
        seen += 1;
    }
    assert!(seen > 3, "{seen}");
}

/// A decoder, promoted, split and cut into jobs of interleaved stages.
#[test]
fn promoted_and_partitioned_models_are_clean() {
    use raddle_compiler::generate::{Model, Norm, Spec as ModelSpec, generate};
    for (microbatches, clip) in [(1, "global-norm"), (2, "global-norm"), (2, "norm")] {
        let spec = ModelSpec {
            model: Model::Gpt,
            layers: 4,
            hidden: 4,
            heads: 2,
            vocab: 4,
            seq: 2,
            batch: 4,
            mesh: vec![("dp".into(), 2), ("mp".into(), 2)],
            norm: Norm::Layer,
            microbatches,
            ..ModelSpec::default()
        };
        let module = generate(&raddle_dialect::ir::Context::new(), &spec).expect("a model");
        let module = programs::checked(module);
        let pipeline = format!(
            "builtin.module(append-backward{{clip={clip}}},promote-linear,infer-stages{{stages=4}},split-backward,partition-stages{{chunks=2}})"
        );
        let (jobs, said) = run(module, &pipeline);
        assert!(said.iter().any(|d| d.message.starts_with("promoted")));
        assert_eq!(wrong(&jobs), [""; 0], "{microbatches} {clip}");
    }
}

/// The checks read a program once: four times the layers take about four times as long.
#[test]
fn checks_take_linear_time() {
    let mut times = Vec::new();
    for layers in [50, 200] {
        let spec = Spec {
            layers,
            dp: 2,
            ..Spec::default()
        };
        let (module, _) = run(build(&spec), "builtin.module(promote-linear)");
        let start = std::time::Instant::now();
        let found = checked(&module);
        times.push(start.elapsed());
        assert!(found.iter().all(|d| d.severity != Severity::Error));
    }
    assert!(times[1] < times[0] * 9, "{times:?}");
}
