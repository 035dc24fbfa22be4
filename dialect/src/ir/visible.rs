//! Whether values are visible where they are used: defined on every way there, and not beyond an isolated op.

use super::dominance::DominanceCache;
use super::module::{BlockId, Def, Module, OpId, RegionId, ValueId};
use crate::diag::{Diagnostic, Diagnostics};

/// Checks every operand of every op inside the root.
pub(super) fn check(module: &Module, found: &mut Diagnostics) {
    let mut checker = Checker {
        module,
        dominance: DominanceCache::default(),
        found,
    };
    let mut regions = module.regions(module.root()).to_vec();
    regions.reverse();
    let mut nested = Vec::new();
    while let Some(region) = regions.pop() {
        nested.clear();
        checker.region(region, &mut nested);
        regions.extend(nested.iter().rev());
    }
}

struct Checker<'a> {
    module: &'a Module,
    dominance: DominanceCache,
    found: &'a mut Diagnostics,
}

impl Checker<'_> {
    fn region(&mut self, region: RegionId, nested: &mut Vec<RegionId>) {
        let module = self.module;
        let graph = is_graph(module, region);
        let Some(entry) = module.first_block(region) else {
            return;
        };
        for block in module.blocks(region) {
            // What cannot be reached may use anything.
            let reachable = block == entry || self.dominance.of(module, region).is_reachable(block);
            for op in module.block_ops(block) {
                if reachable {
                    self.op(op, block, graph);
                }
                nested.extend_from_slice(module.regions(op));
            }
        }
    }

    fn op(&mut self, op: OpId, block: BlockId, graph: bool) {
        let module = self.module;
        for (index, value) in module.operands(op).enumerate() {
            let visible = if module.value_block(value) == Some(block) {
                graph || is_before(module, value, op)
            } else {
                match self.comes_from_outside(op, value) {
                    Ok(visible) => visible,
                    Err(isolated) => {
                        let name = module.name_str(op);
                        self.found.push(
                            Diagnostic::error(
                                "E0209",
                                module.loc(op),
                                format!("'{name}' op using value defined outside the region"),
                            )
                            .note(
                                Some(module.loc(isolated).into()),
                                "required by region isolation constraints",
                            ),
                        );
                        continue;
                    }
                }
            };
            if !visible {
                let mut diagnostic = Diagnostic::error(
                    "E0203",
                    module.loc(op),
                    format!("operand #{index} does not dominate this use"),
                );
                if let Some(def) = module.defining_op(value) {
                    diagnostic =
                        diagnostic.note(Some(module.loc(def).into()), "operand defined here");
                }
                self.found.push(diagnostic);
            }
        }
    }

    /// Whether a value of another block is visible to an op.
    ///
    /// # Errors
    /// The isolated op in between.
    fn comes_from_outside(&mut self, op: OpId, value: ValueId) -> Result<bool, OpId> {
        let module = self.module;
        let Some(def_block) = module.value_block(value) else {
            return Ok(false);
        };
        let region = module.block_parent(def_block);
        // The op around `op`, or `op` itself, that lies directly in the defining region.
        let mut at = op;
        let block = loop {
            let Some(block) = module.parent_block(at) else {
                return Ok(false);
            };
            if module.block_parent(block) == region {
                break block;
            }
            at = module.block_parent_op(block);
            if module.def_of(at).is_some_and(|d| d.traits.isolated) {
                return Err(at);
            }
        };
        if block != def_block {
            return Ok(self
                .dominance
                .of(module, region)
                .dominates(def_block, block));
        }
        if module.defining_op(value) == Some(at) {
            return Ok(false);
        }
        Ok(is_graph(module, region) || is_before(module, value, at))
    }
}

/// Whether the ops of a region may come in any order: it is a lone block of an op that says so, or that is not known.
fn is_graph(module: &Module, region: RegionId) -> bool {
    let parent = module.def_of(module.region_parent(region));
    parent.is_none_or(|d| d.traits.graph_region)
        && module
            .first_block(region)
            .is_some_and(|b| module.next_block(b).is_none())
}

/// Whether a value of a block is defined before an op of the block.
fn is_before(module: &Module, value: ValueId, op: OpId) -> bool {
    match module.def(value) {
        Def::Result { op: def, .. } => def != op && module.is_before(def, op),
        Def::Arg { .. } => true,
        Def::Pending => false,
    }
}
