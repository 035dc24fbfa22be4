//! MLIR as a judge: whole training steps, lowered by `lower-to-linalg`, compiled by MLIR's own passes and run by its execution
//! engine, agree with the reference device.

mod mlir_layers;
#[path = "../../tests/programs/mod.rs"]
mod programs;

use programs::{Clip, LossScaling, Optimizer, Spec, build};
use raddle_bundle::FunctionKind;
use raddle_compiler::bundle::lower;
use raddle_compiler::generate::{self, Model, Tied};
use raddle_compiler::interop::mlir::{Door, Options, is_bytecode};
use raddle_dialect::DType;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Context, FloatKind, Rewriter, Verified, VerifyOptions, verify};
use raddle_dialect::reference::{Tensor, random};
use raddle_dialect::syntax::{PrintOptions, print};
use raddle_runtime::device::reference::{Machine, Mode, Program};
use raddle_stock_mlir::{Array, COMPILE_PIPELINE, InProcess, execute};

/// A tensor's elements as the machine has them.
fn array(tensor: &Tensor) -> Array {
    let element_bytes = tensor.dtype.bytes();
    let bytes = tensor.data.iter().flat_map(|&v| match tensor.dtype {
        DType::F32 => (v as f32).to_le_bytes().to_vec(),
        DType::F64 => v.to_le_bytes().to_vec(),
        DType::BF16 => ((v as f32).to_bits() >> 16).to_le_bytes()[..2].to_vec(),
        _ => (v as i64).to_le_bytes()[..element_bytes].to_vec(),
    });
    Array {
        shape: tensor.shape.clone(),
        element_bytes,
        bytes: bytes.collect(),
    }
}

fn numbers(array: &Array, dtype: DType) -> Vec<f64> {
    let elements = array.bytes.chunks_exact(array.element_bytes);
    elements
        .map(|bytes| match dtype {
            DType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
            DType::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
            DType::BF16 => {
                let bits = u16::from_le_bytes(bytes.try_into().unwrap());
                f32::from_bits(u32::from(bits) << 16).into()
            }
            _ => {
                let mut wide = [0; 8];
                wide[..bytes.len()].copy_from_slice(bytes);
                i64::from_le_bytes(wide) as f64
            }
        })
        .collect()
}

/// Random values that suit a global: powers of beta below one, moments positive.
fn value(name: &str, ty: &raddle_bundle::TensorType, stream: u64) -> Tensor {
    let dtype = DType::parse(&ty.dtype).unwrap();
    let tensor = Tensor::from_fn(ty.shape.clone(), dtype, |at| {
        let unit = random::unit(stream, at as u64);
        match name {
            _ if !dtype.is_float() => (3.0 * unit).floor(),
            _ if name.contains("pow") => 0.5 + 0.4 * unit,
            _ if name.contains("moment2") || name.ends_with("_moment") || name.contains("norm") => {
                0.5 + unit
            }
            "lr" => 0.05,
            _ if name.contains("scale") || name == "nranks" => 2.0,
            _ => 2.0 * unit - 1.0,
        }
    });
    tensor.rounded()
}

fn lowered(module: &Verified) -> Verified {
    let (linalg, _) = programs::inspect::run(module.clone(), "builtin.module(lower-to-linalg)");
    let mut diagnostics = Diagnostics::new();
    let compiled = InProcess.run_pipeline(
        &linalg,
        COMPILE_PIPELINE,
        Options::default(),
        &mut diagnostics,
    );
    let compiled = compiled.unwrap_or_else(|| panic!("{diagnostics:#?}"));
    let options = VerifyOptions {
        allow_unregistered: true,
    };
    verify(compiled, options, &mut diagnostics).unwrap_or_else(|_| panic!("{diagnostics:#?}"))
}

/// Largest difference between the reference device and MLIR over the loss and all updated globals, relative to each tensor's
/// size.
fn difference(spec: &Spec) -> f64 {
    difference_of(&build(spec))
}

