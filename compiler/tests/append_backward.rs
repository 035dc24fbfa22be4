//! Gradients of whole programs: against differences of losses, and the program of many ranks against that of one.

mod training;

use proptest::prelude::*;
use raddle_bundle::GlobalKind;
use raddle_compiler::generate::{Activation, Model, Norm, SequenceParallel, Spec, Tied};
use raddle_runtime::device::reference::Program;
use training::{Run, Whole, bundle, distance, inputs, parameters, run_passes};

const GRADIENTS: &str = "append-backward{optimizer=none}";

/// The dimensions of the inputs that hold samples.
fn batch_dims(spec: &Spec) -> [usize; 2] {
    match spec.model {
        Model::Mlp => [1, 1],
        Model::Gpt => [0, 0],
    }
}

fn mesh(dp: i64, mp: i64) -> Vec<(String, i64)> {
    vec![("dp".into(), dp), ("mp".into(), mp)]
}

fn program(spec: &Spec, pipeline: &str) -> Program {
    Program::load(&bundle(spec, pipeline)).unwrap_or_else(|e| panic!("{spec:?}: {e}"))
}

/// Loss and gradients of a spec's program.
fn gradients(spec: &Spec, seed: u64) -> (f64, Whole) {
    let program = program(spec, GRADIENTS);
    let dims = batch_dims(spec);
    let mut run = Run::new(&program, &parameters(&program, seed));
    let loss = run.step(&inputs(&program, &dims, spec.vocab, seed), &dims);
    let mut found = run.globals(GlobalKind::Buffer);
    // With micro-batches the accumulators are buffers too; the gradients are declared after them.
    if spec.microbatches > 1 {
        found.retain(|name, _| name.ends_with("_grad_1"));
        found = found
            .into_iter()
            .map(|(name, value)| (name.trim_end_matches("_1").to_owned(), value))
            .collect();
    }
    (loss, found)
}

/// The same model on one rank.
fn alone(spec: &Spec) -> Spec {
    Spec {
        mesh: mesh(1, 1),
        microbatches: 1,
        sequence_parallel: SequenceParallel::Off,
        ..spec.clone()
    }
}

/// The sharded program's loss and gradients are those of the program for one rank.
fn agree(spec: &Spec) {
    let (loss, found) = gradients(spec, 3);
    let (expected_loss, expected) = gradients(&alone(spec), 3);
    assert!(
        (loss - expected_loss).abs() <= 1e-12 * expected_loss.abs(),
        "{spec:?}"
    );
    assert!(!expected.is_empty());
    assert_eq!(
        expected.keys().collect::<Vec<_>>(),
        found.keys().collect::<Vec<_>>()
    );
    for (name, gradient) in &expected {
        let apart = distance(gradient, &found[name]);
        assert!(apart < 1e-10, "{spec:?}: {name} differs by {apart:e}");
    }
}

/// Along random directions the loss changes as the gradients say.
fn agree_with_differences(spec: &Spec) {
    let program = program(spec, GRADIENTS);
    let dims = batch_dims(spec);
    let start = parameters(&program, 5);
    let data = inputs(&program, &dims, spec.vocab, 5);
    let mut run = Run::new(&program, &start);
    run.step(&data, &dims);
    let found = run.globals(GlobalKind::Buffer);
    const STEP: f64 = 1e-5;
    for name in start.keys() {
        let direction = parameters(&program, 77)[name].clone();
        let gradient = &found[&format!("{name}_grad")];
        let expected: f64 = gradient
            .data
            .iter()
            .zip(direction.data.iter())
            .map(|(g, d)| g * d)
            .sum();
        let at = |by: f64| {
            let mut moved = start.clone();
            let value = moved[name]
                .zip(&direction, |w, d| w + by * d)
                .expect("alike");
            moved.insert(name.clone(), value);
            // From the start again, for dropout counts the steps.
            Run::new(&program, &moved).step(&data, &dims)
        };
        let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
        let size = expected.abs().max(1e-6);
        assert!(
            (difference - expected).abs() <= 1e-5 * size,
            "{spec:?}: {name}: {difference} and {expected}"
        );
    }
}

