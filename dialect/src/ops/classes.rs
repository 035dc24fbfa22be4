//! Rank classes: the nested modules that say which ranks of a mesh they are.

use std::rc::Rc;

use super::OpVerifier;
use crate::error::Error;
use crate::ir::OpId;
use crate::mesh::{Mesh, RankSet};

/// Checks the attributes of a `builtin.module` that is a rank class.
pub(crate) fn verify_class(v: &mut OpVerifier) {
    let module = v.module;
    let Some(attr) = module.attr(v.op, "dist.mesh") else {
        if module.attr(v.op, "dist.ranks").is_some() {
            let d = v.diagnostic("E0324", "has 'dist.ranks', but no 'dist.mesh'");
            v.diagnostics.push(d);
        }
        return;
    };
    let Some(name) = module.cx().as_symbol(attr) else {
        v.error("E0302", "attribute 'dist.mesh' must be a symbol, `@name`");
        return;
    };
    let ident = module.cx().ident(name);
    let defined = v
        .scopes
        .symbol(module, module.root(), ident)
        .filter(|&op| module.is(op, "dist.mesh"));
    if defined.is_none() {
        let d = v
            .diagnostic(
                "E0324",
                format!("names the mesh @{name}, which is not defined"),
            )
            .help(format!(
                "define it in the top module: `dist.mesh @{name} [\"dp\" = 2]`"
            ));
        v.diagnostics.push(d);
        return;
    }
    let Ok(mesh) = v.scopes.mesh(module, ident) else {
        return; // reported at the mesh
    };
    match RankSet::from_module(module, v.op, &mesh) {
        Err(error) => v.report(&error),
        Ok(ranks) => {
            if ranks.is_empty() {
                v.error("E0333", "has no ranks");
            } else if let Some(twice) = ranks.self_overlap() {
                let place = coordinate(&mesh, &twice);
                v.error(
                    "E0333",
                    format!("lists the rank {place} twice in 'dist.ranks'"),
                );
            }
        }
    }
    let microbatches = module.attr(v.op, "dist.microbatches");
    if microbatches.is_some_and(|a| module.cx().as_i64(a).is_none_or(|n| n < 1)) {
        v.error(
            "E0302",
            "attribute 'dist.microbatches' must be an integer above 0",
        );
    }
}

/// Checks that the classes beside a mesh are disjoint and cover it.
pub(crate) fn verify_cover(v: &mut OpVerifier, mesh: &Mesh) {
    let module = v.module;
    let Some(name) = module.symbol_name(v.op) else {
        return;
    };
    let classes: Vec<OpId> = module
        .members(module.root(), "builtin.module")
        .filter(|&op| module.symbol_attr(op, "dist.mesh") == Some(name))
        .collect();
    if classes.is_empty() {
        return;
    }
    const FREE: u32 = u32::MAX;
    let mut owner = vec![FREE; mesh.ranks()];
    for (index, &class) in classes.iter().enumerate() {
        let Ok(ranks) = RankSet::from_module(module, class, mesh) else {
            return; // reported at the class
        };
        if ranks.self_overlap().is_some() {
            return; // likewise
        }
        for rank in ranks.ranks(mesh) {
            if owner[rank] != FREE {
                let place = coordinate(mesh, &mesh.coordinate(rank));
                let d = v
                    .diagnostic("E0333", format!("has the rank {place} in two classes"))
                    .note(
                        Some(module.loc(classes[owner[rank] as usize]).into()),
                        "the first",
                    )
                    .note(Some(module.loc(class).into()), "the second");
                v.diagnostics.push(d);
                return;
            }
            owner[rank] = index as u32;
        }
    }
    if let Some(rank) = owner.iter().position(|&o| o == FREE) {
        let place = coordinate(mesh, &mesh.coordinate(rank));
        let d = v
            .diagnostic("E0333", format!("has the rank {place} in no class"))
            .help("every rank belongs to exactly one module with this `dist.mesh`");
        v.diagnostics.push(d);
    }
}

/// `{dp = 1, mp = 0}`
fn coordinate(mesh: &Mesh, coordinate: &[usize]) -> String {
    let parts: Vec<String> = mesh
        .axes()
        .iter()
        .zip(coordinate)
        .map(|(axis, index)| format!("{axis} = {index}"))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

/// The mesh around an op.
pub(crate) fn mesh_around(v: &OpVerifier) -> Result<Rc<Mesh>, Error> {
    v.scopes.around(v.module, v.op).mesh
}
