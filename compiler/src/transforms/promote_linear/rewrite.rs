//! Carries a plan out in the class of one part: moves the bias before the reduction where it is kept, takes it away where it is not.

use rustc_hash::FxHashMap;

use raddle_dialect::ir::{Attr, AttrData, LayoutData, OpId, Position, Rewriter};
use raddle_dialect::mesh::Mesh;

use super::facts::Facts;
use super::flow::Reduction;
use super::parts::Copied;
use super::plan::{Broadcast, Plan};
use crate::transforms::dce::erase_dead_among;

/// What of the order of ops has to be known once the module is being changed.
#[derive(Default)]
pub struct Moves {
    /// Per layer of a plan: what stands behind the collective and has to be moved before it.
    late: Vec<Vec<OpId>>,
}

impl Moves {
    /// For the layers of a plan. A load or cast that several layers share moves with the first.
    pub fn new(facts: &Facts, plan: &Plan) -> Self {
        let mut moved = rustc_hash::FxHashSet::default();
        let late = plan.linears.iter().map(|linear| {
            let late = |op: &&OpId| facts.precedes(linear.comm, **op);
            let chain = linear.chain.iter().filter(late).copied();
            chain.filter(|&op| moved.insert(op)).collect()
        });
        Self {
            late: late.collect(),
        }
    }
}

/// Rewrites the copies of a plan's ops.
pub struct Rewrite<'a, 'm> {
    /// The editor.
    pub rewriter: &'a mut Rewriter<'m>,
    /// The mesh.
    pub mesh: &'a Mesh,
    /// From the analysed class to this part's.
    pub copied: &'a Copied,
}

impl Rewrite<'_, '_> {
    /// Puts the bias before the reduction.
    pub fn keep(&mut self, plan: &Plan, moves: &Moves) {
        for (linear, late) in plan.linears.iter().zip(&moves.late) {
            let [comm, add, matmul] =
                [linear.comm, linear.add, linear.matmul].map(|op| self.copied.op(op));
            let product = self.rewriter.result(matmul, 0);
            let (reduced, sum) = (self.rewriter.result(comm, 0), self.rewriter.result(add, 0));
            for &op in late {
                self.rewriter
                    .move_op(self.copied.op(op), Position::Before(comm));
            }
            self.rewriter.move_op(add, Position::Before(comm));
            self.rewriter
                .set_operand(add, linear.product_operand(), product);
            self.take_place(comm, add);
            self.rewriter.replace_uses(sum, reduced);
            self.rewriter.set_type(sum, self.rewriter.ty(product));
            self.rewriter.set_operand(comm, 0, sum);
        }
        for gradient in &plan.gradients {
            let linear = &plan.linears[gradient.linear];
            let product = self.rewriter.result(self.copied.op(linear.matmul), 0);
            let op = self.copied.op(gradient.op);
            self.rewriter
                .set_operand(op, linear.product_operand(), product);
            let (Some(gather), Some(own)) = (gradient.gather, gradient.product) else {
                continue;
            };
            let (gather, own) = (self.copied.op(gather), self.copied.value(own));
            let whole = self.rewriter.result(gather, 0);
            self.rewriter.move_op(gather, Position::Before(op));
            // The gradient passes through an add unchanged: what read the add's gradient reads what came in.
            self.rewriter
                .replace_uses(own, self.copied.value(gradient.dout));
            self.rewriter.replace_uses(whole, own);
            self.rewriter.set_operand(op, 2, whole);
            self.rewriter.set_type(own, self.rewriter.ty(whole));
        }
        for reduction in &plan.flow.reductions {
            self.reduce_less(reduction, plan);
        }
        for broadcast in &plan.broadcasts {
            self.broadcast_less(broadcast);
        }
        for &global in &plan.globals {
            self.own(self.copied.op(global), &plan.axes);
        }
    }

    /// Takes the bias and everything that only serves it away.
    pub fn drop(&mut self, plan: &Plan, siblings: &FxHashMap<OpId, OpId>) {
        for linear in &plan.linears {
            let [comm, add] = [linear.comm, linear.add].map(|op| self.copied.op(op));
            self.take_place(comm, add);
            let (reduced, sum) = (self.rewriter.result(comm, 0), self.rewriter.result(add, 0));
            self.rewriter.replace_uses(sum, reduced);
        }
        for gradient in &plan.gradients {
            if let Some(gather) = gradient.gather {
                let before = Position::Before(self.copied.op(gradient.op));
                self.rewriter.move_op(self.copied.op(gather), before);
            }
            if let Some(product) = gradient.product {
                let dout = self.copied.value(gradient.dout);
                self.rewriter.replace_uses(self.copied.value(product), dout);
            }
        }
        for scaling in &plan.flow.scaling {
            let (gone, stays) = (self.copied.op(*scaling), self.copied.op(siblings[scaling]));
            for index in 1..self.rewriter.num_results(gone) {
                let (old, new) = (
                    self.rewriter.result(gone, index),
                    self.rewriter.result(stays, index),
                );
                self.rewriter.replace_uses(old, new);
            }
        }
        let mut sources = Vec::new();
        for &op in &plan.removed {
            let op = self.copied.op(op);
            // What serves two biases and nothing else is in both plans.
            if self.rewriter.is_erased(op) {
                continue;
            }
            let operands: Vec<_> = self.rewriter.operands(op).collect();
            sources.extend(
                operands
                    .into_iter()
                    .filter_map(|v| self.rewriter.defining_op(v)),
            );
            self.rewriter.erase(op);
        }
        erase_dead_among(self.rewriter, sources);
        for &global in &plan.globals {
            self.rewriter.erase(self.copied.op(global));
        }
    }