fn small(model: Model) -> Spec {
    Spec {
        model,
        layers: 2,
        hidden: 8,
        inner: 16,
        heads: 4,
        vocab: 12,
        seq: 4,
        batch: 4,
        norm: Norm::Layer,
        ..Spec::default()
    }
}

#[test]
fn perceptrons_have_the_gradients_of_their_losses() {
    for (dp, mp, sequence_parallel) in [
        (1, 1, SequenceParallel::Off),
        (2, 2, SequenceParallel::Off),
        (2, 2, SequenceParallel::On),
    ] {
        agree_with_differences(&Spec {
            mesh: mesh(dp, mp),
            sequence_parallel,
            ..small(Model::Mlp)
        });
    }
}

#[test]
fn dropout_has_the_gradient_of_what_it_kept() {
    agree_with_differences(&Spec {
        mesh: mesh(2, 2),
        sequence_parallel: SequenceParallel::On,
        dropout: 0.3,
        layers: 1,
        ..small(Model::Gpt)
    });
}

#[test]
fn many_ranks_find_the_gradients_of_one_for_perceptrons() {
    for (dp, mp) in [(2, 1), (1, 2), (1, 4), (2, 2)] {
        for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
            agree(&Spec {
                mesh: mesh(dp, mp),
                sequence_parallel,
                ..small(Model::Mlp)
            });
        }
    }
}

#[test]
fn decoders_have_the_gradients_of_their_losses() {
    for (dp, mp, sequence_parallel, tied) in [
        (1, 1, SequenceParallel::Off, Tied::Yes),
        (1, 2, SequenceParallel::Off, Tied::No),
        (2, 2, SequenceParallel::On, Tied::Yes),
    ] {
        agree_with_differences(&Spec {
            mesh: mesh(dp, mp),
            sequence_parallel,
            tied,
            layers: 1,
            ..small(Model::Gpt)
        });
    }
}

#[test]
fn many_ranks_find_the_gradients_of_one_for_decoders() {
    for (dp, mp) in [(2, 1), (1, 2), (2, 2)] {
        for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
            for tied in [Tied::No, Tied::Yes] {
                agree(&Spec {
                    mesh: mesh(dp, mp),
                    sequence_parallel,
                    tied,
                    layers: 1,
                    ..small(Model::Gpt)
                });
            }
        }
    }
}

#[test]
fn micro_batches_add_up_to_the_batch() {
    for model in [Model::Mlp, Model::Gpt] {
        for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
            agree(&Spec {
                microbatches: 2,
                sequence_parallel,
                layers: 1,
                ..small(model)
            });
        }
    }
}

#[test]
fn axes_that_nothing_uses_and_three_axes_change_nothing() {
    let axis = |name: &str, size| (name.to_owned(), size);
    agree(&Spec {
        mesh: vec![axis("pp", 2), axis("dp", 2), axis("mp", 2)],
        ..small(Model::Mlp)
    });
}

/// Parameters and state after three steps of training.
fn trained(spec: &Spec, options: &str) -> Whole {
    let program = program(spec, &format!("append-backward{{{options}}}"));
    let dims = batch_dims(spec);
    let mut run = Run::new(&program, &parameters(&program, 11));
    for step in 0..3 {
        run.step(&inputs(&program, &dims, spec.vocab, step), &dims);
    }
    let mut all = run.globals(GlobalKind::Parameter);
    all.extend(run.globals(GlobalKind::State));
    all
}

/// Training on many ranks goes as on one.
fn train_alike(spec: &Spec, options: &str) {
    let (found, expected) = (trained(spec, options), trained(&alone(spec), options));
    assert!(expected.len() > 4);
    for (name, value) in &expected {
        let apart = distance(value, &found[name]);
        assert!(
            apart < 1e-9,
            "{spec:?}: {options}: {name} differs by {apart:e}"
        );
    }
}

