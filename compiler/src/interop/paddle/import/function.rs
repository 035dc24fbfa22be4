//! One program becomes one function: variables written in place become SSA values.
//!
//! A persistable variable is loaded before the first op that reads it and stored after the last op that writes it. Other
//! variables that are read before anything writes them are the data inputs.

use std::collections::{HashMap, HashSet};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Attr, BlockId, Context, OpId, Rewriter, Type, ValueId};
use raddle_dialect::mesh::Mesh;
use raddle_dialect::ops::{Count, Group};
use rustc_hash::FxBuildHasher;

use super::super::fold::Shifts;
use super::super::form::{ATTRS, FORM, Form, Forms, IMPLICIT, NAMES, RING};
use super::super::mapping::{LOSS_ROLE, Mapping, Reading, Special, Writing, role_of};
use super::super::mesh_file::Rings;
use super::super::program::{Op, Program};
use super::super::tables::tensor_type;
use super::super::value::Value;
use super::globals::Globals;

/// A program and what it is imported with.
pub(super) struct Source<'a> {
    pub program: &'a Program,
    pub shifts: &'a Shifts,
    pub mesh: &'a Mesh,
    /// The class's ranks; the first one's program is imported.
    pub ranks: &'a [usize],
    /// Their rings.
    pub rings: &'a [&'a Rings],
    /// Their programs, which differ in ring ids only as far as this import is concerned.
    pub programs: &'a [&'a Program],
    pub globals: &'a Globals,
}

/// What came of a function's body.
pub(super) struct Body {
    /// Data inputs in order of first use: name, and the block argument.
    pub inputs: Vec<(String, ValueId)>,
    /// The value whose gradient is seeded.
    pub loss: Option<ValueId>,
    /// The forms of its ops.
    pub forms: Forms,
}

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// Builds the ops of a function.
pub(super) struct Builder<'a, 'm, 'd> {
    source: &'a Source<'a>,
    cx: &'a Context,
    rw: &'a mut Rewriter<'m>,
    diagnostics: &'d mut Diagnostics,
    values: Map<&'a str, ValueId>,
    last_writes: Map<&'a str, usize>,
    body: Body,
    groups: i64,
    seeded: bool,
}

/// Operands or results, group by group, with their names.
struct Parts<'a> {
    values: Vec<ValueId>,
    types: Vec<Type>,
    names: Vec<&'a str>,
    counts: Vec<i32>,
    first: Vec<Option<Type>>,
}

impl<'a, 'm, 'd> Builder<'a, 'm, 'd> {
    /// Imports the program's ops to the end of `block`; data inputs become its arguments.
    pub(super) fn run(
        source: &'a Source<'a>,
        cx: &'a Context,
        rw: &'a mut Rewriter<'m>,
        block: BlockId,
        diagnostics: &'d mut Diagnostics,
    ) -> Body {
        let mut builder = Self {
            source,
            cx,
            rw,
            diagnostics,
            values: Map::default(),
            last_writes: Map::default(),
            body: Body {
                inputs: Vec::new(),
                loss: None,
                forms: Forms::default(),
            },
            groups: 0,
            seeded: false,
        };
        builder.find_inputs(block);
        builder.rw.at_end(block);
        for (at, op) in source.program.ops.iter().enumerate() {
            builder.op(at, op);
        }
        builder.body
    }