    /// The collective's result stands for the sum from now on, so it takes its type, with whatever layout is written there.
    fn take_place(&mut self, comm: OpId, add: OpId) {
        let (reduced, sum) = (self.rewriter.result(comm, 0), self.rewriter.result(add, 0));
        if self.rewriter.ty(reduced) != self.rewriter.ty(sum) {
            self.rewriter.set_type(reduced, self.rewriter.ty(sum));
        }
    }

    /// A bias gradient that is whole from the start need not be reduced over the layer's axes; a division stays.
    fn reduce_less(&mut self, reduction: &Reduction, plan: &Plan) {
        let op = self.copied.op(reduction.op);
        if self.rewriter.is_erased(op) {
            return;
        }
        let (operand, result) = (self.rewriter.operand(op, 0), self.rewriter.result(op, 0));
        let averages = self.rewriter.str_attr(op, "reduction") == Some("avg");
        if reduction.rest.is_empty() {
            self.rewriter.replace_uses(result, operand);
        } else {
            self.set_axes(op, &reduction.rest);
        }
        if averages {
            let cx = self.rewriter.cx().clone();
            let factor = 1.0 / self.mesh.group_size(&plan.axes) as f64;
            let (value, loc, ty) = match reduction.rest.is_empty() {
                true => (operand, self.rewriter.loc(op), self.rewriter.ty(operand)),
                false => (result, self.rewriter.loc(op), self.rewriter.ty(result)),
            };
            let mut attrs = vec![
                ("scale", cx.f64_attr(factor)),
                ("bias", cx.f64_attr(0.0)),
                ("bias_after_scale", cx.bool_attr(true)),
            ];
            attrs.extend(
                self.rewriter
                    .attr(op, "dist.role")
                    .map(|role| ("dist.role", role)),
            );
            let scale = self
                .rewriter
                .after(op)
                .build("dist.scale", loc, &[], &[ty], &attrs);
            self.rewriter
                .replace_uses(value, self.rewriter.result(scale, 0));
            self.rewriter.set_operands(scale, &[value]);
        }
        if reduction.rest.is_empty() {
            self.rewriter.erase(op);
        }
    }

    fn broadcast_less(&mut self, broadcast: &Broadcast) {
        let op = self.copied.op(broadcast.op);
        if broadcast.rest.is_empty() {
            let operand = self.rewriter.operand(op, 0);
            self.rewriter.replace(op, &[operand]);
        } else {
            self.set_axes(op, &broadcast.rest);
            let root = self.rewriter.context().i64_attr(broadcast.root as i64);
            self.rewriter.set_attr(op, "root", Some(root));
        }
    }

    fn set_axes(&mut self, op: OpId, axes: &[usize]) {
        let names = axes_attr(self.rewriter.context(), self.mesh, axes);
        self.rewriter.set_attr(op, "axes", Some(names));
    }

    /// One rank of each group owns the whole global now: it is partial over the axes.
    fn own(&mut self, global: OpId, axes: &[usize]) {
        let cx = self.rewriter.cx().clone();
        let layout = self
            .rewriter
            .attr(global, "layout")
            .map(|l| cx.attr_data(l));
        let Some(AttrData::Layout(layout)) = layout else {
            return;
        };
        let mut partial: Vec<_> = layout.partial.to_vec();
        // The sum of a gradient of which each rank had a share is partial already.
        let added = axes.iter().map(|&a| cx.ident(&self.mesh.axes()[a]));
        partial.extend(added.filter(|axis| !layout.partial.contains(axis)));
        partial.sort_by_key(|&axis| self.mesh.axis(cx.str(axis)));
        let layout = AttrData::Layout(LayoutData {
            dims: layout.dims.clone(),
            partial: partial.into(),
        });
        self.rewriter
            .set_attr(global, "layout", Some(cx.attr(layout)));
    }
}

/// Axes as an attribute.
pub fn axes_attr(cx: &raddle_dialect::ir::Context, mesh: &Mesh, axes: &[usize]) -> Attr {
    let names: Vec<_> = axes.iter().map(|&a| &mesh.axes()[a]).collect();
    cx.string_array(&names)
}
