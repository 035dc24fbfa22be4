//! What outlives a step: the persistable variables become `dist.global`s.

use std::collections::HashMap;

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Context, Type};
use rustc_hash::FxBuildHasher;

use super::super::fold::RankProgram;
use super::super::gradient_merge::{ACCUMULATE, GLOBAL};
use super::super::mapping::Mapping;
use super::super::program::Program;
use super::super::tables::tensor_type;
use super::super::value::Value;

/// Slots of optimizers that hold no state of the parameter.
const COMMON: [&str; 5] = [
    "Grad",
    "LearningRate",
    "SkipUpdate",
    "current_step",
    "nranks",
];

/// The globals of a class, in the order of the main program's variables.
#[derive(Default)]
pub(super) struct Globals {
    list: Vec<Global>,
    index: HashMap<String, usize, FxBuildHasher>,
}

/// One global.
pub(super) struct Global {
    pub name: String,
    pub ty: Type,
    pub parameter: bool,
    /// The parameter that it is optimizer state of.
    pub of: Option<String>,
    /// The parameter whose gradients it adds up.
    pub gradient_of: Option<String>,
}

impl Globals {
    /// Collects the persistable variables that ops of either program use. A variable of the same name in both programs is
    /// one global.
    pub(super) fn collect(cx: &Context, rank: &RankProgram, diagnostics: &mut Diagnostics) -> Self {
        let mut globals = Self::default();
        let optimizer = rank.merge.as_ref().map(|merge| &merge.optimizer);
        let both = [&rank.main, &rank.startup];
        let programs: Vec<&Program> = both.into_iter().chain(optimizer).collect();
        for &program in &programs {
            let used = used(program);
            for var in &program.vars {
                let name = var.name.as_str();
                let persists = programs.iter().any(|p| {
                    p.var(name)
                        .is_some_and(|v| v.desc.persistable == Some(true))
                });
                if !persists || !used.contains_key(name) {
                    continue;
                }
                let loc = program.loc(cx, used[name]);
                let parameter = var.desc.is_parameter == Some(true);
                match (tensor_type(cx, &var.desc), globals.index.get(name)) {
                    (None, _) => diagnostics.push(
                        Diagnostic::error(
                            "E0816",
                            loc,
                            format!("variable `{name}` is not a dense tensor of a known data type"),
                        )
                        .help("only LOD_TENSOR variables are imported"),
                    ),
                    (Some(ty), None) => {
                        globals.index.insert(var.name.clone(), globals.list.len());
                        globals.list.push(Global {
                            name: var.name.clone(),
                            ty,
                            parameter,
                            of: None,
                            gradient_of: None,
                        });
                    }
                    (Some(ty), Some(&at)) => {
                        globals.list[at].parameter |= parameter;
                        if globals.list[at].ty != ty {
                            diagnostics.push(
                                Diagnostic::error(
                                    "E0817",
                                    loc,
                                    format!("`{name}` has another type in the startup program"),
                                )
                                .help("both programs declare a persistable variable alike"),
                            );
                        }
                    }
                }
            }
        }
        for program in std::iter::once(&rank.main).chain(optimizer) {
            globals.find_state(program);
        }
        globals.find_sums(&rank.main, optimizer);
        globals
    }

    /// Marks what optimizer ops keep for their parameters.
    fn find_state(&mut self, main: &Program) {
        for op in &main.ops {
            let Some(mapping) = Mapping::of_paddle(&op.kind).filter(|m| m.is_optimizer()) else {
                continue;
            };
            let of_param = mapping
                .inputs
                .iter()
                .filter(|slot| !COMMON.contains(slot) && **slot != "Param");
            for slot in of_param {
                // Lists of equal length, or one each.
                for (param, name) in op.input("Param").iter().zip(op.input(slot)) {
                    if let Some(&at) = self.index.get(name)
                        && self.index.contains_key(param)
                    {
                        self.list[at].of = Some(param.clone());
                    }
                }
            }
        }
    }

    /// Marks what adds up gradients: by the optimizer op that takes it for a gradient, or else by name.
    fn find_sums(&mut self, main: &Program, optimizer: Option<&Program>) {
        let sums = main.ops.iter().filter(|op| op.kind == ACCUMULATE);
        let sums: Vec<&str> = sums
            .filter_map(|op| op.attr(GLOBAL).and_then(Value::as_str))
            .collect();
        let mut of: HashMap<&str, &str, FxBuildHasher> = HashMap::default();
        for op in optimizer.into_iter().flat_map(|program| &program.ops) {
            if let ([gradient], [parameter]) = (op.input("Grad"), op.input("Param")) {
                of.insert(gradient, parameter);
            }
        }
        for sum in sums {
            let named = sum.strip_suffix("@GRAD@MERGE");
            let parameter = of.get(sum).copied().or(named);
            let known = parameter.filter(|name| self.index.contains_key(*name));
            if let (Some(parameter), Some(&at)) = (known, self.index.get(sum)) {
                self.list[at].gradient_of = Some(parameter.to_owned());
            }
        }
    }

    /// A global by name.
    pub(super) fn get(&self, name: &str) -> Option<&Global> {
        self.index.get(name).map(|&at| &self.list[at])
    }

    /// All globals.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Global> {
        self.list.iter()
    }
}

/// The variables that ops of a program use, with the first op that does.
fn used(program: &Program) -> HashMap<&str, usize, FxBuildHasher> {
    let mut used = HashMap::default();
    for (at, op) in program.ops.iter().enumerate() {
        for slot in op.inputs.iter().chain(&op.outputs) {
            for arg in &slot.args {
                used.entry(arg.as_str()).or_insert(at);
            }
        }
    }
    used
}
