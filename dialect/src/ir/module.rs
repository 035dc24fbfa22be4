//! The module: one arena of ops, blocks, regions and values, and everything that reads it.
//!
//! Handles are indices into the arena. Ops of a block and blocks of a region are linked lists; the uses of a value are a
//! linked list through the operands, so adding and removing a use takes constant time however many there are.
//! Editing goes through the [`Rewriter`](super::Rewriter).

use std::num::NonZeroU32;
use std::sync::Arc;

use super::attr::Attr;
use super::context::{Context, Ident};
use super::loc::Loc;
use super::resource::Resources;
use super::types::Type;
use crate::ops::OpDef;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(NonZeroU32);

        impl $name {
            pub(super) fn new(index: usize) -> Self {
                let index = u32::try_from(index + 1).expect("an arena holds fewer than 2^32 items");
                Self(NonZeroU32::new(index).expect("one more than an index"))
            }

            /// Position in the arena: a dense key for side tables.
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    };
}

handle!(
    /// An op of a module.
    OpId
);
handle!(
    /// A block of a module.
    BlockId
);
handle!(
    /// A region of a module.
    RegionId
);
handle!(
    /// A value of a module: an op's result or a block's argument.
    ValueId
);
handle!(
    /// An operand slot of an op.
    OperandId
);

impl ValueId {
    /// The value `by` further on: results of one op are next to each other.
    pub(crate) fn offset(self, by: u32) -> Self {
        Self::new(self.index() + by as usize)
    }
}

#[derive(Clone)]
pub(super) struct OpData {
    pub name: Ident,
    pub loc: Loc,
    pub attrs: Attr,
    pub props: Attr,
    pub first_operand: u32,
    pub num_operands: u32,
    pub first_result: u32,
    pub num_results: u32,
    pub parent: Option<BlockId>,
    pub prev: Option<OpId>,
    pub next: Option<OpId>,
    pub order: u32,
    pub erased: bool,
    pub nested: Option<Box<Nested>>,
}

/// What few ops have.
#[derive(Clone, Default)]
pub(super) struct Nested {
    pub regions: Vec<RegionId>,
    pub successors: Vec<BlockId>,
}

#[derive(Clone)]
pub(super) struct BlockData {
    pub parent: RegionId,
    pub prev: Option<BlockId>,
    pub next: Option<BlockId>,
    pub first: Option<OpId>,
    pub last: Option<OpId>,
    pub args: Vec<ValueId>,
    pub arg_locs: Vec<Loc>,
    pub ordered: bool,
}

#[derive(Clone)]
pub(super) struct RegionData {
    pub parent: OpId,
    pub first: Option<BlockId>,
    pub last: Option<BlockId>,
}

#[derive(Clone)]
pub(super) struct ValueData {
    pub ty: Type,
    pub def: Def,
    pub first_use: Option<OperandId>,
}

#[derive(Clone)]
pub(super) struct OperandData {
    pub value: ValueId,
    pub owner: OpId,
    pub next: Option<OperandId>,
    pub prev: Option<OperandId>,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    /// Result `index` of an op.
    Result {
        /// The op.
        op: OpId,
        /// Which of its results.
        index: u32,
    },
    /// Argument `index` of a block.
    Arg {
        /// The block.
        block: BlockId,
        /// Which of its arguments.
        index: u32,
    },
    /// Not defined yet: stands for a value that the text uses before it defines it.
    Pending,
}

/// A use of a value: operand `index` of `op`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// The using op.
    pub op: OpId,
    /// Which of its operands.
    pub index: usize,
}

/// One program: a tree of ops under a `builtin.module`.
#[derive(Clone)]
pub struct Module {
    pub(super) cx: Arc<Context>,
    pub(super) ops: Vec<OpData>,
    pub(super) blocks: Vec<BlockData>,
    pub(super) regions: Vec<RegionData>,
    pub(super) values: Vec<ValueData>,
    pub(super) operands: Vec<OperandData>,
    pub(super) root: OpId,
    pub(super) resources: Resources,
}