#[test]
fn every_optimizer_and_clip_trains_on_many_ranks_as_on_one() {
    let spec = Spec {
        layers: 1,
        ..small(Model::Mlp)
    };
    for optimizer in [
        "sgd",
        "momentum",
        "momentum nesterov",
        "adam",
        "adamw",
        "adamax",
    ] {
        train_alike(&spec, &format!("optimizer={optimizer} lr=0.1"));
    }
    for optimizer in [
        "decayed-adagrad",
        "merged-momentum",
        "dgc-momentum",
        "dgc-momentum compress-from=2",
    ] {
        train_alike(&spec, &format!("optimizer={optimizer} lr=0.1"));
    }
    train_alike(&spec, "optimizer=adamw mean=scaled");
    // Layer-wise rates need whole parameters.
    let data = Spec {
        mesh: mesh(4, 1),
        ..spec.clone()
    };
    for optimizer in ["lamb", "lars-momentum"] {
        train_alike(&data, &format!("optimizer={optimizer} lr=0.1"));
    }
    for clip in ["global-norm", "global-norm clip-stack", "norm", "value"] {
        for limit in ["0.01", "1000"] {
            for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
                let spec = Spec {
                    sequence_parallel,
                    ..spec.clone()
                };
                let options = format!("optimizer=momentum lr=0.1 clip={clip} clip-limit={limit}");
                train_alike(&spec, &options);
            }
        }
    }
    for scaling in ["static", "dynamic"] {
        train_alike(
            &spec,
            &format!("optimizer=adamw loss-scaling={scaling} clip=global-norm"),
        );
        let accumulated = Spec {
            microbatches: 2,
            ..spec.clone()
        };
        train_alike(
            &accumulated,
            &format!("optimizer=sgd loss-scaling={scaling} clip=norm"),
        );
    }
}

#[test]
fn scaling_the_loss_changes_nothing_but_the_scale() {
    let spec = Spec {
        layers: 1,
        ..small(Model::Mlp)
    };
    let plain = trained(&spec, "optimizer=adamw clip=global-norm");
    let scaled = trained(
        &spec,
        "optimizer=adamw clip=global-norm loss-scaling=dynamic",
    );
    for (name, value) in &plain {
        assert!(distance(value, &scaled[name]) < 1e-9, "{name}");
    }
}

#[test]
fn an_overflow_skips_the_step_and_halves_the_scale() {
    let spec = Spec {
        layers: 1,
        ..small(Model::Mlp)
    };
    for optimizer in ["adamw", "sgd"] {
        let options = format!("append-backward{{optimizer={optimizer} loss-scaling=dynamic}}");
        let program = program(&spec, &options);
        let dims = batch_dims(&spec);
        let start = parameters(&program, 11);
        let mut run = Run::new(&program, &start);
        let mut data = inputs(&program, &dims, spec.vocab, 1);
        // One sample of one rank overflows.
        let mut broken = data[0].data.to_vec();
        broken[0] = f64::INFINITY;
        data[0] =
            raddle_dialect::reference::Tensor::new(data[0].shape.clone(), data[0].dtype, broken);
        run.step(&data, &dims);
        for (name, value) in &run.globals(GlobalKind::Parameter) {
            assert_eq!(distance(&start[name], value), 0.0, "{optimizer}: {name}");
        }
        assert_eq!(run.whole("loss_scale").data[0], 32768.0);
    }
}

#[test]
fn init_writes_everything_once_and_copies_agree() {
    for model in [Model::Mlp, Model::Gpt] {
        for microbatches in [1, 2] {
            let spec = Spec {
                microbatches,
                ..small(model)
            };
            let options = "append-backward{optimizer=adamw loss-scaling=dynamic}";
            let findings = raddle_runtime::validate::check_init(&bundle(&spec, options));
            let findings = findings.unwrap_or_else(|e| panic!("{e}"));
            assert!(findings.is_empty(), "{findings:#?}");
        }
    }
}

