//! Whether ranks meet: every rank of a group comes to the same collectives, in the same order, and every send to its receive.
//!
//! Ranks are not looked at one by one. Those whose programs, and whose partners' programs, are the same act alike and are one
//! *crew* (`crews`); for each function the crews are played against each other once (`play`), which costs as much as reading
//! their programs. Sends and receives that cross jobs, whose order only a schedule knows, are paired by tag (`transfers`).

mod calls;
mod crews;
mod play;
mod show;
mod transfers;

use std::collections::BTreeMap;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId};
use raddle_dialect::mesh::{Mesh, RankSet};

use calls::{Calls, Tables};
use crews::Crews;

/// A rank class and what its functions do together with other ranks.
struct Class<'m> {
    op: OpId,
    name: &'m str,
    ranks: RankSet,
    microbatches: i64,
    jobs: BTreeMap<Job<'m>, Calls>,
}

/// Which functions of different classes run together: those of one kind and chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Job<'m> {
    kind: &'m str,
    chunk: i64,
}

impl Job<'_> {
    /// Whether a schedule decides when it runs, so that another rank runs something else meanwhile.
    fn is_scheduled(self) -> bool {
        matches!(
            self.kind,
            "forward" | "backward" | "backward_b" | "backward_w"
        )
    }
}

/// Finds where the ranks of a module's classes do not meet; nothing if they do.
///
/// Codes: `E0401` collectives of a group differ, `E0402` some ranks have no further call, `E0403` ranks wait for each other,
/// `E0404` a send and its receive do not fit, `E0405` classes with different numbers of micro-batches, and `W0721` for functions
/// whose control flow hides the order.
pub fn check(module: &Module, top: OpId) -> Vec<Diagnostic> {
    let mut meshes: BTreeMap<&str, Vec<OpId>> = BTreeMap::new();
    for op in module.members(top, "builtin.module") {
        if let Some(mesh) = module.symbol_attr(op, "dist.mesh") {
            meshes.entry(mesh).or_default().push(op);
        }
    }
    let mut found = Vec::new();
    for classes in meshes.values() {
        // What is wrong with a mesh, the verifier says.
        if let Ok(mesh) = Mesh::of(module, classes[0]) {
            check_mesh(module, &mesh, classes, &mut found);
        }
    }
    found
}

fn check_mesh(module: &Module, mesh: &Mesh, ops: &[OpId], found: &mut Vec<Diagnostic>) {
    let mut tables = Tables::new(module, mesh);
    let mut classes = Vec::new();
    for &op in ops {
        let Ok(ranks) = RankSet::from_module(module, op, mesh) else {
            continue;
        };
        classes.push(Class {
            op,
            name: module.symbol_name(op).unwrap_or("?"),
            ranks,
            microbatches: module.i64_attr(op, "dist.microbatches").unwrap_or(1),
            jobs: tables.jobs(op, found),
        });
    }
    if tables.is_silent() {
        return;
    }
    agree_on_microbatches(module, &classes, found);
    let crews = Crews::new(mesh, &classes, &tables);
    let mut jobs: Vec<Job> = classes
        .iter()
        .flat_map(|c| c.jobs.keys().copied())
        .collect();
    jobs.sort_unstable();
    jobs.dedup();
    for job in jobs {
        let of_class = classes.iter().map(|c| c.jobs.get(&job));
        let players: Vec<Option<&Calls>> = of_class.collect();
        // Where control flow hides the order, that has been said.
        if players.iter().flatten().any(|c| c.hidden) {
            continue;
        }
        if let Err(clash) = play::play(&players, &crews, job) {
            found.push(show::clash(
                &show::Scene {
                    module,
                    mesh,
                    classes: &classes,
                    crews: &crews,
                    tables: &tables,
                    job,
                },
                &players,
                &clash,
            ));
        }
    }
    transfers::check(module, &classes, &crews, found);
}

fn agree_on_microbatches(module: &Module, classes: &[Class], found: &mut Vec<Diagnostic>) {
    let Some((first, rest)) = classes.split_first() else {
        return;
    };
    if let Some(other) = rest.iter().find(|c| c.microbatches != first.microbatches) {
        let (more, some) = (other.microbatches, first.microbatches);
        let (name, first_name) = (other.name, first.name);
        found.push(
            Diagnostic::error(
                "E0405",
                module.loc(other.op),
                format!("'@{name}' takes {more} micro-batches in a step, '@{first_name}' {some}"),
            )
            .note(
                Some(module.loc(first.op).into()),
                format!("'@{first_name}' is defined here"),
            )
            .help("give all classes of a mesh the same 'dist.microbatches'"),
        );
    }
}