impl Module {
    /// An empty `builtin.module`.
    pub fn new(cx: &Arc<Context>, loc: Loc) -> Self {
        let mut module = Self {
            cx: cx.clone(),
            ops: Vec::new(),
            blocks: Vec::new(),
            regions: Vec::new(),
            values: Vec::new(),
            operands: Vec::new(),
            root: OpId::new(0),
            resources: Resources::default(),
        };
        let name = cx.ident("builtin.module");
        let root = module.create_op(super::NewOp {
            regions: 1,
            ..super::NewOp::new(name, loc, cx)
        });
        let region = module.regions(root)[0];
        module.append_block(region);
        module.root = root;
        module
    }

    /// The context that the module's handles belong to.
    pub fn cx(&self) -> &Arc<Context> {
        &self.cx
    }

    /// The top `builtin.module`.
    pub fn root(&self) -> OpId {
        self.root
    }

    /// The resources of the file that the module was read from.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The resources, to add to or change.
    pub fn resources_mut(&mut self) -> &mut Resources {
        &mut self.resources
    }

    /// The single block of an op with one single-block region, such as a module or a function.
    ///
    /// # Panics
    /// If the op has no region or the region no block. Verified modules and functions with a body have them.
    pub fn body(&self, op: OpId) -> BlockId {
        self.first_block(self.regions(op)[0])
            .expect("the op has a body")
    }

    /// Number of ops ever created: the length of a side table indexed by [`OpId::index`].
    pub fn op_capacity(&self) -> usize {
        self.ops.len()
    }

    /// Number of values ever created: the length of a side table indexed by [`ValueId::index`].
    pub fn value_capacity(&self) -> usize {
        self.values.len()
    }

    /// Number of blocks ever created: the length of a side table indexed by [`BlockId::index`].
    pub fn block_capacity(&self) -> usize {
        self.blocks.len()
    }

    // Ops ----------------------------------------------------------------------------------------------------------

    /// The op's interned name.
    pub fn name(&self, op: OpId) -> Ident {
        self.ops[op.index()].name
    }

    /// The op's name, `dialect.op`.
    pub fn name_str(&self, op: OpId) -> &str {
        self.cx.str(self.name(op))
    }

    /// Whether the op has this name.
    pub fn is(&self, op: OpId, name: &str) -> bool {
        self.name_str(op) == name
    }

