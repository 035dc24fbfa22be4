//! Per-rank Paddle programs become one module: a mesh, and one class for all ranks with the same program.

mod emit;
mod function;
mod globals;
mod layouts;
mod pipeline;
mod product;
mod record;
mod rules;
mod slices;
mod slots;
mod sums;

use std::collections::BTreeSet;
use std::sync::Arc;

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{
    Attr, BlockId, Context, LayoutData, Loc, Module, NewOp, OpId, Rewriter, Type, ValueId,
    Verified, VerifyOptions, verify,
};
use raddle_dialect::mesh::{Mesh, RankSet};

use self::function::{Body, Builder, Source};
use self::globals::Globals;
use super::fold::{Class, RankProgram, fold};
use super::form::{NAME, PROGRAM, RANKS, TIED};
use super::gradient_merge;
use super::mesh_file::{MeshFile, Rings};
use super::program::Program;
use super::tables::{ProgramTable, RankTable, VarEntry, var_entries};
use super::transfers;

/// A file's name, for messages, and its contents.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Name.
    pub name: &'a str,
    /// Contents.
    pub bytes: &'a [u8],
}

/// The files of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankFiles<'a> {
    /// The program of a training step.
    pub main: File<'a>,
    /// The program that initialises what the step keeps.
    pub startup: File<'a>,
    /// The mesh, the rank and its rings.
    pub mesh: File<'a>,
}

