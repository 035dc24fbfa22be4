//! How globals and data inputs are spread over the mesh.
//!
//! A global is replicated over an axis iff `init` broadcasts it there or it has one element; state follows its parameter.
//! Which dimension of another global an axis cuts, and how data inputs lie, follows from the program: the rules in
//! [`rules`](super::rules) carry what is known along the ops. What stays open is decided in this order:
//!
//! 1. data inputs: replicated over tensor axes, cut along dimension 0 over data axes (those over which all parameters are
//!    replicated), with a remark;
//! 2. weights of products whose other operand is not cut along the summed dimension: cut along their columns;
//! 3. other globals: cut along dimension 0, with a remark.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Context, Loc, Module, OpId, Rewriter, ValueId};
use raddle_dialect::mesh::Mesh;
use rustc_hash::FxBuildHasher;

use super::super::form::{NAME, TIED};
use super::product::product_columns;
use super::rules::{Facts, Node, State};
use super::{function, layout_attr, slices, sums};

/// What to infer.
pub(super) struct Request<'a> {
    pub mesh: &'a Mesh,
    /// Layouts of data inputs that the mesh file gives.
    pub given: &'a BTreeMap<String, Vec<Vec<String>>>,
    pub mesh_loc: Loc,
    /// Axes along which every class has one index: nothing is cut there.
    pub pipeline: BTreeSet<String>,
    pub class: OpId,
}

/// A global while its layout is sought.
struct GlobalInfo {
    op: OpId,
    name: String,
    rank: usize,
    /// Per axis, whether every rank along it holds the same tensor.
    replicated: Vec<bool>,
    parameter: bool,
}

