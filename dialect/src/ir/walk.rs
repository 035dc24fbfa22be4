//! Walking the tree of ops without recursion.

use super::module::{Module, OpId};

impl Module {
    /// The ops of this name directly in an op's body, in order: the rank classes of a module, the functions of a class.
    ///
    /// # Panics
    /// As [`Module::body`].
    pub fn members<'a>(
        &'a self,
        op: OpId,
        name: &'a str,
    ) -> impl DoubleEndedIterator<Item = OpId> + 'a {
        let ops = self.block_ops(self.body(op));
        ops.filter(move |&member| self.is(member, name))
    }

    /// `op` and everything inside it, each op before what it holds, in program order.
    pub fn walk(&self, op: OpId) -> Walk<'_> {
        Walk {
            module: self,
            stack: vec![op],
        }
    }

    /// Every op of the module, the root first.
    pub fn walk_all(&self) -> Walk<'_> {
        self.walk(self.root)
    }

    /// `op` and everything inside it, each op after what it holds.
    pub fn walk_post(&self, op: OpId) -> Vec<OpId> {
        // Reversed pre-order of the mirrored tree.
        let mut order = Vec::new();
        let mut stack = vec![op];
        while let Some(op) = stack.pop() {
            order.push(op);
            for &region in self.regions(op) {
                for block in self.blocks(region) {
                    stack.extend(self.block_ops(block));
                }
            }
        }
        order.reverse();
        order
    }
}

/// See [`Module::walk`].
pub struct Walk<'m> {
    module: &'m Module,
    stack: Vec<OpId>,
}

impl Walk<'_> {
    /// Does not enter the op that was returned last (which must have been returned last).
    pub fn skip_children(&mut self, op: OpId) {
        let children: usize = self.children(op).count();
        self.stack.truncate(self.stack.len() - children);
    }

    fn children(&self, op: OpId) -> impl Iterator<Item = OpId> + use<'_> {
        let module = self.module;
        module.regions(op).iter().flat_map(move |&region| {
            module
                .blocks(region)
                .flat_map(move |block| module.block_ops(block))
        })
    }
}

impl Iterator for Walk<'_> {
    type Item = OpId;

    fn next(&mut self) -> Option<OpId> {
        let op = self.stack.pop()?;
        let start = self.stack.len();
        let module = self.module;
        for &region in module.regions(op) {
            for block in module.blocks(region) {
                self.stack.extend(module.block_ops(block));
            }
        }
        self.stack[start..].reverse();
        Some(op)
    }
}
