//! One function becomes one program's ops.

use std::collections::HashMap;

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{BlockId, Module, OpId, Type, ValueId};
use raddle_dialect::mesh::Mesh;
use rustc_hash::FxBuildHasher;

use super::super::form::{FORM, Form, IMPLICIT, NAMES, PARTS, RING};
use super::super::mapping::{Mapping, Special};
use super::super::mesh_file::position;
use super::super::tables::{ProgramTable, RankTable};
use super::attrs::{Source, kept, part};
use super::groups::{Group, Groups};
use super::values::{Event, Unit, Value, Values};

/// A function and what it is exported with.
pub(super) struct Exporter<'a, 'd> {
    pub module: &'a Module,
    pub mesh: &'a Mesh,
    pub rank: usize,
    pub ranks: &'a RankTable,
    pub program: &'a ProgramTable,
    pub diagnostics: &'d mut Diagnostics,
    pub values: Values,
    pub events: Vec<Event>,
    /// Per Paddle op, a form of it.
    models: HashMap<&'a str, &'a Form, FxBuildHasher>,
}

/// Slots with their values.
pub(super) type Slots = Vec<(String, Vec<Value>)>;

impl<'a, 'd> Exporter<'a, 'd> {
    pub(super) fn new(
        module: &'a Module,
        mesh: &'a Mesh,
        rank: usize,
        ranks: &'a RankTable,
        program: &'a ProgramTable,
        diagnostics: &'d mut Diagnostics,
    ) -> Self {
        let mut models: HashMap<&str, &Form, FxBuildHasher> = HashMap::default();
        for form in &program.forms {
            models.entry(&form.kind).or_insert(form);
        }
        Self {
            module,
            mesh,
            rank,
            ranks,
            program,
            diagnostics,
            values: Values::default(),
            events: Vec::new(),
            models,
        }
    }

    /// This rank's name for a variable.
    pub(super) fn renamed(&self, name: &str) -> String {
        let own = self.ranks.renames.get(name);
        own.map_or(name, String::as_str).to_owned()
    }

    /// Turns the ops of the function's body into events; returns the values that `func.return` reads.
    pub(super) fn run(&mut self, block: BlockId) -> Vec<Value> {
        let module = self.module;
        let groups = Groups::find(module, block);
        let mut returned = Vec::new();
        for op in module.block_ops(block) {
            match module.name_str(op) {
                "func.return" => {
                    returned = module
                        .operands(op)
                        .map(|v| self.values.get(module, v))
                        .collect();
                }
                "dist.load" => {
                    let value = self.values.get(module, module.result(op, 0));
                    let global = self.renamed(module.symbol_attr(op, "global").unwrap_or_default());
                    self.values.want(value, &global);
                    self.events.push(Event::Load { value, global });
                }
                "dist.store" => {
                    let value = self.values.get(module, module.operand(op, 0));
                    let global = self.renamed(module.symbol_attr(op, "global").unwrap_or_default());
                    self.values.want(value, &global);
                    self.events.push(Event::Store { value, global });
                }
                "dist.reshape" if module.attr(op, IMPLICIT).is_some() => {
                    let value = self.values.get(module, module.operand(op, 0));
                    self.values.merge(module.result(op, 0), value);
                }
                _ => match groups.of(op) {
                    Some(group) => self.member(op, group),
                    None => self.op(op),
                },
            }
        }
        returned
    }

    fn op(&mut self, op: OpId) {
        self.want_names(op);
        if self.split(op).is_some() {
            return;
        }
        match self.mapping(op) {
            Some(mapping) => {
                if let Some((inputs, outputs)) = self.slots(op, mapping) {
                    self.push(&[op], mapping, inputs, outputs);
                }
            }
            None => self.expand(op),
        }
    }

    /// Gives the op's results the names they came with.
    fn want_names(&mut self, op: OpId) {
        let cx = self.module.cx();
        let names = self.module.attr(op, NAMES);
        let names = names
            .and_then(|a| cx.as_string_array(a))
            .unwrap_or_default();
        for (result, name) in self.module.results(op).zip(names) {
            let value = self.values.get(self.module, result);
            let name = self.renamed(name);
            self.values.want(value, &name);
        }
    }

