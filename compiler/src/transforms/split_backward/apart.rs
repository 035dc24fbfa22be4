//! Takes apart what has results on both sides, and the gradients of weights.
//!
//! | op | becomes |
//! |---|---|
//! | `matmul_grad` | a product for each gradient; see [`contraction`](super::contraction) |
//! | `add_grad` | what came in, or its `reduce_sum` |
//! | any other op with optional results | two of the same name, each with the results of one side |

use std::collections::HashMap;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Attr, Def, Module, NewOp, OpId, Rewriter, Type, ValueId};
use raddle_dialect::layout::Spread;
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{Count, OPERAND_SEGMENTS, RESULT_SEGMENTS};
use rustc_hash::FxBuildHasher;

use super::contraction::{Factor, Product, Refusal, Source, Which};
use super::facts::Facts;
use super::sides::{Side, Sides};
use super::{is_backward, is_on};
use crate::analysis::layouts::Layouts;
use crate::pass::{Failed, PassCx};

/// Names of an op's results in the program that it was imported from.
const NAMES: &str = "paddle.names";

/// Takes the ops of a function apart; says how many.
pub(super) fn run(
    module: &mut Module,
    function: OpId,
    sides: &Sides,
    facts: &mut Facts,
    cx: &mut PassCx,
) -> Result<usize, Failed> {
    let cuts = Cuts::of(module, function);
    let block = module.body(function);
    let ops: Vec<_> = module
        .block_ops(block)
        .filter(|&op| is_backward(module, op))
        .collect();
    let mixed: std::collections::HashSet<OpId, FxBuildHasher> = sides.mixed().collect();
    let mut apart = Apart {
        rewriter: Rewriter::new(module),
        facts,
        sides,
        cuts,
        cx,
        failed: false,
        taken: 0,
    };
    for op in ops {
        match apart.rewriter.name_str(op) {
            "dist.add_grad" => apart.add_grad(op),
            "dist.matmul_grad" if mixed.contains(&op) || is_on(sides, op, Side::W) => {
                apart.matmul_grad(op);
            }
            _ if mixed.contains(&op) => apart.in_two(op),
            _ => {}
        }
    }
    match apart.failed {
        true => Err(Failed),
        false => Ok(apart.taken),
    }
}

struct Apart<'a, 'm, 'c> {
    rewriter: Rewriter<'m>,
    facts: &'a mut Facts,
    sides: &'a Sides,
    cuts: Cuts,
    cx: &'a mut PassCx<'c>,
    failed: bool,
    taken: usize,
}

