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
        let mut at = |by: f64| {
            let mut moved = start.clone();
            let value = moved[name]
                .zip(&direction, |w, d| w + by * d)
                .expect("alike");
            moved.insert(name.clone(), value);
            run.set(&moved);
            run.step(&data, &dims)
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
