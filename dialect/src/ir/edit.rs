//! The edits that keep a module's links consistent. The parser builds with them; everything else goes through the
//! [`Rewriter`](super::Rewriter).

use super::attr::Attr;
use super::context::{Context, Ident};
use super::loc::Loc;
use super::module::{
    BlockData, BlockId, Def, Module, Nested, OpData, OpId, OperandData, OperandId, RegionData,
    RegionId, ValueData, ValueId,
};
use super::types::Type;

/// What a new op is made of. Regions are created empty.
#[derive(Clone, Debug)]
pub struct NewOp<'a> {
    /// Interned name.
    pub name: Ident,
    /// Where it comes from.
    pub loc: Loc,
    /// Operands.
    pub operands: &'a [ValueId],
    /// Result types.
    pub results: &'a [Type],
    /// Attributes: a dictionary.
    pub attrs: Attr,
    /// Properties: a dictionary; empty for `dist` ops.
    pub props: Attr,
    /// Successor blocks.
    pub successors: &'a [BlockId],
    /// Number of regions.
    pub regions: usize,
}

impl NewOp<'_> {
    /// An op without operands, results, attributes, successors and regions.
    pub fn new(name: Ident, loc: Loc, cx: &Context) -> Self {
        Self {
            name,
            loc,
            operands: &[],
            results: &[],
            attrs: cx.empty_dict(),
            props: cx.empty_dict(),
            successors: &[],
            regions: 0,
        }
    }
}

/// Where an op goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Right before this op.
    Before(OpId),
    /// Right after this op.
    After(OpId),
    /// At the start of this block.
    Start(BlockId),
    /// At the end of this block.
    End(BlockId),
}

impl Module {
    /// Creates an op outside any block.
    pub(crate) fn create_op(&mut self, new: NewOp) -> OpId {
        let op = OpId::new(self.ops.len());
        let first_result = self.values.len() as u32;
        for (index, &ty) in new.results.iter().enumerate() {
            self.values.push(ValueData {
                ty,
                def: Def::Result {
                    op,
                    index: index as u32,
                },
                first_use: None,
            });
        }
        let nested = if new.regions == 0 && new.successors.is_empty() {
            None
        } else {
            let regions = (0..new.regions)
                .map(|_| {
                    self.regions.push(RegionData {
                        parent: op,
                        first: None,
                        last: None,
                    });
                    RegionId::new(self.regions.len() - 1)
                })
                .collect();
            Some(Box::new(Nested {
                regions,
                successors: new.successors.to_vec(),
            }))
        };
        self.ops.push(OpData {
            name: new.name,
            loc: new.loc,
            attrs: new.attrs,
            props: new.props,
            first_operand: self.operands.len() as u32,
            num_operands: 0,
            first_result,
            num_results: new.results.len() as u32,
            parent: None,
            prev: None,
            next: None,
            order: 0,
            erased: false,
            nested,
        });
        self.push_operands(op, new.operands);
        op
    }

    fn push_operands(&mut self, op: OpId, values: &[ValueId]) {
        self.ops[op.index()].first_operand = self.operands.len() as u32;
        self.ops[op.index()].num_operands = values.len() as u32;
        for &value in values {
            let operand = OperandId::new(self.operands.len());
            self.operands.push(OperandData {
                value,
                owner: op,
                next: None,
                prev: None,
            });
            self.link_use(operand);
        }
    }

    fn link_use(&mut self, operand: OperandId) {
        let value = self.operands[operand.index()].value;
        let head = self.values[value.index()].first_use.replace(operand);
        self.operands[operand.index()].next = head;
        self.operands[operand.index()].prev = None;
        if let Some(head) = head {
            self.operands[head.index()].prev = Some(operand);
        }
    }

    fn unlink_use(&mut self, operand: OperandId) {
        let OperandData {
            value, next, prev, ..
        } = self.operands[operand.index()];
        match prev {
            Some(prev) => self.operands[prev.index()].next = next,
            None => self.values[value.index()].first_use = next,
        }
        if let Some(next) = next {
            self.operands[next.index()].prev = prev;
        }
    }

    fn operand_id(&self, op: OpId, index: usize) -> OperandId {
        let data = &self.ops[op.index()];
        assert!(index < data.num_operands as usize, "no operand {index}");
        OperandId::new(data.first_operand as usize + index)
    }

