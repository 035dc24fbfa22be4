//! The attributes of an exported op: from its form, from the `dist` op, or as Paddle has them by default.

use raddle_dialect::ir::{Attr, Module, OpId, Type};
use raddle_dialect::mesh::Mesh;

use super::super::form::{ATTRS, Form};
use super::super::mapping::{Mapping, Reading, Rule, Special, Writing, role_code, role_of};
use super::super::program::{Op, Slot};
use super::super::value::Value;

/// An op to be given attributes.
pub(super) struct Source<'a> {
    pub module: &'a Module,
    pub op: OpId,
    /// All ops that become one, `op` first.
    pub members: &'a [OpId],
    pub mapping: &'static Mapping,
    pub mesh: &'a Mesh,
    pub rank: usize,
    pub ring: Option<i64>,
    pub axes: Option<&'a [String]>,
    /// Number of variables and type of the first, per mapped slot.
    pub inputs: &'a [(usize, Option<Type>)],
    pub outputs: &'a [(usize, Option<Type>)],
}

type Attrs = Vec<(String, Value)>;

impl Source<'_> {
    /// The attributes in the order and with the values of the op's own form, as long as they still say what the op does.
    /// `None` if Paddle's attributes cannot hold what the op says.
    pub(super) fn with_own(&self, form: &Form) -> Option<Attrs> {
        let computed = self.computed();
        let mut attrs = fill(form, &computed, &own(self.module, self.op));
        if !self.says_the_same(&attrs) {
            override_with(&mut attrs, &computed);
        }
        self.says_the_same(&attrs).then_some(attrs)
    }

    /// The attributes of an op that was not imported; `model` is the form of an op of its type. `None` as above.
    pub(super) fn with_model(&self, model: Option<&Form>) -> Option<Attrs> {
        let computed = self.computed();
        let mut attrs = match model {
            Some(form) => fill(form, &computed, &[]),
            None => usual(self.mapping.has_ring()),
        };
        override_with(&mut attrs, &computed);
        self.says_the_same(&attrs).then_some(attrs)
    }

    fn computed(&self) -> Vec<(&'static str, Value)> {
        Writing {
            module: self.module,
            mapping: self.mapping,
            op: self.op,
            members: self.members,
            mesh: self.mesh,
            rank: self.rank,
            ring: self.ring,
        }
        .attrs()
    }

    /// Whether an importer would read the op's own attributes from these.
    fn says_the_same(&self, attrs: &Attrs) -> bool {
        let role = attrs.iter().find(|(name, _)| name == "op_role");
        let role = role.and_then(|(_, v)| v.as_i64()).unwrap_or(0);
        let own = self.module.str_attr(self.op, "dist.role");
        if own.is_some_and(|own| own != role_of(role)) {
            return false;
        }
        if self.mapping.has_ring() && self.module.is(self.op, "dist.identity") {
            return true;
        }
        let slots = |names: &[&str], counts: &[(usize, Option<Type>)]| {
            let slots = names.iter().zip(counts).map(|(name, (count, _))| Slot {
                name: (*name).to_owned(),
                args: vec![String::new(); *count],
            });
            slots.collect()
        };
        let op = Op {
            kind: self.mapping.paddle.to_owned(),
            inputs: slots(self.mapping.inputs, self.inputs),
            outputs: slots(self.mapping.outputs, self.outputs),
            attrs: attrs.clone(),
            is_target: None,
        };
        let types = |counts: &[(usize, Option<Type>)]| -> Vec<_> {
            counts.iter().map(|(_, ty)| *ty).collect()
        };
        let cx = self.module.cx();
        let shifts = self
            .module
            .attr(self.op, "axes")
            .and_then(|a| cx.as_array(a))
            .map(|list| {
                let names = |&axes| cx.as_string_array(axes).unwrap_or_default();
                let owned = |axes: Vec<&str>| axes.into_iter().map(str::to_owned).collect();
                list.iter().map(|a| owned(names(a))).collect::<Vec<_>>()
            })
            .unwrap_or_default();
        let reading = Reading {
            cx,
            mapping: self.mapping,
            op: &op,
            mesh: self.mesh,
            rank: self.rank,
            axes: self.axes,
            shifts: &shifts,
            inputs: &types(self.inputs),
            outputs: &types(self.outputs),
        };
        let given = |name: &str| {
            let mut rules = self.mapping.rules.iter();
            rules.any(|rule| matches!(rule, Rule::Given(to, _) if *to == name))
        };
        let mut members = self.members.iter().enumerate();
        reading.attrs().is_ok_and(|read| {
            let mut read = read.iter().filter(|(name, _)| !given(name));
            read.all(|(name, value)| self.has(self.op, name, *value))
        }) && members.all(|(index, &op)| {
            let read = reading.of_tensor(index);
            read.is_ok_and(|read| read.iter().all(|(name, value)| self.has(op, name, *value)))
        })
    }

    /// Whether the op has this attribute, as far as Paddle can tell: its floats have 32 bits, and the order of reduced
    /// dimensions does not matter.
    fn has(&self, op: OpId, name: &str, value: Attr) -> bool {
        let cx = self.module.cx();
        let Some(own) = self.module.attr(op, name) else {
            return false;
        };
        let float = |a| cx.as_f64(a).map(|v| (v as f32).to_bits());
        let dims = |a| {
            let mut dims = cx.as_i64_array(a)?;
            dims.sort_unstable();
            Some(dims)
        };
        own == value
            || (float(own).is_some() && float(own) == float(value))
            || (self.mapping.special == Special::Reduce
                && dims(own).is_some()
                && dims(own) == dims(value))
    }
}