#[test]
fn the_pass_runs_once() {
    let options = "append-backward,append-backward";
    let (module, said) =
        run_passes(training::forward(&small(Model::Mlp)), options).expect("it runs");
    assert!(said.iter().any(|d| d.code == "R0732"));
    let once = run_passes(training::forward(&small(Model::Mlp)), "append-backward");
    let text = |m| raddle_dialect::syntax::print(m, Default::default());
    assert_eq!(text(&module), text(&once.expect("it runs").0));
}

#[test]
fn promotion_keeps_what_was_appended() {
    use raddle_runtime::validate::{Kind, Options, compare};
    for model in [Model::Mlp, Model::Gpt] {
        for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
            for clip in [
                "none",
                "global-norm",
                "global-norm clip-stack mean=scaled",
                "norm",
            ] {
                let spec = Spec {
                    sequence_parallel,
                    layers: 1,
                    ..small(model)
                };
                let append = format!(
                    "append-backward{{optimizer=adamw clip={clip} clip-limit=0.01 loss-scaling=dynamic}}"
                );
                let (before, after) = (
                    bundle(&spec, &append),
                    bundle(
                        &spec,
                        &format!("{append},promote-linear,fuse-linear,canonicalize,cse"),
                    ),
                );
                assert!(after.classes.len() > 1, "{spec:?}: nothing was promoted");
                let options = Options {
                    steps: 2,
                    ..Options::new(1)
                };
                let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{e}"));
                assert!(report.compared[&Kind::Gradient] > 0);
                let found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
                assert!(found.is_empty(), "{spec:?} {clip}: {found:#?}");
            }
        }
    }
}

#[test]
fn a_promoted_forward_program_trains_as_the_program_promoted_after() {
    use raddle_runtime::validate::{Options, check_init, compare};
    for model in [Model::Mlp, Model::Gpt] {
        for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
            let spec = Spec {
                sequence_parallel,
                layers: 1,
                ..small(model)
            };
            let append = "append-backward{optimizer=adamw clip=norm clip-limit=0.01}";
            let after = bundle(&spec, &format!("promote-linear,{append}"));
            assert!(after.classes.len() > 1, "{spec:?}: nothing was promoted");
            let report = compare(&bundle(&spec, append), &after, Options::new(1));
            let report = report.unwrap_or_else(|e| panic!("{e}"));
            let mut found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
            found.extend(check_init(&after).unwrap_or_else(|e| panic!("{e}")));
            assert!(found.is_empty(), "{spec:?}: {found:#?}");
            let joint = "promote-linear,append-backward{clip=global-norm}";
            let messages = run_passes(training::forward(&spec), joint)
                .err()
                .expect("no norm");
            assert!(messages.iter().any(|m| m.contains("different parameters")));
        }
    }
}

fn specs() -> impl Strategy<Value = Spec> {
    let sizes = (1..3i64, 0..3u32, 0..3u32, 1..3i64);
    let choices = any::<[bool; 7]>();
    (sizes, choices).prop_map(|((layers, dp, mp, microbatches), choices)| {
        let [gpt, cut, tied, bias, norm, residual, relu] = choices;
        let (dp, mp) = (1 << dp, 1 << mp);
        let model = if gpt { Model::Gpt } else { Model::Mlp };
        Spec {
            layers,
            mesh: mesh(dp, mp),
            microbatches,
            batch: dp * microbatches,
            sequence_parallel: if cut {
                SequenceParallel::On
            } else {
                SequenceParallel::Off
            },
            tied: if tied { Tied::Yes } else { Tied::No },
            bias,
            norm: if norm || gpt { Norm::Layer } else { Norm::None },
            residual,
            activation: if relu {
                Activation::Relu
            } else {
                Activation::GeluTanh
            },
            ..small(model)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_program_has_the_gradients_of_one_rank(spec in specs()) {
        agree(&spec);
    }
}
