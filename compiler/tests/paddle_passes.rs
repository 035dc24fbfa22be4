//! What passes leave can be exported, and means what the module meant.
//!
//! The exported programs are imported again; the loss and every stored global must be the same expression in both modules,
//! and the collectives the same in the same order. That catches variables that are overwritten too early, lost copies and
//! wrong slots.

mod paddle_files;
mod programs;

use std::collections::{BTreeMap, HashMap};

use paddle_files::{bring_in, complete_groups};
use programs::inspect::{classes, function, run};
use raddle_compiler::interop::paddle::{File, RankFiles, export, import};
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Context, Def, Module, OpId, ValueId, Verified};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::Effects;

/// Values as expressions, numbered so that equal ones have equal numbers in all functions that share it.
struct Expressions {
    mesh: Mesh,
    rank: usize,
    numbers: HashMap<(String, Vec<usize>), usize>,
}

impl Expressions {
    fn number(&mut self, what: String, of: Vec<usize>) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry((what, of)).or_insert(next)
    }

    /// What a function stores, by global (the loss under an empty name), and its collectives.
    fn summary(
        &mut self,
        module: &Module,
        function: OpId,
    ) -> (BTreeMap<String, usize>, Vec<usize>) {
        let mut known: HashMap<ValueId, usize> = HashMap::new();
        let mut stored = BTreeMap::new();
        let mut collectives = Vec::new();
        for op in module.block_ops(module.body(function)) {
            let operands: Vec<usize> = module
                .operands(op)
                .map(|v| match (known.get(&v), module.def(v)) {
                    (Some(&known), _) => known,
                    (None, Def::Arg { index, .. }) => {
                        self.number(format!("argument {index}"), vec![])
                    }
                    _ => panic!("a value is used before it is computed"),
                })
                .collect();
            match module.name_str(op) {
                "dist.store" => {
                    let global = module.symbol_attr(op, "global").unwrap();
                    stored.insert(global.to_owned(), operands[0]);
                }
                "func.return" => {
                    for loss in operands {
                        stored.insert(String::new(), loss);
                    }
                }
                _ => {
                    let results = self.results(module, op, operands);
                    if module.def_of(op).unwrap().effects == Effects::Communicates {
                        collectives.push(results[0]);
                    }
                    known.extend(module.results(op).zip(results));
                }
            }
        }
        (stored, collectives)
    }

    fn results(&mut self, module: &Module, op: OpId, mut operands: Vec<usize>) -> Vec<usize> {
        let name = module.name_str(op);
        match name {
            // Copies, and shapes that Paddle does not tell apart.
            "dist.identity" => return operands,
            "dist.reshape" => return operands,
            "dist.any_of" => {
                operands.sort_unstable();
                operands.dedup();
                let mut flags = operands.into_iter();
                let first = flags.next().unwrap();
                let all = flags.fold(first, |a, b| self.number("or".into(), vec![a, b]));
                return vec![all];
            }
            _ => {}
        }
        let cx = module.cx();
        let attrs: Vec<String> = cx
            .dict_entries(module.attrs(op))
            .iter()
            .filter(|(name, _)| {
                let name = cx.str(*name);
                let aside = [
                    "group",
                    "dist.role",
                    "operandSegmentSizes",
                    "resultSegmentSizes",
                ];
                !name.starts_with("paddle.") && !aside.contains(&name)
            })
            .map(|(name, value)| format!("{} = {}", cx.str(*name), cx.display(*value)))
            .collect();
        let attrs = match name {
            // Where the window lies on this rank; a class of fewer ranks may say it by fewer axes.
            "dist.slice" => self.window(module, op),
            _ => attrs,
        };
        let types: Vec<_> = module
            .results(op)
            .map(|r| cx.display(module.ty(r)).to_string())
            .collect();
        if name == "dist.split" {
            // Each part is a window.
            let dim = module.i64_attr(op, "dim").unwrap();
            let (shape, _) = cx.as_tensor(module.ty(module.result(op, 0))).unwrap();
            let size = shape[dim as usize];
            return (0..types.len())
                .map(|i| {
                    let window = vec![format!("{dim}: {} {size}", i as i64 * size)];
                    self.op("dist.slice", &window, &types[i..=i], operands.clone())[0]
                })
                .collect();
        }
        let activation = match module.str_attr(op, "activation") {
            None | Some("none") => return self.op(name, &attrs, &types, operands),
            Some("relu") => ("relu", vec![]),
            Some(gelu) => (
                "gelu",
                vec![format!("approximate = {}", gelu == "gelu_tanh")],
            ),
        };
        // The exporter writes the activation of a fused op as an op of its own.
        let plain: Vec<_> = attrs
            .iter()
            .map(|a| match a.starts_with("activation") {
                true => "activation = \"none\"".to_owned(),
                false => a.clone(),
            })
            .collect();
        let (function, attrs) = activation;
        // Without a bias it is a plain product.
        let biased = module
            .operand_in(op, "bias")
            .or(module.result_in(op, "dbias"))
            .is_some();
        let (name, plain) = match (biased, name) {
            (true, name) => (name, plain),
            (false, name) => (
                if name == "dist.fused_linear" {
                    "dist.matmul"
                } else {
                    "dist.matmul_grad"
                },
                plain
                    .into_iter()
                    .filter(|a| a.starts_with("transpose"))
                    .collect(),
            ),
        };
        let forward = matches!(name, "dist.fused_linear" | "dist.matmul");
        if forward {
            let linear = self.op(name, &plain, &types[..1], operands)[0];
            let function = format!("dist.{function}");
            let out = self.op(&function, &attrs, &types[..1], vec![linear])[0];
            vec![out, linear]
        } else {
            let aux = operands[3];
            let mut results = self.op(name, &plain, &types, operands[..3].to_vec());
            let function = format!("dist.{function}_grad");
            let from = vec![aux, results[0]];
            results[0] = self.op(&function, &attrs, &types[..1], from)[0];
            results
        }
    }

    fn op(&mut self, name: &str, attrs: &[String], types: &[String], of: Vec<usize>) -> Vec<usize> {
        let whole = self.number(format!("{name} {attrs:?} {types:?}"), of);
        (0..types.len())
            .map(|i| self.number(format!("result {i}"), vec![whole]))
            .collect()
    }
}

