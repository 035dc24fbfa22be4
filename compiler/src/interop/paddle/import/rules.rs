//! What an op's operands and results tell about each other's layout, for one mesh axis at a time.
//!
//! A value is cut along a dimension, replicated, or a partial sum. Facts travel along ops in both directions until nothing
//! changes; the first fact about a value stays. Gradients pass on cuts only: a gradient may be partial where its value is
//! replicated.

use std::collections::{HashMap, HashSet};

use raddle_dialect::ir::{Module, OpId, ValueId};
use rustc_hash::FxBuildHasher;

use super::super::form::OPEN;
use super::function;
use super::product::Product;

/// What is known about a value on the axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Open,
    Replicated,
    Cut(usize),
    Partial,
}

/// What has a layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    Value(ValueId),
    Global(OpId),
}

/// What is known of the values of `step`.
pub(super) struct Facts<'m> {
    module: &'m Module,
    axis: &'m str,
    step: Option<OpId>,
    states: HashMap<Node, State, FxBuildHasher>,
    distinct: HashSet<Node, FxBuildHasher>,
    globals: HashMap<&'m str, OpId, FxBuildHasher>,
    accesses: HashMap<OpId, Vec<OpId>, FxBuildHasher>,
    ties: HashMap<OpId, Vec<OpId>, FxBuildHasher>,
    open: Vec<OpId>,
    queued: HashSet<OpId, FxBuildHasher>,
}

impl<'m> Facts<'m> {
    /// Nothing is known yet, but every op is to be looked at.
    pub(super) fn new(module: &'m Module, class: OpId, axis: &'m str) -> Self {
        let mut facts = Self {
            module,
            axis,
            step: function(module, class, "step"),
            states: HashMap::default(),
            distinct: HashSet::default(),
            globals: HashMap::default(),
            accesses: HashMap::default(),
            ties: HashMap::default(),
            open: Vec::new(),
            queued: HashSet::default(),
        };
        for op in module.block_ops(module.body(class)) {
            if module.is(op, "dist.global")
                && let Some(name) = module.str_attr(op, "sym_name")
            {
                facts.globals.insert(name, op);
            }
        }
        for op in facts.ops().collect::<Vec<_>>() {
            if let Some(global) = facts.accessed(op) {
                facts.accesses.entry(global).or_default().push(op);
            }
            facts.enqueue(op);
        }
        facts.open.reverse();
        facts
    }

