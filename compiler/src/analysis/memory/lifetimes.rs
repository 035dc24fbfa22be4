//! When the storage of a function's values is needed.

use raddle_dialect::ir::{BlockId, Def, Module, OpId, ValueId};

use rustc_hash::FxHashMap;

use super::value_bytes;

/// What storage a value has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// That of the function's argument of this number.
    Argument(usize),
    /// That of a global.
    Global,
    /// Its own.
    Own,
}

/// Storage of its own, from op to op of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifetime {
    /// The value that the storage was made for.
    pub value: ValueId,
    /// Its size.
    pub bytes: u64,
    /// Position of the op that computes it.
    pub from: usize,
    /// Position of the last op that reads it; the op that computes it if none does.
    pub to: usize,
    /// The function leaves it to others.
    pub returned: bool,
    /// A `dist.send` reads it or a `dist.recv` writes it, perhaps at another time than its place in the program says.
    pub in_transit: bool,
}

/// The storage of a function of one block.
pub struct Lifetimes {
    /// Its ops, in order.
    pub ops: Vec<OpId>,
    /// Own storage, by where it begins.
    pub own: Vec<Lifetime>,
    /// Per argument, the position of the last op that reads it.
    pub arguments: Vec<Option<usize>>,
    /// Per argument, whether it is returned.
    pub passed_on: Vec<bool>,
    /// By value, whose storage it has; an index into `own`, or the argument.
    roots: FxHashMap<ValueId, Root>,
}

#[derive(Clone, Copy, Debug)]
enum Root {
    Argument(usize),
    Global,
    Own(usize),
}

impl Lifetimes {
    /// Looks at a block.
    pub fn of(module: &Module, block: BlockId) -> Self {
        let arguments = module.args(block).len();
        let mut found = Self {
            ops: module.block_ops(block).collect(),
            own: Vec::new(),
            arguments: vec![None; arguments],
            passed_on: vec![false; arguments],
            roots: FxHashMap::default(),
        };
        for (index, &arg) in module.args(block).iter().enumerate() {
            found.roots.insert(arg, Root::Argument(index));
        }
        for at in 0..found.ops.len() {
            found.visit(module, at);
        }
        found
    }

    fn visit(&mut self, module: &Module, at: usize) {
        let op = self.ops[at];
        let ends = module.def_of(op).is_some_and(|def| def.traits.terminator);
        let frees = module.is(op, "dist.free");
        for value in module.operands(op) {
            if frees {
                continue;
            }
            match self.roots.get(&value).copied() {
                Some(Root::Argument(index)) => {
                    self.arguments[index] = Some(at);
                    self.passed_on[index] |= ends;
                }
                Some(Root::Own(index)) => {
                    let own = &mut self.own[index];
                    own.to = at;
                    own.returned |= ends;
                    own.in_transit |= module.is(op, "dist.send");
                }
                _ => {}
            }
        }
        let shared = match module.name_str(op) {
            "dist.load" => Some(Root::Global),
            _ if is_view(module, op) => self.roots.get(&module.operand(op, 0)).copied(),
            _ => None,
        };
        for value in module.results(op) {
            let root = shared.unwrap_or_else(|| {
                self.own.push(Lifetime {
                    value,
                    bytes: value_bytes(module, value),
                    from: at,
                    to: at,
                    returned: false,
                    in_transit: module.is(op, "dist.recv"),
                });
                Root::Own(self.own.len() - 1)
            });
            self.roots.insert(value, root);
        }
    }

    /// What storage a value of the block has.
    pub fn storage(&self, value: ValueId) -> Option<Storage> {
        Some(match *self.roots.get(&value)? {
            Root::Argument(index) => Storage::Argument(index),
            Root::Global => Storage::Global,
            Root::Own(_) => Storage::Own,
        })
    }

    /// The most bytes that are needed at once for what the function does not leave to others.
    pub fn peak_bytes(&self) -> u64 {
        let mut change = vec![0i128; self.ops.len() + 1];
        for own in self.own.iter().filter(|own| !own.returned) {
            change[own.from] += i128::from(own.bytes);
            change[own.to + 1] -= i128::from(own.bytes);
        }
        let mut now = 0i128;
        let mut peak = 0i128;
        for step in change {
            now += step;
            peak = peak.max(now);
        }
        u64::try_from(peak).unwrap_or(u64::MAX)
    }
}

/// Whether an op's result has the storage of its operand.
fn is_view(module: &Module, op: OpId) -> bool {
    matches!(module.name_str(op), "dist.reshape" | "dist.identity")
}

/// The value whose storage a value has.
pub fn root(module: &Module, value: ValueId) -> ValueId {
    let mut value = value;
    while let Some(op) = module.defining_op(value).filter(|&op| is_view(module, op)) {
        value = module.operand(op, 0);
    }
    value
}

/// A value and all that have its storage.
pub fn views(module: &Module, value: ValueId) -> Vec<ValueId> {
    let mut found = vec![value];
    let mut at = 0;
    while let Some(&value) = found.get(at) {
        at += 1;
        let users = module.uses(value).map(|u| u.op);
        let views = users.filter(|&op| is_view(module, op));
        found.extend(views.map(|op| module.result(op, 0)));
    }
    found
}

/// The argument that a value is, if it is one.
pub fn argument(module: &Module, value: ValueId) -> Option<usize> {
    match module.def(value) {
        Def::Arg { index, .. } => Some(index as usize),
        _ => None,
    }
}
