//! An op's slots: which variables they hold, which values these are now, and which mesh axes its ring stands for.

use raddle_dialect::ir::{Type, ValueId};
use raddle_dialect::ops::{Count, Group};

use super::super::mapping::{Mapping, Special};
use super::super::program::Op;
use super::super::tables::tensor_type;
use super::super::value::Value;
use super::function::Builder;

/// Operands or results, group by group, with their names.
pub(super) struct Parts<'a> {
    pub values: Vec<ValueId>,
    pub types: Vec<Type>,
    pub names: Vec<&'a str>,
    pub counts: Vec<i32>,
    pub first: Vec<Option<Type>>,
}

impl<'a> Builder<'a, '_, '_> {
    /// Whether every slot with variables in it is one that the row knows.
    pub(super) fn slots_known(&mut self, at: usize, op: &Op, mapping: &Mapping) -> bool {
        let inputs = op.inputs.iter().map(|s| (s, mapping.inputs));
        let outputs = op.outputs.iter().map(|s| (s, mapping.outputs));
        let strange = inputs
            .chain(outputs)
            .find(|(slot, known)| !slot.args.is_empty() && !known.contains(&slot.name.as_str()));
        let Some((slot, _)) = strange else {
            return true;
        };
        self.error(
            at,
            "E0813",
            format!("slot `{}` of `{}` is in use", slot.name, op.kind),
            "`dist` has nothing for it; compute what it does by ops of its own",
        );
        false
    }

    /// The mesh axes of the op's ring, if it has one; `None` if they cannot be found.
    pub(super) fn axes(
        &mut self,
        at: usize,
        op: &Op,
        mapping: &Mapping,
    ) -> Option<Option<Vec<String>>> {
        if !mapping.has_ring() {
            return Some(None);
        }
        let Some(id) = op.attr("ring_id").and_then(Value::as_i64) else {
            self.error(
                at,
                "E0814",
                format!("`{}` has no integer `ring_id`", op.kind),
                "a collective names its ring",
            );
            return None;
        };
        let rings = self.source.rings[0];
        let Some(axes) = rings.axes.get(&id) else {
            let (message, help) = match rings.others.get(&id) {
                Some(members) => (
                    format!("ring {id} has members {members:?}, which is no group of mesh axes"),
                    "a ring that an op uses joins all ranks that agree with this one on the other axes",
                ),
                None => (
                    format!("ring {id} is not in the mesh file"),
                    "list it under `rings`",
                ),
            };
            self.error(at, "E0814", message, help);
            return None;
        };
        if rings.shuffled.contains(&id) && mapping.dist != "dist.all_reduce" {
            self.error(
                at,
                "E0814",
                format!(
                    "ring {id} does not list its ranks in row-major order, on which `{}` depends",
                    op.kind
                ),
                "list the members of rings in ascending order",
            );
            return None;
        }
        Some(Some(axes.clone()))
    }

    pub(super) fn var_type(&mut self, at: usize, op: &Op, name: &str) -> Option<Type> {
        match self.source.program.var(name) {
            None => {
                self.error(
                    at,
                    "E0815",
                    format!(
                        "`{}` uses variable `{name}`, which is not declared",
                        op.kind
                    ),
                    "every variable of an op is listed among the block's variables",
                );
                None
            }
            Some(var) => {
                let ty = tensor_type(self.cx, &var.desc);
                if ty.is_none() {
                    self.error(
                        at,
                        "E0816",
                        format!("variable `{name}` is not a dense tensor of a known data type"),
                        "only LOD_TENSOR variables are imported",
                    );
                }
                ty
            }
        }
    }

    pub(super) fn operands(
        &mut self,
        at: usize,
        op: &'a Op,
        mapping: &'static Mapping,
    ) -> Option<Parts<'a>> {
        let mut parts = Parts::new();
        let groups = self.groups(mapping).0;
        for (slot, group) in mapping.inputs.iter().zip(groups) {
            let args = op.input(slot);
            let group = group.filter(|_| !mapping.spreads());
            self.check_count(at, op, slot, args.len(), group)?;
            parts.counts.push(args.len() as i32);
            parts.first.push(None);
            for (i, name) in args.iter().enumerate() {
                let value = self.value(at, op, name)?;
                let ty = self.rw.ty(value);
                parts.push(value, ty, name, i == 0);
            }
        }
        Some(parts)
    }

    pub(super) fn results(
        &mut self,
        at: usize,
        op: &'a Op,
        mapping: &'static Mapping,
    ) -> Option<Parts<'a>> {
        let mut parts = Parts::new();
        let groups = self.groups(mapping).1;
        for (slot, group) in mapping.outputs.iter().zip(groups) {
            let args = op.output(slot);
            let group = group.filter(|_| !mapping.spreads());
            self.check_count(at, op, slot, args.len(), group)?;
            parts.counts.push(args.len() as i32);
            parts.first.push(None);
            for (i, name) in args.iter().enumerate() {
                let ty = self.var_type(at, op, name)?;
                parts.types.push(ty);
                parts.names.push(name);
                if i == 0 {
                    *parts.first.last_mut()? = Some(ty);
                }
            }
        }
        Some(parts)
    }

    /// The operand and result groups of a row's `dist` op, slot by slot.
    pub(super) fn groups(&self, mapping: &Mapping) -> (Vec<Option<Group>>, Vec<Option<Group>>) {
        let def = self.cx.op_def(self.cx.ident(mapping.dist));
        let of = |groups: &'static [Group], slots: usize| {
            (0..slots)
                .map(|i| match mapping.special {
                    // One variadic group takes both slots.
                    Special::AnyOf => None,
                    _ => groups.get(i).copied(),
                })
                .collect()
        };
        let (operands, results) = def.map_or((&[][..], &[][..]), |d| (d.operands, d.results));
        (
            of(operands, mapping.inputs.len()),
            of(results, mapping.outputs.len()),
        )
    }

    pub(super) fn check_count(
        &mut self,
        at: usize,
        op: &Op,
        slot: &str,
        count: usize,
        group: Option<Group>,
    ) -> Option<()> {
        let wanted = match group.map(|g| g.count) {
            Some(Count::One) if count != 1 => "one variable",
            Some(Count::Optional) if count > 1 => "at most one variable",
            _ => return Some(()),
        };
        self.error(
            at,
            "E0813",
            format!("slot `{slot}` of `{}` holds {count} variables", op.kind),
            &format!("it takes {wanted}"),
        );
        None
    }
}

impl<'a> Parts<'a> {
    pub(super) fn new() -> Self {
        Self {
            values: Vec::new(),
            types: Vec::new(),
            names: Vec::new(),
            counts: Vec::new(),
            first: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, value: ValueId, ty: Type, name: &'a str, first: bool) {
        self.values.push(value);
        self.types.push(ty);
        self.names.push(name);
        if first && let Some(slot) = self.first.last_mut() {
            *slot = Some(ty);
        }
    }
}
