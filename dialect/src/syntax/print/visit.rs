//! Walks a program in the order in which MLIR looks for aliases: the order of the text, except that the generic form looks
//! into an op's regions before its types and attributes.

use super::alias::{Aliases, Collector};
use super::form::{Form, Forms};
use super::inherent::merged_attrs;
use super::{PrintOptions, upstream};
use crate::ir::{BlockId, Module, OpId, RegionId};

/// What is still to be visited.
enum Item {
    Op(OpId),
    /// Types and attributes of an op in generic form, behind its regions.
    Tail(OpId),
    Ops(Option<OpId>),
    Blocks(Option<BlockId>),
}

/// Collects the aliases of a program.
pub(super) fn aliases(module: &Module, forms: &Forms, options: &PrintOptions) -> Aliases {
    let mut visitor = Visitor {
        module,
        forms,
        options,
        collector: Collector::new(module.cx()),
        stack: vec![Item::Op(module.root())],
    };
    while let Some(item) = visitor.stack.pop() {
        match item {
            Item::Op(op) => visitor.op(op),
            Item::Tail(op) => visitor.tail(op),
            Item::Ops(Some(op)) => {
                visitor.stack.push(Item::Ops(module.next_op(op)));
                visitor.op(op);
            }
            Item::Blocks(Some(block)) => {
                visitor.stack.push(Item::Blocks(module.next_block(block)));
                visitor.block(block);
            }
            Item::Ops(None) | Item::Blocks(None) => {}
        }
    }
    visitor.collector.finish()
}

pub(super) struct Visitor<'m> {
    pub module: &'m Module,
    forms: &'m Forms,
    options: &'m PrintOptions,
    pub collector: Collector<'m>,
    stack: Vec<Item>,
}

impl Visitor<'_> {
    fn op(&mut self, op: OpId) {
        if self.options.debug_info {
            self.collector.loc(self.module.loc(op), true);
        }
        match self.forms.of(self.module, op) {
            Form::Custom(_, form) => upstream::visit(self, op, form),
            Form::Generic | Form::Uniform(..) => {
                self.stack.push(Item::Tail(op));
                for &region in self.module.regions(op).iter().rev() {
                    self.stack
                        .push(Item::Blocks(self.module.first_block(region)));
                }
            }
        }
    }

    fn tail(&mut self, op: OpId) {
        self.operand_types(op);
        self.result_types(op);
        for &(_, attr) in merged_attrs(self.module, op).iter() {
            self.collector.attr(attr);
        }
    }

    pub fn operand_types(&mut self, op: OpId) {
        for value in self.module.operands(op) {
            self.collector.ty(self.module.ty(value));
        }
    }

    pub fn result_types(&mut self, op: OpId) {
        for value in self.module.results(op) {
            self.collector.ty(self.module.ty(value));
        }
    }

    /// Attributes of a custom form, without those that it shows in its own way.
    pub fn attrs_except(&mut self, op: OpId, hidden: &[&str]) {
        for &(name, attr) in merged_attrs(self.module, op).iter() {
            if !hidden.contains(&self.module.cx().str(name)) {
                self.collector.attr(attr);
            }
        }
    }

    fn block(&mut self, block: BlockId) {
        for index in 0..self.module.args(block).len() {
            self.arg(block, index);
        }
        self.stack.push(Item::Ops(self.module.first_op(block)));
    }

    /// Type and location of a block argument.
    pub fn arg(&mut self, block: BlockId, index: usize) {
        let arg = self.module.args(block)[index];
        self.collector.ty(self.module.ty(arg));
        if self.options.debug_info {
            self.collector.loc(self.module.arg_loc(block, index), false);
        }
    }

    /// A region that comes next, with the arguments of its first block.
    pub fn region(&mut self, region: RegionId) {
        self.stack
            .push(Item::Blocks(self.module.first_block(region)));
    }

    /// A region whose first block's arguments were visited before.
    pub fn body(&mut self, region: RegionId) {
        if let Some(entry) = self.module.first_block(region) {
            self.stack.push(Item::Blocks(self.module.next_block(entry)));
            self.stack.push(Item::Ops(self.module.first_op(entry)));
        }
    }
}
