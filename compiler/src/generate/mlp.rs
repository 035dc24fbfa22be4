//! The perceptron: pairs of linear layers, each with a residual connection, and the mean squared error to a target.

use raddle_dialect::ir::ValueId;
use raddle_dialect::{DType, Error};

use super::program::Program;

/// Builds the step; gives the loss.
pub fn build(program: &mut Program) -> Result<ValueId, Error> {
    let spec = program.spec;
    let shape = [
        spec.seq,
        spec.local_batch() * spec.size(super::spec::DATA),
        spec.hidden,
    ];
    let cut = [program.sequence(), program.data(), None];
    let mut x = program.input(&shape, &cut, DType::F32)?;
    let target = program.input(&shape, &cut, DType::F32)?;
    for layer in 0..spec.layers {
        let name = format!("l{layer}");
        let normed = program.norm(x, &format!("{name}_norm"))?;
        let y = program.perceptron(normed, &name)?;
        x = match spec.residual {
            true => program.add(y, x)?,
            false => y,
        };
    }
    let off = program
        .builder
        .emit("dist.sub")?
        .each(&[x, target])
        .value()?;
    let square = program
        .builder
        .emit("dist.mul")?
        .each(&[off, off])
        .value()?;
    program.mean(square)
}
