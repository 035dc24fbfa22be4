//! Finds row-parallel linear layers: a matrix product whose partial sums a collective adds up, and a bias added after it.

use raddle_dialect::ir::{Attr, OpId, ValueId};
use raddle_dialect::ops::Effects;

use super::facts::Facts;

/// Casts between a bias and its use that are looked through; more than this is no program anyone writes.
const MAX_CASTS: usize = 8;

/// `add(comm(matmul), bias)`
#[derive(Clone, Debug)]
pub struct Linear {
    /// The `dist.matmul`.
    pub matmul: OpId,
    /// The `dist.all_reduce` or `dist.reduce_scatter`.
    pub comm: OpId,
    /// The `dist.add`.
    pub add: OpId,
    /// Which operand of the add is the bias.
    pub bias_operand: usize,
    /// The bias, as the add reads it: loaded, and perhaps cast.
    pub bias: ValueId,
    /// The load of the bias and the casts after it, in order.
    pub chain: Vec<OpId>,
    /// The symbol of the bias.
    pub global: Attr,
    /// The axes of the collective: positions in the mesh.
    pub axes: Vec<usize>,
    /// The dimension that a reduce_scatter cuts.
    pub scatter: Option<i64>,
}

impl Linear {
    /// The operand of the add that is the reduced product.
    pub fn product_operand(&self) -> usize {
        1 - self.bias_operand
    }
}

/// What stands at a collective that reduces a matrix product.
#[derive(Debug)]
pub enum Site {
    /// A linear layer with a bias that looks promotable from here.
    Linear(Linear),
    /// A linear layer that is left as it is, and why. If the reason concerns a bias, its other layers stay too.
    Declined {
        /// Why.
        reason: String,
    },
}

/// What stands at `comm`; `None` if it does not reduce a matrix product.
pub fn at(facts: &Facts, comm: OpId) -> Option<Site> {
    let module = facts.module;
    let scatter = match module.name_str(comm) {
        "dist.all_reduce" => None,
        "dist.reduce_scatter" => Some(module.i64_attr(comm, "dim")?),
        _ => return None,
    };
    let product = module.operand(comm, 0);
    let matmul = facts.definition(product)?;
    if !module.is(matmul, "dist.matmul") {
        return None;
    }
    Some(match matched(facts, matmul, comm, scatter) {
        Ok(linear) => Site::Linear(linear),
        Err(reason) => Site::Declined { reason },
    })
}

/// Whether an op is the product of a linear layer that needs no promotion: each rank has its part of the result, or all of it.
pub fn is_unreduced(facts: &Facts, op: OpId) -> bool {
    let module = facts.module;
    let backward = matches!(
        module.str_attr(op, "dist.role"),
        Some("backward" | "optimizer")
    );
    if !module.is(op, "dist.matmul") || backward {
        return false;
    }
    let is_parameter = |global| {
        let op = facts.global(global).and_then(|g| g.op);
        op.and_then(|op| module.str_attr(op, "kind")) == Some("parameter")
    };
    let reduces = |name| matches!(name, "dist.all_reduce" | "dist.reduce_scatter");
    let weight = trace(facts, module.operand(op, 1));
    weight.is_some_and(|(_, global)| is_parameter(global))
        && !module
            .uses(module.result(op, 0))
            .any(|u| reduces(module.name_str(u.op)))
}

fn matched(
    facts: &Facts,
    matmul: OpId,
    comm: OpId,
    scatter: Option<i64>,
) -> Result<Linear, String> {
    let module = facts.module;
    let reduced = module.result(comm, 0);
    let users = || module.uses(reduced);
    let Some(sum) = users().find(|u| module.is(u.op, "dist.add")) else {
        return Err("it has no bias: nothing is added to the reduced product".into());
    };
    let (add, bias_operand) = (sum.op, 1 - sum.index);
    let bias = module.operand(add, bias_operand);
    let Some((chain, global)) = trace(facts, bias) else {
        return Err(
            "what is added to the reduced product is not a parameter, so it is not a bias".into(),
        );
    };
    let name = module.cx().as_symbol(global).unwrap_or_default();
    let op = facts.global(global).and_then(|g| g.op);
    let rank_1 = matches!(facts.shape(bias), Some(([_], _)));
    match op {
        Some(op) if module.str_attr(op, "kind") == Some("parameter") && rank_1 => {}
        Some(_) => {
            return Err(format!(
                "@{name} is not a parameter of rank 1, so it is not a bias"
            ));
        }
        None => return Err(format!("@{name} is not declared")),
    }
    if users().any(|u| u.op != add && !reads_shape(facts, u.op, u.index)) {
        return Err(format!(
            "the reduced product is read by other ops than the add of @{name}"
        ));
    }
    if module.uses(module.operand(comm, 0)).any(|u| u.op != comm) {
        return Err("the product is also read before it is reduced".into());
    }
    let axes = facts
        .axes(comm)
        .ok_or("its collective names axes that the mesh does not have")?;
    let reduction = module.str_attr(comm, "reduction").unwrap_or_default();
    if reduction != "sum" {
        return Err(format!(
            "its reduction is '{reduction}', not 'sum': @{name} on one rank would count for less"
        ));
    }
    let linear = Linear {
        matmul,
        comm,
        add,
        bias_operand,
        bias,
        chain,
        global,
        axes,
        scatter,
    };
    fits(facts, &linear, name)?;
    Ok(linear)
}