/// As [`difference`], of a program's only class.
fn difference_of(module: &Verified) -> f64 {
    let mut diagnostics = Diagnostics::new();
    let bundle = lower(module, &mut diagnostics).expect("the program runs");
    let program = Program::load(&bundle).unwrap();
    let class = &program.classes()[0];
    let step = &class.function(FunctionKind::Step).unwrap().plain;
    let mut machine = Machine::new(&program, Mode::Rounded);
    let inputs: Vec<_> = (0u64..)
        .zip(&step.params)
        .map(|(at, p)| value("", &p.ty, 1 + at))
        .collect();
    let mut globals: Vec<(String, Tensor)> = Vec::new();
    for (at, global) in (100u64..).zip(&class.globals) {
        let tensor = value(&global.name, &global.ty, at);
        machine.set_global(0, &global.name, tensor.clone());
        globals.push((global.name.clone(), tensor));
    }
    let names = |op: &str| -> Vec<&str> {
        let touched: Vec<_> = step
            .instrs
            .iter()
            .filter(|i| i.op == op)
            .filter_map(|i| match i.attrs.get("global") {
                Some(raddle_bundle::Value::Str(name)) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let declared = class.globals.iter().map(|g| g.name.as_str());
        declared.filter(|name| touched.contains(name)).collect()
    };
    let loaded = names("dist.load");
    let args = inputs.iter().map(array);
    let loads = globals
        .iter()
        .filter(|(name, _)| loaded.contains(&name.as_str()));
    let args = args.chain(loads.map(|(_, t)| array(t))).collect();
    let returned = machine.run(FunctionKind::Step, &[inputs], &mut ()).unwrap();
    let mut expected = returned.into_iter().next().unwrap();
    for name in names("dist.store") {
        expected.push(machine.globals(0)[name].clone());
    }
    let results: Vec<_> = expected
        .iter()
        .map(|t| (t.shape.clone(), t.dtype.bytes()))
        .collect();
    let function = format!("{}_{}", class.name, step.name);
    let got = execute(
        &lowered(module),
        &function,
        args,
        &results,
        &mut diagnostics,
    );
    let got = got.unwrap_or_else(|| panic!("{diagnostics:#?}"));
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let pairs = expected.iter().zip(&got).map(|(tensor, array)| {
        let numbers = numbers(array, tensor.dtype);
        let apart = norm(&mut tensor.data.iter().zip(&numbers).map(|(a, b)| a - b));
        apart / norm(&mut tensor.data.iter().copied()).max(1e-30)
    });
    pairs.fold(0.0, f64::max)
}

fn single() -> Spec {
    Spec {
        mp: 1,
        ..Spec::default()
    }
}

#[test]
fn every_optimizer() {
    for optimizer in Optimizer::ALL {
        let spec = Spec {
            optimizer,
            ..single()
        };
        let difference = difference(&spec);
        assert!(difference < 1e-5, "{optimizer:?}: {difference:e}");
    }
}

#[test]
fn every_clip_and_loss_scaling() {
    for clip in [Clip::Value, Clip::Norm, Clip::GlobalStack, Clip::GlobalSum] {
        for loss_scaling in [LossScaling::None, LossScaling::Combined] {
            let spec = Spec {
                clip,
                loss_scaling,
                ..single()
            };
            let difference = difference(&spec);
            assert!(difference < 1e-5, "{spec:?}: {difference:e}");
        }
    }
}

#[test]
fn residuals_and_repeated_layers() {
    let spec = Spec {
        layers: 3,
        residual: true,
        recompute: true,
        sequence_parallel: true,
        ..single()
    };
    let difference = difference(&spec);
    assert!(difference < 1e-5, "{difference:e}");
}

#[test]
fn sixteen_bit_products_round_like_the_reference() {
    let spec = Spec {
        amp: Some(FloatKind::BF16),
        ..single()
    };
    // Sums are in f32 here and in f64 there, so a result may land on the neighbouring bf16.
    let difference = difference(&spec);
    assert!(difference < 2e-2, "{difference:e}");
}

#[test]
fn an_empty_pipeline_and_bytecode_change_nothing() {
    let module = build(&Spec::default());
    let text = |m: &raddle_dialect::ir::Module| {
        let options = PrintOptions {
            generic: true,
            debug_info: true,
            ..PrintOptions::default()
        };
        print(m, options)
    };
    let mut diagnostics = Diagnostics::new();
    let options = Options::default();
    let back = InProcess.run_pipeline(&module, "builtin.module()", options, &mut diagnostics);
    assert_eq!(text(&back.unwrap()), text(&module));
    let bytes = InProcess
        .write_bytecode(&module, options, &mut diagnostics)
        .unwrap();
    assert!(is_bytecode(&bytes));
    let back = InProcess
        .read_bytecode(module.cx(), &bytes, options, &mut diagnostics)
        .unwrap();
    assert_eq!(text(&back), text(&module));
}

#[test]
fn mlir_speaks_in_our_diagnostics() {
    let module = build(&Spec::default());
    let mut diagnostics = Diagnostics::new();
    let options = Options::default();
    let none = InProcess.run_pipeline(
        &module,
        "builtin.module(no-such-pass)",
        options,
        &mut diagnostics,
    );
    assert!(none.is_none());
    let message = &diagnostics.iter().next().unwrap().message;
    assert!(message.contains("no-such-pass"), "{message}");
}

#[test]
fn layers_of_transformers() {
    for (name, module) in mlir_layers::programs() {
        let difference = difference_of(&module);
        assert!(difference < 1e-5, "{name}: {difference:e}");
    }
}

/// A generated decoder with its backward pass and optimizer: everything that trains a GPT, once through MLIR.
#[test]
fn a_training_step_of_a_decoder() {
    for tied in [Tied::No, Tied::Yes] {
        let spec = generate::Spec {
            model: Model::Gpt,
            layers: 1,
            hidden: 8,
            heads: 2,
            vocab: 6,
            seq: 4,
            batch: 2,
            mesh: vec![("dp".into(), 1), ("mp".into(), 1)],
            tied,
            ..generate::Spec::default()
        };
        let cx = Context::new();
        let module = generate::generate(&cx, &spec).unwrap();
        let mut diagnostics = Diagnostics::new();
        let module = verify(module, VerifyOptions::default(), &mut diagnostics);
        let module = module.unwrap_or_else(|_| panic!("{diagnostics:#?}"));
        let pipeline = "builtin.module(append-backward{optimizer=adamw clip=global-norm})";
        let (module, _) = programs::inspect::run(module, pipeline);
        // Initial values are random, which the engine has no functions for.
        let mut module = module.into_module();
        let class = programs::inspect::classes(&module)[0].1;
        let init = programs::inspect::function(&module, class, "init");
        Rewriter::new(&mut module).erase(init);
        let module = verify(module, VerifyOptions::default(), &mut diagnostics);
        let difference = difference_of(&module.unwrap_or_else(|_| panic!("{diagnostics:#?}")));
        assert!(difference < 1e-4, "{tied:?}: {difference:e}");
    }
}