impl Expressions {
    fn window(&self, module: &Module, op: OpId) -> Vec<String> {
        let cx = module.cx();
        let list = |name| cx.as_i64_array(module.attr(op, name).unwrap()).unwrap();
        let axes = cx.as_array(module.attr(op, "axes").unwrap()).unwrap();
        let (dims, starts, sizes) = (list("dims"), list("starts"), list("sizes"));
        let coordinate = self.mesh.coordinate(self.rank);
        (0..dims.len())
            .map(|i| {
                let axes = cx.as_string_array(axes[i]).unwrap();
                let axes = self.mesh.axis_set(&axes).unwrap();
                let shift = self.mesh.index_in_group(&coordinate, &axes) as i64 * sizes[i];
                format!("{}: {} {}", dims[i], starts[i] + shift, sizes[i])
            })
            .collect()
    }
}

/// The class of a rank.
fn class_of(module: &Module, rank: usize) -> OpId {
    classes(module)
        .into_iter()
        .map(|(_, class)| class)
        .find(|&class| {
            let mesh = Mesh::of(module, class).unwrap();
            let set = RankSet::from_module(module, class, &mesh).unwrap();
            set.contains(&mesh.coordinate(rank))
        })
        .unwrap()
}

fn export_all(module: &Verified, meshes: &[Vec<u8>]) -> Verified {
    let mut diagnostics = Diagnostics::new();
    let programs: Vec<_> = (0..meshes.len())
        .map(|rank| export(module, rank, &mut diagnostics))
        .collect();
    let messages: Vec<_> = diagnostics.iter().map(|d| d.message.clone()).collect();
    let programs: Vec<_> = programs
        .into_iter()
        .map(|p| p.unwrap_or_else(|| panic!("{messages:#?}")))
        .collect();
    let files: Vec<_> = programs
        .iter()
        .zip(meshes)
        .map(|(programs, mesh)| {
            let file = |bytes| File {
                name: "exported",
                bytes,
            };
            RankFiles {
                main: file(&programs.main),
                startup: file(&programs.startup),
                mesh: file(mesh),
            }
        })
        .collect();
    let again = import(&Context::new(), &files, &mut diagnostics);
    let messages: Vec<_> = diagnostics.iter().map(|d| d.message.clone()).collect();
    again.unwrap_or_else(|| panic!("{messages:#?}"))
}

fn check(pipeline: &str) {
    let mut changed = 0;
    for mut cases in complete_groups() {
        cases.sort_by_key(paddle_files::rank_of);
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let (module, _) = run(module, pipeline);
        let meshes: Vec<_> = cases.iter().map(|c| c.mesh.clone()).collect();
        let again = export_all(&module, &meshes);
        for rank in 0..cases.len() {
            let mut expressions = Expressions {
                mesh: Mesh::of(&module, classes(&module)[0].1).unwrap(),
                rank,
                numbers: HashMap::new(),
            };
            for kind in ["init", "step"] {
                let (before, after) = [&module, &again]
                    .map(|m| expressions.summary(m, function(m, class_of(m, rank), kind)))
                    .into();
                let name = &cases[0].name;
                assert_eq!(before.0, after.0, "{name}: rank {rank}, {kind}");
                assert_eq!(
                    before.1, after.1,
                    "{name}: rank {rank}, {kind}: collectives"
                );
            }
        }
        changed += usize::from(classes(&module).len() > 1);
    }
    // All but the one whose ranks were classes before are split by the promotion.
    assert!(changed > 0 || !pipeline.contains("promote"), "{changed}");
}

#[test]
fn canonical_programs_mean_the_same() {
    check("builtin.module(canonicalize,cse,dce)");
}

#[test]
fn promoted_and_cleaned_programs_mean_the_same() {
    check("builtin.module(promote-linear,canonicalize,cse,dce)");
}

#[test]
fn fused_programs_mean_the_same() {
    check("builtin.module(promote-linear,fuse-linear)");
}
