//! The `dist` ops that a Paddle op becomes: one, or one per tensor.

use raddle_dialect::ir::{Attr, OpId};
use raddle_dialect::ops::{Count, Group, OPERAND_SEGMENTS, RESULT_SEGMENTS};

use super::super::fold::Part;
use super::super::form::{IMPLICIT, NAMES, PARTS};
use super::super::mapping::{Mapping, Special, role_of};
use super::super::mesh_file::position;
use super::super::program::Op;
use super::super::value::Value;
use super::function::Builder;
use super::slots::Parts;

impl<'a> Builder<'a, '_, '_> {
    pub(super) fn single(
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
                    attrs.push((OPERAND_SEGMENTS, sizes));
                }
                if let Some(sizes) = segments(def.results, &outputs.counts) {
                    attrs.push((RESULT_SEGMENTS, sizes));
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
    pub(super) fn fit_gradient(
        &mut self,
        at: usize,
        inputs: &mut Parts<'a>,
        attrs: &[(&'static str, Attr)],
    ) {
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
    pub(super) fn spread(
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
                .filter(|a| matches!(a.0, "dist.role" | "dist.stage"))
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

    /// One op per tensor, of which each takes its entry of every list, and the only entry of a list of one.
    pub(super) fn merged(
        &mut self,
        at: usize,
        mapping: &'static Mapping,
        (inputs, outputs): (Parts<'a>, Parts<'a>),
        mut attrs: Vec<(&'static str, Attr)>,
        own: Vec<Vec<(&'static str, Attr)>>,
    ) -> Option<Vec<OpId>> {
        let loc = self.source.program.loc(self.cx, at);
        let count = own.len();
        let fits = |slot: &str, length: i32| match slot {
            "MasterParam" | "MasterParamOut" => length as usize == count || length == 0,
            "LearningRate" => {
                length as usize == count
                    || length == 1 && mapping.special == Special::MergedMomentum
            }
            _ => length as usize == count,
        };
        let odd = |slots: &[&'static str], counts: &[i32]| {
            let mut slots = slots.iter().zip(counts);
            slots
                .find(|(slot, n)| !fits(slot, **n))
                .map(|(slot, n)| (*slot, *n))
        };
        let odd = odd(mapping.inputs, &inputs.counts).or(odd(mapping.outputs, &outputs.counts));
        let masters = inputs.counts.last() == outputs.counts.last();
        if odd.is_some() || count == 0 || !masters {
            let (slot, length) = odd.unwrap_or(("MasterParamOut", 0));
            self.error(
                at,
                "E0813",
                format!(
                    "slot `{slot}` of `{}` holds {length} variables for {count} parameters",
                    mapping.paddle
                ),
                "the slots hold one variable per parameter; master copies may be left out, all of them",
            );
            return None;
        }
        attrs.push(("group", self.cx.i64_attr(self.groups)));
        self.groups += 1;
        let mut created = Vec::with_capacity(count);
        for (i, own) in own.into_iter().enumerate() {
            let pick = |counts: &[i32]| -> Vec<usize> {
                let mut start = 0;
                let mut picked = Vec::with_capacity(counts.len());
                for &n in counts {
                    if n > 0 {
                        picked.push(start + i.min(n as usize - 1));
                    }
                    start += n as usize;
                }
                picked
            };
            let operands = pick(&inputs.counts);
            let operands: Vec<_> = operands.iter().map(|&at| inputs.values[at]).collect();
            let results = pick(&outputs.counts);
            let types: Vec<_> = results.iter().map(|&at| outputs.types[at]).collect();
            let names: Vec<_> = results.iter().map(|&at| outputs.names[at]).collect();
            let attrs = [attrs.as_slice(), &own].concat();
            let op = self.rw.build(mapping.dist, loc, &operands, &types, &attrs);
            let named = self.cx.string_array(&names);
            self.rw.set_attr(op, NAMES, Some(named));
            for (name, value) in names.iter().zip(self.rw.results(op)) {
                self.values.insert(name, value);
            }
            created.push(op);
        }
        Some(created)
    }

    /// A split of which each rank reads the part at its coordinate.
    pub(super) fn part(
        &mut self,
        at: usize,
        op: &'a Op,
        mapping: &'static Mapping,
        (inputs, outputs): (Parts<'a>, Parts<'a>),
        part: &Part,
        axes: &[String],
    ) {
        let loc = self.source.program.loc(self.cx, at);
        let role = op.attr("op_role").and_then(Value::as_i64).unwrap_or(0);
        let here = position(self.source.mesh, self.source.ranks[0], axes) as i64;
        let start = (part.index as i64 - here) * part.size;
        let (mut names, ty) = (outputs.names, outputs.types[part.index]);
        let name = names.remove(part.index);
        let slice = self.rw.build(
            "dist.slice",
            loc,
            &inputs.values,
            &[ty],
            &[
                ("dims", self.cx.i64_array(&[part.dim])),
                ("starts", self.cx.i64_array(&[start])),
                ("sizes", self.cx.i64_array(&[part.size])),
                ("axes", self.cx.array(&[self.cx.string_array(axes)])),
                ("dist.role", self.cx.string(role_of(role))),
                (NAMES, self.cx.string_array(&[name])),
                (PARTS, self.cx.string_array(&names)),
            ],
        );
        self.values.insert(name, self.rw.result(slice, 0));
        self.record(at, op, mapping, &[slice]);
    }
}
