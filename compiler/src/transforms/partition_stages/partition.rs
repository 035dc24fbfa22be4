//! One class on its way to one class for each pipeline rank: everything is planned before anything is written.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{
    Attr, BlockId, CloneMap, Ident, Module, NewOp, OpId, Position, Rewriter, ValueId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::emit::{self, Emitter, Spread};
use super::flow::Flow;
use super::functions::{self, Signature};
use super::layout::Pipeline;
use super::ranks::Ranks;
use super::shares::{Owners, Region, Shares};
use crate::analysis::jobs::{INPUT, LOSS, RESULT, VALUE, value_attrs};
use crate::analysis::stages::Stages;
use crate::analysis::step::{Role, Step};

/// A function's ops outside the forward and backward passes.
pub(super) struct Planned {
    pub function: OpId,
    emit: emit::Plan,
    pub shares: Shares,
}

impl Planned {
    fn of(function: OpId, region: &Region, owners: &mut Owners) -> Result<Self, Vec<Diagnostic>> {
        let shares = Shares::of(region, owners)?;
        Ok(Self {
            function,
            emit: emit::Plan::of(region, &shares),
            shares,
        })
    }
}

/// Everything that is planned before a class is cut.
pub(super) struct Plan {
    flow: Flow,
    /// The optimizer's ops in the step.
    pub within: Planned,
    /// Those in a function of its own, and `init`.
    pub apart: Vec<Planned>,
    owners: Owners,
    results: Vec<(ValueId, usize, u32)>,
}

/// A class on its way to one class for each pipeline rank.
pub(super) struct Partition<'p> {
    pub class: OpId,
    pub stages: &'p Stages,
    pub pipeline: &'p Pipeline,
    /// Axes along which the classes of the program differ.
    pub spans: &'p [String],
}

