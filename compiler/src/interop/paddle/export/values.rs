//! The values of an exported function: those of the module, and temporaries between the ops that one op becomes.

use std::collections::HashMap;

use raddle_dialect::ir::{Module, Type, ValueId};
use rustc_hash::FxBuildHasher;

/// A value of the exported program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Value(usize);

impl Value {
    /// A dense index.
    pub(super) fn index(self) -> usize {
        self.0
    }
}

/// All values, with their types and the names they should get.
#[derive(Default)]
pub(super) struct Values {
    types: Vec<Type>,
    wanted: Vec<Option<String>>,
    of: HashMap<ValueId, Value, FxBuildHasher>,
}

impl Values {
    /// The value of a module's value.
    pub(super) fn get(&mut self, module: &Module, value: ValueId) -> Value {
        if let Some(&known) = self.of.get(&value) {
            return known;
        }
        let new = self.temporary(module.ty(value));
        self.of.insert(value, new);
        new
    }

    /// Two values of the module are one.
    pub(super) fn merge(&mut self, value: ValueId, into: Value) {
        self.of.insert(value, into);
    }

    /// A value that no value of the module is.
    pub(super) fn temporary(&mut self, ty: Type) -> Value {
        self.types.push(ty);
        self.wanted.push(None);
        Value(self.types.len() - 1)
    }

    /// Says which name a value should get, unless it is known already.
    pub(super) fn want(&mut self, value: Value, name: &str) {
        if self.wanted[value.0].is_none() && !name.is_empty() {
            self.wanted[value.0] = Some(name.to_owned());
        }
    }

    pub(super) fn wanted(&self, value: Value) -> Option<&str> {
        self.wanted[value.0].as_deref()
    }

    pub(super) fn ty(&self, value: Value) -> Type {
        self.types[value.0]
    }

    pub(super) fn len(&self) -> usize {
        self.types.len()
    }

    /// All names that values want.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().filter_map(|n| n.as_deref())
    }
}

/// What happens, in order.
pub(super) enum Event {
    Unit(Unit),
    /// The value is what the global holds.
    Load {
        value: Value,
        global: String,
    },
    /// The global gets the value.
    Store {
        value: Value,
        global: String,
    },
}

/// A Paddle op whose variables have no names yet.
pub(super) struct Unit {
    pub kind: String,
    pub inputs: Vec<(String, Vec<Value>)>,
    pub outputs: Vec<(String, Vec<Value>)>,
    pub attrs: Vec<(String, super::super::value::Value)>,
    pub is_target: Option<bool>,
}