impl Apart<'_, '_, '_> {
    /// Creates an op in the place of `old`, with its role and stage.
    fn build(
        &mut self,
        old: OpId,
        name: &str,
        operands: &[ValueId],
        result: Type,
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let mut attrs = attrs.to_vec();
        for name in ["dist.role", "dist.stage"] {
            attrs.extend(self.rewriter.attr(old, name).map(|value| (name, value)));
        }
        let loc = self.rewriter.loc(old);
        let op = self
            .rewriter
            .before(old)
            .build(name, loc, operands, &[result], &attrs);
        self.rewriter.result(op, 0)
    }

    /// `new` takes the place of `old`, and its name in the program that it was imported from if `new` has none.
    fn replace(&mut self, old: ValueId, new: ValueId) {
        self.facts.replace(old, new);
        if let (Some(name), Some(op)) = (self.name(old), self.rewriter.defining_op(new))
            && self.rewriter.num_results(op) == 1
            && self.rewriter.attr(op, NAMES).is_none()
        {
            let names = self.rewriter.context().array(&[name]);
            self.rewriter.set_attr(op, NAMES, Some(names));
        }
        self.cuts.replace(old, new);
        self.rewriter.replace_uses(old, new);
    }

    fn name(&self, value: ValueId) -> Option<Attr> {
        let Def::Result { op, index } = self.rewriter.def(value) else {
            return None;
        };
        let names = self.rewriter.attr(op, NAMES)?;
        let names = self.rewriter.context().as_array(names)?;
        names.get(index as usize).copied()
    }

    fn shape(&self, value: ValueId) -> Vec<i64> {
        let ty = self.rewriter.ty(value);
        let tensor = self.rewriter.context().as_tensor(ty);
        tensor.map_or_else(Vec::new, |(shape, _)| shape.to_vec())
    }

    fn typed_like(&self, value: ValueId, shape: &[i64]) -> Type {
        let cx = self.rewriter.context();
        match cx.as_tensor(self.rewriter.ty(value)) {
            Some((_, element)) => cx.tensor(shape, element),
            None => self.rewriter.ty(value),
        }
    }

    /// What came in is the gradient of an operand of its shape, and is summed for one that was broadcast.
    fn add_grad(&mut self, op: OpId) {
        let dout = self.rewriter.operand(op, 2);
        let mut left = 0;
        for (index, name) in ["da", "db"].into_iter().enumerate() {
            let Some(result) = self.rewriter.result_in(op, name) else {
                continue;
            };
            if self.rewriter.is_unused(result) {
                continue;
            }
            let operand = self.rewriter.operand(op, index);
            match self.summed_to(op, dout, operand) {
                Some(value) => self.replace(result, value),
                None => left += 1,
            }
        }
        if left == 0 {
            self.rewriter.erase(op);
            self.taken += 1;
        }
    }

    /// dout summed over the dimensions along which `operand` was broadcast; none if a dynamic extent hides which.
    fn summed_to(&mut self, op: OpId, dout: ValueId, operand: ValueId) -> Option<ValueId> {
        let (from, to) = (self.shape(dout), self.shape(operand));
        if from == to {
            return Some(dout);
        }
        let lead = from.len() - to.len();
        let known = |dim: usize| from[dim] >= 0 && (dim < lead || to[dim - lead] >= 0);
        if !(0..from.len()).all(known) {
            return None;
        }
        let summed: Vec<i64> = (0..from.len())
            .filter(|&dim| dim < lead || (to[dim - lead] == 1 && from[dim] != 1))
            .map(|dim| dim as i64)
            .collect();
        let kept: Vec<i64> = (0..from.len())
            .filter(|&dim| !summed.contains(&(dim as i64)))
            .map(|dim| from[dim])
            .collect();
        let cx = self.rewriter.cx().clone();
        let attrs = [
            ("dims", cx.i64_array(&summed)),
            ("keep_dims", cx.bool_attr(false)),
        ];
        let ty = self.typed_like(dout, &kept);
        let sum = self.build(op, "dist.reduce_sum", &[dout], ty, &attrs);
        let ty = self.rewriter.ty(operand);
        Some(match kept == to {
            true => sum,
            false => self.build(op, "dist.reshape", &[sum], ty, &[]),
        })
    }

    /// A product for each gradient.
    fn matmul_grad(&mut self, op: OpId) {
        let shapes: Vec<Vec<i64>> = (0..3)
            .map(|index| self.shape(self.rewriter.operand(op, index)))
            .collect();
        let flag = |name| self.rewriter.bool_attr(op, name) == Some(true);
        let product = Product {
            a: &shapes[0],
            b: &shapes[1],
            dout: &shapes[2],
            transpose_a: flag("transpose_a"),
            transpose_b: flag("transpose_b"),
        };
        let cut = self.cuts.of_value(self.rewriter.operand(op, 2));
        let mut refused = None;
        for (which, name) in [(Which::A, "da"), (Which::B, "db")] {
            let Some(result) = self.rewriter.result_in(op, name) else {
                continue;
            };
            if self.rewriter.is_unused(result) {
                continue;
            }
            match product.gradient(which, &cut) {
                Ok(recipe) => {
                    let left = self.factor(op, &recipe.left);
                    let right = self.factor(op, &recipe.right);
                    let cx = self.rewriter.cx().clone();
                    let attrs = [
                        ("transpose_a", cx.bool_attr(recipe.left.transpose)),
                        ("transpose_b", cx.bool_attr(recipe.right.transpose)),
                    ];
                    let ty = self.typed_like(result, &recipe.product);
                    let mut value = self.build(op, "dist.matmul", &[left, right], ty, &attrs);
                    if recipe.shape.is_some() {
                        let ty = self.rewriter.ty(result);
                        value = self.build(op, "dist.reshape", &[value], ty, &[]);
                    }
                    self.replace(result, value);
                }
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            None => {
                self.rewriter.erase(op);
                self.taken += 1;
            }
            Some(Refusal::Dynamic) => self.dynamic(op),
            Some(why) => self.keep_together(op, why),
        }
    }

    fn dynamic(&mut self, op: OpId) {
        self.failed = true;
        let loc = self.rewriter.loc(op);
        self.cx.report(
            Diagnostic::error(
                "E0631",
                loc,
                "the gradient of this weight sums over a dimension of unknown extent, so it cannot be one product",
            )
            .help("split-backward flattens batch and sequence: give the data inputs static shapes"),
        );
    }

    /// The gradient stays a `matmul_grad`, but one that computes nothing else.
    fn keep_together(&mut self, op: OpId, why: Refusal) {
        let loc = self.rewriter.loc(op);
        self.cx.remark("R0742", loc, || {
            let why = match why {
                Refusal::Cut => "several of the dimensions to be flattened are cut over mesh axes",
                Refusal::Dynamic => "a dimension to be flattened has no fixed extent",
                Refusal::Overflow => "the flattened dimension is too long",
            };
            format!("the gradient of a weight stays a 'dist.matmul_grad': {why}")
        });
        let used: Vec<bool> = self
            .rewriter
            .results(op)
            .map(|r| !self.rewriter.is_unused(r))
            .collect();
        self.keeping(op, &used);
        self.rewriter.erase(op);
        self.taken += 1;
    }

    fn factor(&mut self, op: OpId, factor: &Factor) -> ValueId {
        let index = match factor.source {
            Source::A => 0,
            Source::B => 1,
            Source::Dout => 2,
        };
        let mut value = self.rewriter.operand(op, index);
        if let Some(perm) = &factor.perm {
            let from = self.shape(value);
            let shape: Vec<i64> = perm.iter().map(|&dim| from[dim as usize]).collect();
            let ty = self.typed_like(value, &shape);
            let perm = self.rewriter.context().i64_array(perm);
            value = self.build(op, "dist.transpose", &[value], ty, &[("perm", perm)]);
        }
        if let Some(shape) = &factor.shape
            && *shape != self.shape(value)
        {
            let ty = self.typed_like(value, shape);
            value = self.build(op, "dist.reshape", &[value], ty, &[]);
        }
        value
    }

    /// Two ops of the same name, one with the results that B needs, one with the others.
    fn in_two(&mut self, op: OpId) {
        let Some(def) = self.rewriter.def_of(op) else {
            return;
        };
        let Ok(groups) = self.rewriter.result_segments(op, def) else {
            return;
        };
        let optional = def
            .results
            .iter()
            .zip(groups)
            .all(|(group, range)| range.is_empty() || group.count == Count::Optional);
        if !optional {
            return;
        }
        let needed: Vec<bool> = self
            .rewriter
            .results(op)
            .map(|r| self.sides.is_needed(r))
            .collect();
        let rest: Vec<bool> = self
            .rewriter
            .results(op)
            .zip(&needed)
            .map(|(r, needed)| !needed && !self.rewriter.is_unused(r))
            .collect();
        self.keeping(op, &needed);
        self.keeping(op, &rest);
        self.rewriter.erase(op);
        self.taken += 1;
    }

    /// A copy of an op with some of its results, which take the place of the op's own.
    fn keeping(&mut self, op: OpId, keep: &[bool]) {
        let cx = self.rewriter.cx().clone();
        let module = self.rewriter.module();
        let Some(def) = module.def_of(op) else {
            return;
        };
        let (Ok(operands), Ok(results)) = (
            module.operand_segments(op, def),
            module.result_segments(op, def),
        ) else {
            return;
        };
        let stays = |name: &str| {
            let group = def.result_group(name).map(|at| results[at].clone());
            group.is_some_and(|mut range| range.any(|index| keep[index]))
        };
        let fused = module.is(op, "dist.fused_linear_grad");
        let (mut values, mut operand_sizes) = (Vec::new(), Vec::new());
        for (group, range) in def.operands.iter().zip(&operands) {
            // What only a result that is not computed here would read.
            let dropped = fused
                && match group.name {
                    "aux" => !stays("dx"),
                    "acc" => !stays("dw"),
                    _ => false,
                };
            let range = if dropped { 0..0 } else { range.clone() };
            operand_sizes.push(range.len() as i32);
            values.extend(range.map(|index| module.operand(op, index)));
        }
        let (mut kept, mut result_sizes) = (Vec::new(), Vec::new());
        for range in &results {
            let here: Vec<usize> = range.clone().filter(|&index| keep[index]).collect();
            result_sizes.push(here.len() as i32);
            kept.extend(here);
        }
        let mut attrs = module.attrs(op);
        for (name, sizes) in [
            (OPERAND_SEGMENTS, &operand_sizes),
            (RESULT_SEGMENTS, &result_sizes),
        ] {
            if module.attr(op, name).is_some() {
                attrs = cx.dict_with(attrs, name, Some(cx.i32_array(sizes)));
            }
        }
        if fused && !stays("dx") {
            attrs = cx.dict_with(attrs, "activation", Some(cx.string("none")));
        }
        let names = module.attr(op, NAMES).and_then(|a| cx.as_array(a));
        if let Some(names) = names {
            let names: Vec<Attr> = kept
                .iter()
                .filter_map(|&index| names.get(index).copied())
                .collect();
            attrs = cx.dict_with(attrs, NAMES, Some(cx.array(&names)));
        }
        let types: Vec<Type> = kept
            .iter()
            .map(|&index| module.ty(module.result(op, index)))
            .collect();
        let new = NewOp {
            operands: &values,
            results: &types,
            attrs,
            ..NewOp::new(module.name(op), module.loc(op), &cx)
        };
        let new = self.rewriter.before(op).create(new);
        for (at, index) in kept.into_iter().enumerate() {
            let old = self.rewriter.result(op, index);
            let new = self.rewriter.result(new, at);
            self.replace(old, new);
        }
    }
}

