//! Forward programs that look like what people train: perceptrons and GPTs, placed on a mesh as Megatron-LM places them (Shoeybi et
//! al., 2019; with the sequence cut as Korthikanti et al., 2022). `append-backward` makes training programs of them.
//!
//! Activations are `[sequence, batch, hidden]`. The data axis cuts the batch. The tensor axis cuts the first linear layer of a pair by
//! columns and the second by rows, the heads of attention, and the vocabulary. With sequence parallelism it cuts the sequence between the
//! pairs, so an all_gather stands before each pair and a reduce_scatter behind it, instead of one all_reduce.

mod gpt;
mod layers;
mod mlp;
mod program;
mod spec;

pub use spec::{Activation, Model, Norm, SequenceParallel, Spec, SpecError, Tied};

use std::sync::Arc;

use raddle_dialect::Error;
use raddle_dialect::ir::{Context, Module};

/// The forward program of a model. It verifies.
///
/// # Errors
/// If sizes do not go together.
pub fn generate(cx: &Arc<Context>, spec: &Spec) -> Result<Module, SpecError> {
    spec.check()?;
    let build = |e: Error| SpecError(format!("the sizes do not go together: {e}"));
    program::build(cx, spec).map_err(build)
}