    /// The op's definition, if its name is registered.
    pub fn def_of(&self, op: OpId) -> Option<&'static OpDef> {
        self.cx.op_def(self.name(op))
    }

    /// Where the op came from.
    pub fn loc(&self, op: OpId) -> Loc {
        self.ops[op.index()].loc
    }

    /// The op's discardable attributes (for `dist` ops, all attributes), a dictionary.
    pub fn attrs(&self, op: OpId) -> Attr {
        self.ops[op.index()].attrs
    }

    /// The op's properties: a dictionary, empty for `dist` ops and where none are written. An op that is not registered may
    /// have any attribute here; written but empty properties are [`AttrData::EmptyProperties`](super::AttrData).
    pub fn props(&self, op: OpId) -> Attr {
        self.ops[op.index()].props
    }

    /// One attribute, looked up in the properties first.
    pub fn attr(&self, op: OpId, name: &str) -> Option<Attr> {
        let data = &self.ops[op.index()];
        let property = if data.props == self.cx.empty_dict() {
            None
        } else {
            self.cx.dict_get(data.props, name)
        };
        property.or_else(|| self.cx.dict_get(data.attrs, name))
    }

    /// A string attribute's text.
    pub fn str_attr(&self, op: OpId, name: &str) -> Option<&str> {
        self.attr(op, name).and_then(|a| self.cx.as_str(a))
    }

    /// An integer attribute's value.
    pub fn i64_attr(&self, op: OpId, name: &str) -> Option<i64> {
        self.attr(op, name).and_then(|a| self.cx.as_i64(a))
    }

    /// A boolean attribute's value.
    pub fn bool_attr(&self, op: OpId, name: &str) -> Option<bool> {
        self.attr(op, name).and_then(|a| self.cx.as_bool(a))
    }

    /// An `f64` attribute's value.
    pub fn f64_attr(&self, op: OpId, name: &str) -> Option<f64> {
        self.attr(op, name).and_then(|a| self.cx.as_f64(a))
    }

    /// The name in a flat symbol reference attribute.
    pub fn symbol_attr(&self, op: OpId, name: &str) -> Option<&str> {
        self.attr(op, name).and_then(|a| self.cx.as_symbol(a))
    }

    /// The mesh axes in an array-of-strings attribute; empty if there is none.
    pub fn axes_attr(&self, op: OpId, name: &str) -> Vec<&str> {
        self.attr(op, name)
            .and_then(|a| self.cx.as_string_array(a))
            .unwrap_or_default()
    }

    /// Number of operands.
    pub fn num_operands(&self, op: OpId) -> usize {
        self.ops[op.index()].num_operands as usize
    }

    /// The op's operands.
    pub fn operands(
        &self,
        op: OpId,
    ) -> impl ExactSizeIterator<Item = ValueId> + DoubleEndedIterator + '_ {
        let data = &self.ops[op.index()];
        let first = data.first_operand as usize;
        self.operands[first..first + data.num_operands as usize]
            .iter()
            .map(|o| o.value)
    }

    /// One operand.
    ///
    /// # Panics
    /// If there is no such operand.
    pub fn operand(&self, op: OpId, index: usize) -> ValueId {
        let data = &self.ops[op.index()];
        assert!(index < data.num_operands as usize, "no operand {index}");
        self.operands[data.first_operand as usize + index].value
    }

    /// Number of results.
    pub fn num_results(&self, op: OpId) -> usize {
        self.ops[op.index()].num_results as usize
    }

    /// The op's results.
    pub fn results(
        &self,
        op: OpId,
    ) -> impl ExactSizeIterator<Item = ValueId> + DoubleEndedIterator + use<> {
        let data = &self.ops[op.index()];
        let first = data.first_result as usize;
        (first..first + data.num_results as usize).map(ValueId::new)
    }

    /// One result.
    ///
    /// # Panics
    /// If there is no such result.
    pub fn result(&self, op: OpId, index: usize) -> ValueId {
        let data = &self.ops[op.index()];
        assert!(index < data.num_results as usize, "no result {index}");
        ValueId::new(data.first_result as usize + index)
    }

    /// The op's regions.
    pub fn regions(&self, op: OpId) -> &[RegionId] {
        self.ops[op.index()]
            .nested
            .as_ref()
            .map_or(&[], |n| &n.regions)
    }

    /// The op's successor blocks.
    pub fn successors(&self, op: OpId) -> &[BlockId] {
        self.ops[op.index()]
            .nested
            .as_ref()
            .map_or(&[], |n| &n.successors)
    }

    /// The block that holds the op; none for the root and for ops not inserted yet.
    pub fn parent_block(&self, op: OpId) -> Option<BlockId> {
        self.ops[op.index()].parent
    }

    /// The op whose region holds the op.
    pub fn parent_op(&self, op: OpId) -> Option<OpId> {
        self.parent_block(op).map(|b| self.block_parent_op(b))
    }

    /// Whether the op was erased. Handles of erased ops must not be used otherwise.
    pub fn is_erased(&self, op: OpId) -> bool {
        self.ops[op.index()].erased
    }

    /// The op after this one in its block.
    pub fn next_op(&self, op: OpId) -> Option<OpId> {
        self.ops[op.index()].next
    }

    /// The op before this one in its block.
    pub fn prev_op(&self, op: OpId) -> Option<OpId> {
        self.ops[op.index()].prev
    }

    // Blocks and regions -------------------------------------------------------------------------------------------

    /// The ops of a block, in order.
    pub fn block_ops(&self, block: BlockId) -> impl DoubleEndedIterator<Item = OpId> + '_ {
        OpIter {
            module: self,
            front: self.blocks[block.index()].first,
            back: self.blocks[block.index()].last,
        }
    }

    /// The first op of a block.
    pub fn first_op(&self, block: BlockId) -> Option<OpId> {
        self.blocks[block.index()].first
    }

    /// The last op of a block.
    pub fn last_op(&self, block: BlockId) -> Option<OpId> {
        self.blocks[block.index()].last
    }

    /// The arguments of a block.
    pub fn args(&self, block: BlockId) -> &[ValueId] {
        &self.blocks[block.index()].args
    }

    /// The location of a block argument.
    pub fn arg_loc(&self, block: BlockId, index: usize) -> Loc {
        self.blocks[block.index()].arg_locs[index]
    }

    /// The region that holds a block.
    pub fn block_parent(&self, block: BlockId) -> RegionId {
        self.blocks[block.index()].parent
    }

    /// The op whose region holds a block.
    pub fn block_parent_op(&self, block: BlockId) -> OpId {
        self.region_parent(self.block_parent(block))
    }

    /// The op that a region belongs to.
    pub fn region_parent(&self, region: RegionId) -> OpId {
        self.regions[region.index()].parent
    }

    /// The entry block of a region.
    pub fn first_block(&self, region: RegionId) -> Option<BlockId> {
        self.regions[region.index()].first
    }

    /// The block after this one in its region.
    pub fn next_block(&self, block: BlockId) -> Option<BlockId> {
        self.blocks[block.index()].next
    }

    /// The blocks of a region, in order.
    pub fn blocks(&self, region: RegionId) -> impl Iterator<Item = BlockId> + '_ {
        std::iter::successors(self.first_block(region), |&b| self.next_block(b))
    }

    // Values -------------------------------------------------------------------------------------------------------

    /// A value's type.
    pub fn ty(&self, value: ValueId) -> Type {
        self.values[value.index()].ty
    }

    /// Where a value comes from.
    pub fn def(&self, value: ValueId) -> Def {
        self.values[value.index()].def
    }

    /// The op that a value is a result of.
    pub fn defining_op(&self, value: ValueId) -> Option<OpId> {
        match self.def(value) {
            Def::Result { op, .. } => Some(op),
            _ => None,
        }
    }

    /// The block in which a value is defined.
    pub fn value_block(&self, value: ValueId) -> Option<BlockId> {
        match self.def(value) {
            Def::Result { op, .. } => self.parent_block(op),
            Def::Arg { block, .. } => Some(block),
            Def::Pending => None,
        }
    }

    /// The uses of a value, newest first.
    pub fn uses(&self, value: ValueId) -> impl Iterator<Item = Use> + '_ {
        std::iter::successors(self.values[value.index()].first_use, |&o| {
            self.operands[o.index()].next
        })
        .map(|o| {
            let op = self.operands[o.index()].owner;
            Use {
                op,
                index: o.index() - self.ops[op.index()].first_operand as usize,
            }
        })
    }

    /// Whether a value has no use.
    pub fn is_unused(&self, value: ValueId) -> bool {
        self.values[value.index()].first_use.is_none()
    }

    /// The only use of a value that has exactly one.
    pub fn single_use(&self, value: ValueId) -> Option<Use> {
        let mut uses = self.uses(value);
        let only = uses.next()?;
        uses.next().is_none().then_some(only)
    }

    /// Whether `a` comes before `b`; both lie in the same block.
    ///
    /// Takes constant time once the block has been numbered by [`Module::number_ops`]; walks the block otherwise.
    pub fn is_before(&self, a: OpId, b: OpId) -> bool {
        let block = self.parent_block(a).expect("the op is in a block");
        debug_assert_eq!(Some(block), self.parent_block(b));
        if self.blocks[block.index()].ordered {
            return self.ops[a.index()].order < self.ops[b.index()].order;
        }
        std::iter::successors(self.next_op(a), |&o| self.next_op(o)).any(|o| o == b)
    }
}

struct OpIter<'m> {
    module: &'m Module,
    front: Option<OpId>,
    back: Option<OpId>,
}

impl Iterator for OpIter<'_> {
    type Item = OpId;

    fn next(&mut self) -> Option<OpId> {
        let op = self.front?;
        if self.back == Some(op) {
            (self.front, self.back) = (None, None);
        } else {
            self.front = self.module.next_op(op);
        }
        Some(op)
    }
}

impl DoubleEndedIterator for OpIter<'_> {
    fn next_back(&mut self) -> Option<OpId> {
        let op = self.back?;
        if self.front == Some(op) {
            (self.front, self.back) = (None, None);
        } else {
            self.back = self.module.prev_op(op);
        }
        Some(op)
    }
}
