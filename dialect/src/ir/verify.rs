//! The verifier: what must hold of every module, then what each op's definition demands. Findings are collected.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::dominance::DominanceCache;
use super::module::{BlockId, Module, OpId};
use crate::diag::{Diagnostic, Diagnostics};
use crate::ops::{OpVerifier, Scopes, Traits, classes, conform};

/// A module that has passed [`verify`]. Only `verify` makes one.
#[derive(Clone)]
pub struct Verified(Module);

impl Verified {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.0
    }

    /// Gives the module up for editing; it has to be verified again afterwards.
    pub fn into_module(self) -> Module {
        self.0
    }
}

impl std::ops::Deref for Verified {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.0
    }
}

/// What the verifier lets pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct VerifyOptions {
    /// Ops of dialects that are not registered are accepted as they are.
    pub allow_unregistered: bool,
}

/// Checks a module. Errors are added to `diagnostics`; then the module is given back unverified.
///
/// # Errors
/// The module, if anything is wrong with it.
#[allow(clippy::result_large_err)]
pub fn verify(
    mut module: Module,
    options: VerifyOptions,
    diagnostics: &mut Diagnostics,
) -> Result<Verified, Module> {
    // Which of two ops comes first is asked for every operand.
    module.number_all_ops();
    let mut found = Diagnostics::new();
    let mut verifier = Verifier {
        module: &module,
        options,
        dominance: DominanceCache::default(),
        scopes: Scopes::default(),
        found: &mut found,
    };
    for op in module.walk_all() {
        verifier.op(op);
    }
    let failed = found.has_errors();
    diagnostics.extend(found.take());
    if failed {
        Err(module)
    } else {
        Ok(Verified(module))
    }
}

struct Verifier<'a> {
    module: &'a Module,
    options: VerifyOptions,
    dominance: DominanceCache,
    scopes: Scopes,
    found: &'a mut Diagnostics,
}

impl Verifier<'_> {
    fn op(&mut self, op: OpId) {
        let module = self.module;
        let def = module.def_of(op);
        match def {
            Some(def) => {
                let mut v = OpVerifier {
                    module,
                    op,
                    diagnostics: self.found,
                    scopes: &self.scopes,
                };
                let conforms = def.dialect() != "dist" || conform::conform(&mut v, def);
                if let (Some(verify), true) = (def.verify, conforms) {
                    verify(&mut v);
                }
                if def.name == "builtin.module" {
                    classes::verify_class(&mut v);
                }
            }
            None if !self.options.allow_unregistered => self.unregistered(op),
            None => {}
        }
        let traits = def.map_or(
            Traits {
                graph_region: true,
                ..Traits::default()
            },
            |d| d.traits,
        );
        if traits.symbol_table {
            self.symbols(op);
        }
        self.operands(op);
        for &region in module.regions(op) {
            for block in module.blocks(region) {
                self.block(op, block, traits);
            }
        }
    }

    fn unregistered(&mut self, op: OpId) {
        let name = self.module.name_str(op);
        self.found.push(
            Diagnostic::error(
                "E0201",
                self.module.loc(op),
                format!("unregistered operation '{name}'"),
            )
            .help("pass --allow-unregistered-dialect to accept ops of unknown dialects"),
        );
    }

    fn symbols(&mut self, table: OpId) {
        let mut seen: HashMap<&str, OpId, FxBuildHasher> = HashMap::default();
        for (name, op) in self.module.symbols(table) {
            if let Some(&first) = seen.get(name) {
                self.found.push(
                    Diagnostic::error(
                        "E0202",
                        self.module.loc(op),
                        format!("redefinition of symbol named '{name}'"),
                    )
                    .note(
                        Some(self.module.loc(first).into()),
                        "see existing symbol definition here",
                    ),
                );
            } else {
                seen.insert(name, op);
            }
        }
    }

    /// Operands are visible: defined before, in this region or one around it.
    fn operands(&mut self, op: OpId) {
        let ordered = self
            .module
            .parent_op(op)
            .and_then(|parent| self.module.def_of(parent))
            .is_some_and(|def| !def.traits.graph_region);
        if !ordered {
            return;
        }
        for (index, value) in self.module.operands(op).enumerate() {
            if !self.dominance.is_visible(self.module, value, op) {
                self.found.push(Diagnostic::error(
                    "E0203",
                    self.module.loc(op),
                    format!("operand #{index} does not dominate this use"),
                ));
            }
        }
    }

    fn block(&mut self, parent: OpId, block: BlockId, traits: Traits) {
        if traits.graph_region {
            return;
        }
        let module = self.module;
        let terminates = |op| module.def_of(op).is_none_or(|d| d.traits.terminator);
        match module.last_op(block) {
            None => self.found.push(Diagnostic::error(
                "E0204",
                module.loc(parent),
                "empty block: expect at least a terminator",
            )),
            Some(last) if !terminates(last) => self.found.push(Diagnostic::error(
                "E0205",
                module.loc(last),
                "block with no terminator",
            )),
            Some(_) => {}
        }
        for op in module.block_ops(block) {
            if module.next_op(op).is_some()
                && module.def_of(op).is_some_and(|d| d.traits.terminator)
            {
                self.found.push(Diagnostic::error(
                    "E0206",
                    module.loc(op),
                    format!(
                        "'{}' op must be the last operation in the parent block",
                        module.name_str(op)
                    ),
                ));
            }
        }
    }
}