impl Partition<'_> {
    /// Writes the classes after the one that they come from; gives them by pipeline rank.
    pub fn write(&self, module: &mut Module, plan: &Plan, tags: &mut i64) -> Vec<OpId> {
        let mut rewriter = Rewriter::new(module);
        let classes = self.classes(&mut rewriter, plan);
        self.write_step(&mut rewriter, plan, &classes, tags);
        for apart in &plan.apart {
            self.write_apart(&mut rewriter, apart, &classes, tags);
        }
        classes
    }

    /// Plans everything; `agreed` says where some of the optimizer's collectives have to run.
    ///
    /// # Errors
    /// Diagnostics for what cannot be partitioned.
    pub fn plan(
        &self,
        module: &Module,
        agreed: &FxHashMap<OpId, Ranks>,
    ) -> Result<Plan, Vec<Diagnostic>> {
        let step = module
            .find_symbol(self.class, "step")
            .expect("the class has a step");
        let step = Step::of(module, step).expect("its stages are known");
        check_stages(&step, self.stages, self.pipeline)?;
        let flow = Flow::of(&step, self.stages, self.pipeline)?;
        let mut owners = owners(module, self.class, &flow);
        // Free ops of the step may be the optimizer's too.
        let ops =
            (0..step.ops.len()).filter(|&at| step.free[at] || step.roles[at] == Role::Optimizer);
        let homes = flow.reaches.iter();
        let homes = homes.map(|(&value, reach)| (value, self.pipeline.rank(reach.home.stage)));
        let region = Region {
            module,
            ops: ops.map(|at| step.ops[at]).collect(),
            homes: homes.collect(),
            count: self.pipeline.ranks,
            spans: self.spans,
            agreed,
        };
        let within = Planned::of(step.function, &region, &mut owners)?;
        let mut apart = Vec::new();
        let init = module.find_symbol(self.class, "init");
        let optimizer = module.find_symbol(self.class, "optimizer");
        for function in [optimizer, init].into_iter().flatten() {
            let Some(step) = Step::of(module, function) else {
                let message = "a function to be partitioned has to be a single block";
                return Err(vec![Diagnostic::error(
                    "E0644",
                    module.loc(function),
                    message,
                )]);
            };
            let region = Region {
                module,
                ops: step.ops,
                homes: FxHashMap::default(),
                count: self.pipeline.ranks,
                // What init broadcasts belongs to globals, which classes have alike.
                spans: match init == Some(function) {
                    true => &[],
                    false => self.spans,
                },
                agreed,
            };
            apart.push(Planned::of(function, &region, &mut owners)?);
        }
        let results = flow.returned.iter().enumerate();
        let results = results.map(|(number, &(value, rank))| (value, number, rank));
        Ok(Plan {
            results: results.collect(),
            flow,
            within,
            apart,
            owners,
        })
    }

    /// The classes, with their globals.
    fn classes(&self, rewriter: &mut Rewriter, plan: &Plan) -> Vec<OpId> {
        let cx = rewriter.cx().clone();
        let name = rewriter
            .symbol_name(self.class)
            .unwrap_or("main")
            .to_owned();
        let globals: Vec<_> = rewriter
            .block_ops(rewriter.body(self.class))
            .filter(|&op| rewriter.is(op, "dist.global"))
            .collect();
        let homes: Vec<Ranks> = globals
            .iter()
            .map(|&op| {
                let name = rewriter.symbol_name(op).unwrap_or_default();
                plan.owners.of(cx.ident(name))
            })
            .collect();
        let mut after = self.class;
        let mut classes = Vec::new();
        for rank in 0..self.pipeline.ranks {
            let name = cx.string(&format!("{name}_{}{rank}", self.pipeline.axis));
            let props = cx.dict_with(rewriter.props(self.class), "sym_name", Some(name));
            let ranks = self.ranks(rewriter, rank);
            let attrs = cx.dict_with(rewriter.attrs(self.class), "dist.ranks", Some(ranks));
            let loc = rewriter.loc(self.class);
            rewriter.set_insertion_point(Position::After(after));
            let class = rewriter.create(NewOp {
                regions: 1,
                props,
                attrs,
                ..NewOp::new(cx.ident("builtin.module"), loc, &cx)
            });
            let region = rewriter.regions(class)[0];
            let block = rewriter.append_block(region);
            rewriter.set_insertion_point(Position::End(block));
            for (&global, homes) in globals.iter().zip(&homes) {
                if homes.contains(rank) {
                    rewriter.clone_op(global, &mut CloneMap::default());
                }
            }
            classes.push(class);
            after = class;
        }
        classes
    }

    /// The ranks of the class that are at an index of the pipeline axis.
    fn ranks(&self, module: &Module, rank: u32) -> Attr {
        let cx = module.cx();
        let index = cx.i64_array(&[i64::from(rank)]);
        let sets = module
            .attr(self.class, "dist.ranks")
            .and_then(|a| cx.as_array(a));
        let sets = sets.unwrap_or_default().iter();
        let sets: Vec<_> = sets
            .map(|&set| cx.dict_with(set, &self.pipeline.axis, Some(index)))
            .collect();
        cx.array(&sets)
    }

    fn write_step(&self, rewriter: &mut Rewriter, plan: &Plan, classes: &[OpId], tags: &mut i64) {
        let cx = rewriter.cx().clone();
        let loc = rewriter.loc(plan.within.function);
        let mut written: Vec<(OpId, BlockId)> = Vec::new();
        for &class in classes {
            let at = Position::End(rewriter.body(class));
            let signature = Signature {
                name: "step".into(),
                kind: "step",
                attrs: vec![],
            };
            written.push(functions::create(rewriter, at, loc, &signature));
        }
        let mut locals = FxHashMap::default();
        let mut arguments: Vec<Vec<Attr>> = vec![Vec::new(); classes.len()];
        let block = rewriter.body(plan.within.function);
        for index in 0..rewriter.args(block).len() {
            let value = rewriter.args(block)[index];
            let mut ranks = plan.flow.arguments[index].clone();
            if let Some(needs) = plan.within.shares.needs.get(&value) {
                ranks.extend(needs);
            }
            let dict = value_attrs(rewriter, plan.within.function, "arg_attrs", index);
            let mut dict = dict.unwrap_or(cx.empty_dict());
            if cx.dict_get(dict, VALUE).is_none() {
                dict = cx.dict_with(dict, VALUE, Some(cx.string(&format!("arg{index}"))));
            }
            let dict = cx.dict_with(dict, INPUT, Some(cx.unit()));
            for rank in ranks.iter() {
                let (ty, loc) = (rewriter.ty(value), rewriter.arg_loc(block, index));
                let own = rewriter.add_arg(written[rank as usize].1, ty, loc);
                locals.insert((value, rank), own);
                arguments[rank as usize].push(dict);
            }
        }
        let spread = Spread::of(rewriter, plan.within.function);
        let mut emitter = Emitter {
            rewriter: &mut *rewriter,
            pipeline: self.pipeline,
            blocks: written.iter().map(|w| w.1).collect(),
            locals,
            parts: FxHashMap::default(),
            tags,
            role: Some(Role::Optimizer),
            spread: &spread,
        };
        emitter.flow(&plan.flow);
        // What the step returns is read before the optimizer makes copies of its own.
        let returned: Vec<_> = plan
            .results
            .iter()
            .map(|&(value, number, rank)| (emitter.locals[&(value, rank)], number, rank))
            .collect();
        emitter.shares(&plan.within.emit, &plan.within.shares);
        for (rank, &(function, _)) in written.iter().enumerate() {
            let own = returned.iter().filter(|r| r.2 as usize == rank);
            let own: Vec<_> = own
                .map(|&(value, number, _)| {
                    let mut dict = vec![(cx.ident(RESULT), cx.i64_attr(number as i64))];
                    dict.extend((number == 0).then(|| (cx.ident(LOSS), cx.unit())));
                    (value, cx.dict(dict))
                })
                .collect();
            functions::finish(rewriter, function, &arguments[rank], &own);
        }
    }

    /// The optimizer in a function of its own, or `init`.
    fn write_apart(
        &self,
        rewriter: &mut Rewriter,
        apart: &Planned,
        classes: &[OpId],
        tags: &mut i64,
    ) {
        let function = apart.function;
        let loc = rewriter.loc(function);
        let name = rewriter
            .symbol_name(function)
            .unwrap_or_default()
            .to_owned();
        let kind = rewriter
            .str_attr(function, "dist.kind")
            .unwrap_or(&name)
            .to_owned();
        let mut written = Vec::new();
        for &class in classes {
            // After the globals, before the step.
            let step = rewriter.find_symbol(class, "step");
            let at = match (&*kind, step) {
                ("init", Some(step)) => Position::Before(step),
                _ => Position::End(rewriter.body(class)),
            };
            let signature = Signature {
                name: name.clone(),
                kind: &kind,
                attrs: vec![],
            };
            written.push(functions::create(rewriter, at, loc, &signature));
        }
        let spread = Spread::of(rewriter, function);
        let mut emitter = Emitter {
            rewriter: &mut *rewriter,
            pipeline: self.pipeline,
            blocks: written.iter().map(|w| w.1).collect(),
            locals: FxHashMap::default(),
            parts: FxHashMap::default(),
            tags,
            role: (kind != "init").then_some(Role::Optimizer),
            spread: &spread,
        };
        emitter.shares(&apart.emit, &apart.shares);
        for (function, _) in written {
            functions::finish(rewriter, function, &[], &[]);
        }
    }
}