/// Which dimensions of values are cut over mesh axes.
struct Cuts {
    layouts: Option<Layouts>,
    sizes: Vec<usize>,
    /// New values that take the place of those that were analysed.
    stands_for: HashMap<ValueId, ValueId, FxBuildHasher>,
}

impl Cuts {
    /// Nothing is cut outside a class with a mesh.
    fn of(module: &Module, function: OpId) -> Self {
        let mesh = Mesh::of(module, function).ok();
        Self {
            layouts: Layouts::of(module, function).ok(),
            sizes: mesh.map_or_else(Vec::new, |mesh| mesh.sizes().to_vec()),
            stands_for: HashMap::default(),
        }
    }

    fn replace(&mut self, old: ValueId, new: ValueId) {
        let old = *self.stands_for.get(&old).unwrap_or(&old);
        self.stands_for.entry(new).or_insert(old);
    }

    fn of_value(&self, value: ValueId) -> Vec<bool> {
        let value = *self.stands_for.get(&value).unwrap_or(&value);
        let Some(layout) = self.layouts.as_ref().and_then(|l| l.get(value)) else {
            return Vec::new();
        };
        let mut cut = vec![false; layout.dims.len()];
        for (axis, &size) in self.sizes.iter().enumerate() {
            if let (Spread::Sharded(dim), true) = (layout.on(axis), size > 1) {
                cut[dim] = true;
            }
        }
        cut
    }
}
