//! Random training programs made from forward ones: `raddle gen`'s models, differentiated by `append-backward`.

use proptest::prelude::*;
use raddle_compiler::generate::{
    Activation, Model, Norm, SequenceParallel, Spec as ModelSpec, Tied, generate,
};
use raddle_dialect::ir::{Context, Verified};

use super::checked;
use super::inspect::run;

/// A model, and the options of `append-backward`.
#[derive(Clone, Debug)]
pub struct Generated {
    pub model: ModelSpec,
    pub append: String,
}

/// The training program.
pub fn train(spec: &Generated) -> Verified {
    let module = generate(&Context::new(), &spec.model).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    let pipeline = format!("builtin.module(append-backward{{{}}})", spec.append);
    run(checked(module), &pipeline).0
}

/// Models as small as they can be, with every optimizer and clip.
pub fn models() -> impl Strategy<Value = Generated> {
    let mesh = (
        1..3i64,
        prop_oneof![3 => Just(2i64), 1 => Just(4)],
        prop_oneof![3 => Just(1i64), 1 => Just(2)],
    );
    const OPTIMIZERS: [&str; 5] = ["sgd", "momentum", "adam", "adamw", "adamax"];
    const CLIPS: [&str; 4] = ["none", "global-norm", "norm", "value"];
    const SCALINGS: [&str; 3] = ["none", "static", "dynamic"];
    let append = (
        prop::sample::select(&OPTIMIZERS[..]),
        prop::sample::select(&CLIPS[..]),
        prop::sample::select(&SCALINGS[..]),
        any::<[bool; 3]>(),
    );
    let append = append.prop_map(|(optimizer, clip, scaling, [below, stack, nesterov])| {
        let limit = if below { "1000.0" } else { "0.01" };
        let mut text = format!(
            "optimizer={optimizer} clip={clip} clip-limit={limit} loss-scaling={scaling} loss-scale=8.0"
        );
        if stack {
            text += " clip-stack";
        }
        if nesterov {
            text += " nesterov";
        }
        text
    });
    (1..3i64, mesh, any::<[bool; 7]>(), append).prop_map(
        |(layers, (dp, mp, microbatches), flags, append)| {
            let [gpt, cut, tied, bias, norm, residual, tanh] = flags;
            let model = ModelSpec {
                model: if gpt { Model::Gpt } else { Model::Mlp },
                layers,
                hidden: 2 * mp,
                inner: 2 * mp,
                heads: mp,
                vocab: 4 * mp,
                seq: mp,
                batch: dp * microbatches,
                mesh: vec![("dp".into(), dp), ("mp".into(), mp)],
                sequence_parallel: match cut {
                    true => SequenceParallel::On,
                    false => SequenceParallel::Off,
                },
                tied: if tied && gpt { Tied::Yes } else { Tied::No },
                bias: bias || norm,
                dropout: 0.0,
                microbatches,
                activation: match tanh {
                    true => Activation::GeluTanh,
                    false => Activation::Relu,
                },
                norm: if norm || gpt { Norm::Layer } else { Norm::None },
                residual,
            };
            Generated { model, append }
        },
    )
}
