//! What an op sees around it: its module, its mesh, the symbols there. Looked up once per scope, so that verifying stays linear.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rustc_hash::FxBuildHasher;

use crate::error::Error;
use crate::ir::{Ident, Module, OpId};
use crate::mesh::Mesh;

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// The surroundings of the ops inside one op.
#[derive(Clone)]
pub struct Scope {
    /// The closest `builtin.module` around.
    pub module: Option<OpId>,
    /// The mesh that the closest module with `dist.mesh` names.
    pub mesh: Result<Rc<Mesh>, Error>,
}

/// Remembers scopes and symbol tables of a module that does not change meanwhile.
#[derive(Default)]
pub struct Scopes {
    scopes: RefCell<Map<OpId, Scope>>,
    symbols: RefCell<Map<OpId, Rc<Map<Ident, OpId>>>>,
    meshes: RefCell<Map<Ident, Result<Rc<Mesh>, Error>>>,
}

impl Scopes {
    /// What surrounds an op.
    pub fn around(&self, module: &Module, op: OpId) -> Scope {
        match module.parent_op(op) {
            Some(parent) => self.inside(module, parent),
            None => Scope {
                module: None,
                mesh: Err(Error::NoMesh),
            },
        }
    }

    /// What ops inside `parent` see. Fills in all ops on the way up, so that any number of questions takes linear time.
    fn inside(&self, module: &Module, parent: OpId) -> Scope {
        let mut path = Vec::new();
        let mut known = Scope {
            module: None,
            mesh: Err(Error::NoMesh),
        };
        for op in std::iter::successors(Some(parent), |&o| module.parent_op(o)) {
            if let Some(found) = self.scopes.borrow().get(&op) {
                known = found.clone();
                break;
            }
            path.push(op);
        }
        for op in path.into_iter().rev() {
            if module.is(op, "builtin.module") {
                known.module = Some(op);
                if let Some(name) = module.symbol_attr(op, "dist.mesh") {
                    known.mesh = self.mesh(module, module.cx().ident(name));
                }
            }
            self.scopes.borrow_mut().insert(op, known.clone());
        }
        known
    }

    /// The mesh of this name in the top module.
    pub fn mesh(&self, module: &Module, name: Ident) -> Result<Rc<Mesh>, Error> {
        if let Some(mesh) = self.meshes.borrow().get(&name) {
            return mesh.clone();
        }
        let mesh = self
            .symbol(module, module.root(), name)
            .filter(|&op| module.is(op, "dist.mesh"))
            .ok_or(Error::NoMesh)
            .and_then(|op| Mesh::from_op(module, op))
            .map(Rc::new);
        self.meshes.borrow_mut().insert(name, mesh.clone());
        mesh
    }

    /// The op that a name stands for directly inside `table`; the first, if there are several.
    pub fn symbol(&self, module: &Module, table: OpId, name: Ident) -> Option<OpId> {
        let read = || {
            let mut symbols = Map::default();
            for (name, op) in module.symbols(table) {
                symbols.entry(module.cx().ident(name)).or_insert(op);
            }
            Rc::new(symbols)
        };
        let symbols = self
            .symbols
            .borrow_mut()
            .entry(table)
            .or_insert_with(read)
            .clone();
        symbols.get(&name).copied()
    }
}