    /// Adds an argument for each variable that is read before it is written and does not persist.
    fn find_inputs(&mut self, block: BlockId) {
        let program = self.source.program;
        let mut known: HashSet<&str, FxBuildHasher> = HashSet::default();
        for (at, op) in program.ops.iter().enumerate() {
            for name in op.inputs.iter().flat_map(|s| &s.args) {
                if self.source.globals.get(name).is_some() || !known.insert(name) {
                    continue;
                }
                let loc = program.loc(self.cx, at);
                if name.ends_with("@GRAD") {
                    self.diagnostics.push(
                        Diagnostic::error(
                            "E0811",
                            loc,
                            format!("`{}` reads `{name}`, which nothing has written", op.kind),
                        )
                        .help("a gradient is not a data input; is an op missing before this one?"),
                    );
                    continue;
                }
                if let Some(ty) = self.var_type(at, op, name) {
                    let value = self.rw.add_arg(block, ty, loc);
                    self.values.insert(name, value);
                    self.body.inputs.push((name.clone(), value));
                }
            }
            for name in op.outputs.iter().flat_map(|s| &s.args) {
                known.insert(name);
                self.last_writes.insert(name, at);
            }
        }
    }

    fn error(&mut self, at: usize, code: &'static str, message: String, help: &str) {
        let loc = self.source.program.loc(self.cx, at);
        self.diagnostics
            .push(Diagnostic::error(code, loc, message).help(help));
    }

    fn op(&mut self, at: usize, op: &'a Op) {
        let Some(mapping) = Mapping::of_paddle(&op.kind) else {
            self.error(
                at,
                "E0810",
                format!("op `{}` is not known", op.kind),
                "docs/paddle.md lists the ops that are imported",
            );
            return self.abandon(at, op);
        };
        if !self.slots_known(at, op, mapping) {
            return self.abandon(at, op);
        }
        let Some(axes) = self.axes(at, op, mapping) else {
            return self.abandon(at, op);
        };
        let (Some(inputs), Some(outputs)) = (
            self.operands(at, op, mapping),
            self.results(at, op, mapping),
        ) else {
            return self.abandon(at, op);
        };
        let reading = Reading {
            cx: self.cx,
            mapping,
            op,
            mesh: self.source.mesh,
            rank: self.source.ranks[0],
            axes: axes.as_deref(),
            shifts: self.source.shifts.get(&at).map_or(&[], |s| s),
            inputs: &inputs.first,
            outputs: &outputs.first,
        };
        match reading.attrs() {
            Ok(attrs) => self.create(at, op, mapping, (inputs, outputs), attrs),
            Err(problem) => {
                self.error(at, "E0812", problem.message, &problem.help);
                self.abandon(at, op);
            }
        }
    }

    /// After an error, later ops still find values for what this op would have written, so that they report only errors of
    /// their own.
    fn abandon(&mut self, at: usize, op: &'a Op) {
        for name in op.outputs.iter().flat_map(|s| &s.args) {
            let Some(ty) = self
                .source
                .program
                .var(name)
                .and_then(|v| tensor_type(self.cx, &v.desc))
            else {
                continue;
            };
            let loc = self.source.program.loc(self.cx, at);
            let stand_in = self.rw.build("dist.fill", loc, &[], &[ty], &[]);
            let value = self.rw.result(stand_in, 0);
            self.values.insert(name, value);
        }
    }

