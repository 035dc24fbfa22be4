//! `split-backward` beside PaddlePaddle's own split of the same pipeline programs: the same jobs, and the same values read and
//! written across their borders, but for the differences that [`Jobs::split_like_raddle`] lists one by one.

mod paddle_files;
mod programs;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use paddle_files::{bring_in, pipeline_file, pipelines, rank_of};
use programs::inspect::{classes, function, run};
use raddle_dialect::ir::{Def, Module, OpId, ValueId};
use raddle_dialect::mesh::{Mesh, RankSet};
use raddle_dialect::ops::Effects;
use serde_json::Value;

type Names = BTreeSet<String>;

/// An op of one of Paddle's sub-programs.
#[derive(Clone, Debug)]
struct Op {
    kind: String,
    inputs: BTreeMap<String, Vec<String>>,
    outputs: BTreeMap<String, Vec<String>>,
}

impl Op {
    fn read(value: &Value) -> Self {
        let slots = |name: &str| {
            let slots = value[name].as_object().unwrap().iter();
            slots
                .map(|(slot, vars)| {
                    let vars = vars.as_array().unwrap().iter();
                    let vars = vars.map(|v| v.as_str().unwrap().to_owned());
                    (slot.clone(), vars.collect())
                })
                .collect()
        };
        Self {
            kind: value["type"].as_str().unwrap().to_owned(),
            inputs: slots("inputs"),
            outputs: slots("outputs"),
        }
    }

    fn one(&self, slot: &str) -> &str {
        let found = self.inputs.get(slot).or_else(|| self.outputs.get(slot));
        &found.unwrap_or_else(|| panic!("{} has no {slot}", self.kind))[0]
    }
}

/// What crosses the borders of jobs.
#[derive(Default, PartialEq, Eq, Debug)]
struct Borders {
    /// What B reads of the forward job and the data.
    forward_to_b: Names,
    /// What W reads of them.
    forward_to_w: Names,
    /// What W reads of B.
    b_to_w: Names,
    /// The sums that W adds to.
    sums: Names,
}

impl Borders {
    /// For jobs that are not split.
    fn joined(self) -> (Names, Names) {
        let reads = self.forward_to_b.union(&self.forward_to_w);
        (reads.cloned().collect(), self.sums)
    }
}

/// Paddle's jobs of one chunk.
struct Jobs<'a> {
    /// Shape, and whether it persists, of every variable.
    vars: HashMap<String, (&'a Value, bool)>,
    b: Vec<Op>,
    w: Vec<Op>,
    /// Values that are what came in, under another name.
    aliases: HashMap<String, String>,
}

impl<'a> Jobs<'a> {
    fn read(programs: &'a Value, b: &str, w: Option<&str>) -> Self {
        let mut vars = HashMap::new();
        for program in programs.as_object().unwrap().values() {
            for (name, var) in program["vars"].as_object().unwrap() {
                vars.insert(name.clone(), (&var[0], var[2].as_bool().unwrap()));
            }
        }
        let ops = |name: &str| -> Vec<Op> {
            let ops = programs[name]["ops"].as_array().unwrap();
            ops.iter().map(Op::read).collect()
        };
        Self {
            vars,
            b: ops(b),
            w: w.map_or_else(Vec::new, ops),
            aliases: HashMap::new(),
        }
    }

    /// Applies the differences between the two splits to Paddle's.
    fn split_like_raddle(mut self) -> Self {
        let mut b = Vec::new();
        let mut moved = Vec::new();
        let read: Names = self
            .b
            .iter()
            .filter(|op| !op.kind.starts_with("lookup_table"))
            .flat_map(|op| op.inputs.values().flatten().cloned())
            .collect();
        for op in std::mem::take(&mut self.b) {
            match op.kind.as_str() {
                // 1. Importing replaces the counter by dist.microbatches; there are no streams yet to be synchronised.
                "increment" | "elementwise_mod" | "equal" | "c_sync_calc_stream"
                | "c_sync_comm_stream" => {}
                // 2. Paddle leaves the gradients of gamma and beta in B.
                "layer_norm_grad" => {
                    let mut rest = op.clone();
                    rest.outputs.remove("X@GRAD");
                    let mut upstream = op;
                    upstream.outputs.retain(|slot, _| slot == "X@GRAD");
                    b.push(upstream);
                    moved.push(rest);
                }
                // 3. It leaves the gradients of biases there, too, and has an op where a value is passed on unchanged.
                "elementwise_add_grad" => {
                    let dout = op.one("Out@GRAD").to_owned();
                    for slot in ["X@GRAD", "Y@GRAD"] {
                        let result = op.one(slot).to_owned();
                        if self.vars[&result].0 == self.vars[&dout].0 {
                            self.aliases.insert(result, dout.clone());
                            continue;
                        }
                        moved.push(Op {
                            kind: "reduce_sum".into(),
                            inputs: [("X".into(), vec![dout.clone()])].into(),
                            outputs: [("Out".into(), vec![result])].into(),
                        });
                    }
                }
                // 4. With amp o1 a cast weight is no parameter to Paddle, and its product stays in B with its copies.
                "reshape2" => moved.push(op),
                "matmul_v2" if op.one("X").ends_with("@reshape.out") => moved.push(op),
                // 5. Only the gradient of the table reads the last sum on the first stage.
                "sum" if !read.contains(op.one("Out")) => moved.push(op),
                _ => b.push(op),
            }
        }
        self.b = b;
        moved.append(&mut self.w);
        self.w = moved;
        self
    }

