//! Dominance between the blocks of a region (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001).

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::module::{BlockId, Module, RegionId, ValueId};
use super::{Def, OpId};

/// Immediate dominators of the reachable blocks of one region.
pub struct Dominance {
    /// Reachable blocks in reverse post-order, the entry first.
    order: Vec<BlockId>,
    number: HashMap<BlockId, usize, FxBuildHasher>,
    /// By number: the immediate dominator's number; the entry's is itself.
    idom: Vec<usize>,
    /// By number: first and last visit in a walk of the dominator tree.
    visit: Vec<(usize, usize)>,
}

impl Dominance {
    /// Computes the dominators of a region's blocks.
    pub fn new(module: &Module, region: RegionId) -> Self {
        let order = reverse_post_order(module, region);
        let number: HashMap<_, _, FxBuildHasher> =
            order.iter().enumerate().map(|(i, &b)| (b, i)).collect();
        let mut preds = vec![Vec::new(); order.len()];
        for (from, &block) in order.iter().enumerate() {
            for to in successors(module, block) {
                if let Some(&to) = number.get(&to) {
                    preds[to].push(from);
                }
            }
        }
        let mut idom = vec![usize::MAX; order.len()];
        if !idom.is_empty() {
            idom[0] = 0;
        }
        let mut changed = true;
        while changed {
            changed = false;
            for block in 1..order.len() {
                let known = preds[block]
                    .iter()
                    .copied()
                    .filter(|&p| idom[p] != usize::MAX);
                let new = known.reduce(|a, b| intersect(&idom, a, b));
                if let Some(new) = new
                    && idom[block] != new
                {
                    idom[block] = new;
                    changed = true;
                }
            }
        }
        let visit = number_tree(&idom);
        Self {
            order,
            number,
            idom,
            visit,
        }
    }

    /// Whether every way from the entry to `b` goes through `a`. Unreachable blocks are dominated by every block.
    pub fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        if a == b {
            return true;
        }
        match (self.number.get(&a), self.number.get(&b)) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(&a), Some(&b)) => {
                self.visit[a].0 <= self.visit[b].0 && self.visit[b].1 <= self.visit[a].1
            }
        }
    }

    /// Whether any way leads from the entry to a block.
    pub fn is_reachable(&self, block: BlockId) -> bool {
        self.number.contains_key(&block)
    }

    /// The immediate dominator of a reachable block other than the entry.
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        let &number = self.number.get(&block)?;
        (number != 0).then(|| self.order[self.idom[number]])
    }
}

fn successors(module: &Module, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
    module
        .last_op(block)
        .into_iter()
        .flat_map(|op| module.successors(op).iter().copied())
}

fn reverse_post_order(module: &Module, region: RegionId) -> Vec<BlockId> {
    let Some(entry) = module.first_block(region) else {
        return Vec::new();
    };
    let mut seen: std::collections::HashSet<BlockId, FxBuildHasher> = Default::default();
    let mut order = Vec::new();
    seen.insert(entry);
    let mut stack = vec![(entry, 0)];
    while let Some((block, next)) = stack.pop() {
        match successors(module, block).nth(next) {
            Some(to) => {
                stack.push((block, next + 1));
                if seen.insert(to) {
                    stack.push((to, 0));
                }
            }
            None => order.push(block),
        }
    }
    order.reverse();
    order
}

fn intersect(idom: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while a > b {
            a = idom[a];
        }
        while b > a {
            b = idom[b];
        }
    }
    a
}

/// First and last visit times of each node, so that ancestry is two comparisons.
fn number_tree(idom: &[usize]) -> Vec<(usize, usize)> {
    let mut children = vec![Vec::new(); idom.len()];
    for (node, &parent) in idom.iter().enumerate().skip(1) {
        children[parent].push(node);
    }
    let mut visit = vec![(0, 0); idom.len()];
    let mut time = 0;
    let mut stack = if idom.is_empty() {
        vec![]
    } else {
        vec![(0, false)]
    };
    while let Some((node, done)) = stack.pop() {
        time += 1;
        if done {
            visit[node].1 = time;
        } else {
            visit[node].0 = time;
            stack.push((node, true));
            stack.extend(children[node].iter().map(|&c| (c, false)));
        }
    }
    visit
}

/// Answers whether values are visible where they are used, computing each region's dominators once, when first needed.
#[derive(Default)]
pub struct DominanceCache {
    regions: HashMap<RegionId, Dominance, FxBuildHasher>,
}

impl DominanceCache {
    /// Whether `value` is defined on every way to `user`, in a region that encloses it.
    pub fn is_visible(&mut self, module: &Module, value: ValueId, user: OpId) -> bool {
        let Some(def_block) = module.value_block(value) else {
            return false;
        };
        let region = module.block_parent(def_block);
        // The op around `user`, or `user` itself, that lies directly in the defining region.
        let mut at = user;
        let block = loop {
            let Some(block) = module.parent_block(at) else {
                return false;
            };
            if module.block_parent(block) == region {
                break block;
            }
            at = module.block_parent_op(block);
        };
        if block == def_block {
            return match module.def(value) {
                Def::Result { op, .. } => op != at && module.is_before(op, at),
                Def::Arg { .. } => true,
                Def::Pending => false,
            };
        }
        self.of(module, region).dominates(def_block, block)
    }

    /// The dominators of a region's blocks.
    pub fn of(&mut self, module: &Module, region: RegionId) -> &Dominance {
        self.regions
            .entry(region)
            .or_insert_with(|| Dominance::new(module, region))
    }
}