impl Request<'_> {
    /// Sets the layouts of the class's globals and of `step`'s arguments.
    pub(super) fn run(&self, rw: &mut Rewriter, diagnostics: &mut Diagnostics) {
        let module = rw.module();
        let (Some(init), Some(step)) = (
            function(module, self.class, "init"),
            function(module, self.class, "step"),
        ) else {
            return;
        };
        let globals = self.globals(module, init);
        let inputs: Vec<ValueId> = module.args(module.body(step)).to_vec();
        let names = input_names(module, step);
        let Some(given) = self.given_states(module, &names, &inputs, diagnostics) else {
            return;
        };
        let open = slices::open(module, step);
        if !open.is_empty() {
            let known: Vec<_> = (0..self.mesh.axes().len())
                .map(|axis| {
                    let facts = self.known(module, &globals, (&inputs, &given), axis);
                    open.iter()
                        .map(|&op| facts.get(Node::Value(module.result(op, 0))))
                        .collect()
                })
                .collect();
            slices::close(rw, self.mesh, &open, &known, diagnostics);
        }
        let module = rw.module();
        let mut layouts: Vec<Vec<State>> = vec![Vec::new(); globals.len() + inputs.len()];
        let mut defaulted = vec![false; inputs.len()];
        let mut guessed = vec![false; globals.len()];
        for axis in 0..self.mesh.axes().len() {
            let alone = self.is_alone(axis);
            let mut facts = self.known(module, &globals, (&inputs, &given), axis);
            let tensor = globals.iter().any(|g| g.parameter && !g.replicated[axis]);
            for (at, &value) in inputs.iter().enumerate() {
                if facts.get(Node::Value(value)) == State::Open {
                    let (state, remark) = match (alone, tensor, has_rows(module, value)) {
                        (false, false, true) => (State::Cut(0), true),
                        _ => (State::Replicated, !alone),
                    };
                    facts.set(Node::Value(value), state);
                    defaulted[at] |= remark;
                }
                facts.settle();
            }
            if !alone {
                guess(&mut facts, &globals, axis, &mut guessed);
            }
            for (at, global) in globals.iter().enumerate() {
                layouts[at].push(facts.get(Node::Global(global.op)));
            }
            for (at, &value) in inputs.iter().enumerate() {
                layouts[globals.len() + at].push(facts.get(Node::Value(value)));
            }
        }
        let ranks: Vec<usize> = inputs.iter().map(|&v| rank(module, v)).collect();
        self.report(
            rw,
            (&globals, &guessed),
            (&names, &defaulted, step),
            diagnostics,
        );
        self.write(rw, step, &globals, &ranks, &layouts);
    }

    /// What follows from globals, given layouts and the program alone.
    fn known<'m>(
        &'m self,
        module: &'m Module,
        globals: &[GlobalInfo],
        (inputs, given): (&[ValueId], &[Option<Vec<State>>]),
        axis: usize,
    ) -> Facts<'m> {
        let mut facts = Facts::new(module, self.class, &self.mesh.axes()[axis]);
        self.seed(&mut facts, globals, axis, self.is_alone(axis));
        for (value, states) in inputs.iter().zip(given) {
            if let Some(states) = states {
                facts.set(Node::Value(*value), states[axis]);
            }
        }
        facts.settle();
        facts
    }

    /// Whether a rank of the class meets no other along an axis.
    fn is_alone(&self, axis: usize) -> bool {
        self.mesh.sizes()[axis] == 1 || self.pipeline.contains(&self.mesh.axes()[axis])
    }

    fn globals(&self, module: &Module, init: OpId) -> Vec<GlobalInfo> {
        let cx = module.cx();
        let block = module.body(init);
        let mut broadcast: HashMap<&str, Vec<&str>, FxBuildHasher> = HashMap::default();
        for store in module
            .block_ops(block)
            .filter(|&o| module.is(o, "dist.store"))
        {
            if let Some(name) = module.symbol_attr(store, "global") {
                broadcast.insert(name, broadcast_axes(module, module.operand(store, 0)));
            }
        }
        let mut globals: Vec<GlobalInfo> = Vec::new();
        let mut by_name: HashMap<String, usize, FxBuildHasher> = HashMap::default();
        let ops = module.block_ops(module.body(self.class));
        for op in ops.filter(|&o| module.is(o, "dist.global")) {
            let name = module.str_attr(op, "sym_name").unwrap_or_default();
            let shape = module
                .attr(op, "type")
                .and_then(|a| cx.as_tensor(cx.as_type(a)?))
                .map_or(&[][..], |(shape, _)| shape);
            let scalar = shape.iter().all(|&d| d == 1);
            let over = broadcast.get(name).map_or(&[][..], |a| a);
            let replicated = self.mesh.axes().iter().zip(self.mesh.sizes());
            let replicated = replicated.map(|(axis, &size)| {
                scalar || size == 1 || self.pipeline.contains(axis) || over.contains(&axis.as_str())
            });
            by_name.insert(name.to_owned(), globals.len());
            globals.push(GlobalInfo {
                op,
                name: name.to_owned(),
                rank: shape.len(),
                replicated: replicated.collect(),
                parameter: module.str_attr(op, "kind") == Some("parameter"),
            });
        }
        // State of its parameter's shape follows it even where nothing broadcasts the state itself.
        for at in 0..globals.len() {
            let of = tied_to(module, globals[at].op);
            if let Some(&param) = of.and_then(|name| by_name.get(name))
                && same_shape(module, globals[at].op, globals[param].op)
            {
                globals[at].replicated = globals[param].replicated.clone();
            }
        }
        globals
    }

    fn seed(&self, facts: &mut Facts, globals: &[GlobalInfo], axis: usize, alone: bool) {
        let module = facts.module();
        let by_name: HashMap<&str, OpId, FxBuildHasher> =
            globals.iter().map(|g| (g.name.as_str(), g.op)).collect();
        for global in globals {
            if global.replicated[axis] || alone {
                facts.set(Node::Global(global.op), State::Replicated);
            } else {
                facts.forbid_replication(global.op);
                let of = tied_to(module, global.op);
                if let Some(&param) = of.and_then(|name| by_name.get(name))
                    && same_shape(module, global.op, param)
                {
                    facts.tie_globals(global.op, param);
                }
            }
        }
    }

    /// Per input with a given layout, its state per axis.
    fn given_states(
        &self,
        module: &Module,
        names: &[String],
        inputs: &[ValueId],
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<Option<Vec<State>>>> {
        let mut fail = |message: String| {
            diagnostics.push(
                Diagnostic::error("E0808", self.mesh_loc, message).help(format!(
                    "the data inputs are {names:?}; give one list of axes per dimension"
                )),
            );
        };
        let mut states = vec![None; inputs.len()];
        for (name, dims) in self.given {
            let Some(at) = names.iter().position(|n| n == name) else {
                fail(format!("`inputs` names `{name}`, which is no data input"));
                return None;
            };
            if dims.len() != rank(module, inputs[at]) {
                fail(format!("`inputs` gives `{name}` {} dimensions", dims.len()));
                return None;
            }
            let mut own = vec![State::Replicated; self.mesh.axes().len()];
            for (dim, axis) in dims
                .iter()
                .enumerate()
                .flat_map(|(d, a)| a.iter().map(move |a| (d, a)))
            {
                match self.mesh.axis(axis) {
                    Some(axis) if own[axis] == State::Replicated => own[axis] = State::Cut(dim),
                    Some(_) => {
                        fail(format!("`inputs` cuts `{name}` over `{axis}` twice"));
                        return None;
                    }
                    None => {
                        fail(format!(
                            "`inputs` cuts `{name}` over `{axis}`, which is no axis"
                        ));
                        return None;
                    }
                }
            }
            states[at] = Some(own);
        }
        Some(states)
    }

    fn report(
        &self,
        rw: &Rewriter,
        (globals, guessed): (&[GlobalInfo], &[bool]),
        (names, defaulted, step): (&[String], &[bool], OpId),
        diagnostics: &mut Diagnostics,
    ) {
        for (name, _) in names.iter().zip(defaulted).filter(|(_, d)| **d) {
            diagnostics.push(
                Diagnostic::remark(
                    "R0820",
                    rw.module().loc(step),
                    format!("the program does not say how data input `{name}` lies on all axes: \
                             it is taken as replicated over tensor axes and cut along dimension 0 over data axes"),
                )
                .help("say so under `inputs` in the mesh file"),
            );
        }
        for (global, _) in globals.iter().zip(guessed).filter(|(_, g)| **g) {
            diagnostics.push(Diagnostic::remark(
                "R0821",
                rw.module().loc(global.op),
                format!(
                    "the program does not say which dimension of `{}` is cut: it is taken to be the first",
                    global.name
                ),
            ));
        }
    }

    fn write(
        &self,
        rw: &mut Rewriter,
        step: OpId,
        globals: &[GlobalInfo],
        input_ranks: &[usize],
        layouts: &[Vec<State>],
    ) {
        let cx = rw.module().cx().clone();
        let sums = sums::reduced_axes(rw.module(), self.class);
        let layout = |states: &[State], rank: usize, reduced: &[String]| {
            let mut dims = vec![Vec::new(); rank];
            let axes = self.mesh.axes().iter().zip(states);
            let partial = axes
                .filter(|(axis, state)| !matches!(state, State::Cut(_)) && reduced.contains(axis))
                .map(|(axis, _)| axis.as_str())
                .collect();
            for (axis, state) in self.mesh.axes().iter().zip(states) {
                if let State::Cut(dim) = state
                    && let Some(dim) = dims.get_mut(*dim)
                {
                    dim.push(axis.as_str());
                }
            }
            layout_attr(&cx, dims, partial)
        };
        for (global, states) in globals.iter().zip(layouts) {
            let reduced = sums.get(&global.name).map_or(&[][..], |axes| axes);
            let layout = layout(states, global.rank, reduced);
            rw.set_attr(global.op, "layout", Some(layout));
        }
        let args = rw.module().attr(step, "arg_attrs");
        let Some(args) = args.and_then(|a| cx.as_array(a)) else {
            return;
        };
        let inputs = &layouts[globals.len()..];
        let args: Vec<_> = args
            .iter()
            .zip(inputs.iter().zip(input_ranks))
            .map(|(&arg, (states, &rank))| {
                cx.dict_with(arg, "dist.layout", Some(layout(states, rank, &[])))
            })
            .collect();
        rw.set_attr(step, "arg_attrs", Some(cx.array(&args)));
    }
}

