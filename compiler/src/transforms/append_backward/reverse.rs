//! Reverse mode: ops are visited last to first; gradients of a value are complete when its op is reached.

use raddle_dialect::Error;
use raddle_dialect::TensorType;
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::layout::Layout;
use raddle_dialect::ops::{Differentiated, OpBuilder, Reduce, differentiate};
use rustc_hash::{FxHashMap, FxHashSet};

use super::program::Step;

/// Ops that pass a parameter on without computing: what reduces its gradient can wait until they are undone.
const VIEWS: &[&str] = &[
    "dist.cast",
    "dist.reshape",
    "dist.transpose",
    "dist.identity",
];

/// Differentiates a step.
pub struct Reverse<'p, 'a, 'm> {
    builder: &'p mut OpBuilder<'a, 'm>,
    /// Values that depend on a parameter, and can have a gradient.
    active: FxHashSet<ValueId>,
    /// Parameters, and what only passes them on.
    views: FxHashSet<ValueId>,
    /// What has been found of each value's gradient so far.
    parts: FxHashMap<ValueId, Vec<ValueId>>,
    /// Ops that stand in the way.
    pub errors: Vec<(OpId, Error)>,
}

impl<'p, 'a, 'm> Reverse<'p, 'a, 'm> {
    /// Finds out what depends on the parameters.
    pub fn new(builder: &'p mut OpBuilder<'a, 'm>, step: &Step) -> Self {
        let module = builder.rewriter.module();
        let loads = step.parameters.iter().flat_map(|p| p.loads.iter().copied());
        let mut active: FxHashSet<ValueId> = loads.collect();
        let mut views = active.clone();
        for op in module.block_ops(step.block) {
            let reads = |set: &FxHashSet<ValueId>| module.operands(op).any(|v| set.contains(&v));
            if !reads(&active) {
                continue;
            }
            active.extend(module.results(op).filter(|&v| has_gradient(module, v)));
            if VIEWS.contains(&module.name_str(op)) && reads(&views) {
                views.extend(module.results(op));
            }
        }
        Self {
            builder,
            active,
            views,
            parts: FxHashMap::default(),
            errors: Vec::new(),
        }
    }

    /// Goes back from the loss, whose gradient is `seed`, through `ops`, the forward program. Gives the gradient of each parameter
    /// of the step, summed over all its loads, perhaps partial; none where the loss does not depend on it.
    pub fn run(&mut self, step: &Step, ops: &[OpId], seed: ValueId) -> Vec<Option<ValueId>> {
        self.parts.insert(step.loss, vec![seed]);
        let role = ("dist.role", self.builder.cx().string("backward"));
        for &op in ops.iter().rev() {
            let module = self.builder.rewriter.module();
            let stage = module.attr(op, "dist.stage");
            self.builder.loc = module.loc(op);
            self.builder.marks = vec![role];
            self.builder.marks.extend(stage.map(|s| ("dist.stage", s)));
            if module.is(op, "dist.load") {
                continue;
            }
            if let Err(error) = self.op(op) {
                self.errors.push((op, error));
            }
        }
        let mut gradients = Vec::new();
        for parameter in &step.parameters {
            let loads = parameter.loads.iter();
            let parts: Vec<_> = loads
                .flat_map(|l| self.parts.remove(l).unwrap_or_default())
                .collect();
            let stage = parameter.stage.map(|s| ("dist.stage", s));
            self.builder.marks = [role].into_iter().chain(stage).collect();
            self.builder.loc = self.builder.rewriter.loc(parameter.global);
            gradients.push(match self.total(parts) {
                Ok(total) => total,
                Err(error) => {
                    self.errors.push((parameter.global, error));
                    None
                }
            });
        }
        gradients
    }

    fn op(&mut self, op: OpId) -> Result<(), Error> {
        let module = self.builder.rewriter.module();
        let operands: Vec<_> = module.operands(op).collect();
        let results: Vec<_> = module.results(op).collect();
        let needs: Vec<_> = operands.iter().map(|v| self.active.contains(v)).collect();
        if !needs.contains(&true) || !results.iter().any(|r| self.parts.contains_key(r)) {
            return Ok(());
        }
        let mut douts = Vec::with_capacity(results.len());
        for result in &results {
            let parts = self.parts.remove(result).unwrap_or_default();
            douts.push(self.total(parts)?);
        }
        let later = results.iter().any(|r| self.views.contains(r));
        let request = Differentiated {
            op,
            douts: &douts,
            needs: &needs,
            reduce: if later { Reduce::Later } else { Reduce::Here },
        };
        let gradients = differentiate(self.builder, request)?;
        for (operand, gradient) in operands.into_iter().zip(gradients) {
            if let Some(gradient) = gradient {
                self.parts.entry(operand).or_default().push(gradient);
            }
        }
        Ok(())
    }

    /// The sum of what has been found. Parts that are spread alike are summed first; if there are several kinds, each that is partial
    /// is reduced before they meet.
    fn total(&mut self, parts: Vec<ValueId>) -> Result<Option<ValueId>, Error> {
        let mut kinds: Vec<(Layout, Vec<ValueId>)> = Vec::new();
        for part in parts {
            let layout = self.builder.layout(part)?;
            match kinds.iter_mut().find(|k| k.0 == *layout) {
                Some(kind) => kind.1.push(part),
                None => kinds.push((layout.clone(), vec![part])),
            }
        }
        let several = kinds.len() > 1;
        let mut sums = Vec::new();
        for (_, parts) in kinds {
            let sum = self.sum(&parts)?;
            sums.push(match several {
                true => self.builder.reduced(sum)?,
                false => sum,
            });
        }
        match sums.is_empty() {
            true => Ok(None),
            false => self.sum(&sums).map(Some),
        }
    }

    fn sum(&mut self, parts: &[ValueId]) -> Result<ValueId, Error> {
        match parts {
            [only] => Ok(*only),
            _ => self.builder.emit("dist.sum")?.many(parts).value(),
        }
    }
}

fn has_gradient(module: &Module, value: ValueId) -> bool {
    TensorType::of(module.cx(), module.ty(value)).is_ok_and(|ty| ty.dtype.is_float())
}
