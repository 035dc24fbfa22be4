//! Reference semantics: what each op computes, written slowly and plainly on tensors of f64.
//!
//! Float results are not rounded here: a device that imitates the element types rounds each result with [`Tensor::rounded`], one that
//! does exact arithmetic leaves them. Integers and flags always are proper values of their type. Sums are taken in f64.
//!
//! Collectives are not evaluated by one rank: [`combine`] takes the tensors of a whole group, in group order.

pub mod activation;
pub(crate) mod amp;
pub(crate) mod attention;
pub(crate) mod collectives;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod linear;
pub(crate) mod lookup;
pub(crate) mod normalisation;
pub(crate) mod optimizers;
pub mod random;
pub(crate) mod reduce;
mod rounding;
pub(crate) mod shape;
pub(crate) mod softmax;
mod tensor;
#[cfg(test)]
mod tests;

pub use tensor::{Tensor, ravel, strides, unravel};

use crate::error::Error;
use crate::mesh::Mesh;
use crate::ops::{Args, Attributes, Attrs, InferCx, OpDef};
use crate::tensor_type::TensorType;

/// The rank that evaluates an op.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The rank's coordinate.
    pub coordinate: &'a [usize],
}

/// One execution of an op.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Operands in order.
    pub operands: &'a [Tensor],
    /// Attributes.
    pub attrs: &'a dyn Attributes,
    /// Result types in order.
    pub results: &'a [TensorType],
    /// Where it runs; ops that depend on the rank need it.
    pub place: Option<Place<'a>>,
    /// What random numbers without a seed are drawn from: the same number gives the same tensor.
    pub stream: u64,
    /// Number of the micro-batch since training began. What is drawn with a seed anew in each micro-batch depends on it, and not on
    /// when or where in a function the op runs.
    pub microbatch: u64,
}

/// What an op's `eval` works with: a [`Call`] whose operand and result types fit the op's definition.
pub struct EvalCx<'a> {
    /// Operands by group.
    pub args: Args<'a, Tensor>,
    /// Attributes.
    pub attrs: Attrs<'a>,
    /// Result types by group.
    pub results: Args<'a, TensorType>,
    /// Where it runs.
    pub place: Option<Place<'a>>,
    /// Source of random numbers.
    pub stream: u64,
    /// Number of the micro-batch since training began.
    pub microbatch: u64,
}

/// What an op's `combine` works with.
pub struct CombineCx<'a> {
    /// The operands of each rank of the group, in group order; the ranks' types agree.
    pub inputs: &'a [Vec<Tensor>],
    /// Attributes, the same on all ranks.
    pub attrs: Attrs<'a>,
}

/// Evaluates an op on one rank. Operand types are checked first, so `call` may hold anything.
///
/// # Errors
/// If operands, attributes or result types do not fit the op, or the op has no meaning on one rank alone (collectives, loads and
/// stores).
pub fn eval(def: &'static OpDef, call: &Call) -> Result<Vec<Tensor>, Error> {
    let attrs = Attrs(call.attrs);
    let function = def
        .eval
        .ok_or_else(|| Error::op("E0350", "cannot be evaluated on one rank alone"))?;
    let types: Vec<TensorType> = call.operands.iter().map(Tensor::ty).collect();
    let mesh = call.place.map(|p| p.mesh);
    InferCx::new(def, &types, attrs, mesh)?.check(def, call.results)?;
    if let Some(huge) = call.results.iter().find(|t| !fits_memory(t)) {
        return Err(Error::op(
            "E0350",
            format!("has a result too large to evaluate, {huge}"),
        ));
    }
    function(&EvalCx {
        args: Args::operands(def, call.operands, attrs)?,
        attrs,
        results: Args::results(def, call.results, attrs)?,
        place: call.place,
        stream: call.stream,
        microbatch: call.microbatch,
    })
}

/// What a global holds after `dist.accumulate`: the value as the global's type has it, added to what is there. `round` says what
/// becomes of a float that the type cannot hold: [`Tensor::rounded`], or nothing.
///
/// # Errors
/// `E0317` if the shapes differ.
pub fn accumulate(
    global: &Tensor,
    value: &Tensor,
    round: impl Fn(Tensor) -> Tensor,
) -> Result<Tensor, Error> {
    let value = round(value.with_dtype(global.dtype));
    Ok(round(global.zip(&value, |a, b| a + b)?))
}

fn fits_memory(ty: &TensorType) -> bool {
    ty.elements().is_some_and(|n| (0..1 << 31).contains(&n))
}

/// What a collective gives each rank of a group, in group order, from what each puts in: results and operands of the op.
///
/// # Errors
/// If the op is no collective with operands, `inputs` is empty, or types and attributes do not fit.
pub fn combine(
    def: &'static OpDef,
    inputs: &[Vec<Tensor>],
    attrs: &dyn Attributes,
) -> Result<Vec<Vec<Tensor>>, Error> {
    let function = def
        .combine
        .ok_or_else(|| Error::op("E0350", "is not a collective"))?;
    let Some(first) = inputs.first() else {
        return Err(Error::op("E0350", "has a group without ranks"));
    };
    if first.len() != def.operands.len() {
        return Err(Error::op(
            "E0303",
            format!(
                "expected {} operands, but found {}",
                def.operands.len(),
                first.len()
            ),
        ));
    }
    let types = |of: &[Tensor]| -> Vec<TensorType> { of.iter().map(Tensor::ty).collect() };
    let expected = types(first);
    if let Some(other) = inputs.iter().map(|i| types(i)).find(|t| *t != expected) {
        let show = |types: &[TensorType]| {
            let types: Vec<String> = types.iter().map(TensorType::to_string).collect();
            types.join(", ")
        };
        return Err(Error::op(
            "E0350",
            format!(
                "has operands of type {} and {} in one group",
                show(&expected),
                show(&other)
            ),
        ));
    }
    function(&CombineCx {
        inputs,
        attrs: Attrs(attrs),
    })
}