    fn form(&self, op: OpId) -> Option<&'a Form> {
        let index = self.module.i64_attr(op, FORM)?;
        self.program.forms.get(usize::try_from(index).ok()?)
    }

    /// The row by which an op is exported: that of its form if it still fits.
    fn mapping(&self, op: OpId) -> Option<&'static Mapping> {
        let (module, cx) = (self.module, self.module.cx());
        let name = module.name_str(op);
        let attr = |name: &str| module.attr(op, name);
        let own = self
            .form(op)
            .and_then(|form| Mapping::of_paddle(&form.kind));
        let own = own.filter(|row| {
            let alone = row.has_ring() && name == "dist.identity";
            (row.dist == name && row.implies(cx, attr))
                || (alone && self.ranks.rings.of_axes::<&str>(&[]).next().is_some())
        });
        let found = own.or_else(|| Mapping::of_dist(cx, name, attr));
        found.filter(|row| match row.special {
            Special::AnyOf => module.num_operands(op) == 2,
            Special::Fused => self.is_plain_fused(op),
            _ => true,
        })
    }

    /// Whether a fused linear op is what Paddle's is: with a bias, and nothing that needs another op.
    fn is_plain_fused(&self, op: OpId) -> bool {
        let (module, cx) = (self.module, self.module.cx());
        let bias = module
            .operand_in(op, "bias")
            .or(module.result_in(op, "dbias"));
        let element = |v: ValueId| cx.as_tensor(module.ty(v)).map(|(_, element)| element);
        let like = module
            .operand_in(op, "dout")
            .or(module.result_in(op, "out"));
        let alike = module
            .results(op)
            .all(|r| element(r) == like.and_then(element));
        bias.is_some()
            && module.num_operands(op) == 3
            && module.result_in(op, "aux").is_none()
            && alike
    }

    /// The op's values by slot.
    fn slots(&mut self, op: OpId, mapping: &'static Mapping) -> Option<(Slots, Slots)> {
        let module = self.module;
        let def = module.def_of(op)?;
        let operands: Vec<ValueId> = module.operands(op).collect();
        let results: Vec<ValueId> = module.results(op).collect();
        let (ins, outs) = match mapping.special {
            Special::AnyOf => (vec![0..1, 1..2], std::iter::once(0..1).collect()),
            _ => (
                module.operand_segments(op, def).ok()?,
                module.result_segments(op, def).ok()?,
            ),
        };
        let mut take = |names: &[&str], ranges: Vec<std::ops::Range<usize>>, all: &[ValueId]| {
            let slots = names.iter().zip(ranges).map(|(name, range)| {
                let values = all[range].iter();
                let values = values.map(|&v| self.values.get(module, v)).collect();
                ((*name).to_owned(), values)
            });
            slots.collect::<Slots>()
        };
        let inputs = take(mapping.inputs, ins, &operands);
        let outputs = take(mapping.outputs, outs, &results);
        Some((inputs, outputs))
    }

    /// Exports ops, which have become one, by their row.
    fn push(&mut self, members: &[OpId], mapping: &'static Mapping, inputs: Slots, outputs: Slots) {
        let op = members[0];
        let axes = self.axes(op);
        let ring = match mapping.has_ring() {
            true => match self.ring(op, &axes) {
                Some(ring) => Some(ring),
                None => return self.no_ring(op, &axes),
            },
            false => None,
        };
        let counts = |slots: &Slots| -> Vec<(usize, Option<Type>)> {
            let first = |values: &Vec<Value>| values.first().map(|v| self.values.ty(*v));
            slots.iter().map(|(_, v)| (v.len(), first(v))).collect()
        };
        let own = self.form(op).filter(|form| form.kind == mapping.paddle);
        let source = Source {
            module: self.module,
            op,
            members,
            mapping,
            mesh: self.mesh,
            rank: self.rank,
            ring,
            axes: Some(&axes),
            inputs: &counts(&inputs),
            outputs: &counts(&outputs),
        };
        let attrs = match own {
            Some(form) => source.with_own(form),
            None => source.with_model(self.models.get(mapping.paddle).copied()),
        };
        let Some(mut attrs) = attrs else {
            let name = self.module.name_str(op);
            self.diagnostics.push(
                Diagnostic::error(
                    "E0834",
                    self.module.loc(op),
                    format!(
                        "'{name}' op has an attribute that Paddle's `{}` cannot hold",
                        mapping.paddle
                    ),
                )
                .help("Paddle's integers and dimensions have 32 bits"),
            );
            return;
        };
        for (name, value) in &mut attrs {
            if name == "op_role_var" {
                self.rename_list(value);
            }
        }
        let model = own.or_else(|| self.models.get(mapping.paddle).copied());
        let order = |slots: Slots, order: Option<&[String]>| ordered(slots, order.unwrap_or(&[]));
        self.events.push(Event::Unit(Unit {
            kind: mapping.paddle.to_owned(),
            inputs: order(inputs, model.map(|f| f.inputs.as_slice())),
            outputs: order(outputs, model.map(|f| f.outputs.as_slice())),
            attrs,
            is_target: own.and_then(|f| f.is_target),
        }));
    }

    fn rename_list(&self, value: &mut super::super::value::Value) {
        if let super::super::value::Value::Strings(names) = value {
            for name in names {
                if let Some(own) = std::str::from_utf8(name)
                    .ok()
                    .and_then(|n| self.ranks.renames.get(n))
                {
                    *name = own.as_bytes().to_vec();
                }
            }
        }
    }

    /// The op's mesh axes of size above 1, in mesh order.
    fn axes(&self, op: OpId) -> Vec<String> {
        let named = self.module.axes_attr(op, "axes");
        let axes = self.mesh.axes().iter().zip(self.mesh.sizes());
        axes.filter(|(axis, size)| **size > 1 && named.contains(&axis.as_str()))
            .map(|(axis, _)| axis.clone())
            .collect()
    }

    /// The ring of this rank over axes: the one the op had, else the first.
    fn ring(&self, op: OpId, axes: &[String]) -> Option<i64> {
        let cx = self.module.cx();
        let rings: Vec<i64> = self.ranks.rings.of_axes(axes).collect();
        let attr = self.module.attr(op, RING);
        let own = attr.and_then(|a| match cx.as_i64(a) {
            Some(place) => rings.get(usize::try_from(place).ok()?).copied(),
            None => cx
                .dict_get(a, &self.rank.to_string())
                .and_then(|id| cx.as_i64(id))
                .filter(|id| rings.contains(id)),
        });
        own.or_else(|| rings.first().copied())
    }

    fn no_ring(&mut self, op: OpId, axes: &[String]) {
        let name = self.module.name_str(op);
        self.diagnostics.push(
            Diagnostic::error(
                "E0831",
                self.module.loc(op),
                format!(
                    "'{name}' op runs over {axes:?}, for which rank {} has no ring",
                    self.rank
                ),
            )
            .help("add a ring over these axes to the mesh file and import again"),
        );
    }

    /// Exports a group at its last member.
    fn member(&mut self, op: OpId, group: &Group) {
        let module = self.module;
        if Some(op) == group.joined {
            // Further flags join the group's.
            if module.num_operands(op) > group.members.len() {
                self.want_names(op);
                self.expand(op);
            }
            return;
        }
        self.want_names(op);
        if group.members.last() != Some(&op) {
            return;
        }
        let first = group.members[0];
        let Some(mapping) = self.mapping(first) else {
            return;
        };
        let Some((mut inputs, mut outputs)) = self.slots(first, mapping) else {
            return;
        };
        if mapping.merges() {
            return self.merged(mapping, &group.members);
        }
        if let Some(joined) = group.joined {
            // All members' flags are one; if nothing else joins them, so is the result.
            let flag = outputs[1].1[0];
            let flag = match module.num_operands(joined) == group.members.len() {
                true => {
                    self.want_names(joined);
                    self.values.get(module, module.result(joined, 0))
                }
                false => flag,
            };
            for &member in &group.members {
                self.values.merge(module.result(member, 1), flag);
            }
            outputs[1].1[0] = flag;
        } else {
            for &member in &group.members {
                for (slot, result) in outputs[1..].iter().zip(module.results(member).skip(1)) {
                    let own = self.values.get(module, result);
                    if let Some(name) = self.values.wanted(own).map(str::to_owned) {
                        self.values.want(slot.1[0], &name);
                    }
                    self.values.merge(result, slot.1[0]);
                }
            }
        }
        for &member in &group.members[1..] {
            let x = self.values.get(module, module.operand(member, 0));
            let out = self.values.get(module, module.result(member, 0));
            inputs[0].1.push(x);
            outputs[0].1.push(out);
        }
        self.push(&group.members, mapping, inputs, outputs);
    }

    /// Exports a group of which every slot has one value per member, except that a common learning rate is given once where
    /// Paddle takes that.
    fn merged(&mut self, mapping: &'static Mapping, members: &[OpId]) {
        let mut all: Option<(Slots, Slots)> = None;
        for &member in members {
            let Some((inputs, outputs)) = self.slots(member, mapping) else {
                return;
            };
            match &mut all {
                None => all = Some((inputs, outputs)),
                Some(all) => {
                    let more = inputs.into_iter().chain(outputs);
                    let slots = all.0.iter_mut().chain(&mut all.1);
                    slots
                        .zip(more)
                        .for_each(|(slot, more)| slot.1.extend(more.1));
                }
            }
        }
        let Some((mut inputs, outputs)) = all else {
            return;
        };
        if mapping.special == Special::MergedMomentum
            && let Some((_, rates)) = inputs.iter_mut().find(|(name, _)| name == "LearningRate")
            && rates.iter().all(|rate| *rate == rates[0])
        {
            rates.truncate(1);
        }
        self.push(members, mapping, inputs, outputs);
    }

    /// Exports a slice that was a split as one, if it still is what the rank reads of it.
    fn split(&mut self, op: OpId) -> Option<()> {
        let (module, cx) = (self.module, self.module.cx());
        let rest = cx.as_string_array(module.attr(op, PARTS)?)?;
        let form = self.form(op).filter(|form| form.kind == "split")?;
        let ints = |name| cx.as_i64_array(module.attr(op, name)?);
        let (dims, starts, sizes) = (ints("dims")?, ints("starts")?, ints("sizes")?);
        let axes = cx.as_array(module.attr(op, "axes")?)?;
        let (&[dim], &[start], &[size], &[axes]) = (&dims[..], &starts[..], &sizes[..], axes)
        else {
            return None;
        };
        let shift = position(self.mesh, self.rank, &cx.as_string_array(axes)?) as i64;
        let start = start.checked_add(size.checked_mul(shift)?)?;
        let (shape, _) = cx.as_tensor(module.ty(module.operand(op, 0)))?;
        let count = rest.len() as i64 + 1;
        let index = usize::try_from(start.checked_div(size)?).ok()?;
        if size.checked_mul(count) != shape.get(usize::try_from(dim).ok()?).copied()
            || start % size != 0
            || index > rest.len()
        {
            return None;
        }
        let part = module.result(op, 0);
        let mut outputs: Vec<Value> = rest
            .into_iter()
            .map(|name| {
                let value = self.values.temporary(module.ty(part));
                let name = self.renamed(name);
                self.values.want(value, &name);
                value
            })
            .collect();
        outputs.insert(index, self.values.get(module, part));
        let x = self.values.get(module, module.operand(op, 0));
        let inputs = vec![("X".to_owned(), vec![x])];
        let outputs = vec![("Out".to_owned(), outputs)];
        self.events.push(Event::Unit(Unit {
            kind: form.kind.clone(),
            inputs: ordered(inputs, &form.inputs),
            outputs: ordered(outputs, &form.outputs),
            attrs: kept(module, op, form),
            is_target: form.is_target,
        }));
        Some(())
    }

    /// Adds an op that stands for a part of a `dist` op.
    pub(super) fn part(
        &mut self,
        op: OpId,
        kind: &str,
        inputs: &[(&str, Vec<Value>)],
        outputs: &[(&str, Vec<Value>)],
        attrs: &[(&str, super::super::value::Value)],
    ) {
        let slots = |slots: &[(&str, Vec<Value>)]| {
            let mut slots: Slots = slots
                .iter()
                .map(|(n, v)| ((*n).to_owned(), v.clone()))
                .collect();
            slots.sort_by(|a, b| a.0.cmp(&b.0));
            slots
        };
        self.events.push(Event::Unit(Unit {
            kind: kind.to_owned(),
            inputs: slots(inputs),
            outputs: slots(outputs),
            attrs: part(self.module, op, attrs),
            is_target: None,
        }));
    }
}

/// Slots in the order of a form; slots of it without values are empty, and the rest follows by name.
fn ordered(slots: Slots, order: &[String]) -> Slots {
    let mut rest = slots;
    rest.sort_by(|a, b| a.0.cmp(&b.0));
    let mut all: Slots = Vec::with_capacity(order.len());
    for name in order {
        let values = rest.iter().position(|(n, _)| n == name);
        let values = values.map(|at| rest.remove(at).1);
        all.push((name.clone(), values.unwrap_or_default()));
    }
    all.extend(rest.into_iter().filter(|(_, values)| !values.is_empty()));
    all
}
