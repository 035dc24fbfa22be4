//! The rewriter: the one way to edit a module once it is built.
//!
//! It keeps an insertion point, and it records which ops an edit created, changed or erased, so that a driver can look again
//! at just those.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::attr::Attr;
use super::context::{Context, Ident};
use super::edit::{NewOp, Position};
use super::loc::Loc;
use super::module::{BlockId, Module, OpId, RegionId, ValueId};
use super::types::Type;

/// What an edit did to an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The op is new.
    Created(OpId),
    /// The op's operands, attributes, types or position changed, or its results are read less often.
    Modified(OpId),
    /// The op is gone.
    Erased(OpId),
}

/// Old handles to new ones, as [`Rewriter::clone_op`] fills it. Values missing from it stand for themselves.
#[derive(Default, Debug)]
pub struct CloneMap {
    /// Cloned values.
    pub values: HashMap<ValueId, ValueId, FxBuildHasher>,
    /// Cloned blocks.
    pub blocks: HashMap<BlockId, BlockId, FxBuildHasher>,
    /// Cloned ops.
    pub ops: HashMap<OpId, OpId, FxBuildHasher>,
}

/// Edits a module.
pub struct Rewriter<'m> {
    module: &'m mut Module,
    at: Position,
    changes: Vec<Change>,
}

impl std::ops::Deref for Rewriter<'_> {
    type Target = Module;

    fn deref(&self) -> &Module {
        self.module
    }
}

impl<'m> Rewriter<'m> {
    /// A rewriter that inserts at the end of the root's body until told otherwise.
    pub fn new(module: &'m mut Module) -> Self {
        let at = Position::End(module.body(module.root()));
        Self {
            module,
            at,
            changes: Vec::new(),
        }
    }

    /// The module, to read while handles into the rewriter are not needed.
    pub fn module(&self) -> &Module {
        self.module
    }

    /// What happened since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Sets where new ops go. After an insertion the next op goes behind the inserted one.
    pub fn set_insertion_point(&mut self, at: Position) {
        self.at = at;
    }

    /// New ops go right before `op`.
    pub fn before(&mut self, op: OpId) -> &mut Self {
        self.at = Position::Before(op);
        self
    }

    /// New ops go right after `op`.
    pub fn after(&mut self, op: OpId) -> &mut Self {
        self.at = Position::After(op);
        self
    }

    /// New ops go to the end of `block`.
    pub fn at_end(&mut self, block: BlockId) -> &mut Self {
        self.at = Position::End(block);
        self
    }

    /// New ops go to the start of `block`.
    pub fn at_start(&mut self, block: BlockId) -> &mut Self {
        self.at = Position::Start(block);
        self
    }

    /// Creates an op at the insertion point.
    pub fn create(&mut self, new: NewOp) -> OpId {
        let op = self.module.create_op(new);
        self.insert(op);
        self.changes.push(Change::Created(op));
        op
    }

    /// Creates an op from its name, operands, result types and named attributes, without regions and successors.
    pub fn build(
        &mut self,
        name: &str,
        loc: Loc,
        operands: &[ValueId],
        results: &[Type],
        attrs: &[(&str, Attr)],
    ) -> OpId {
        let cx = self.module.cx().clone();
        let attrs = cx.dict(attrs.iter().map(|&(k, v)| (cx.ident(k), v)).collect());
        self.create(NewOp {
            operands,
            results,
            attrs,
            ..NewOp::new(cx.ident(name), loc, &cx)
        })
    }

    fn insert(&mut self, op: OpId) {
        self.module.insert_op(op, self.at);
        if !matches!(self.at, Position::Before(_)) {
            self.at = Position::After(op);
        }
    }

    /// Moves an op, with what it holds, to another place. The insertion point stays.
    pub fn move_op(&mut self, op: OpId, to: Position) {
        self.leave(op);
        self.module.detach_op(op);
        self.module.insert_op(op, to);
        self.changes.push(Change::Modified(op));
    }