    /// Both parts as one job.
    fn in_one(mut self) -> Self {
        self.w.append(&mut self.b);
        self
    }

    fn name(&self, var: &str) -> String {
        let mut var = var;
        while let Some(of) = self.aliases.get(var) {
            var = of;
        }
        var.to_owned()
    }

    fn borders(&self) -> Borders {
        let mut borders = Borders::default();
        let written = |ops: &[Op]| -> Names {
            let outputs = ops.iter().flat_map(|op| op.outputs.values().flatten());
            outputs.map(|name| self.name(name)).collect()
        };
        let (by_b, by_w) = (written(&self.b), written(&self.w));
        let reads = |ops: &[Op]| -> Names {
            let inputs = ops.iter().flat_map(|op| op.inputs.values().flatten());
            let inputs = inputs.filter(|name| !self.vars[*name].1);
            inputs.map(|name| self.name(name)).collect()
        };
        for name in reads(&self.b) {
            assert!(!by_w.contains(&name), "B reads {name} of W");
            if !by_b.contains(&name) {
                borders.forward_to_b.insert(name);
            }
        }
        for name in reads(&self.w) {
            if by_b.contains(&name) {
                borders.b_to_w.insert(name);
            } else if !by_w.contains(&name) {
                borders.forward_to_w.insert(name);
            }
        }
        let sums = by_b.into_iter().chain(by_w);
        borders.sums = sums.filter(|name| self.vars[name].1).collect();
        borders
    }
}

/// What a value was called in the imported program.
fn name_of(module: &Module, value: ValueId) -> String {
    let cx = module.cx();
    let name = match module.def(value) {
        Def::Result { op, index } => {
            let names = module.attr(op, "paddle.names").and_then(|a| cx.as_array(a));
            names.and_then(|names| cx.as_str(names[index as usize]))
        }
        Def::Arg { block, index } => {
            let function = module.block_parent_op(block);
            let args = module
                .attr(function, "arg_attrs")
                .and_then(|a| cx.as_array(a));
            args.and_then(|args| cx.as_str(cx.dict_get(args[index as usize], "paddle.name")?))
        }
        Def::Pending => None,
    };
    let at = module.defining_op(value).map(|op| module.name_str(op));
    name.unwrap_or_else(|| panic!("a value of {at:?} has no name"))
        .to_owned()
}

/// The same of a split `step`, for the ops of one stage.
fn borders(module: &Module, step: OpId, stage: i64) -> Borders {
    let mut borders = Borders::default();
    let part = |op| module.str_attr(op, "dist.part");
    for op in module.block_ops(module.body(step)) {
        if module.i64_attr(op, "dist.stage") != Some(stage) {
            continue;
        }
        let Some(side) = part(op) else {
            continue;
        };
        for value in module.operands(op) {
            let def = module.defining_op(value);
            if def.is_some_and(|def| module.is(def, "dist.load")) {
                continue;
            }
            let from = def.and_then(part);
            match (from, side) {
                (None, "b") => borders.forward_to_b.insert(name_of(module, value)),
                (None, _) => borders.forward_to_w.insert(name_of(module, value)),
                (Some("b"), "w") => borders.b_to_w.insert(name_of(module, value)),
                _ => false,
            };
        }
        if module.is(op, "dist.accumulate") {
            assert_eq!(side, "w", "a sum belongs to W");
            let sum = module.symbol_attr(op, "global").unwrap();
            borders.sums.insert(sum.to_owned());
        }
    }
    borders
}

#[test]
fn the_same_jobs_and_borders() {
    let mut compared = 0;
    for (program, cases) in pipelines() {
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let (module, _) = run(module, "builtin.module(split-backward)");
        for case in &cases {
            let name = &case.name;
            let file = pipeline_file(&format!("{name}.split.json"));
            let file: Value = serde_json::from_slice(&file).unwrap();
            let programs = &file["sub_programs"];
            if programs.is_null() {
                // Paddle failed on it.
                assert!(program.ends_with("_attn"), "{name}");
                continue;
            }
            let (class, mesh) = class_of(&module, rank_of(case));
            let step = function(&module, class, "step");
            let stages: BTreeSet<i64> = module
                .block_ops(module.body(step))
                .filter_map(|op| module.i64_attr(op, "dist.stage"))
                .collect();
            let jobs: BTreeSet<&str> = programs
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            check_job_list(&file["jobs"], &module, class, &jobs, name);
            for (chunk, &stage) in stages.iter().enumerate() {
                assert_eq!(stage as usize / mesh.sizes()[0], chunk);
                let job = |kind: &str| match stages.len() {
                    1 => kind.to_owned(),
                    _ => format!("{kind}{chunk}"),
                };
                assert!(jobs.contains(job("forward").as_str()), "{name}");
                let ours = borders(&module, step, stage);
                let whole = Jobs::read(programs, &job("backward"), None);
                let whole = whole.split_like_raddle().in_one().borders();
                if jobs.contains("backward_b") {
                    let theirs = Jobs::read(programs, "backward_b", Some("backward_w"));
                    let theirs = theirs.split_like_raddle().borders();
                    assert!(!ours.b_to_w.is_empty() && !ours.forward_to_w.is_empty());
                    assert_eq!(theirs, ours, "{name}");
                }
                assert_eq!(whole.joined(), ours.joined(), "{name}, chunk {chunk}");
                compared += 1;
            }
        }
    }
    assert_eq!(
        compared, 24,
        "every rank with sub-programs, two chunks each for VPP"
    );
}