    pub(crate) fn set_operand(&mut self, op: OpId, index: usize, value: ValueId) {
        let operand = self.operand_id(op, index);
        self.unlink_use(operand);
        self.operands[operand.index()].value = value;
        self.link_use(operand);
    }

    pub(crate) fn set_operands(&mut self, op: OpId, values: &[ValueId]) {
        self.drop_operands(op);
        self.push_operands(op, values);
    }

    fn drop_operands(&mut self, op: OpId) {
        for index in 0..self.num_operands(op) {
            let operand = self.operand_id(op, index);
            self.unlink_use(operand);
        }
        self.ops[op.index()].num_operands = 0;
    }

    /// Makes every use of `from` a use of `to`.
    pub(crate) fn replace_uses(&mut self, from: ValueId, to: ValueId) {
        if from == to {
            return;
        }
        while let Some(operand) = self.values[from.index()].first_use {
            self.unlink_use(operand);
            self.operands[operand.index()].value = to;
            self.link_use(operand);
        }
    }

    pub(crate) fn set_attrs(&mut self, op: OpId, attrs: Attr) {
        self.ops[op.index()].attrs = attrs;
    }

    pub(crate) fn set_props(&mut self, op: OpId, props: Attr) {
        self.ops[op.index()].props = props;
    }

    pub(crate) fn set_loc(&mut self, op: OpId, loc: Loc) {
        self.ops[op.index()].loc = loc;
    }

    pub(crate) fn set_name(&mut self, op: OpId, name: Ident) {
        self.ops[op.index()].name = name;
    }

    pub(crate) fn set_successor(&mut self, op: OpId, index: usize, block: BlockId) {
        self.ops[op.index()]
            .nested
            .as_mut()
            .expect("the op has successors")
            .successors[index] = block;
    }

    pub(crate) fn set_type(&mut self, value: ValueId, ty: Type) {
        self.values[value.index()].ty = ty;
    }

    /// A value that is used before its definition is known; replaced with [`Module::replace_uses`].
    pub(crate) fn create_pending(&mut self, ty: Type) -> ValueId {
        self.values.push(ValueData {
            ty,
            def: Def::Pending,
            first_use: None,
        });
        ValueId::new(self.values.len() - 1)
    }

    pub(crate) fn insert_op(&mut self, op: OpId, at: Position) {
        debug_assert!(self.ops[op.index()].parent.is_none(), "op is in a block");
        let (block, prev, next) = match at {
            Position::Before(next) => {
                let block = self.ops[next.index()].parent.expect("op is in a block");
                (block, self.ops[next.index()].prev, Some(next))
            }
            Position::After(prev) => {
                let block = self.ops[prev.index()].parent.expect("op is in a block");
                (block, Some(prev), self.ops[prev.index()].next)
            }
            Position::Start(block) => (block, None, self.blocks[block.index()].first),
            Position::End(block) => (block, self.blocks[block.index()].last, None),
        };
        match prev {
            Some(prev) => self.ops[prev.index()].next = Some(op),
            None => self.blocks[block.index()].first = Some(op),
        }
        match next {
            Some(next) => {
                self.ops[next.index()].prev = Some(op);
                self.blocks[block.index()].ordered = false;
            }
            None => self.blocks[block.index()].last = Some(op),
        }
        let order = prev.map_or(0, |p| self.ops[p.index()].order.saturating_add(1));
        let data = &mut self.ops[op.index()];
        data.parent = Some(block);
        data.prev = prev;
        data.next = next;
        data.order = order;
    }

    /// Takes an op out of its block without erasing it.
    pub(crate) fn detach_op(&mut self, op: OpId) {
        let data = &mut self.ops[op.index()];
        let Some(block) = data.parent.take() else {
            return;
        };
        let (prev, next) = (data.prev.take(), data.next.take());
        match prev {
            Some(prev) => self.ops[prev.index()].next = next,
            None => self.blocks[block.index()].first = next,
        }
        match next {
            Some(next) => self.ops[next.index()].prev = prev,
            None => self.blocks[block.index()].last = prev,
        }
    }

    /// Erases an op and all it holds.
    ///
    /// # Panics
    /// In debug builds, if a result of the op is used from outside.
    pub(crate) fn erase_op(&mut self, op: OpId) {
        self.detach_op(op);
        let doomed: Vec<OpId> = self.walk(op).collect();
        for &inner in &doomed {
            self.drop_operands(inner);
        }
        for inner in doomed {
            debug_assert!(
                self.results(inner).all(|r| self.is_unused(r)),
                "erased op {} has uses",
                self.name_str(inner)
            );
            self.ops[inner.index()].erased = true;
            self.ops[inner.index()].nested = None;
        }
    }

