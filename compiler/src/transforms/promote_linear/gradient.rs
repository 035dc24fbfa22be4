//! The backward half of a promoted layer: `add_grad`, and with sequence parallelism the `all_gather` behind it.

use rustc_hash::FxHashMap;

use raddle_dialect::ir::{OpId, ValueId};

use super::facts::Facts;
use super::linear::Linear;

/// The gradient of a promoted add.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The `dist.add_grad`.
    pub op: OpId,
    /// Which layer of the plan it belongs to.
    pub linear: usize,
    /// The gradient of the sum.
    pub dout: ValueId,
    /// The gradient of the product, if it is computed.
    pub product: Option<ValueId>,
    /// The gradient of the bias, if it is computed.
    pub bias: Option<ValueId>,
    /// After a reduce_scatter: the `dist.all_gather` that makes the product's gradient whole.
    pub gather: Option<OpId>,
}

/// Reads an `add_grad` whose operand `bias_operand` is the bias. `by_comm` finds a layer by its collective.
///
/// # Errors
/// With the reason why the bias cannot be promoted.
pub fn read(
    facts: &Facts,
    op: OpId,
    bias_operand: usize,
    linears: &[Linear],
    by_comm: &FxHashMap<OpId, usize>,
) -> Result<Gradient, String> {
    let module = facts.module;
    let other = module.operand(op, 1 - bias_operand);
    let linear = facts
        .definition(other)
        .and_then(|comm| by_comm.get(&comm).copied())
        .filter(|&l| linears[l].bias_operand == bias_operand)
        .ok_or("a gradient of it belongs to no promoted layer")?;
    let result = |index: usize| module.result_in(op, ["da", "db"][index]);
    let mut gradient = Gradient {
        op,
        linear,
        dout: module.operand(op, 2),
        product: result(1 - bias_operand),
        bias: result(bias_operand),
        gather: None,
    };
    if linears[linear].scatter.is_some() {
        gradient.gather = Some(gather(facts, &gradient, &linears[linear])?);
    }
    Ok(gradient)
}

/// The all_gather that undoes the layer's reduce_scatter for the gradient.
fn gather(facts: &Facts, gradient: &Gradient, linear: &Linear) -> Result<OpId, String> {
    let module = facts.module;
    let undoes = |op: &OpId| {
        module.is(*op, "dist.all_gather")
            && module.i64_attr(*op, "dim") == linear.scatter
            && facts.axes(*op).as_ref() == Some(&linear.axes)
            && module.parent_block(*op) == module.parent_block(gradient.op)
    };
    let users = gradient.product.into_iter().flat_map(|p| module.uses(p));
    let first = users
        .map(|u| u.op)
        .filter(undoes)
        .min_by_key(|&op| facts.place(op).order);
    let gather = first.ok_or_else(|| {
        format!(
            "the gradient of its reduce_scatter is not gathered over {}, so no rank sees all of the bias gradient",
            facts.show(&linear.axes)
        )
    })?;
    let whole = facts.shape(module.result(gather, 0));
    if whole != facts.shape(module.operand(linear.comm, 0)) {
        return Err("the gathered gradient and the product differ in shape".into());
    }
    Ok(gather)
}