fn class_of(module: &Module, rank: usize) -> (OpId, Mesh) {
    let found = classes(module).into_iter().find_map(|(_, class)| {
        let mesh = Mesh::of(module, class).unwrap();
        let set = RankSet::from_module(module, class, &mesh).unwrap();
        set.contains(&mesh.coordinate(rank))
            .then_some((class, mesh))
    });
    found.unwrap()
}

/// Every micro-batch has each job once, whole or split; the optimizer comes last, once.
fn check_job_list(list: &Value, module: &Module, class: OpId, jobs: &BTreeSet<&str>, name: &str) {
    let m = module.i64_attr(class, "dist.microbatches").unwrap();
    let mut seen: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for job in list.as_array().unwrap() {
        let kind = job[0].as_str().unwrap();
        assert!(jobs.contains(kind), "{name}: {kind}");
        assert!(
            seen.entry(kind)
                .or_default()
                .insert(job[1].as_i64().unwrap())
        );
    }
    let all: BTreeSet<i64> = (0..m).collect();
    for (kind, batches) in &seen {
        if kind.starts_with("forward") {
            assert_eq!(*batches, all, "{name}: {kind}");
        }
    }
    let part = |kind| seen.get(kind).cloned().unwrap_or_default();
    assert_eq!(part("backward_b"), part("backward_w"), "{name}");
    if jobs.contains("backward") {
        let together: BTreeSet<i64> = part("backward")
            .union(&part("backward_b"))
            .copied()
            .collect();
        assert_eq!(together, all, "{name}");
    }
    assert_eq!(part("optimizer").len(), 1);
    function(module, class, "optimizer");
}

/// What the forward job keeps for later is what Paddle keeps its collector from freeing, but for values of which only the shape is read.
#[test]
fn the_same_is_kept() {
    let mut compared = 0;
    for (_, cases) in pipelines() {
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let (module, _) = run(module, "builtin.module(split-backward)");
        for case in &cases {
            let file = pipeline_file(&format!("{}.split.json", case.name));
            let file: Value = serde_json::from_slice(&file).unwrap();
            let Some(kept) = file["skip_gc_vars"].as_array() else {
                continue;
            };
            let kept = kept.iter().find(|job| job[0] == "forward");
            let Some(kept) = kept else {
                continue;
            };
            let vars = file["sub_programs"]["forward"]["vars"].as_object().unwrap();
            let theirs: Names = kept[2]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                // Parameters are never freed.
                .filter(|name| vars.get(name).is_none_or(|var| var[2] == false))
                .collect();
            let (class, _) = class_of(&module, rank_of(case));
            let step = function(&module, class, "step");
            let mut ours = Names::new();
            for op in module.block_ops(module.body(step)) {
                if module.str_attr(op, "dist.part").is_none() {
                    continue;
                }
                let shape_only = usize::from(module.is(op, "dist.reduce_mean_grad"));
                for value in module.operands(op).skip(shape_only) {
                    let def = module.defining_op(value);
                    let of_job = def.is_some_and(|def| {
                        module.is(def, "dist.load") || module.str_attr(def, "dist.part").is_some()
                    });
                    if !of_job {
                        ours.insert(name_of(&module, value));
                    }
                }
            }
            assert_eq!(theirs, ours, "{}", case.name);
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared}");
}

/// Taken literally, B is for what leaves the stage: each of its ops talks to other ranks, or another op of B reads it.
#[test]
fn nothing_in_b_that_only_w_needs() {
    for (program, cases) in pipelines() {
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let (module, _) = run(module, "builtin.module(split-backward{upstream=sent})");
        for (_, class) in classes(&module) {
            let step = function(&module, class, "step");
            let part = |op| module.str_attr(op, "dist.part");
            for op in module.block_ops(module.body(step)) {
                if part(op) != Some("b") {
                    continue;
                }
                let talks = module.def_of(op).unwrap().effects == Effects::Communicates;
                let read = module
                    .results(op)
                    .flat_map(|r| module.uses(r))
                    .any(|u| part(u.op) == Some("b"));
                assert!(talks || read, "{program}: {}", module.name_str(op));
            }
        }
    }
}