/// Imports the programs of one rank, which then stands for all, or of every rank of the mesh.
///
/// # Errors
/// `None`, with diagnostics, if the files cannot be imported. Remarks may be added either way.
pub fn import(
    cx: &Arc<Context>,
    files: &[RankFiles<'_>],
    diagnostics: &mut Diagnostics,
) -> Option<Verified> {
    let found = diagnostics.len();
    let mut ranks = Vec::with_capacity(files.len());
    let mut mesh_files: Vec<MeshFile> = Vec::with_capacity(files.len());
    for file in files {
        let at = cx.file_loc(file.mesh.name, 1, 1);
        let text = String::from_utf8_lossy(file.mesh.bytes);
        let main = Program::decode(cx, file.main.name, file.main.bytes, diagnostics);
        let startup = Program::decode(cx, file.startup.name, file.startup.bytes, diagnostics);
        let mesh = MeshFile::parse(&text, at, diagnostics);
        if let (Some(mut main), Some(mut startup), Some(mesh)) = (main, startup, mesh) {
            if startup.sub_block.is_some() {
                let at = startup.loc(cx, startup.ops.len().saturating_sub(1));
                let message = "a startup program has one block";
                diagnostics.push(
                    Diagnostic::error("E0802", at, message)
                        .help("control flow is not imported; export the program without it"),
                );
                continue;
            }
            let Ok(merge) = gradient_merge::take(cx, &mut main, &mut startup, diagnostics) else {
                continue;
            };
            ranks.push(RankProgram {
                rank: mesh.rank,
                main,
                startup,
                rings: mesh.rings.clone(),
                members: mesh.members.clone(),
                merge,
                pipeline: transfers::Pipeline::default(),
            });
            mesh_files.push(mesh);
        }
    }
    if diagnostics.len() > found {
        return None;
    }
    let first = mesh_files.first()?;
    check_cover(cx, files, &mesh_files, diagnostics)?;
    let everywhere = ranks.len() == 1;
    transfers::find(cx, &first.mesh, &mut ranks, diagnostics).ok()?;
    let classes = fold(&ranks, &first.mesh, everywhere);
    let module = Importer {
        cx,
        mesh: &first.mesh,
        inputs: &first.inputs,
        mesh_loc: cx.file_loc(files[0].mesh.name, 1, 1),
        ranks: &ranks,
        everywhere,
        diagnostics,
    }
    .module(&classes)?;
    verify(module, VerifyOptions::default(), diagnostics).ok()
}

/// Several files are one per rank of one mesh.
fn check_cover(
    cx: &Context,
    files: &[RankFiles<'_>],
    meshes: &[MeshFile],
    diagnostics: &mut Diagnostics,
) -> Option<()> {
    let first = &meshes[0];
    for (file, other) in files.iter().zip(meshes).skip(1) {
        let loc = cx.file_loc(file.mesh.name, 1, 1);
        if other.mesh != first.mesh {
            diagnostics.push(
                Diagnostic::error("E0807", loc, "the mesh is not that of the first file")
                    .help("all ranks of a program share one mesh"),
            );
            return None;
        }
        if other.inputs != first.inputs {
            diagnostics.push(
                Diagnostic::error("E0807", loc, "`inputs` is not that of the first file")
                    .help("the layout of a data input is the same on all ranks"),
            );
            return None;
        }
    }
    let given: BTreeSet<usize> = meshes.iter().map(|m| m.rank).collect();
    let all = first.mesh.ranks();
    if files.len() == 1 || (given.len() == files.len() && given.len() == all) {
        return Some(());
    }
    let loc = cx.file_loc(files[0].mesh.name, 1, 1);
    let missing = (0..all).find(|r| !given.contains(r));
    let what = match missing {
        Some(rank) => format!("no file is for rank {rank} of a mesh of {all} ranks"),
        None => "two files are for the same rank".to_owned(),
    };
    diagnostics.push(
        Diagnostic::error("E0807", loc, what)
            .help("give one file, which every rank runs, or one for each rank"),
    );
    None
}

struct Importer<'a, 'd> {
    cx: &'a Arc<Context>,
    mesh: &'a Mesh,
    inputs: &'a std::collections::BTreeMap<String, Vec<Vec<String>>>,
    mesh_loc: Loc,
    ranks: &'a [RankProgram],
    everywhere: bool,
    diagnostics: &'d mut Diagnostics,
}

impl Importer<'_, '_> {
    fn module(&mut self, classes: &[Class]) -> Option<Module> {
        let cx = self.cx.clone();
        let mut module = Module::new(&cx, self.mesh_loc);
        let mut rw = Rewriter::new(&mut module);
        let sizes: Vec<_> = self.mesh.sizes().iter().map(|&s| s as i64).collect();
        rw.build(
            "dist.mesh",
            self.mesh_loc,
            &[],
            &[],
            &[
                ("sym_name", cx.string("mesh")),
                ("axes", cx.string_array(self.mesh.axes())),
                ("sizes", cx.i64_array(&sizes)),
            ],
        );
        let before = self.diagnostics.len();
        for (index, class) in classes.iter().enumerate() {
            let name = match classes.len() {
                1 => "all".to_owned(),
                _ => format!("class_{index}"),
            };
            let root = rw.module().root();
            let body = rw.module().body(root);
            rw.at_end(body);
            self.class(&mut rw, class, &name);
        }
        let failed = self.diagnostics.iter().skip(before);
        let failed = failed
            .into_iter()
            .any(|d| d.severity == raddle_dialect::diag::Severity::Error);
        (!failed).then_some(module)
    }

    fn class(&mut self, rw: &mut Rewriter, class: &Class, name: &str) {
        let cx = self.cx.clone();
        let members: Vec<_> = class.members.iter().map(|&m| &self.ranks[m]).collect();
        let first = members[0];
        let ranks: Vec<_> = members.iter().map(|m| m.rank).collect();
        let rings: Vec<&Rings> = members.iter().map(|m| &m.rings).collect();
        let set = match self.everywhere {
            true => RankSet::all(self.mesh),
            false => RankSet::from_ranks(self.mesh, &ranks),
        };
        let tables = class.members.iter().zip(&class.renames).map(|(&m, names)| {
            let rank = &self.ranks[m];
            RankTable {
                rank: (!self.everywhere).then_some(rank.rank),
                rings: rank.rings.clone(),
                renames: names.clone(),
                main_vars: own_vars(&first.main, &rank.main, names),
                startup_vars: own_vars(&first.startup, &rank.startup, names),
            }
            .to_attr(&cx)
        });
        let tables: Vec<_> = tables.collect();
        let microbatches = first.merge.as_ref().map_or(1, |merge| merge.microbatches);
        let module = rw.create(NewOp {
            regions: 1,
            props: cx.dict(vec![(cx.ident("sym_name"), cx.string(name))]),
            attrs: cx.dict(vec![
                (cx.ident("dist.mesh"), cx.symbol_ref("mesh")),
                (cx.ident("dist.microbatches"), cx.i64_attr(microbatches)),
                (cx.ident("dist.ranks"), ranks_attr(&cx, self.mesh, &set)),
                (cx.ident(RANKS), cx.array(&tables)),
            ]),
            ..NewOp::new(cx.ident("builtin.module"), self.mesh_loc, &cx)
        });
        let region = rw.module().regions(module)[0];
        let block = rw.append_block(region);
        let globals = Globals::collect(&cx, first, self.diagnostics);
        self.globals(rw, block, &globals, &first.main);
        let programs = |of: fn(&RankProgram) -> &Program| {
            let programs: Vec<&Program> = members.iter().map(|m| of(m)).collect();
            programs
        };
        let (mains, startups) = (programs(|m| &m.main), programs(|m| &m.startup));
        let mut sources = vec![
            (
                "init",
                &first.startup,
                &class.startup_shifts,
                &startups,
                None,
            ),
            (
                "step",
                &first.main,
                &class.main_shifts,
                &mains,
                Some(&class.open),
            ),
        ];
        let optimizers: Vec<&Program> = members
            .iter()
            .filter_map(|m| m.merge.as_ref().map(|merge| &merge.optimizer))
            .collect();
        let unshifted = Default::default();
        if let Some(merge) = &first.merge {
            sources.push(("optimizer", &merge.optimizer, &unshifted, &optimizers, None));
        }
        let pipelined = !first.pipeline.transfers.is_empty();
        for (kind, program, shifts, programs, open) in sources {
            let source = Source {
                program,
                shifts,
                open,
                pipeline: (kind == "step" && pipelined).then_some(&first.pipeline),
                mesh: self.mesh,
                ranks: &ranks,
                rings: &rings,
                programs,
                globals: &globals,
            };
            rw.at_end(block);
            self.function(rw, kind, &source);
        }
        if !self.diagnostics.has_errors() {
            layouts::Request {
                mesh: self.mesh,
                given: self.inputs,
                mesh_loc: self.mesh_loc,
                pipeline: transfers::axes(self.ranks),
                class: module,
            }
            .run(rw, self.diagnostics);
        }
    }

    fn globals(&mut self, rw: &mut Rewriter, block: BlockId, globals: &Globals, main: &Program) {
        let cx = self.cx.clone();
        rw.at_end(block);
        for global in globals.iter() {
            let rank = cx.as_tensor(global.ty).map_or(0, |(shape, _)| shape.len());
            let kind = match (global.parameter, &global.of) {
                (true, _) => "parameter",
                (false, Some(_)) => "state",
                (false, None) => "buffer",
            };
            let mut attrs = vec![
                ("sym_name", cx.string(&global.name)),
                ("kind", cx.string(kind)),
                ("type", cx.type_attr(global.ty)),
                (
                    "layout",
                    layout_attr(&cx, vec![Vec::new(); rank], Vec::new()),
                ),
            ];
            if kind == "state" {
                let of = global.of.as_deref().unwrap_or_default();
                attrs.push(("of", cx.symbol_ref(of)));
            }
            if let Some(parameter) = &global.gradient_of {
                attrs.push((TIED, cx.symbol_ref(parameter)));
            }
            let loc = main.loc(&cx, 0);
            rw.build("dist.global", loc, &[], &[], &attrs);
        }
    }

    fn function(&mut self, rw: &mut Rewriter, kind: &str, source: &Source) {
        let cx = self.cx.clone();
        let loc = source.program.loc(&cx, 0);
        let func = rw.create(NewOp {
            regions: 1,
            ..NewOp::new(cx.ident("func.func"), loc, &cx)
        });
        let region = rw.module().regions(func)[0];
        let block = rw.append_block(region);
        let Body {
            inputs,
            loss,
            forms,
        } = Builder::run(source, &cx, rw, block, self.diagnostics);
        let results: Vec<ValueId> = match (kind, loss) {
            ("step", Some(loss)) => vec![loss],
            ("step", None) if source.pipeline.is_none() => {
                self.diagnostics.push(
                    Diagnostic::error("E0818", loc, "the program computes no loss").help(
                        "the op that computes it has op_role 256, and the constant that seeds its gradient 257",
                    ),
                );
                Vec::new()
            }
            _ => Vec::new(),
        };
        if kind == "init"
            && let Some((name, _)) = inputs.first()
        {
            self.diagnostics.push(
                Diagnostic::error(
                    "E0819",
                    loc,
                    format!("the startup program reads `{name}`, which nothing has written"),
                )
                .help("a startup program takes no data"),
            );
        }
        rw.at_end(block);
        rw.create(NewOp {
            operands: &results,
            ..NewOp::new(cx.ident("func.return"), loc, &cx)
        });
        let types = |values: &mut dyn Iterator<Item = ValueId>| -> Vec<Type> {
            values.map(|v| rw.module().ty(v)).collect()
        };
        let arg_types = types(&mut inputs.iter().map(|(_, v)| *v));
        let result_types = types(&mut results.iter().copied());
        let mut props = vec![
            (cx.ident("sym_name"), cx.string(kind)),
            (
                cx.ident("function_type"),
                cx.type_attr(cx.function_type(&arg_types, &result_types)),
            ),
        ];
        if !inputs.is_empty() {
            let args: Vec<_> = inputs
                .iter()
                .map(|(name, _)| cx.dict(vec![(cx.ident(NAME), cx.string(name))]))
                .collect();
            props.push((cx.ident("arg_attrs"), cx.array(&args)));
        }
        rw.set_props(func, cx.dict(props));
        let table = ProgramTable::to_attr(&cx, source.program, &forms);
        rw.set_attrs(
            func,
            cx.dict(vec![
                (cx.ident("dist.kind"), cx.string(kind)),
                (cx.ident(PROGRAM), table),
            ]),
        );
    }
}

/// A rank's variables, if renaming and sorting those of the class's first rank does not give them.
fn own_vars(
    first: &Program,
    own: &Program,
    names: &std::collections::BTreeMap<String, String>,
) -> Option<Vec<VarEntry>> {
    if std::ptr::eq(first, own) {
        return None;
    }
    let own = var_entries(own);
    let derived = super::export::renamed_vars(&var_entries(first), names);
    (own != derived).then_some(own)
}

fn ranks_attr(cx: &Context, mesh: &Mesh, set: &RankSet) -> Attr {
    let boxes = set.boxes().iter().map(|one| {
        let axes = mesh.axes().iter().zip(mesh.sizes()).zip(one);
        let named = axes.filter(|((_, size), indices)| indices.len() < **size);
        let entries = named.map(|((axis, _), indices)| {
            let indices: Vec<_> = indices.iter().map(|&i| i as i64).collect();
            (cx.ident(axis), cx.i64_array(&indices))
        });
        cx.dict(entries.collect())
    });
    let boxes: Vec<_> = boxes.collect();
    cx.array(&boxes)
}

/// `#dist.layout` with these axes per dimension, and those over which the value is a partial sum.
fn layout_attr(cx: &Context, dims: Vec<Vec<&str>>, partial: Vec<&str>) -> Attr {
    let dims = dims.into_iter();
    let dims = dims.map(|axes| axes.into_iter().map(|a| cx.ident(a)).collect());
    cx.attr(raddle_dialect::ir::AttrData::Layout(LayoutData {
        dims: dims.collect(),
        partial: partial.into_iter().map(|a| cx.ident(a)).collect(),
    }))
}

/// The functions of a class by kind.
fn function(module: &Module, class: OpId, kind: &str) -> Option<OpId> {
    module
        .block_ops(module.body(class))
        .find(|&op| module.is(op, "func.func") && module.str_attr(op, "dist.kind") == Some(kind))
}
