//! The verifier: what must hold of every module, then what each op's definition demands. Findings are collected.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::module::{Module, OpId, RegionId};
use super::visible;
use crate::diag::{Diagnostic, Diagnostics};
use crate::ops::{OpDef, OpVerifier, Scopes, classes, conform, upstream};

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
    let scopes = Scopes::default();
    for op in module.walk_all() {
        verify_op(&module, op, options, &scopes, &mut found);
    }
    visible::check(&module, &mut found);
    let failed = found.has_errors();
    diagnostics.extend(found.take());
    if failed {
        Err(module)
    } else {
        Ok(Verified(module))
    }
}

/// What an op's definition demands, then its regions' form.
fn verify_op(
    module: &Module,
    op: OpId,
    options: VerifyOptions,
    scopes: &Scopes,
    found: &mut Diagnostics,
) {
    let def = module.def_of(op);
    match def {
        Some(def) => {
            let mut v = OpVerifier {
                module,
                op,
                diagnostics: found,
                scopes,
            };
            let conforms = def.dialect() != "dist" || conform::conform(&mut v, def);
            if let (Some(verify), true) = (def.verify, conforms) {
                verify(&mut v);
            }
            if def.name == "builtin.module" {
                classes::verify_class(&mut v);
            }
            if def.traits.terminator && module.next_op(op).is_some() {
                v.error("E0206", "must be the last operation in the parent block");
            }
            if def.traits.symbol_table {
                symbols(module, op, found);
            }
        }
        None => unregistered(module, op, options, found),
    }
    if module.next_op(op).is_some() && !module.successors(op).is_empty() {
        found.push(Diagnostic::error(
            "E0206",
            module.loc(op),
            "operation with block successors must terminate its parent block",
        ));
    }
    for &region in module.regions(op) {
        blocks(module, op, region, def, found);
    }
}

fn unregistered(module: &Module, op: OpId, options: VerifyOptions, found: &mut Diagnostics) {
    let name = module.name_str(op);
    // Without a dot the name has no dialect.
    let dialect = name.split_once('.').map_or("", |(dialect, _)| dialect);
    if module.cx().registry().has_dialect(dialect) {
        if upstream::exists(name) {
            return;
        }
        found.push(
            Diagnostic::error(
                "E0201",
                module.loc(op),
                format!(
                    "unregistered operation '{name}' found in dialect ('{dialect}') that does not allow unknown operations"
                ),
            )
            .label("the dialect has no such op"),
        );
    } else if !options.allow_unregistered && !module.cx().registry().accepts_dialect(dialect) {
        found.push(
            Diagnostic::error(
                "E0201",
                module.loc(op),
                format!("operation '{name}' belongs to the unregistered dialect '{dialect}'"),
            )
            .help("pass --allow-unregistered-dialect to accept ops of unknown dialects"),
        );
    }
}

fn symbols(module: &Module, table: OpId, found: &mut Diagnostics) {
    let mut seen: HashMap<&str, OpId, FxBuildHasher> = HashMap::default();
    for (name, op) in module.symbols(table) {
        if let Some(&first) = seen.get(name) {
            found.push(
                Diagnostic::error(
                    "E0202",
                    module.loc(op),
                    format!("redefinition of symbol named '{name}'"),
                )
                .note(
                    Some(module.loc(first).into()),
                    "see existing symbol definition here",
                ),
            );
        } else {
            seen.insert(name, op);
        }
    }
}

/// Blocks end in terminators and lead to blocks of their region, never back to its entry.
fn blocks(
    module: &Module,
    op: OpId,
    region: RegionId,
    def: Option<&OpDef>,
    found: &mut Diagnostics,
) {
    let Some(entry) = module.first_block(region) else {
        return;
    };
    // A lone block may do without, if its op allows that, as unknown ops may.
    let lone = module.next_block(entry).is_none();
    let free = lone && def.is_none_or(|d| d.traits.graph_region);
    let mut entered = false;
    for block in module.blocks(region) {
        let Some(last) = module.last_op(block) else {
            if !free {
                found.push(Diagnostic::error(
                    "E0204",
                    module.loc(op),
                    "empty block: expect at least a terminator",
                ));
            }
            continue;
        };
        for &to in module.successors(last) {
            entered |= to == entry;
            if module.block_parent(to) != region {
                found.push(Diagnostic::error(
                    "E0207",
                    module.loc(last),
                    "branching to block of a different region",
                ));
            }
        }
        if !free && module.def_of(last).is_some_and(|d| !d.traits.terminator) {
            found.push(
                Diagnostic::error("E0205", module.loc(last), "block with no terminator")
                    .label("the block's last op ends no block"),
            );
        }
    }
    if entered {
        found.push(Diagnostic::error(
            "E0208",
            module.loc(op),
            "entry block of region may not have predecessors",
        ));
    }
}