/// The attributes of the op's form, as far as they do not follow from the op apart from its role.
pub(super) fn kept(module: &Module, op: OpId, form: &Form) -> Attrs {
    let role = module.str_attr(op, "dist.role").and_then(role_code);
    let role = role.map(|role| ("op_role", Value::Int(role)));
    fill(form, role.as_slice(), &own(module, op))
}

/// The attributes that `paddle.attrs` gives an op.
fn own(module: &Module, op: OpId) -> Attrs {
    let cx = module.cx();
    let Some(dict) = module.attr(op, ATTRS) else {
        return Vec::new();
    };
    cx.dict_entries(dict)
        .iter()
        .filter_map(|&(name, value)| Some((cx.str(name).to_owned(), Value::from_attr(cx, value)?)))
        .collect()
}

fn fill(form: &Form, computed: &[(&'static str, Value)], own: &[(String, Value)]) -> Attrs {
    let find = |name: &str| own.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let compute = |name: &str| {
        computed
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v.clone())
    };
    form.attrs
        .iter()
        .filter_map(|(name, value)| {
            let value = find(name)
                .or_else(|| value.clone())
                .or_else(|| compute(name));
            Some((name.clone(), value?))
        })
        .collect()
}

fn override_with(attrs: &mut Attrs, computed: &[(&'static str, Value)]) {
    for (name, value) in computed {
        match attrs.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value.clone(),
            None => attrs.push(((*name).to_owned(), value.clone())),
        }
    }
}

/// What Paddle gives every op.
fn usual(communicates: bool) -> Attrs {
    let mut attrs = vec![
        ("op_device".to_owned(), Value::Str(Vec::new())),
        ("op_namescope".to_owned(), Value::Str(b"/".to_vec())),
        ("op_role".to_owned(), Value::Int(0)),
        ("op_role_var".to_owned(), Value::Strings(Vec::new())),
        ("with_quant_attr".to_owned(), Value::Bool(false)),
    ];
    if communicates {
        attrs.push(("use_calc_stream".to_owned(), Value::Bool(true)));
    }
    attrs
}

/// The attributes of an op that stands for a part of a `dist` op.
pub(super) fn part(module: &Module, op: OpId, given: &[(&str, Value)]) -> Attrs {
    let role = module.str_attr(op, "dist.role").and_then(role_code);
    with_role(role.unwrap_or(0), given)
}

/// The attributes of an op in a role.
pub(super) fn with_role(role: i32, given: &[(&str, Value)]) -> Attrs {
    let mut attrs = usual(false);
    override_with(&mut attrs, &[("op_role", Value::Int(role))]);
    attrs.extend(given.iter().map(|(n, v)| ((*n).to_owned(), v.clone())));
    attrs.sort_by(|a, b| a.0.cmp(&b.0));
    attrs
}