    pub(super) fn module(&self) -> &'m Module {
        self.module
    }

    /// The ops of `step`.
    pub(super) fn ops(&self) -> impl Iterator<Item = OpId> + use<'m> {
        let module = self.module;
        self.step
            .into_iter()
            .flat_map(move |step| module.block_ops(module.body(step)))
    }

    fn accessed(&self, op: OpId) -> Option<OpId> {
        let name = match self.module.name_str(op) {
            "dist.load" | "dist.store" | "dist.accumulate" => {
                self.module.symbol_attr(op, "global")?
            }
            _ => return None,
        };
        self.globals.get(name).copied()
    }

    /// What is known about a node.
    pub(super) fn get(&self, node: Node) -> State {
        self.states.get(&node).copied().unwrap_or(State::Open)
    }

    /// The global is not the same on all ranks along the axis.
    pub(super) fn forbid_replication(&mut self, global: OpId) {
        self.distinct.insert(Node::Global(global));
        for &op in self.accesses.get(&global).map_or(&[][..], |a| a) {
            if self.module.is(op, "dist.load") {
                self.distinct.insert(Node::Value(self.module.result(op, 0)));
            }
        }
    }

    /// Whether ranks along the axis are known to hold unlike tensors here.
    pub(super) fn distinct(&self, node: Node) -> bool {
        self.distinct.contains(&node)
            || match node {
                // A converted parameter is as distinct as the parameter.
                Node::Value(value) => self
                    .module
                    .defining_op(value)
                    .filter(|&op| matches!(self.module.name_str(op), "dist.cast" | "dist.identity"))
                    .is_some_and(|op| {
                        self.distinct
                            .contains(&Node::Value(self.module.operand(op, 0)))
                    }),
                Node::Global(_) => false,
            }
    }

    /// Two globals lie alike.
    pub(super) fn tie_globals(&mut self, a: OpId, b: OpId) {
        self.ties.entry(a).or_default().push(b);
        self.ties.entry(b).or_default().push(a);
    }

    /// Learns something about a node; what is known already stays.
    pub(super) fn set(&mut self, node: Node, state: State) {
        if state == State::Open
            || self.get(node) != State::Open
            || (state == State::Replicated && self.distinct(node))
        {
            return;
        }
        self.states.insert(node, state);
        match node {
            Node::Value(value) => {
                let users: Vec<_> = self.module.uses(value).map(|u| u.op).collect();
                let def = self.module.defining_op(value);
                for op in users.into_iter().chain(def) {
                    self.enqueue(op);
                }
            }
            Node::Global(global) => {
                for op in self.accesses.get(&global).cloned().unwrap_or_default() {
                    self.enqueue(op);
                }
                for other in self.ties.get(&global).cloned().unwrap_or_default() {
                    self.set(Node::Global(other), state);
                }
            }
        }
    }

    fn enqueue(&mut self, op: OpId) {
        if self.queued.insert(op) {
            self.open.push(op);
        }
    }

    /// Carries facts along ops until nothing changes. Every node changes at most once, so this ends.
    pub(super) fn settle(&mut self) {
        while let Some(op) = self.open.pop() {
            self.queued.remove(&op);
            self.visit(op);
        }
    }

    /// What is known about a value.
    pub(super) fn of(&self, value: ValueId) -> State {
        self.get(Node::Value(value))
    }

    fn learn(&mut self, value: ValueId, state: State) {
        self.set(Node::Value(value), state);
    }

    /// The extents of a value.
    pub(super) fn shape(&self, value: ValueId) -> &'m [i64] {
        let ty = self.module.ty(value);
        self.module
            .cx()
            .as_tensor(ty)
            .map_or(&[], |(shape, _)| shape)
    }

    fn visit(&mut self, op: OpId) {
        let module = self.module;
        let operands: Vec<ValueId> = module.operands(op).collect();
        let results: Vec<ValueId> = module.results(op).collect();
        match module.name_str(op) {
            "dist.load" | "dist.store" => {
                if let Some(global) = self.accessed(op) {
                    let value = results.first().or(operands.first());
                    if let Some(&value) = value {
                        let (a, b) = (Node::Value(value), Node::Global(global));
                        self.set(b, self.get(a));
                        self.set(a, self.get(b));
                    }
                }
            }
            "dist.cast" | "dist.gelu" | "dist.relu" | "dist.sqrt" | "dist.clip" | "dist.scale"
            | "dist.identity" | "dist.clip_by_norm" => self.alike(&[operands[0], results[0]]),
            "dist.check_finite_and_unscale" | "dist.update_loss_scaling" => {
                self.alike(&[operands[0], results[0]]);
            }
            "dist.gelu_grad" | "dist.relu_grad" => {
                self.cut_alike(&[operands[0], operands[1], results[0]]);
            }
            "dist.reduce_sum_grad" | "dist.reduce_mean_grad" => {
                self.cut_alike(&[operands[0], results[0]]);
                self.carry_replication(&operands[1..], &results);
            }
            "dist.add" | "dist.sub" | "dist.mul" | "dist.div" | "dist.maximum" => {
                self.broadcasting(&operands, results[0]);
                self.carry_replication(&operands, &results);
            }
            "dist.add_grad" | "dist.mul_grad" => {
                self.broadcasting(&operands[..2], operands[2]);
                let groups = ["da", "db"].map(|name| module.result_in(op, name));
                for (value, grad) in operands.iter().zip(groups) {
                    if let Some(grad) = grad {
                        self.cut_alike(&[*value, grad]);
                    }
                }
            }
            "dist.sum" | "dist.any_of" => {
                let all: Vec<_> = operands.iter().chain(&results).copied().collect();
                self.cut_alike(&all);
                self.carry_replication(&operands, &results);
            }
            "dist.layer_norm" => {
                self.alike(&[operands[0], results[0]]);
                self.rows(op, &[operands[0]], &results[1..]);
            }
            "dist.layer_norm_grad" => {
                let (x, dy) = (operands[0], operands[operands.len() - 1]);
                let mut same = vec![x, dy];
                same.extend(module.result_in(op, "dx"));
                self.cut_alike(&same);
            }
            "dist.matmul" => {
                let product = Product::new(self, op, operands[0], operands[1], results[0]);
                self.product(&product);
                if self.of(operands[0]) == State::Replicated
                    && self.of(operands[1]) == State::Replicated
                {
                    self.learn(results[0], State::Replicated);
                }
            }
            "dist.matmul_grad" => {
                let product = Product::new(self, op, operands[0], operands[1], operands[2]);
                self.product(&product);
                let groups = ["da", "db"].map(|name| module.result_in(op, name));
                for (value, grad) in operands.iter().zip(groups) {
                    if let Some(grad) = grad {
                        self.cut_alike(&[*value, grad]);
                    }
                }
            }
            // What shifts the window is still to be found.
            "dist.slice" if module.attr(op, OPEN).is_some() => {}
            "dist.slice" => self.slice(op, operands[0], results[0]),
            "dist.concat" | "dist.split" => {
                let dim = module.i64_attr(op, "dim").unwrap_or(0) as usize;
                let all: Vec<_> = operands.iter().chain(&results).copied().collect();
                if !all.iter().any(|&v| self.of(v) == State::Cut(dim)) {
                    self.cut_alike(&all);
                }
                self.carry_replication(&operands, &results);
            }
            "dist.reduce_sum"
            | "dist.reduce_mean"
            | "dist.reduce_max"
            | "dist.reduce_any"
            | "dist.squared_l2_norm"
            | "dist.stack" => {
                self.carry_replication(&operands, &results);
            }
            "dist.embedding" => {
                if let State::Cut(dim) = self.of(operands[0]) {
                    self.learn(results[0], State::Cut(dim));
                }
                self.carry_replication(&operands, &results);
            }
            "dist.softmax" => self.alike(&[operands[0], results[0]]),
            "dist.softmax_grad" => self.cut_alike(&[operands[0], operands[1], results[0]]),
            "dist.softmax_cross_entropy" => {
                self.alike(&[operands[0], results[1]]);
                self.rows_of(operands[0], &[operands[1], results[0]]);
                self.rows_of(operands[1], &[operands[0]]);
                self.carry_replication(&operands, &results);
            }
            "dist.fill" => self.learn(results[0], State::Replicated),
            "dist.all_reduce" | "dist.reduce_scatter" | "dist.all_gather" | "dist.broadcast" => {
                self.collective(op, operands[0], results[0]);
            }
            "dist.sgd"
            | "dist.momentum"
            | "dist.merged_momentum"
            | "dist.dgc_momentum"
            | "dist.lars_momentum"
            | "dist.adam"
            | "dist.adamw"
            | "dist.adamax"
            | "dist.lamb"
            | "dist.decayed_adagrad" => {
                let shape = self.shape(operands[0]);
                let alike = operands.iter().chain(&results).copied();
                let alike: Vec<_> = alike.filter(|&v| self.shape(v) == shape).collect();
                self.alike(&alike);
            }
            _ => {}
        }
    }

    /// Values of one shape that lie alike.
    fn alike(&mut self, values: &[ValueId]) {
        let known = values.iter().map(|&v| self.of(v));
        let known = known.into_iter().find(|s| *s != State::Open);
        if let Some(state) = known {
            for &value in values {
                self.learn(value, state);
            }
        }
    }

    /// Values of one shape that are cut alike.
    fn cut_alike(&mut self, values: &[ValueId]) {
        let known = values.iter().map(|&v| self.of(v));
        let known = known.into_iter().find(|s| matches!(s, State::Cut(_)));
        if let Some(state) = known {
            for &value in values {
                self.learn(value, state);
            }
        }
    }

    /// Equal operands give equal results.
    fn carry_replication(&mut self, operands: &[ValueId], results: &[ValueId]) {
        if operands.iter().all(|&v| self.of(v) == State::Replicated) {
            for &result in results {
                self.learn(result, State::Replicated);
            }
        }
    }

    /// numpy broadcasting: dimensions are aligned at the last one; a cut of the result cuts every operand that has the
    /// whole extent there.
    fn broadcasting(&mut self, operands: &[ValueId], result: ValueId) {
        let rank = self.shape(result).len();
        for &operand in operands {
            let lead = rank - self.shape(operand).len().min(rank);
            if let State::Cut(dim) = self.of(operand)
                && self.shape(operand).get(dim) == self.shape(result).get(dim + lead)
            {
                self.learn(result, State::Cut(dim + lead));
            }
        }
        if let State::Cut(dim) = self.of(result) {
            for &operand in operands {
                let lead = rank - self.shape(operand).len().min(rank);
                if dim >= lead && self.shape(operand).get(dim - lead) == self.shape(result).get(dim)
                {
                    self.learn(operand, State::Cut(dim - lead));
                }
            }
        }
    }

    /// Statistics per row lie like the rows.
    fn rows(&mut self, op: OpId, values: &[ValueId], rows: &[ValueId]) {
        let begin = self.module.i64_attr(op, "begin_norm_axis").unwrap_or(0) as usize;
        for &value in values {
            match self.of(value) {
                State::Cut(dim) if dim >= begin => {}
                state => rows.iter().for_each(|&row| self.learn(row, state)),
            }
        }
    }

    /// Values that have one entry, or one row, per row of `value`.
    fn rows_of(&mut self, value: ValueId, others: &[ValueId]) {
        if let State::Cut(dim) = self.of(value) {
            for &other in others {
                if dim < self.shape(other).len() {
                    self.learn(other, State::Cut(dim));
                }
            }
        }
    }

    fn product(&mut self, p: &Product) {
        if self.of(p.a) == State::Cut(p.a_k) {
            self.learn(p.b, State::Cut(p.b_k));
        }
        if self.of(p.b) == State::Cut(p.b_k) {
            self.learn(p.a, State::Cut(p.a_k));
        }
        if self.of(p.b) == State::Cut(p.b_n) {
            self.learn(p.c, State::Cut(p.c_n));
        }
        if self.of(p.c) == State::Cut(p.c_n) {
            self.learn(p.b, State::Cut(p.b_n));
            self.learn(p.a, State::Replicated);
        }
        // Batch dimensions and rows, where b is a plain matrix.
        let last = p.c_n;
        if let State::Cut(dim) = self.of(p.c)
            && dim < last
            && let Some(dim) = p.row_of_c(dim)
        {
            self.learn(p.a, State::Cut(dim));
        }
        if let State::Cut(dim) = self.of(p.a)
            && dim != p.a_k
        {
            self.learn(p.c, State::Cut(p.c_of_row(dim)));
        }
    }

    fn slice(&mut self, op: OpId, x: ValueId, y: ValueId) {
        let module = self.module;
        let cx = module.cx();
        let dims = module.attr(op, "dims").and_then(|a| cx.as_i64_array(a));
        let axes = module.attr(op, "axes").and_then(|a| cx.as_array(a));
        for (dim, axes) in dims
            .unwrap_or_default()
            .iter()
            .zip(axes.unwrap_or_default())
        {
            if cx
                .as_string_array(*axes)
                .is_some_and(|axes| axes.contains(&self.axis))
            {
                self.learn(x, State::Replicated);
                self.learn(y, State::Cut(*dim as usize));
                return;
            }
        }
        for (from, to) in [(x, y), (y, x)] {
            match self.of(from) {
                State::Cut(dim) if self.shape(x).get(dim) == self.shape(y).get(dim) => {
                    self.learn(to, State::Cut(dim));
                }
                State::Replicated if from == x => self.learn(to, State::Replicated),
                _ => {}
            }
        }
    }

    fn collective(&mut self, op: OpId, x: ValueId, y: ValueId) {
        let module = self.module;
        let axes = module.axes_attr(op, "axes");
        if !axes.contains(&self.axis) {
            // The other ranks of the group lie on the same index of this axis.
            return self.alike(&[x, y]);
        }
        let dim = module.i64_attr(op, "dim").unwrap_or(0) as usize;
        match module.name_str(op) {
            "dist.all_gather" => {
                self.learn(y, State::Replicated);
                if axes.len() == 1 {
                    self.learn(x, State::Cut(dim));
                }
            }
            "dist.reduce_scatter" => {
                self.learn(x, State::Partial);
                self.learn(y, State::Cut(dim));
            }
            _ => self.learn(y, State::Replicated),
        }
    }
}
