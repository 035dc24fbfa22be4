//! `cse`: computes equal things once.
//!
//! ```text
//! %0 = dist.load @w : tensor<4xf32>              %0 = dist.load @w : tensor<4xf32>
//! %1 = dist.gelu %0 : tensor<4xf32>      ──▶     %1 = dist.gelu %0 : tensor<4xf32>
//! %2 = dist.load @w : tensor<4xf32>              %4 = dist.add %1, %1 : tensor<4xf32>
//! %3 = dist.gelu %2 : tensor<4xf32>
//! %4 = dist.add %1, %3 : tensor<4xf32>
//! ```
//!
//! Two ops are equal if name, operands, result types and attributes agree, apart from `paddle.*` attributes, which mean
//! nothing to Raddle. Ops of different `dist.role` differ: a forward computation repeated for the backward pass is there to
//! save memory. Loads of one global are equal as long as nothing in between may write it. Collectives are never merged,
//! whatever they compute, for the other ranks still issue both.

use std::collections::HashMap;

use raddle_dialect::ir::{Attr, BlockId, Dominance, Ident, Module, OpId, Rewriter, Type, ValueId};
use raddle_dialect::ops::Effects;

use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "cse",
    summary: "compute equal things once",
    description: "Replaces a pure op by an equal one that dominates it, and a load by an earlier load of the same global in \
                  its block if no store to it lies between. Collectives, stores, random ops with seed 0, ops with regions \
                  and ops of unknown dialects stay.",
    anchor: Anchor::Any,
    options: &[],
    build: |_| Box::new(Cse),
};

struct Cse;

impl Pass for Cse {
    fn run(&self, module: &mut Module, target: OpId, _: &mut PassCx) -> Result<(), Failed> {
        let mut rewriter = Rewriter::new(module);
        let ops: Vec<_> = rewriter.walk(target).collect();
        let mut merger = Merger::default();
        for op in ops {
            for index in 0..rewriter.regions(op).len() {
                merger.region(&mut rewriter, op, index);
            }
        }
        Ok(())
    }
}

/// What makes two ops equal.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    name: Ident,
    operands: Vec<ValueId>,
    results: Vec<Type>,
    attrs: Attr,
    props: Attr,
    memory: Option<Memory>,
}

/// The state of memory that a load sees: the block, and how many writes of the global and how many unknown effects came before.
#[derive(PartialEq, Eq, Hash)]
struct Memory {
    block: BlockId,
    writes: u32,
    unknown: u32,
}

#[derive(Default)]
struct Merger {
    /// Ops known to be computed on every way to the current block.
    seen: HashMap<Key, OpId>,
    /// An attribute dictionary without the entries that do not matter.
    relevant: HashMap<Attr, Attr>,
    writes: HashMap<Option<Attr>, u32>,
    unknown: u32,
}

impl Merger {
    /// Merges within one region. Values from around it are not looked for: each region is on its own.
    fn region(&mut self, rewriter: &mut Rewriter, op: OpId, index: usize) {
        self.seen.clear();
        let region = rewriter.regions(op)[index];
        let blocks: Vec<_> = rewriter.blocks(region).collect();
        let graph = rewriter
            .def_of(op)
            .is_none_or(|def| def.traits.graph_region);
        if graph {
            // No order, no dominance.
            return;
        }
        if let [block] = blocks[..] {
            self.block(rewriter, block, None);
            return;
        }
        let dominance = Dominance::new(rewriter.module(), region);
        self.dominator_tree(rewriter, &blocks, &dominance);
    }