    pub(crate) fn append_block(&mut self, region: RegionId) -> BlockId {
        let block = self.create_block(region);
        self.link_block(block);
        block
    }

    /// Creates a region that no op has yet.
    pub(crate) fn create_region(&mut self) -> RegionId {
        self.regions.push(RegionData {
            parent: self.root,
            first: None,
            last: None,
        });
        RegionId::new(self.regions.len() - 1)
    }

    /// Gives created regions to an op.
    pub(crate) fn attach_regions(&mut self, op: OpId, regions: &[RegionId]) {
        for region in regions {
            self.regions[region.index()].parent = op;
        }
        let nested = self.ops[op.index()].nested.get_or_insert_default();
        nested.regions.extend_from_slice(regions);
    }

    /// Makes a module in the root's body the root.
    pub(crate) fn make_root(&mut self, op: OpId) {
        self.detach_op(op);
        self.ops[self.root.index()].erased = true;
        self.root = op;
    }

    pub(crate) fn set_arg_loc(&mut self, block: BlockId, index: usize, loc: Loc) {
        self.blocks[block.index()].arg_locs[index] = loc;
    }

    /// Creates a block of a region that is not in its list yet: a block named before it is defined.
    pub(crate) fn create_block(&mut self, region: RegionId) -> BlockId {
        self.blocks.push(BlockData {
            parent: region,
            prev: None,
            next: None,
            first: None,
            last: None,
            args: Vec::new(),
            arg_locs: Vec::new(),
            ordered: true,
        });
        BlockId::new(self.blocks.len() - 1)
    }

    /// Puts a created block at the end of its region.
    pub(crate) fn link_block(&mut self, block: BlockId) {
        let region = self.blocks[block.index()].parent;
        let last = self.regions[region.index()].last.replace(block);
        self.blocks[block.index()].prev = last;
        match last {
            Some(last) => self.blocks[last.index()].next = Some(block),
            None => self.regions[region.index()].first = Some(block),
        }
    }

    /// Erases a block and its ops. No op may name it as a successor.
    pub(crate) fn erase_block(&mut self, block: BlockId) {
        while let Some(op) = self.last_op(block) {
            self.erase_op(op);
        }
        let BlockData {
            parent, prev, next, ..
        } = self.blocks[block.index()];
        match prev {
            Some(prev) => self.blocks[prev.index()].next = next,
            None => self.regions[parent.index()].first = next,
        }
        match next {
            Some(next) => self.blocks[next.index()].prev = prev,
            None => self.regions[parent.index()].last = prev,
        }
    }

    pub(crate) fn add_arg(&mut self, block: BlockId, ty: Type, loc: Loc) -> ValueId {
        let value = ValueId::new(self.values.len());
        let index = self.blocks[block.index()].args.len() as u32;
        self.values.push(ValueData {
            ty,
            def: Def::Arg { block, index },
            first_use: None,
        });
        self.blocks[block.index()].args.push(value);
        self.blocks[block.index()].arg_locs.push(loc);
        value
    }

    /// Removes an unused argument; the ones after it move up.
    pub(crate) fn remove_arg(&mut self, block: BlockId, index: usize) {
        let value = self.blocks[block.index()].args.remove(index);
        debug_assert!(self.is_unused(value), "removed argument has uses");
        self.blocks[block.index()].arg_locs.remove(index);
        self.values[value.index()].def = Def::Pending;
        for at in index..self.blocks[block.index()].args.len() {
            let value = self.blocks[block.index()].args[at];
            self.values[value.index()].def = Def::Arg {
                block,
                index: at as u32,
            };
        }
    }

    /// Numbers the ops of every block whose numbering an insertion has spoilt; see [`Module::number_ops`].
    pub fn number_all_ops(&mut self) {
        for index in 0..self.blocks.len() {
            if !self.blocks[index].ordered {
                self.number_ops(BlockId::new(index));
            }
        }
    }

    /// Numbers the ops of a block so that [`Module::is_before`] takes constant time until the next insertion in its midst.
    pub fn number_ops(&mut self, block: BlockId) {
        let mut next = self.blocks[block.index()].first;
        let mut order = 0;
        while let Some(op) = next {
            self.ops[op.index()].order = order;
            order += 1;
            next = self.ops[op.index()].next;
        }
        self.blocks[block.index()].ordered = true;
    }
}