    /// Whether every slot with variables in it is one that the row knows.
    fn slots_known(&mut self, at: usize, op: &Op, mapping: &Mapping) -> bool {
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
    fn axes(&mut self, at: usize, op: &Op, mapping: &Mapping) -> Option<Option<Vec<String>>> {
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

    fn var_type(&mut self, at: usize, op: &Op, name: &str) -> Option<Type> {
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

    fn operands(&mut self, at: usize, op: &'a Op, mapping: &'static Mapping) -> Option<Parts<'a>> {
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

    fn results(&mut self, at: usize, op: &'a Op, mapping: &'static Mapping) -> Option<Parts<'a>> {
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
    fn groups(&self, mapping: &Mapping) -> (Vec<Option<Group>>, Vec<Option<Group>>) {
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

    fn check_count(
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

    /// The current value of a variable.
    fn value(&mut self, at: usize, op: &Op, name: &'a str) -> Option<ValueId> {
        if let Some(&value) = self.values.get(name) {
            return Some(value);
        }
        if let Some(global) = self.source.globals.get(name) {
            let loc = self.source.program.loc(self.cx, at);
            let symbol = self.cx.symbol_ref(name);
            let load = self
                .rw
                .build("dist.load", loc, &[], &[global.ty], &[("global", symbol)]);
            let value = self.rw.result(load, 0);
            self.values.insert(name, value);
            return Some(value);
        }
        // Not declared, or reported as unwritten.
        self.var_type(at, op, name)?;
        None
    }

    fn create(
        &mut self,
        at: usize,
        op: &'a Op,
        mapping: &'static Mapping,
        (inputs, outputs): (Parts<'a>, Parts<'a>),
        mut attrs: Vec<(&'static str, Attr)>,
    ) {
        let role = op.attr("op_role").and_then(Value::as_i64).unwrap_or(0);
        attrs.push(("dist.role", self.cx.string(role_of(role))));
        let created = if mapping.spreads() {
            self.spread(at, mapping, inputs, outputs, attrs)
        } else {
            Some(self.single(at, mapping, inputs, outputs, attrs))
        };
        let Some(created) = created else {
            return self.abandon(at, op);
        };
        self.record(at, op, mapping, &created);
        let written: Vec<&'a str> = op
            .outputs
            .iter()
            .flat_map(|s| s.args.iter().map(String::as_str))
            .collect();
        self.store(at, &written);
        self.note_loss(op, role);
    }

    fn single(
        &mut self,
        at: usize,
        mapping: &'static Mapping,
        mut inputs: Parts<'a>,
        outputs: Parts<'a>,
        mut attrs: Vec<(&'static str, Attr)>,
    ) -> Vec<OpId> {
        let loc = self.source.program.loc(self.cx, at);
        if mapping.special == Special::Elementwise && inputs.values.len() == 3 {
            self.fit_gradient(at, &mut inputs, &attrs);
        }
        // A group of one rank changes nothing, and `dist` collectives name at least one axis.
        let alone = mapping.has_ring()
            && attrs
                .iter()
                .any(|(name, axes)| *name == "axes" && self.cx.as_array(*axes) == Some(&[]));
        let name = if alone {
            attrs.retain(|(name, _)| *name == "dist.role");
            "dist.identity"
        } else {
            mapping.dist
        };
        if mapping.special != Special::AnyOf {
            let def = self.cx.op_def(self.cx.ident(name));
            let segments = |groups: &[Group], counts: &[i32]| {
                let optional = groups.iter().filter(|g| g.count != Count::One).count();
                let mut counts = counts.to_vec();
                counts.resize(groups.len(), 0);
                (optional > 1).then(|| self.cx.i32_array(&counts))
            };
            if let Some(def) = def {
                if let Some(sizes) = segments(def.operands, &inputs.counts) {
                    attrs.push((raddle_dialect::ops::OPERAND_SEGMENTS, sizes));
                }
                if let Some(sizes) = segments(def.results, &outputs.counts) {
                    attrs.push((raddle_dialect::ops::RESULT_SEGMENTS, sizes));
                }
            }
        }
        let created = self
            .rw
            .build(name, loc, &inputs.values, &outputs.types, &attrs);
        let names = self.cx.string_array(&outputs.names);
        self.rw.set_attr(created, NAMES, Some(names));
        for (name, value) in outputs.names.iter().zip(self.rw.results(created)) {
            self.values.insert(name, value);
        }
        vec![created]
    }

    /// Paddle takes a gradient of shape `[]` for a result of shape `[1]`, and the other way round; `dist` does not.
    fn fit_gradient(&mut self, at: usize, inputs: &mut Parts<'a>, attrs: &[(&'static str, Attr)]) {
        let shape = |ty| self.cx.as_tensor(ty).map_or(&[][..], |(shape, _)| shape);
        let (x, y) = (shape(inputs.types[0]), shape(inputs.types[1]));
        let one = |shape: &[i64]| shape.iter().all(|&d| d == 1);
        let rank = x.len().max(y.len());
        let Some((dout, element)) = self.cx.as_tensor(inputs.types[2]) else {
            return;
        };
        if !(one(x) && one(y) && one(dout)) || dout.len() == rank {
            return;
        }
        let loc = self.source.program.loc(self.cx, at);
        let ty = self.cx.tensor(&vec![1; rank], element);
        let mut named: Vec<_> = attrs
            .iter()
            .filter(|a| a.0 == "dist.role")
            .copied()
            .collect();
        named.push((IMPLICIT, self.cx.unit()));
        let reshape = self
            .rw
            .build("dist.reshape", loc, &[inputs.values[2]], &[ty], &named);
        inputs.values[2] = self.rw.result(reshape, 0);
    }

    /// One op per tensor of the first slot; results of the other slots come from the first op, except found-inf flags,
    /// which are joined.
    fn spread(
        &mut self,
        at: usize,
        mapping: &'static Mapping,
        inputs: Parts<'a>,
        outputs: Parts<'a>,
        mut attrs: Vec<(&'static str, Attr)>,
    ) -> Option<Vec<OpId>> {
        let loc = self.source.program.loc(self.cx, at);
        let count = inputs.counts[0] as usize;
        let rest_in = inputs.values.len() - count;
        let rest_out = outputs.types.len().checked_sub(count);
        let single = |counts: &[i32]| counts[1..].iter().all(|&c| c == 1);
        if count == 0
            || outputs.counts[0] as usize != count
            || !single(&inputs.counts)
            || !single(&outputs.counts)
        {
            self.error(
                at,
                "E0813",
                format!(
                    "slots of `{}` hold unlike numbers of variables",
                    mapping.paddle
                ),
                "`X` and `Out` hold the same number, at least one, and the others one each",
            );
            return None;
        }
        attrs.push(("group", self.cx.i64_attr(self.groups)));
        self.groups += 1;
        let rest_out = rest_out.unwrap_or(0);
        let mut created = Vec::with_capacity(count + 1);
        for i in 0..count {
            let mut operands = vec![inputs.values[i]];
            operands.extend(&inputs.values[count..count + rest_in]);
            let mut types = vec![outputs.types[i]];
            types.extend(&outputs.types[count..]);
            let op = self.rw.build(mapping.dist, loc, &operands, &types, &attrs);
            let mut names = vec![outputs.names[i]];
            let joined = mapping.special == Special::CheckFinite && count > 1;
            for &name in &outputs.names[count..count + rest_out] {
                names.push(if i == 0 && !joined { name } else { "" });
            }
            let names_attr = self.cx.string_array(&names);
            self.rw.set_attr(op, NAMES, Some(names_attr));
            for (name, value) in names.iter().zip(self.rw.results(op)) {
                if !name.is_empty() {
                    self.values.insert(name, value);
                }
            }
            created.push(op);
        }
        if mapping.special == Special::CheckFinite && count > 1 {
            let flags: Vec<_> = created.iter().map(|&op| self.rw.result(op, 1)).collect();
            let role: Vec<_> = attrs
                .iter()
                .filter(|a| a.0 == "dist.role")
                .copied()
                .collect();
            let any = self
                .rw
                .build("dist.any_of", loc, &flags, &[outputs.types[count]], &role);
            let name = outputs.names[count];
            let names = self.cx.string_array(&[name]);
            self.rw.set_attr(any, NAMES, Some(names));
            self.values.insert(name, self.rw.result(any, 0));
            created.push(any);
        }
        Some(created)
    }

    /// Hangs what is not interpreted on the ops.
    fn record(&mut self, at: usize, op: &Op, mapping: &'static Mapping, created: &[OpId]) {
        let ring = self.ring(at, op);
        let writing = Writing {
            module: self.rw.module(),
            mapping,
            op: created[0],
            mesh: self.source.mesh,
            rank: self.source.ranks[0],
            ring: op.attr("ring_id").and_then(Value::as_i64),
        };
        let (form, own) = Form::of(op, &writing.attrs());
        let form = self.body.forms.add(self.cx, &form);
        let form = self.cx.i64_attr(form);
        let own: Vec<_> = own
            .iter()
            .map(|(name, value)| (self.cx.ident(name), value.to_attr(self.cx)))
            .collect();
        let own = (!own.is_empty()).then(|| self.cx.dict(own));
        for &created in created {
            self.rw.set_attr(created, FORM, Some(form));
            self.rw.set_attr(created, ATTRS, own);
            self.rw.set_attr(created, RING, ring);
        }
    }

    /// Which ring the op used among those over its axes, on every rank of the class; nothing if it is the first everywhere.
    fn ring(&self, at: usize, op: &Op) -> Option<Attr> {
        op.attr("ring_id")?;
        let ids: Vec<Option<i64>> = self
            .source
            .programs
            .iter()
            .map(|p| p.ops.get(at)?.attr("ring_id")?.as_i64())
            .collect();
        let places: Vec<Option<usize>> = ids
            .iter()
            .zip(self.source.rings)
            .map(|(id, rings)| {
                let id = (*id)?;
                rings.of_axes(rings.axes.get(&id)?).position(|i| i == id)
            })
            .collect();
        match places[0] {
            Some(0) if places.iter().all(|p| *p == Some(0)) => None,
            Some(first) if places.iter().all(|p| *p == Some(first)) => {
                Some(self.cx.i64_attr(first as i64))
            }
            _ => {
                let ids = self.source.ranks.iter().zip(ids);
                let entries = ids.filter_map(|(rank, id)| {
                    Some((self.cx.ident(&rank.to_string()), self.cx.i64_attr(id?)))
                });
                Some(self.cx.dict(entries.collect()))
            }
        }
    }

    /// Stores the globals whose last write this was.
    fn store(&mut self, at: usize, written: &[&'a str]) {
        let loc = self.source.program.loc(self.cx, at);
        for (i, &name) in written.iter().enumerate() {
            let last = self.last_writes.get(name) == Some(&at) && !written[..i].contains(&name);
            if !last || self.source.globals.get(name).is_none() {
                continue;
            }
            let Some(&value) = self.values.get(name) else {
                continue;
            };
            let symbol = self.cx.symbol_ref(name);
            self.rw
                .build("dist.store", loc, &[value], &[], &[("global", symbol)]);
        }
    }

    /// The loss is the value whose gradient the first constant in the role "backward of the loss" is: by its name, or else
    /// what the last op in the role "loss" before it computed. (With loss scaling the two names do not agree.)
    fn note_loss(&mut self, op: &'a Op, role: i64) {
        if role & LOSS_ROLE == 0 || self.seeded {
            return;
        }
        let Some(output) = op.outputs.iter().flat_map(|s| &s.args).next() else {
            return;
        };
        if role_of(role) != "backward" {
            self.body.loss = self.values.get(output.as_str()).copied();
        } else if op.inputs.iter().all(|s| s.args.is_empty()) {
            self.seeded = true;
            let named = output
                .strip_suffix("@GRAD")
                .and_then(|name| self.values.get(name).copied());
            self.body.loss = named.or(self.body.loss);
        }
    }
}

impl<'a> Parts<'a> {
    fn new() -> Self {
        Self {
            values: Vec::new(),
            types: Vec::new(),
            names: Vec::new(),
            counts: Vec::new(),
            first: Vec::new(),
        }
    }

    fn push(&mut self, value: ValueId, ty: Type, name: &'a str, first: bool) {
        self.values.push(value);
        self.types.push(ty);
        self.names.push(name);
        if first && let Some(slot) = self.first.last_mut() {
            *slot = Some(ty);
        }
    }
}