    /// Visits each block after those that dominate it, and forgets what a block computed when its subtree is done.
    fn dominator_tree(
        &mut self,
        rewriter: &mut Rewriter,
        blocks: &[BlockId],
        dominance: &Dominance,
    ) {
        let Some(&entry) = blocks.first() else {
            return;
        };
        let mut children: HashMap<BlockId, Vec<BlockId>> = HashMap::new();
        for &block in blocks {
            if let Some(parent) = dominance.immediate(block) {
                children.entry(parent).or_default().push(block);
            }
        }
        let mut stack = vec![(entry, None)];
        while let Some((block, leaving)) = stack.pop() {
            if let Some(added) = leaving {
                self.forget(rewriter, added);
                continue;
            }
            let mut added = Vec::new();
            self.block(rewriter, block, Some(&mut added));
            stack.push((block, Some(added)));
            stack.extend(
                children
                    .remove(&block)
                    .into_iter()
                    .flatten()
                    .map(|b| (b, None)),
            );
        }
    }

    fn forget(&mut self, rewriter: &Rewriter, added: Vec<OpId>) {
        for op in added {
            let key = self.key(rewriter, op, None);
            self.seen.remove(&key);
        }
    }

    /// Merges within a block; pure ops that stay are noted in `added`.
    fn block(
        &mut self,
        rewriter: &mut Rewriter,
        block: BlockId,
        mut added: Option<&mut Vec<OpId>>,
    ) {
        let mut next = rewriter.first_op(block);
        while let Some(op) = next {
            next = rewriter.next_op(op);
            let effects = rewriter
                .def_of(op)
                .map_or(Effects::Opaque, |def| def.effects);
            let memory = match effects {
                Effects::Pure => None,
                Effects::Reads => Some(self.memory(rewriter, op, block)),
                Effects::Writes | Effects::Accumulates => {
                    *self.writes.entry(rewriter.attr(op, "global")).or_default() += 1;
                    continue;
                }
                Effects::Communicates | Effects::Draws => continue,
                Effects::Opaque => {
                    self.unknown += 1;
                    continue;
                }
            };
            if !is_candidate(rewriter, op) {
                continue;
            }
            let pure = memory.is_none();
            let key = self.key(rewriter, op, memory);
            match self.seen.get(&key) {
                Some(&first) => {
                    let values: Vec<_> = rewriter.results(first).collect();
                    rewriter.replace(op, &values);
                }
                None => {
                    self.seen.insert(key, op);
                    if let (true, Some(added)) = (pure, added.as_deref_mut()) {
                        added.push(op);
                    }
                }
            }
        }
    }

    fn memory(&self, rewriter: &Rewriter, op: OpId, block: BlockId) -> Memory {
        let global = rewriter.attr(op, "global");
        Memory {
            block,
            writes: self.writes.get(&global).copied().unwrap_or_default(),
            unknown: self.unknown,
        }
    }

    fn key(&mut self, module: &Module, op: OpId, memory: Option<Memory>) -> Key {
        let attrs = module.attrs(op);
        let relevant = *self
            .relevant
            .entry(attrs)
            .or_insert_with(|| without_annotations(module, attrs));
        Key {
            name: module.name(op),
            operands: module.operands(op).collect(),
            results: module.results(op).map(|r| module.ty(r)).collect(),
            attrs: relevant,
            props: module.props(op),
            memory,
        }
    }
}

/// Whether an op without side effects may be merged at all.
fn is_candidate(module: &Module, op: OpId) -> bool {
    let terminator = module.def_of(op).is_none_or(|def| def.traits.terminator);
    // Seed 0 asks for a fresh one each time.
    let fresh = module.i64_attr(op, "seed") == Some(0);
    !terminator && !fresh && module.regions(op).is_empty() && module.num_results(op) > 0
}

/// The dictionary without what importers note for exporters.
fn without_annotations(module: &Module, attrs: Attr) -> Attr {
    let cx = module.cx();
    let entries = cx.dict_entries(attrs);
    let matters = |(name, _): &&(Ident, Attr)| !cx.str(*name).starts_with("paddle.");
    if entries.iter().all(|e| matters(&e)) {
        return attrs;
    }
    cx.dict(entries.iter().filter(matters).copied().collect())
}