    /// Keeps the insertion point valid when `op` goes away.
    fn leave(&mut self, op: OpId) {
        let module = &self.module;
        let block = module.parent_block(op);
        self.at = match (self.at, block) {
            (Position::Before(at), Some(block)) if at == op => match module.next_op(op) {
                Some(next) => Position::Before(next),
                None => Position::End(block),
            },
            (Position::After(at), Some(block)) if at == op => match module.prev_op(op) {
                Some(prev) => Position::After(prev),
                None => Position::Start(block),
            },
            (at, _) => at,
        };
    }

    /// What defines a value that is read less often may be dead now.
    fn loses_use(&mut self, value: ValueId) {
        if let Some(def) = self.module.defining_op(value) {
            self.changes.push(Change::Modified(def));
        }
    }

    /// Erases an op and all it holds. Its results must be unused.
    pub fn erase(&mut self, op: OpId) {
        self.leave(op);
        for index in 0..self.module.num_operands(op) {
            self.loses_use(self.module.operand(op, index));
        }
        self.module.erase_op(op);
        self.changes.push(Change::Erased(op));
    }

    /// Replaces an op's results by `values`, one each, and erases it.
    pub fn replace(&mut self, op: OpId, values: &[ValueId]) {
        assert_eq!(
            self.module.num_results(op),
            values.len(),
            "one value a result"
        );
        for (old, &new) in self.module.results(op).zip(values) {
            self.replace_uses(old, new);
        }
        self.erase(op);
    }

    /// Makes every use of `from` a use of `to`.
    pub fn replace_uses(&mut self, from: ValueId, to: ValueId) {
        self.loses_use(from);
        let users: Vec<_> = self.module.uses(from).map(|u| u.op).collect();
        self.changes.extend(users.into_iter().map(Change::Modified));
        self.module.replace_uses(from, to);
    }

    /// Sets one operand.
    pub fn set_operand(&mut self, op: OpId, index: usize, value: ValueId) {
        self.loses_use(self.module.operand(op, index));
        self.module.set_operand(op, index, value);
        self.changes.push(Change::Modified(op));
    }

    /// Sets all operands; their number may change.
    pub fn set_operands(&mut self, op: OpId, values: &[ValueId]) {
        for index in 0..self.module.num_operands(op) {
            self.loses_use(self.module.operand(op, index));
        }
        self.module.set_operands(op, values);
        self.changes.push(Change::Modified(op));
    }

    /// Sets one attribute, or removes it. A property stays a property.
    pub fn set_attr(&mut self, op: OpId, name: &str, value: Option<Attr>) {
        let cx = self.module.cx().clone();
        if cx.dict_get(self.module.props(op), name).is_some() {
            let props = cx.dict_with(self.module.props(op), name, value);
            self.module.set_props(op, props);
        } else {
            let attrs = cx.dict_with(self.module.attrs(op), name, value);
            self.module.set_attrs(op, attrs);
        }
        self.changes.push(Change::Modified(op));
    }

    /// Sets the whole attribute dictionary.
    pub fn set_attrs(&mut self, op: OpId, attrs: Attr) {
        self.module.set_attrs(op, attrs);
        self.changes.push(Change::Modified(op));
    }

    /// Sets the property dictionary.
    pub fn set_props(&mut self, op: OpId, props: Attr) {
        self.module.set_props(op, props);
        self.changes.push(Change::Modified(op));
    }

    /// Sets the op's location.
    pub fn set_loc(&mut self, op: OpId, loc: Loc) {
        self.module.set_loc(op, loc);
    }

    /// Renames an op, keeping all else.
    pub fn set_name(&mut self, op: OpId, name: Ident) {
        self.module.set_name(op, name);
        self.changes.push(Change::Modified(op));
    }

