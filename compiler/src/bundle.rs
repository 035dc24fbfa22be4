//! Writes a verified module as a bundle: the plain data that the runtime plays.
//!
//! ```text
//! %2 = dist.matmul %0, %1 : …        Instr { op: "dist.matmul", operands: [0, 1], results: [(2, 4x16xf32)], … }
//! ```

use std::collections::{BTreeMap, HashMap};

use raddle_bundle::{
    Bundle, Class, Function, FunctionKind, Global, GlobalKind, Instr, Kernels, Layout, Mesh, Param,
    Reg, Return, Schedule, ScheduledJob, Source, Target, TensorType, VERSION, Value,
};
use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Attr, AttrData, Context, DYNAMIC, Module, OpId, Type, ValueId, Verified};
use raddle_dialect::ops;

use rustc_hash::FxHashSet;

use crate::schedule::{self, Action, Compute};

/// Writes the classes of a module as a bundle.
///
/// Returns nothing, with the reasons in `diagnostics`, if the module does not have the shape of a program (a mesh, and one
/// nested module per rank class), or uses types or control flow that a bundle cannot hold.
pub fn lower(module: &Verified, diagnostics: &mut Diagnostics) -> Option<Bundle> {
    let mut lowering = Lowering {
        module,
        found: Diagnostics::new(),
    };
    let bundle = lowering.bundle();
    let failed = lowering.found.has_errors();
    diagnostics.extend(lowering.found.take());
    bundle.filter(|_| !failed)
}

struct Lowering<'m> {
    module: &'m Module,
    found: Diagnostics,
}

