//! What hangs on the ops of a function besides what they mean: forms, rings, and the stores of globals.

use raddle_dialect::ir::{Attr, OpId};

use super::super::form::{ATTRS, FORM, Form, OPEN, PARTS, RING};
use super::super::mapping::{Mapping, Writing};
use super::super::program::Op;
use super::super::value::Value;
use super::function::Builder;

impl<'a> Builder<'a, '_, '_> {
    /// Hangs what is not interpreted on the ops.
    pub(super) fn record(
        &mut self,
        at: usize,
        op: &Op,
        mapping: &'static Mapping,
        created: &[OpId],
    ) {
        let ring = self.ring(at, op);
        let writing = Writing {
            module: self.rw.module(),
            mapping,
            op: created[0],
            members: created,
            mesh: self.source.mesh,
            rank: self.source.ranks[0],
            ring: op.attr("ring_id").and_then(Value::as_i64),
        };
        let mut computed = writing.attrs();
        if self.rw.attr(created[0], PARTS).is_some() {
            // The slice does not say how it was a split.
            computed.retain(|(name, _)| *name == "op_role");
        }
        let (form, own) = Form::of(op, &computed);
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
            if let Some(sets) = self.source.open.and_then(|open| open.get(&at)) {
                let sets: Vec<_> = sets
                    .iter()
                    .map(|sets| {
                        let sets: Vec<_> = sets.iter().map(|s| self.cx.string_array(s)).collect();
                        self.cx.array(&sets)
                    })
                    .collect();
                let sets = self.cx.array(&sets);
                self.rw.set_attr(created, OPEN, Some(sets));
            }
        }
    }

    /// Which ring the op used among those over its axes, on every rank of the class; nothing if it is the first everywhere.
    pub(super) fn ring(&self, at: usize, op: &Op) -> Option<Attr> {
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
    pub(super) fn store(&mut self, at: usize, written: &[&'a str]) {
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
}
