//! What a function's values are to the split: weights, gradients of weights, gradients of activations.

use std::collections::HashSet;

use raddle_dialect::ir::{BlockId, Module, OpId, ValueId};
use raddle_dialect::ops::{Count, Effects};

use super::is_backward;

/// Side tables over a function's values.
pub(super) struct Facts {
    /// Parameters, and what is computed from nothing but parameters and constants: casts, slices, gathered shards.
    weights: Vec<bool>,
    /// Gradients of weights, and what is computed from them.
    weight_gradients: Vec<bool>,
    /// Gradients of what is not a weight, straight from the op that computes them.
    activation_gradients: Vec<bool>,
}

impl Facts {
    pub(super) fn of(module: &Module, function: OpId, block: BlockId) -> Self {
        let mut facts = Self {
            weights: Vec::new(),
            weight_gradients: Vec::new(),
            activation_gradients: Vec::new(),
        };
        let parameters = parameters(module, function);
        let mut constants = Vec::new();
        for op in module.block_ops(block) {
            facts.find_weights(module, op, &parameters, &mut constants);
            if is_backward(module, op) {
                facts.find_gradients(module, op);
            }
        }
        facts
    }

    /// Whether a value is a weight.
    pub(super) fn is_weight(&self, value: ValueId) -> bool {
        get(&self.weights, value)
    }

    /// Whether a value is the gradient of a weight, or computed from such.
    pub(super) fn is_weight_gradient(&self, value: ValueId) -> bool {
        get(&self.weight_gradients, value)
    }

    /// Whether a value is the gradient of an activation.
    pub(super) fn is_activation_gradient(&self, value: ValueId) -> bool {
        get(&self.activation_gradients, value)
    }

    /// `new` takes the place of `old`.
    pub(super) fn replace(&mut self, old: ValueId, new: ValueId) {
        for table in [&mut self.weight_gradients, &mut self.activation_gradients] {
            if get(table, old) {
                set(table, new);
            }
        }
    }

    fn find_weights(
        &mut self,
        module: &Module,
        op: OpId,
        parameters: &HashSet<&str>,
        constants: &mut Vec<bool>,
    ) {
        let Some(def) = module.def_of(op) else {
            return;
        };
        let weight = match def.effects {
            Effects::Reads => module
                .symbol_attr(op, "global")
                .is_some_and(|name| parameters.contains(name)),
            // A gathered or broadcast weight is still a weight.
            Effects::Pure | Effects::Communicates => {
                let mut operands = module.operands(op).peekable();
                if operands.peek().is_none() && def.effects == Effects::Pure {
                    module.results(op).for_each(|r| set(constants, r));
                }
                let mut any = false;
                operands.all(|v| {
                    any |= self.is_weight(v);
                    self.is_weight(v) || get(constants, v)
                }) && any
            }
            _ => false,
        };
        if weight {
            module.results(op).for_each(|r| set(&mut self.weights, r));
        }
    }

    fn find_gradients(&mut self, module: &Module, op: OpId) {
        if module.operands(op).any(|v| self.is_weight_gradient(v)) {
            let results = module.results(op);
            results.for_each(|r| set(&mut self.weight_gradients, r));
        }
        for (operand, result) in gradients(module, op) {
            let table = match self.is_weight(operand) {
                true => &mut self.weight_gradients,
                false => &mut self.activation_gradients,
            };
            set(table, result);
        }
    }
}

/// The results of a gradient op together with the operands that they are the gradients of: `dscale` is that of `scale`.
pub(super) fn gradients(module: &Module, op: OpId) -> Vec<(ValueId, ValueId)> {
    let Some(def) = module.def_of(op).filter(|def| def.name.ends_with("_grad")) else {
        return Vec::new();
    };
    let (Ok(operands), Ok(results)) = (
        module.operand_segments(op, def),
        module.result_segments(op, def),
    ) else {
        return Vec::new();
    };
    let of = |(group, range): (&raddle_dialect::ops::Group, std::ops::Range<usize>)| {
        let operand = def.operand_group(group.name.strip_prefix('d')?)?;
        let operand = operands[operand].clone();
        (range.len() == 1 && operand.len() == 1 && group.count != Count::Variadic).then(|| {
            (
                module.operand(op, operand.start),
                module.result(op, range.start),
            )
        })
    };
    def.results.iter().zip(results).filter_map(of).collect()
}

/// The names of the parameters of the class around a function.
fn parameters(module: &Module, function: OpId) -> HashSet<&str> {
    let class = module.enclosing_module(function);
    let symbols = class.into_iter().flat_map(|class| module.symbols(class));
    symbols
        .filter(|&(_, op)| {
            module.is(op, "dist.global") && module.str_attr(op, "kind") == Some("parameter")
        })
        .map(|(name, _)| name)
        .collect()
}

fn get(table: &[bool], value: ValueId) -> bool {
    table.get(value.index()).copied().unwrap_or(false)
}

fn set(table: &mut Vec<bool>, value: ValueId) {
    if table.len() <= value.index() {
        table.resize(value.index() + 1, false);
    }
    table[value.index()] = true;
}