impl Lowering<'_> {
    fn error(&mut self, op: OpId, message: impl Into<String>) {
        let loc = self.module.loc(op);
        self.found.push(Diagnostic::error("E0701", loc, message));
    }

    fn bundle(&mut self) -> Option<Bundle> {
        let module = self.module;
        let top = module.root();
        let Some(mesh) = module.members(top, "dist.mesh").next() else {
            let loc = module.loc(module.root());
            self.found.push(
                Diagnostic::error("E0702", loc, "the module has no 'dist.mesh'").help(
                    "a program is a module with a dist.mesh and one nested module per rank class",
                ),
            );
            return None;
        };
        let cx = module.cx();
        let sizes = module.attr(mesh, "sizes").and_then(|a| cx.as_i64_array(a));
        let mesh = Mesh {
            axes: module
                .axes_attr(mesh, "axes")
                .iter()
                .map(|a| a.to_string())
                .collect(),
            sizes: sizes
                .unwrap_or_default()
                .iter()
                .map(|&s| s as usize)
                .collect(),
        };
        let classes = module.members(top, "builtin.module");
        let classes = classes.map(|class| self.class(class)).collect();
        let schedule = module.members(top, "dist.schedule").next();
        Some(Bundle {
            version: VERSION,
            mesh,
            classes,
            schedule: schedule.and_then(|op| self.schedule(op)),
            kernels: Kernels::default(),
        })
    }

    /// The jobs of a `dist.schedule`. Where transfers go is for real machines; here they are part of the jobs.
    fn schedule(&mut self, op: OpId) -> Option<Schedule> {
        let module = self.module;
        let mut jobs = Vec::new();
        for line in module.axes_attr(op, "actions") {
            let mut list = Vec::new();
            for word in line.split_whitespace() {
                match Action::parse(word) {
                    Ok(action) => list.extend(action.iter().flat_map(Action::ops).map(job)),
                    Err(error) => {
                        self.error(op, format!("the action '{word}' {error}"));
                        return None;
                    }
                }
            }
            jobs.push(list);
        }
        Some(Schedule {
            axis: module.str_attr(op, "axis").unwrap_or("pp").to_owned(),
            jobs,
        })
    }

    fn class(&mut self, class: OpId) -> Class {
        let module = self.module;
        let body = module.body(class);
        let ranks = module.attr(class, "dist.ranks");
        let ranks = ranks
            .and_then(|a| module.cx().as_array(a))
            .unwrap_or_default();
        let ranks = ranks.iter().map(|&set| self.rank_set(set)).collect();
        let mut globals = Vec::new();
        let mut functions = Vec::new();
        for op in module.block_ops(body) {
            match module.name_str(op) {
                "dist.global" => globals.extend(self.global(op)),
                "func.func" => functions.extend(self.function(op)),
                other => {
                    let message = format!("'{other}' cannot stand in a rank class");
                    self.error(op, message);
                }
            }
        }
        Class {
            name: module.symbol_name(class).unwrap_or("main").to_owned(),
            ranks,
            microbatches: module
                .i64_attr(class, "dist.microbatches")
                .unwrap_or(1)
                .max(1) as usize,
            globals,
            functions,
        }
    }

    fn rank_set(&self, set: Attr) -> BTreeMap<String, Vec<usize>> {
        let cx = self.module.cx();
        let entries = cx.dict_entries(set).iter();
        entries
            .map(|&(axis, indices)| {
                let indices = cx.as_i64_array(indices).unwrap_or_default();
                let indices = indices.iter().map(|&i| i as usize).collect();
                (cx.str(axis).to_owned(), indices)
            })
            .collect()
    }

    fn global(&mut self, op: OpId) -> Option<Global> {
        let module = self.module;
        let ty = module
            .attr(op, "type")
            .and_then(|a| module.cx().as_type(a))?;
        Some(Global {
            name: module.symbol_name(op)?.to_owned(),
            ty: self.tensor(op, ty)?,
            kind: match module.str_attr(op, "kind") {
                Some("parameter") => GlobalKind::Parameter,
                Some("state") => GlobalKind::State,
                _ => GlobalKind::Buffer,
            },
            layout: self.layout(module.attr(op, "layout")),
            of: module.symbol_attr(op, "of").map(str::to_owned),
        })
    }

    fn layout(&self, attr: Option<Attr>) -> Layout {
        let cx = self.module.cx();
        match attr.map(|a| cx.attr_data(a)) {
            Some(AttrData::Layout(layout)) => {
                let names = |axes: &[_]| axes.iter().map(|&a| cx.str(a).to_owned()).collect();
                Layout {
                    dims: layout.dims.iter().map(|axes| names(axes)).collect(),
                    partial: names(&layout.partial),
                }
            }
            _ => Layout::default(),
        }
    }

    fn tensor(&mut self, op: OpId, ty: Type) -> Option<TensorType> {
        let cx = self.module.cx();
        let Some((shape, element)) = cx.as_tensor(ty) else {
            let message = format!("a bundle holds tensors only, not '{}'", cx.display(ty));
            self.error(op, message);
            return None;
        };
        if shape.contains(&DYNAMIC) {
            self.error(op, "a bundle holds tensors of static shape only");
            return None;
        }
        Some(TensorType {
            shape: shape.iter().map(|&extent| extent as usize).collect(),
            dtype: cx.display(element).to_string(),
        })
    }

    fn function(&mut self, func: OpId) -> Option<Function> {
        let module = self.module;
        let name = module.symbol_name(func)?.to_owned();
        let Some(kind) = module
            .str_attr(func, "dist.kind")
            .and_then(FunctionKind::parse)
        else {
            self.error(func, format!("function '@{name}' has no 'dist.kind'"));
            return None;
        };
        let mut blocks = module.blocks(*module.regions(func).first()?);
        let (Some(body), None) = (blocks.next(), blocks.next()) else {
            self.error(func, format!("function '@{name}' is not a single block"));
            return None;
        };
        let mut registers = Registers::default();
        let mut params = Vec::new();
        for (at, &arg) in module.args(body).iter().enumerate() {
            let attr = |name| self.value_attr(func, "arg_attrs", at, name);
            let named = attr("dist.value").and_then(|a| module.cx().as_str(a));
            let source = match named {
                Some(name) if kind != FunctionKind::Step && attr("dist.input").is_none() => {
                    Source::Value(name.to_owned())
                }
                Some(name) => Source::Input(name.to_owned()),
                None => Source::Input(format!("arg{at}")),
            };
            let layout = self.layout(attr("dist.layout"));
            params.push(Param {
                reg: registers.of(arg),
                ty: self.tensor(func, module.ty(arg))?,
                layout,
                source,
            });
        }
        let mut instrs = Vec::new();
        let mut returned = Vec::new();
        let mut freed = FxHashSet::default();
        for op in module.block_ops(body) {
            if let Some(value) = module.operands(op).find(|value| freed.contains(value)) {
                let freed = module.uses(value).find(|u| module.is(u.op, "dist.free"));
                let message = format!(
                    "'{}' reads a value whose storage has ended",
                    module.name_str(op)
                );
                let at = freed.map(|u| module.loc(u.op).into());
                let diagnostic = Diagnostic::error("E0703", module.loc(op), message);
                self.found.push(diagnostic.note(at, "freed here"));
            }
            match module.name_str(op) {
                "dist.free" => {
                    freed.insert(module.operand(op, 0));
                    continue;
                }
                // The runtime that plays bundles has one stream.
                "dist.event_record" | "dist.event_wait" => continue,
                _ => {}
            }
            let operands = module.operands(op).map(|v| registers.of(v)).collect();
            if module.is(op, "func.return") {
                returned = operands;
                continue;
            }
            if !module.regions(op).is_empty() {
                let message = format!(
                    "'{}' has a region, which a bundle cannot hold",
                    module.name_str(op)
                );
                self.error(op, message);
            }
            let results = module.results(op).map(|value| {
                let ty = self.tensor(op, module.ty(value))?;
                Some((registers.of(value), ty))
            });
            let results = results.collect::<Option<Vec<_>>>();
            let Some(results) = results else { continue };
            instrs.push(Instr {
                op: module.name_str(op).to_owned(),
                operands,
                results,
                attrs: self.attrs(op),
                location: module.cx().display(module.loc(op)).to_string(),
                kernels: None,
            });
        }
        let returns = returned.into_iter().enumerate();
        let returns = returns.flat_map(|(at, reg)| {
            let targets = self.targets(func, kind, at);
            targets
                .into_iter()
                .map(move |target| Return { reg, target })
        });
        let number = |name| usize::try_from(module.i64_attr(func, name)?).ok();
        Some(Function {
            name,
            kind,
            chunk: number("dist.chunk").unwrap_or(0),
            stage: number("dist.stage").unwrap_or(0),
            params,
            instrs,
            returns: returns.collect(),
            registers: registers.0.len(),
        })
    }

    /// Where a result goes: to later jobs, out of the step, or both. What `step` returns is the step's.
    fn targets(&self, func: OpId, kind: FunctionKind, at: usize) -> Vec<Target> {
        let cx = self.module.cx();
        let attr = |name| self.value_attr(func, "res_attrs", at, name);
        let mut targets = Vec::new();
        if let Some(name) = attr("dist.value").and_then(|a| cx.as_str(a)) {
            targets.push(Target::Value(name.to_owned()));
        }
        let numbered = attr("dist.result")
            .and_then(|a| cx.as_i64(a))
            .and_then(|i| usize::try_from(i).ok());
        let result = numbered
            .or(attr("dist.loss").map(|_| 0))
            .or((kind == FunctionKind::Step).then_some(at));
        targets.extend(result.map(Target::Result));
        targets
    }

    /// An attribute of an argument or result of a function.
    fn value_attr(&self, func: OpId, list: &str, index: usize, name: &str) -> Option<Attr> {
        let cx = self.module.cx();
        let dicts = self.module.attr(func, list).and_then(|a| cx.as_array(a))?;
        cx.dict_get(*dicts.get(index)?, name)
    }

    /// The op's own attributes; discardable ones (`dist.role`, `paddle.…`) mean nothing to a player.
    fn attrs(&self, op: OpId) -> BTreeMap<String, Value> {
        let cx = self.module.cx();
        let entries = cx.dict_entries(self.module.attrs(op)).iter();
        entries
            .filter(|(name, _)| !cx.str(*name).contains('.'))
            .filter_map(|&(name, attr)| Some((cx.str(name).to_owned(), value(cx, attr)?)))
            .collect()
    }
}

