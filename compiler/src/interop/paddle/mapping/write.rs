//! From a `dist` op's attributes to a Paddle op's.

use raddle_dialect::ir::{Module, OpId, Type};
use raddle_dialect::mesh::Mesh;

use super::super::mesh_file::{group_size, position};
use super::super::value::Value;
use super::{Mapping, Rule, Special, data_type, role_code};

/// A `dist` op to be written as a Paddle op.
pub(in super::super) struct Writing<'a> {
    pub module: &'a Module,
    pub mapping: &'static Mapping,
    pub op: OpId,
    /// All ops that become the Paddle op, `op` first.
    pub members: &'a [OpId],
    pub mesh: &'a Mesh,
    pub rank: usize,
    /// The ring that the op's axes have on this rank.
    pub ring: Option<i64>,
}

impl Writing<'_> {
    /// The attributes that follow from the `dist` op, sorted by name. Attributes of the wrong kind (the module has been
    /// verified, so there are none) are left out.
    pub(in super::super) fn attrs(&self) -> Vec<(&'static str, Value)> {
        let mut attrs = Vec::new();
        for rule in self.mapping.rules {
            attrs.extend(self.rule(rule));
        }
        self.special(&mut attrs);
        if let Some(role) = self
            .module
            .str_attr(self.op, "dist.role")
            .and_then(role_code)
        {
            attrs.push(("op_role", Value::Int(role)));
        }
        attrs.sort_by_key(|&(name, _)| name);
        attrs
    }

    fn rule(&self, rule: &Rule) -> Option<(&'static str, Value)> {
        let (module, op) = (self.module, self.op);
        Some(match *rule {
            Rule::Float(to, from) => (to, Value::Float(module.f64_attr(op, from)? as f32)),
            Rule::Int(to, from) => (
                to,
                Value::Int(i32::try_from(module.i64_attr(op, from)?).ok()?),
            ),
            Rule::Bool(to, from) => (to, Value::Bool(module.bool_attr(op, from)?)),
            Rule::Always(to, value) => (to, value.value()),
            Rule::Implied(..) | Rule::Require(..) | Rule::Given(..) => return None,
        })
    }

    fn special(&self, attrs: &mut Vec<(&'static str, Value)>) {
        if self.mapping.is_optimizer() && self.mapping.inputs.contains(&"MasterParam") {
            let master = self.module.operand_in(self.op, "master").is_some();
            attrs.push(("multi_precision", Value::Bool(master)));
        }
        let floats = |name| -> Vec<f32> {
            let members = self.members.iter();
            let values = members.map(|&op| self.module.f64_attr(op, name).unwrap_or(0.0) as f32);
            values.collect()
        };
        let int = |v: i64| Value::Int(i32::try_from(v).unwrap_or(i32::MAX));
        let ints = |v: Vec<i64>| {
            let v = v.into_iter();
            Value::Ints(v.map(|i| i32::try_from(i).unwrap_or(i32::MAX)).collect())
        };
        match self.mapping.special {
            Special::None
            | Special::Optimizer
            | Special::Fused
            | Special::AnyOf
            | Special::CheckFinite
            | Special::UpdateScaling => {}
            Special::Elementwise => attrs.push(("axis", Value::Int(-1))),
            Special::Cast => {
                let from = self.element(
                    self.module
                        .operands(self.op)
                        .next()
                        .map(|v| self.module.ty(v)),
                );
                let to = self.element(self.result_type());
                attrs.extend(from.map(|code| ("in_dtype", Value::Int(code))));
                attrs.extend(to.map(|code| ("out_dtype", Value::Int(code))));
            }
            Special::Reduce => {
                let dims = self.i64s("dims");
                let rank = self.shape(self.operand_type(0)).len();
                let all = dims.len() == rank;
                attrs.push(("dim", ints(if all { Vec::new() } else { dims })));
                attrs.push(("reduce_all", Value::Bool(all)));
                let keep = self.module.bool_attr(self.op, "keep_dims");
                attrs.extend(keep.map(|keep| ("keep_dim", Value::Bool(keep))));
            }
            Special::Fill => {
                self.shape_attrs(attrs);
                if let Some(value) = self.module.f64_attr(self.op, "value") {
                    let text = match self.element_is_f32() {
                        true => format!("{:?}", value as f32),
                        false => format!("{value:?}"),
                    };
                    attrs.push(("value", Value::Float(value as f32)));
                    attrs.push(("str_value", Value::Str(text.into_bytes())));
                }
            }
            Special::Random => self.shape_attrs(attrs),
            Special::Slice => {
                let (dims, starts, sizes) =
                    (self.i64s("dims"), self.i64s("starts"), self.i64s("sizes"));
                let starts: Vec<_> = starts
                    .iter()
                    .zip(&sizes)
                    .enumerate()
                    .map(|(i, (start, size))| {
                        let index = position(self.mesh, self.rank, &self.shift(i)) as i64;
                        start.saturating_add(size.saturating_mul(index))
                    })
                    .collect();
                let ends = starts
                    .iter()
                    .zip(&sizes)
                    .map(|(a, b)| a.saturating_add(*b))
                    .collect();
                attrs.push(("infer_flags", Value::Ints(vec![1; dims.len()])));
                attrs.push(("axes", ints(dims)));
                attrs.push(("starts", ints(starts)));
                attrs.push(("ends", ints(ends)));
                attrs.push(("decrease_axis", Value::Ints(Vec::new())));
            }
            Special::Dim => {
                let dim = self.module.i64_attr(self.op, "dim");
                attrs.extend(dim.map(|dim| ("axis", int(dim))));
            }
            Special::Split => {
                let dim = self.module.i64_attr(self.op, "dim");
                attrs.extend(dim.map(|dim| ("axis", int(dim))));
                attrs.push(("num", int(self.module.num_results(self.op) as i64)));
                attrs.push(("sections", Value::Ints(Vec::new())));
            }
            Special::Collective => {
                attrs.extend(self.ring.map(|ring| ("ring_id", int(ring))));
                if matches!(self.mapping.paddle, "c_allgather" | "c_reducescatter") {
                    let axes = self.module.axes_attr(self.op, "axes");
                    attrs.push(("nranks", int(group_size(self.mesh, &axes) as i64)));
                }
            }
            Special::LarsMomentum => {
                let decays = floats("lars_weight_decay");
                attrs.push(("lars_weight_decay", Value::Floats(decays)));
            }
            Special::MergedMomentum => {
                // Without any decay the lists are empty, which Paddle's faster kernel asks for.
                let mut decays = floats("l2_decay");
                if decays.iter().all(|&d| d == 0.0) {
                    decays.clear();
                }
                let method = |&d: &f32| if d == 0.0 { "" } else { "l2_decay" }.into();
                let methods = decays.iter().map(method).collect();
                attrs.push(("regularization_method", Value::Strings(methods)));
                attrs.push(("regularization_coeff", Value::Floats(decays)));
            }
            Special::Momentum => {
                let decay = self.module.f64_attr(self.op, "l2_decay").unwrap_or(0.0);
                let method = if decay == 0.0 { "" } else { "l2_decay" };
                attrs.push(("regularization_coeff", Value::Float(decay as f32)));
                attrs.push(("regularization_method", Value::Str(method.into())));
            }
        }
    }

    fn shape_attrs(&self, attrs: &mut Vec<(&'static str, Value)>) {
        let shape = self.shape(self.result_type()).to_vec();
        attrs.push(("shape", Value::Longs(shape)));
        attrs.extend(
            self.element(self.result_type())
                .map(|code| ("dtype", Value::Int(code))),
        );
    }

    fn shift(&self, index: usize) -> Vec<&str> {
        let cx = self.module.cx();
        self.module
            .attr(self.op, "axes")
            .and_then(|a| cx.as_array(a))
            .and_then(|axes| cx.as_string_array(*axes.get(index)?))
            .unwrap_or_default()
    }

    fn operand_type(&self, index: usize) -> Option<Type> {
        let operand = self.module.operands(self.op).nth(index)?;
        Some(self.module.ty(operand))
    }

    fn result_type(&self) -> Option<Type> {
        let result = self.module.results(self.op).next()?;
        Some(self.module.ty(result))
    }

    fn shape(&self, ty: Option<Type>) -> &[i64] {
        ty.and_then(|ty| self.module.cx().as_tensor(ty))
            .map_or(&[], |(shape, _)| shape)
    }

    fn element(&self, ty: Option<Type>) -> Option<i32> {
        let (_, element) = self.module.cx().as_tensor(ty?)?;
        data_type(self.module.cx(), element)
    }

    fn element_is_f32(&self) -> bool {
        let cx = self.module.cx();
        self.result_type()
            .and_then(|ty| cx.as_tensor(ty))
            .is_some_and(|(_, element)| element == cx.f32())
    }

    fn i64s(&self, name: &str) -> Vec<i64> {
        self.module
            .attr(self.op, name)
            .and_then(|a| self.module.cx().as_i64_array(a))
            .unwrap_or_default()
    }
}
