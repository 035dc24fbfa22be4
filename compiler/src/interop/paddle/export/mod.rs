//! One rank's programs back from a module.
//!
//! Without passes in between these are the programs that were imported, op for op: types, slots, names, attributes with
//! their wire types, and variables.

mod attrs;
mod expand;
mod function;
mod groups;
mod names;
mod values;
mod vars;

use std::collections::HashSet;

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Attr, Module, OpId, Verified};
use raddle_dialect::mesh::{Mesh, RankSet};
use rustc_hash::FxBuildHasher;

use self::attrs::with_role;
use self::function::Exporter;
use self::names::{Named, Naming};
use super::form::{NAME, PROGRAM, RANKS};
use super::mapping::LOSS_ROLE;
use super::program::{Header, Op, Program};
use super::proto::Version;
use super::tables::{ProgramTable, RankTable};
use super::value::Value;

pub(super) use vars::renamed_vars;

/// One rank's programs, as `ProgramDesc` bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankPrograms {
    /// The program of a training step.
    pub main: Vec<u8>,
    /// The program that initialises what the step keeps.
    pub startup: Vec<u8>,
}

/// Exports a rank's programs.
///
/// # Errors
/// `None`, with diagnostics, if there is no such rank, its class is not an `init` and a `step`, or an op has no counterpart.
pub fn export(
    module: &Verified,
    rank: usize,
    diagnostics: &mut Diagnostics,
) -> Option<RankPrograms> {
    let module = module.module();
    let root = module.loc(module.root());
    let classes: Vec<OpId> = module
        .members(module.root(), "builtin.module")
        .filter(|&op| module.attr(op, "dist.ranks").is_some())
        .collect();
    let mut found = None;
    let mut ranks = 0;
    for class in classes {
        let mesh = match Mesh::of(module, class) {
            Ok(mesh) => mesh,
            Err(error) => {
                diagnostics.push(Diagnostic::error(
                    "E0832",
                    module.loc(class),
                    error.to_string(),
                ));
                return None;
            }
        };
        ranks = mesh.ranks();
        let set = RankSet::from_module(module, class, &mesh);
        if rank < ranks && set.is_ok_and(|set| set.contains(&mesh.coordinate(rank))) {
            found = Some((class, mesh));
            break;
        }
    }
    let Some((class, mesh)) = found else {
        let message = match ranks {
            0 => "the module has no rank classes".to_owned(),
            _ => format!("there is no rank {rank} in a mesh of {ranks} ranks"),
        };
        let help = "give a module of a `dist.mesh` and rank classes, and a rank of it";
        diagnostics.push(Diagnostic::error("E0832", root, message).help(help));
        return None;
    };
    let table = rank_table(module, class, rank);
    let before = diagnostics.len();
    let optimizer = module
        .block_ops(module.body(class))
        .find(|&op| module.str_attr(op, "dist.kind") == Some("optimizer"));
    if let Some(optimizer) = optimizer {
        diagnostics.push(
            Diagnostic::error(
                "E0835",
                module.loc(optimizer),
                "a program of several micro-batches, with an optimizer function of its own, is not exported to Paddle",
            )
            .help("only programs of one step and one init are exported"),
        );
        return None;
    }
    let mut programs = ["step", "init"].map(|kind| {
        let functions: Vec<_> = module
            .members(class, "func.func")
            .filter(|&op| module.str_attr(op, "dist.kind") == Some(kind))
            .collect();
        let &[function] = &functions[..] else {
            let message = format!(
                "the class has {} functions of kind `{kind}`",
                functions.len()
            );
            diagnostics.push(
                Diagnostic::error("E0833", module.loc(class), message)
                    .help("Paddle programs are one `step` and one `init`"),
            );
            return Vec::new();
        };
        let request = Request {
            module,
            mesh: &mesh,
            rank,
            table: &table,
            class,
            function,
            kind,
        };
        request.program(diagnostics)
    });
    let failed = diagnostics.iter().skip(before);
    let mut failed = failed.map(|d| d.severity);
    if failed.any(|s| s == raddle_dialect::diag::Severity::Error) {
        return None;
    }
    Some(RankPrograms {
        main: std::mem::take(&mut programs[0]),
        startup: std::mem::take(&mut programs[1]),
    })
}

/// If no op is in the role of the loss, as in a module that was not imported, the last one that computes it gets it.
fn mark_loss(named: &mut Named) {
    let roles = |op: &Op| op.attr("op_role").and_then(Value::as_i64).unwrap_or(0);
    if named.ops.iter().any(|op| roles(op) & LOSS_ROLE != 0) {
        return;
    }
    let writes = |op: &&mut Op| {
        let outputs = op.outputs.iter().flat_map(|slot| &slot.args);
        outputs
            .into_iter()
            .any(|name| named.returned.contains(name))
    };
    let Some(op) = named.ops.iter_mut().rev().find(writes) else {
        return;
    };
    for (name, value) in &mut op.attrs {
        if name == "op_role"
            && let Value::Int(role) = value
        {
            *role |= LOSS_ROLE as i32;
        }
    }
}