/// Shapes, layouts and order: what has to hold so that the add can stand before the collective.
fn fits(facts: &Facts, linear: &Linear, name: &str) -> Result<(), String> {
    let module = facts.module;
    let product = module.operand(linear.comm, 0);
    let (Some((shape, element)), Some((sum, sum_element)), Some((bias, bias_element))) = (
        facts.shape(product),
        facts.shape(module.result(linear.add, 0)),
        facts.shape(linear.bias),
    ) else {
        return Err("its types are not ranked tensors".into());
    };
    if element != sum_element || element != bias_element {
        return Err(format!("the product and @{name} differ in element type"));
    }
    if let Some(dim) = linear.scatter
        && dim + 1 == shape.len() as i64
    {
        return Err("its reduce_scatter cuts the last dimension, along which the bias lies".into());
    }
    if shape.last() != bias.last() || shape.len() != sum.len() {
        return Err(format!(
            "@{name} is not added along the last dimension of the product"
        ));
    }
    let global = facts.global(linear.global).and_then(|g| g.op);
    let replicated = global.is_some_and(|g| facts.is_replicated(g, &linear.axes));
    if !replicated {
        return Err(format!(
            "@{name} is not replicated over {}",
            facts.show(&linear.axes)
        ));
    }
    in_order(facts, linear, name)
}

/// The bias can be loaded before the collective.
fn in_order(facts: &Facts, linear: &Linear, name: &str) -> Result<(), String> {
    let module = facts.module;
    let block = module.parent_block(linear.comm);
    if module.parent_block(linear.add) != block || module.parent_block(linear.matmul) != block {
        return Err("its ops lie in different blocks".into());
    }
    let late = |&&op: &&OpId| facts.precedes(linear.comm, op);
    for &op in linear.chain.iter().filter(late) {
        if module.parent_block(op) != block {
            return Err("its ops lie in different blocks".into());
        }
        if module
            .def_of(op)
            .is_some_and(|d| d.effects == Effects::Pure)
        {
            continue;
        }
        let global = facts.global(linear.global);
        let stored = global.is_some_and(|g| {
            let before = |&s: &OpId| facts.precedes(s, linear.comm);
            let next = g.stores.get(g.stores.partition_point(before));
            next.is_some_and(|&s| facts.precedes(s, op))
        });
        let unknown = facts.place(op).unknown != facts.place(linear.comm).unknown;
        if stored || unknown {
            return Err(format!(
                "@{name} may be written between the reduction and the add"
            ));
        }
    }
    Ok(())
}

/// The load behind a value, and the casts in between: `load, cast, …`.
fn trace(facts: &Facts, value: ValueId) -> Option<(Vec<OpId>, Attr)> {
    let module = facts.module;
    let mut chain = Vec::new();
    let mut at = value;
    loop {
        let op = facts.definition(at)?;
        chain.push(op);
        match module.name_str(op) {
            "dist.load" => {
                chain.reverse();
                return Some((chain, module.attr(op, "global")?));
            }
            "dist.cast" | "dist.identity" if chain.len() <= MAX_CASTS => {
                at = module.operand(op, 0);
            }
            _ => return None,
        }
    }
}

/// Whether an op reads only the shape of this operand.
fn reads_shape(facts: &Facts, op: OpId, operand: usize) -> bool {
    facts.module.is(op, "dist.add_grad") && operand < 2
}