fn job(op: &schedule::Op) -> ScheduledJob {
    ScheduledJob {
        kind: match op.kind {
            Compute::Forward => FunctionKind::Forward,
            Compute::InputGrad => FunctionKind::BackwardB,
            Compute::WeightGrad => FunctionKind::BackwardW,
            Compute::Backward => FunctionKind::Backward,
        },
        stage: op.stage.index(),
        microbatch: op.microbatch.index(),
    }
}

/// A unit attribute, or a plain value.
fn value(cx: &Context, attr: Attr) -> Option<Value> {
    if attr == cx.unit() {
        return Some(Value::Unit);
    }
    ops::value(cx, attr).map(bundled)
}

fn bundled(value: ops::Value) -> Value {
    match value {
        ops::Value::Bool(v) => Value::Bool(v),
        ops::Value::Int(v) => Value::Int(v),
        ops::Value::Float(v) => Value::Float(v),
        ops::Value::Str(v) => Value::Str(v),
        ops::Value::Ints(v) => Value::Ints(v),
        ops::Value::List(v) => Value::List(v.into_iter().map(bundled).collect()),
        ops::Value::Dict(v) => Value::Dict(v.into_iter().map(|(k, v)| (k, bundled(v))).collect()),
    }
}

/// Numbers values as they are met.
#[derive(Default)]
struct Registers(HashMap<ValueId, Reg>);

impl Registers {
    fn of(&mut self, value: ValueId) -> Reg {
        let next = self.0.len();
        *self.0.entry(value).or_insert(next)
    }
}
