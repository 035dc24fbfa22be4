//! Generated training programs, rewritten and cut into stages, with their linear layers computed by kernels: losses and state are those
//! of the reference device, up to rounding.

use raddle_compiler::codegen::Math;
use raddle_compiler::codegen::nvptx::Architecture;
use raddle_compiler::generate::{Model, Spec};
use raddle_dialect::reference::Tensor;
use raddle_runtime::Training;
use raddle_runtime::device::reference::{Evaluator, Mode, Program, Returned};

use super::training::bundle;
use super::{assert_right, give_kernels, player};

const STEPS: usize = 2;

fn small(model: Model) -> Spec {
    Spec {
        model,
        layers: 1,
        hidden: 16,
        inner: 32,
        heads: 2,
        vocab: 16,
        seq: 8,
        batch: 4,
        mesh: vec![("mp".into(), 2)],
        ..Spec::default()
    }
}

/// Losses of all steps, and the globals of all ranks after the last.
fn play(program: &Program, evaluator: &mut dyn Evaluator) -> (Vec<f64>, Vec<(String, Tensor)>) {
    let mut training = Training::new(program, Mode::Rounded, 5);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let returned = training.step(&mut (), evaluator).expect("it runs");
        let returned = returned.into_iter().flatten();
        losses.extend(returned.map(|Returned { value, .. }| value.data[0]));
    }
    let mut globals = Vec::new();
    for rank in 0..program.mesh().ranks() {
        for (name, value) in training.machine().globals(rank) {
            globals.push((format!("{name} on rank {rank}"), value.clone()));
        }
    }
    globals.sort_by(|a, b| a.0.cmp(&b.0));
    (losses, globals)
}

/// ‖a − b‖ ÷ ‖a‖
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    difference / norm(&mut a.iter().copied()).max(1e-30)
}

/// Plays a program both ways. The tolerance is a few roundoffs of the type that activations have.
fn check(spec: &Spec, pipeline: &str, architecture: Architecture, tolerance: f64) {
    let mut bundle = bundle(spec, pipeline);
    give_kernels(&mut bundle, architecture, Math::Full);
    let program = Program::load(&bundle).expect("a program");
    let (losses, globals) = play(&program, &mut ());
    let mut player = player(&program);
    let (by_kernels, state) = play(&program, &mut player);
    assert_right(&player);
    assert_eq!(losses.len(), by_kernels.len());
    assert!(!losses.is_empty());
    let off = apart(&losses, &by_kernels);
    assert!(off <= tolerance, "{losses:?} {by_kernels:?}");
    assert_eq!(globals.len(), state.len());
    for ((name, expected), (other, found)) in globals.iter().zip(&state) {
        assert_eq!((name, &expected.shape), (other, &found.shape));
        let off = apart(&expected.data, &found.data);
        assert!(off <= tolerance, "{name} is off by {off}");
    }
}

const TRAINS: &str = "append-backward{optimizer=adamw},promote-linear,fuse-linear";
const CUT: &str = "infer-stages{stages=2},split-backward,partition-stages";

#[test]
fn tensor_parallel_ranks_train() {
    let spec = Spec {
        mesh: vec![("dp".into(), 2), ("mp".into(), 2)],
        ..small(Model::Mlp)
    };
    check(&spec, TRAINS, Architecture::Sm80, 1e-5);
}

/// Gradients of weights are added up over micro-batches, in single precision.
#[test]
fn a_pipeline_trains() {
    let spec = Spec {
        layers: 2,
        microbatches: 2,
        ..small(Model::Mlp)
    };
    let pipeline = format!("apply-amp{{level=o2}},{TRAINS},{CUT}");
    for architecture in [Architecture::Sm80, Architecture::Sm90a] {
        check(&spec, &pipeline, architecture, 2e-2);
    }
}

#[test]
fn a_decoder_trains() {
    let spec = Spec {
        microbatches: 2,
        ..small(Model::Gpt)
    };
    let pipeline = format!("apply-amp{{level=o2}},{TRAINS},{CUT},schedule-pipeline{{kind=zb-h1}}");
    check(&spec, &pipeline, Architecture::Sm90a, 2e-2);
}