    /// Sets a value's type.
    pub fn set_type(&mut self, value: ValueId, ty: Type) {
        self.module.set_type(value, ty);
        if let Some(op) = self.module.defining_op(value) {
            self.changes.push(Change::Modified(op));
        }
    }

    /// Adds an argument to a block.
    pub fn add_arg(&mut self, block: BlockId, ty: Type, loc: Loc) -> ValueId {
        self.module.add_arg(block, ty, loc)
    }

    /// Removes an unused argument of a block.
    pub fn remove_arg(&mut self, block: BlockId, index: usize) {
        self.module.remove_arg(block, index);
    }

    /// Adds a block at the end of a region.
    pub fn append_block(&mut self, region: RegionId) -> BlockId {
        self.module.append_block(region)
    }

    /// Erases a block and its ops. No op may name it as a successor.
    pub fn erase_block(&mut self, block: BlockId) {
        let ops: Vec<_> = self.module.block_ops(block).collect();
        for op in ops.into_iter().rev() {
            self.erase(op);
        }
        self.module.erase_block(block);
    }

    /// Copies an op with all it holds to the insertion point. Operands and successors go through `map`; what is copied is
    /// added to it.
    pub fn clone_op(&mut self, op: OpId, map: &mut CloneMap) -> OpId {
        let copy = self.clone_detached(op, map);
        self.insert(copy);
        self.changes.push(Change::Created(copy));
        copy
    }

    fn clone_detached(&mut self, root: OpId, map: &mut CloneMap) -> OpId {
        // First the shells, so that operands may refer forward; then the operands.
        let mut shells = Vec::new();
        let mut stack = vec![(root, None)];
        while let Some((op, block)) = stack.pop() {
            let copy = self.clone_shell(op, map);
            shells.push(op);
            if let Some(block) = block {
                self.module.insert_op(copy, Position::End(block));
            }
            let at = stack.len();
            for index in 0..self.module.regions(op).len() {
                let (from, to) = (
                    self.module.regions(op)[index],
                    self.module.regions(copy)[index],
                );
                let blocks: Vec<_> = self.module.blocks(from).collect();
                for block in blocks {
                    let copied = self.module.append_block(to);
                    map.blocks.insert(block, copied);
                    for index in 0..self.module.args(block).len() {
                        let arg = self.module.args(block)[index];
                        let (ty, loc) = (self.module.ty(arg), self.module.arg_loc(block, index));
                        map.values.insert(arg, self.module.add_arg(copied, ty, loc));
                    }
                    stack.extend(self.module.block_ops(block).map(|o| (o, Some(copied))));
                }
            }
            stack[at..].reverse();
        }
        for op in shells {
            let copy = map.ops[&op];
            let operands: Vec<_> = self
                .module
                .operands(op)
                .map(|v| *map.values.get(&v).unwrap_or(&v))
                .collect();
            self.module.set_operands(copy, &operands);
            for index in 0..self.module.successors(op).len() {
                let block = self.module.successors(op)[index];
                let block = *map.blocks.get(&block).unwrap_or(&block);
                self.module.set_successor(copy, index, block);
            }
        }
        map.ops[&root]
    }

    fn clone_shell(&mut self, op: OpId, map: &mut CloneMap) -> OpId {
        let module = &mut *self.module;
        let results: Vec<_> = module.results(op).map(|r| module.ty(r)).collect();
        let successors = module.successors(op).to_vec();
        let new = NewOp {
            name: module.name(op),
            loc: module.loc(op),
            operands: &[],
            results: &results,
            attrs: module.attrs(op),
            props: module.props(op),
            successors: &successors,
            regions: module.regions(op).len(),
        };
        let copy = module.create_op(new);
        map.ops.insert(op, copy);
        map.values
            .extend(module.results(op).zip(module.results(copy)));
        copy
    }

    /// The shared context.
    pub fn context(&self) -> &Context {
        self.module.cx()
    }
}
