//! Symbol tables: the named ops directly inside a symbol-table op such as `builtin.module`.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::module::{Module, OpId};

/// The symbols of one table, for many look-ups.
pub struct SymbolTable<'m> {
    symbols: HashMap<&'m str, OpId, FxBuildHasher>,
}

impl<'m> SymbolTable<'m> {
    /// Reads the symbols directly inside `table`. If a name is defined twice (which the verifier reports), the first counts.
    pub fn new(module: &'m Module, table: OpId) -> Self {
        let mut symbols = HashMap::default();
        for (name, op) in module.symbols(table) {
            symbols.entry(name).or_insert(op);
        }
        Self { symbols }
    }

    /// The op of this name.
    pub fn get(&self, name: &str) -> Option<OpId> {
        self.symbols.get(name).copied()
    }
}

impl Module {
    /// The name of an op that defines a symbol.
    pub fn symbol_name(&self, op: OpId) -> Option<&str> {
        self.str_attr(op, "sym_name")
    }

    /// Names and ops of the symbols directly inside `table`, in order.
    pub fn symbols(&self, table: OpId) -> impl Iterator<Item = (&str, OpId)> {
        self.regions(table)
            .iter()
            .flat_map(|&r| self.blocks(r))
            .flat_map(|b| self.block_ops(b))
            .filter_map(|op| self.symbol_name(op).map(|name| (name, op)))
    }

    /// The op named `name` directly inside `table`: a linear search; use [`SymbolTable`] for many.
    pub fn find_symbol(&self, table: OpId, name: &str) -> Option<OpId> {
        self.symbols(table).find(|&(n, _)| n == name).map(|s| s.1)
    }

    /// The closest enclosing `builtin.module` of an op, the op itself excluded.
    pub fn enclosing_module(&self, op: OpId) -> Option<OpId> {
        std::iter::successors(self.parent_op(op), |&o| self.parent_op(o))
            .find(|&o| self.is(o, "builtin.module"))
    }
}