/// What the class keeps of the rank; of a program that every rank runs, what it keeps of all.
fn rank_table(module: &Module, class: OpId, rank: usize) -> RankTable {
    let cx = module.cx();
    let list = module.attr(class, RANKS).and_then(|a| cx.as_array(a));
    let tables = list.unwrap_or_default().iter();
    let tables: Vec<_> = tables
        .filter_map(|&a| RankTable::from_attr(cx, a))
        .collect();
    let own = tables.iter().find(|t| t.rank == Some(rank));
    let own = own.or_else(|| tables.iter().find(|t| t.rank.is_none()));
    own.cloned().unwrap_or_default()
}

struct Request<'a> {
    module: &'a Module,
    mesh: &'a Mesh,
    rank: usize,
    table: &'a RankTable,
    class: OpId,
    function: OpId,
    kind: &'a str,
}

impl Request<'_> {
    fn program(&self, diagnostics: &mut Diagnostics) -> Vec<u8> {
        let (module, cx) = (self.module, self.module.cx());
        let blocks: Vec<_> = module
            .regions(self.function)
            .first()
            .map(|&region| module.blocks(region).collect())
            .unwrap_or_default();
        let &[block] = &blocks[..] else {
            diagnostics.push(
                Diagnostic::error(
                    "E0833",
                    module.loc(self.function),
                    format!("the function has {} blocks", blocks.len()),
                )
                .help("only straight-line functions are exported"),
            );
            return Vec::new();
        };
        let program = module
            .attr(self.function, PROGRAM)
            .and_then(|a| ProgramTable::from_attr(cx, a))
            .unwrap_or_else(|| ProgramTable {
                header: Header {
                    version: Some(Version { version: Some(0) }),
                    op_versions: None,
                    forward_block: None,
                },
                forms: Vec::new(),
                vars: Vec::new(),
            });
        let mut exporter = Exporter::new(
            module,
            self.mesh,
            self.rank,
            self.table,
            &program,
            diagnostics,
        );
        let arg_attrs = module.attr(self.function, "arg_attrs");
        let arg_attrs = arg_attrs.and_then(|a| cx.as_array(a)).unwrap_or_default();
        let mut arguments = Vec::new();
        for (i, &arg) in module.args(block).iter().enumerate() {
            let value = exporter.values.get(module, arg);
            let name = arg_attrs.get(i).and_then(|&a| cx.dict_get(a, NAME));
            let name = name.and_then(|a| cx.as_str(a)).unwrap_or_default();
            let name = exporter.renamed(name);
            exporter.values.want(value, &name);
            arguments.push(value);
        }
        let returned = exporter.run(block);
        let (values, events) = (exporter.values, exporter.events);
        let own_vars = match self.kind {
            "step" => &self.table.main_vars,
            _ => &self.table.startup_vars,
        };
        let vars = match own_vars {
            Some(vars) => vars.clone(),
            None => renamed_vars(&program.vars, &self.table.renames),
        };
        let globals = self.globals();
        let reserved: HashSet<String, FxBuildHasher> = vars
            .iter()
            .map(|v| String::from_utf8_lossy(&v.desc.name).into_owned())
            .chain(globals.iter().map(|(name, ..)| name.clone()))
            .collect();
        let role = if self.kind == "step" { 2 } else { 0 };
        let mut named = Naming {
            values: &values,
            events: &events,
            returned: &returned,
            reserved: &reserved,
            copy_attrs: &with_role(role, &[]),
        }
        .run(&arguments);
        vars::drop_unknown(&mut named);
        mark_loss(&mut named);
        let vars = vars::describe(cx, &vars, &named, &values, &globals);
        Program::encode(&program.header, vars, &named.ops)
    }

    /// The class's globals: name on this rank, type, and whether it is a parameter.
    fn globals(&self) -> Vec<(String, Attr, bool)> {
        let module = self.module;
        let ops = module.block_ops(module.body(self.class));
        ops.filter(|&op| module.is(op, "dist.global"))
            .filter_map(|op| {
                let name = module.str_attr(op, "sym_name")?;
                let own = self.table.renames.get(name).map_or(name, String::as_str);
                let parameter = module.str_attr(op, "kind") == Some("parameter");
                Some((own.to_owned(), module.attr(op, "type")?, parameter))
            })
            .collect()
    }
}
