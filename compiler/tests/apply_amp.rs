//! Mixed precision: without rounding nothing changes, with rounding little does, and the other passes take what comes out.

mod training;

use raddle_bundle::{FunctionKind, GlobalKind};
use raddle_compiler::generate::{Model, Norm, SequenceParallel, Spec};
use raddle_runtime::device::reference::{Mode, Program};
use raddle_runtime::validate::{Kind, Options, check_init, compare};
use training::{Run, Whole, bundle, distance, inputs, parameters};

fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    for model in [Model::Mlp, Model::Gpt] {
        for sequence_parallel in [SequenceParallel::Off, SequenceParallel::On] {
            specs.push(Spec {
                model,
                layers: 1,
                hidden: 8,
                inner: 16,
                vocab: 12,
                seq: 4,
                norm: Norm::Layer,
                sequence_parallel,
                ..Spec::default()
            });
        }
    }
    specs
}

fn batch_dims(spec: &Spec) -> [usize; 2] {
    match spec.model {
        Model::Mlp => [1, 1],
        Model::Gpt => [0, 0],
    }
}

/// Loss and gradients.
fn gradients(spec: &Spec, amp: &str, mode: Mode) -> (f64, Whole) {
    let program = Program::load(&bundle(
        spec,
        &format!("{amp}append-backward{{optimizer=none}}"),
    ));
    let program = program.unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    let dims = batch_dims(spec);
    let mut run = Run::in_mode(&program, &parameters(&program, 3), mode);
    let loss = run.step(&inputs(&program, &dims, spec.vocab, 3), &dims);
    (loss, run.globals(GlobalKind::Buffer))
}

const LEVELS: [(&str, &str); 5] = [
    ("o1", "bf16"),
    ("o1", "f16"),
    ("o2", "bf16"),
    ("o2", "f16"),
    ("o3", "bf16"),
];

#[test]
fn without_rounding_loss_and_gradients_stay() {
    for spec in specs() {
        let (loss, plain) = gradients(&spec, "", Mode::Exact);
        for (level, dtype) in LEVELS {
            let amp = format!("apply-amp{{level={level} dtype={dtype}}},");
            let (narrow_loss, narrow) = gradients(&spec, &amp, Mode::Exact);
            assert!((loss - narrow_loss).abs() < 1e-12, "{spec:?} {amp}");
            assert_eq!(plain.len(), narrow.len());
            for (name, gradient) in &plain {
                let apart = distance(gradient, &narrow[name]);
                assert!(apart < 1e-10, "{spec:?} {amp}: {name} differs by {apart:e}");
            }
        }
    }
}

#[test]
fn with_rounding_gradients_are_near_and_not_the_same() {
    for spec in specs() {
        let (_, plain) = gradients(&spec, "", Mode::Rounded);
        for (level, dtype) in LEVELS {
            let amp = format!("apply-amp{{level={level} dtype={dtype}}},");
            let (_, narrow) = gradients(&spec, &amp, Mode::Rounded);
            let apart = plain.iter().map(|(name, g)| distance(g, &narrow[name]));
            let largest = apart.fold(0.0, f64::max);
            assert!(
                (1e-6..0.2).contains(&largest),
                "{spec:?} {amp}: {largest:e}"
            );
        }
    }
}

#[test]
fn master_weights_train_as_the_plain_program() {
    for spec in specs() {
        let train = |amp: &str| {
            let options = format!("{amp}append-backward{{optimizer=adamw clip=global-norm}}");
            let program = Program::load(&bundle(&spec, &options)).unwrap_or_else(|e| panic!("{e}"));
            let dims = batch_dims(&spec);
            let start = parameters(&program, 11);
            let mut run = Run::new(&program, &start);
            let masters = start
                .iter()
                .map(|(name, v)| (format!("{name}_master"), v.clone()));
            run.set(&masters.collect());
            for step in 0..3 {
                run.step(&inputs(&program, &dims, spec.vocab, step), &dims);
            }
            (
                run.globals(GlobalKind::Parameter),
                run.globals(GlobalKind::State),
            )
        };
        let (plain, _) = train("");
        for dtype in ["bf16", "f16"] {
            let (narrow, states) = train(&format!("apply-amp{{level=o2 dtype={dtype}}},"));
            for (name, value) in &plain {
                let apart = distance(value, &narrow[name]);
                assert!(apart < 1e-9, "{spec:?}: {name} differs by {apart:e}");
            }
            let masters = states.keys().filter(|name| name.ends_with("_master"));
            assert!(masters.count() > 2);
        }
    }
}

#[test]
fn promotion_takes_narrow_programs() {
    for spec in specs() {
        for (level, dtype) in LEVELS {
            let append = format!(
                "apply-amp{{level={level} dtype={dtype}}},append-backward{{optimizer=adamw clip=global-norm clip-limit=0.01}}"
            );
            let before = bundle(&spec, &append);
            let after = bundle(
                &spec,
                &format!("{append},promote-linear,fuse-linear,canonicalize,cse"),
            );
            assert!(
                after.classes.len() > 1,
                "{spec:?} {append}: nothing was promoted"
            );
            let options = Options {
                steps: 2,
                ..Options::new(1)
            };
            let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{e}"));
            assert!(report.compared[&Kind::Gradient] > 0);
            let mut found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
            found.extend(check_init(&after).unwrap_or_else(|e| panic!("{e}")));
            assert!(found.is_empty(), "{spec:?} {append}: {found:#?}");
        }
    }
}

#[test]
fn products_are_narrow_and_the_loss_is_not() {
    for spec in specs() {
        for (level, dtype) in LEVELS {
            let bundle = bundle(&spec, &format!("apply-amp{{level={level} dtype={dtype}}}"));
            let functions = &bundle.classes[0].functions;
            let step = functions
                .iter()
                .find(|f| f.kind == FunctionKind::Step)
                .expect("a step");
            let mut products = 0;
            for instr in &step.instrs {
                if instr.op == "dist.matmul" {
                    products += 1;
                    assert_eq!(instr.results[0].1.dtype, dtype);
                }
                if instr.op == "dist.reduce_mean" {
                    assert_eq!(instr.results[0].1.dtype, "f32");
                }
            }
            assert!(products >= 2);
            let globals = bundle.classes[0].globals.iter();
            let narrow = globals.filter(|g| g.ty.dtype == dtype).count();
            assert_eq!(narrow > 0, level != "o1", "{level}");
        }
    }
}
