//! What each op means. One file per family; one block defines one op, and everything else reads these blocks: the verifier,
//! the printer, the passes, the reference device, `docs/dialect.md` and `dist.irdl.mlir`.

mod def;

pub use def::{
    AttrDef, AttrDefault, AttrKind, Count, Custom, Effects, Group, OpDef, OpVerifier, Pretty,
    Traits, TypeShape, Uniform,
};

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::ir::Ident;

/// Every registered op, family by family.
pub static ALL: &[&[OpDef]] = &[];

/// Finds an op's definition by name.
pub struct Registry {
    by_name: HashMap<Ident, &'static OpDef, FxBuildHasher>,
}

impl Registry {
    pub(crate) fn new(mut intern: impl FnMut(&str) -> Ident) -> Self {
        let by_name = ALL
            .iter()
            .flat_map(|family| family.iter())
            .map(|def| (intern(def.name), def))
            .collect();
        Self { by_name }
    }

    pub(crate) fn get(&self, name: Ident) -> Option<&'static OpDef> {
        self.by_name.get(&name).copied()
    }
}