/// Decides what the program leaves open about globals.
fn guess(facts: &mut Facts, globals: &[GlobalInfo], axis: usize, guessed: &mut [bool]) {
    for (node, dim) in product_columns(facts) {
        if facts.get(node) == State::Open && facts.distinct(node) {
            facts.set(node, State::Cut(dim));
            facts.settle();
        }
    }
    for (at, global) in globals.iter().enumerate() {
        let node = Node::Global(global.op);
        if !global.replicated[axis] && facts.get(node) == State::Open {
            guessed[at] |= global.rank > 1;
            facts.set(node, State::Cut(0));
            facts.settle();
        }
    }
}

/// The axes over which a value of `init` is broadcast last.
fn broadcast_axes(module: &Module, value: ValueId) -> Vec<&str> {
    let mut axes = Vec::new();
    let mut value = value;
    while let Some(op) = module.defining_op(value) {
        match module.name_str(op) {
            "dist.broadcast" => axes.extend(module.axes_attr(op, "axes")),
            "dist.identity" | "dist.cast" | "dist.scale" => {}
            _ => break,
        }
        value = module.operand(op, 0);
    }
    axes
}

fn input_names(module: &Module, step: OpId) -> Vec<String> {
    let cx = module.cx();
    let args = module.attr(step, "arg_attrs").and_then(|a| cx.as_array(a));
    let name = |&arg| cx.dict_get(arg, NAME).and_then(|a| cx.as_str(a));
    args.unwrap_or_default()
        .iter()
        .map(|arg| name(arg).unwrap_or_default().to_owned())
        .collect()
}

fn rank(module: &Module, value: ValueId) -> usize {
    shape(module.cx(), module, value).len()
}

fn has_rows(module: &Module, value: ValueId) -> bool {
    shape(module.cx(), module, value)
        .first()
        .is_some_and(|&d| d != 1)
}

fn shape<'a>(cx: &'a Context, module: &Module, value: ValueId) -> &'a [i64] {
    cx.as_tensor(module.ty(value))
        .map_or(&[], |(shape, _)| shape)
}

/// The parameter that a global lies like: the one it is state of, or whose gradients it adds up.
fn tied_to(module: &Module, global: OpId) -> Option<&str> {
    let of = module.symbol_attr(global, "of");
    of.or_else(|| module.symbol_attr(global, TIED))
}

fn same_shape(module: &Module, a: OpId, b: OpId) -> bool {
    let cx = module.cx();
    let shape = |op| {
        let ty = cx.as_type(module.attr(op, "type")?)?;
        Some(cx.as_tensor(ty)?.0)
    };
    shape(a) == shape(b)
}