/// Every stage has something to do.
fn check_stages(step: &Step, stages: &Stages, pipeline: &Pipeline) -> Result<(), Vec<Diagnostic>> {
    let forward = (0..step.ops.len()).filter(|&at| step.roles[at] == Role::Forward);
    let busy: FxHashSet<u32> = forward.filter_map(|at| stages.get(at)).collect();
    let mut idle = (0..pipeline.stages).filter(|s| !busy.contains(s));
    let Some(first) = idle.next() else {
        return Ok(());
    };
    let mut message = format!(
        "no forward op belongs to stage {first} of {}",
        pipeline.stages
    );
    let more = idle.count();
    if more > 0 {
        message += &format!(", nor to {more} others");
    }
    let diagnostic = Diagnostic::error("E0644", step.module.loc(step.function), message);
    Err(vec![diagnostic.help(
        "stages are numbered from 0 without gaps; infer-stages labels a whole program",
    )])
}

/// Who has the globals, as far as the forward and backward passes say: a parameter's state lives with it.
fn owners(module: &Module, class: OpId, flow: &Flow) -> Owners {
    let cx = module.cx();
    let mut owners = Owners::default();
    let first = Ranks::one(0);
    let read = |global: Ident| flow.globals.get(&global).unwrap_or(&first).clone();
    for (name, op) in module.symbols(class) {
        if !module.is(op, "dist.global") {
            continue;
        }
        let global = cx.ident(name);
        let of = module.symbol_attr(op, "of").map(|of| cx.ident(of));
        match (module.str_attr(op, "kind"), of) {
            (Some("parameter"), _) => {
                owners.settled.insert(global, read(global));
            }
            (_, Some(parameter)) => {
                owners.settled.insert(global, read(parameter));
            }
            _ => {}
        }
    }
    for (&global, ranks) in &flow.accumulated {
        match ranks.len() {
            1 => owners.settled.insert(global, ranks.clone()),
            _ => owners.parts.insert(global, ranks.clone()),
        };
    }
    for &global in &flow.stored {
        owners.settled.insert(global, read(global));
    }
    for (&global, ranks) in &flow.globals {
        if !owners.settled.contains_key(&global) && !owners.parts.contains_key(&global) {
            owners.readers.insert(global, ranks.clone());
        }
    }
    owners
}
