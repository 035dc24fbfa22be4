//! Names of values and blocks: `%0`, `%arg1`, `%cst_2`, `^bb3`.
//!
//! Values are numbered in order through a region; the regions inside it go on from where its numbering ended. Side by side
//! they start alike, except in the generic form, where every number is used once. Names that an op suggests for its results
//! (`%c1_i32`) are made distinct with numbers along each chain of regions.

use std::collections::HashSet;

use rustc_hash::FxBuildHasher;

use super::text::push_uint;
use crate::ir::{
    AttrData, BlockId, Def, Ident, Int, Module, OpId, RegionId, Signedness, TypeData, ValueId,
};

/// Names of everything in one module.
pub(super) struct Names {
    values: Vec<Name>,
    /// Number of each block within its region.
    blocks: Vec<u32>,
    /// Names that are no number, for [`Name::Hint`].
    hints: Vec<String>,
    /// A block and the number of a block that branches to it, sorted.
    predecessors: Vec<(BlockId, u32)>,
}

#[derive(Clone, Copy)]
enum Name {
    None,
    Number(u32),
    Arg(u32),
    Hint(u32),
}

/// Where numbering stands.
#[derive(Clone, Copy, Default)]
struct Counters {
    value: u32,
    arg: u32,
    conflict: u32,
}

struct Numbering<'m> {
    module: &'m Module,
    names: Names,
    counters: Counters,
    /// Hints in use, and those that each open region added.
    used: HashSet<String, FxBuildHasher>,
    scopes: Vec<Vec<String>>,
    /// The op that suggests names, unless none are wanted.
    hinting: Option<Ident>,
}

impl Names {
    /// Names everything. With `unique`, no number is used twice and no name is suggested.
    pub fn new(module: &Module, unique: bool) -> Self {
        let mut numbering = Numbering {
            module,
            names: Self {
                values: vec![Name::None; module.value_capacity()],
                blocks: vec![0; module.block_capacity()],
                hints: Vec::new(),
                predecessors: Vec::new(),
            },
            counters: Counters::default(),
            used: HashSet::default(),
            scopes: Vec::new(),
            hinting: (!unique).then(|| module.cx().ident("arith.constant")),
        };
        let root = module.root();
        numbering.results(root);
        let mut open: Vec<(RegionId, Counters, usize)> = Vec::new();
        let start = numbering.counters;
        open.extend(module.regions(root).iter().map(|&r| (r, start, 0)));
        let mut inner = Vec::new();
        while let Some((region, counters, depth)) = open.pop() {
            if !unique {
                numbering.counters = counters;
            }
            numbering.leave(depth);
            numbering.scopes.push(Vec::new());
            numbering.region(region, &mut inner);
            let counters = numbering.counters;
            let depth = numbering.scopes.len();
            open.extend(inner.drain(..).map(|r| (r, counters, depth)));
        }
        numbering.names.predecessors.sort_unstable();
        numbering.names
    }

    /// Appends a value's name as an operand: `%0`, `%0#1`.
    pub fn push_value(&self, out: &mut String, module: &Module, value: ValueId) {
        match module.def(value) {
            Def::Result { op, index } if module.num_results(op) > 1 => {
                self.push_name(out, module.result(op, 0));
                out.push('#');
                push_uint(out, u64::from(index));
            }
            _ => self.push_name(out, value),
        }
    }

    /// Appends a value's name without the number of the result.
    pub fn push_name(&self, out: &mut String, value: ValueId) {
        out.push('%');
        match self.values[value.index()] {
            Name::Number(number) => push_uint(out, u64::from(number)),
            Name::Arg(number) => {
                out.push_str("arg");
                push_uint(out, u64::from(number));
            }
            Name::Hint(at) => out.push_str(&self.hints[at as usize]),
            Name::None => out.push_str("<<UNKNOWN SSA VALUE>>"),
        }
    }

    /// Appends a block's name.
    pub fn push_block(&self, out: &mut String, block: BlockId) {
        out.push_str("^bb");
        push_uint(out, u64::from(self.blocks[block.index()]));
    }

    /// The numbers of the blocks that branch to a block, once for each branch.
    pub fn predecessors(&self, block: BlockId) -> &[(BlockId, u32)] {
        let start = self.predecessors.partition_point(|p| p.0 < block);
        let count = self.predecessors[start..].partition_point(|p| p.0 == block);
        &self.predecessors[start..start + count]
    }
}

impl Numbering<'_> {
    /// Closes scopes until `depth` are open.
    fn leave(&mut self, depth: usize) {
        for scope in self.scopes.drain(depth..) {
            for name in scope {
                self.used.remove(&name);
            }
        }
    }

    /// Names what is directly in a region, and collects the regions inside.
    fn region(&mut self, region: RegionId, inner: &mut Vec<RegionId>) {
        let module = self.module;
        let entry = module.first_block(region);
        let mut branches = false;
        for (block, number) in module.blocks(region).zip(0..) {
            self.names.blocks[block.index()] = number;
            for &arg in module.args(block) {
                let counter = if entry == Some(block) {
                    let next = self.counters.arg;
                    self.counters.arg += 1;
                    Name::Arg(next)
                } else {
                    self.next_value()
                };
                self.names.values[arg.index()] = counter;
            }
            for op in module.block_ops(block) {
                self.results(op);
                inner.extend(module.regions(op));
                branches |= !module.successors(op).is_empty();
            }
        }
        if branches {
            self.branches(region);
        }
    }

    fn branches(&mut self, region: RegionId) {
        let module = self.module;
        for (block, number) in module.blocks(region).zip(0..) {
            for op in module.block_ops(block) {
                let targets = module.successors(op).iter().map(|&to| (to, number));
                self.names.predecessors.extend(targets);
            }
        }
    }

    fn next_value(&mut self) -> Name {
        let next = self.counters.value;
        self.counters.value += 1;
        Name::Number(next)
    }

    fn results(&mut self, op: OpId) {
        if self.module.num_results(op) == 0 {
            return;
        }
        let hint = if self.hinting == Some(self.module.name(op)) {
            hint(self.module, op)
        } else {
            None
        };
        let name = match hint {
            Some(hint) => self.unique(hint),
            None => self.next_value(),
        };
        self.names.values[self.module.result(op, 0).index()] = name;
    }

    fn unique(&mut self, hint: String) -> Name {
        let mut name = hint;
        if self.used.contains(&name) {
            name.push('_');
            let stem = name.len();
            loop {
                push_uint(&mut name, u64::from(self.counters.conflict));
                self.counters.conflict += 1;
                if !self.used.contains(&name) {
                    break;
                }
                name.truncate(stem);
            }
        }
        self.used.insert(name.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(name.clone());
        }
        self.names.hints.push(name);
        Name::Hint(self.names.hints.len() as u32 - 1)
    }
}

/// The name that an op suggests for its result.
fn hint(module: &Module, op: OpId) -> Option<String> {
    let cx = module.cx();
    match cx.attr_data(module.attr(op, "value")?) {
        AttrData::Integer { value, ty } => Some(integer_hint(value, cx.type_data(*ty))),
        _ => Some("cst".to_owned()),
    }
}

/// `c1_i32`, `c-1` for `index`, `true`
fn integer_hint(value: &Int, ty: &TypeData) -> String {
    let number = match value {
        Int::Small(value) => value.to_string(),
        Int::Big(value) => value.to_string(),
    };
    match ty {
        TypeData::Integer { width: 1, .. } => {
            if number == "0" { "false" } else { "true" }.to_owned()
        }
        TypeData::Integer { width, signedness } => {
            let sign = match signedness {
                Signedness::Signless => "i",
                Signedness::Signed => "si",
                Signedness::Unsigned => "ui",
            };
            format!("c{number}_{sign}{width}")
        }
        _ => format!("c{number}"),
    }
}
