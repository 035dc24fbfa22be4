//! Ops of pipeline programs and of language models that have no row in the table: sends, receives, sums over micro-batches,
//! look-ups, the loss.

use raddle_dialect::ir::{Attr, Type, ValueId};

use super::super::form::NAMES;
use super::super::gradient_merge::GLOBAL;
use super::super::mapping::role_of;
use super::super::program::Op;
use super::super::value::Value;
use super::function::Builder;

type Attrs = Vec<(&'static str, Attr)>;

impl<'a> Builder<'a, '_, '_> {
    /// Role and stage of an op.
    pub(super) fn place(&self, at: usize, op: &Op) -> Attrs {
        let role = op.attr("op_role").and_then(Value::as_i64).unwrap_or(0);
        let mut attrs = vec![("dist.role", self.cx.string(role_of(role)))];
        let stage = self.source.pipeline.and_then(|p| *p.stages.get(at)?);
        attrs.extend(stage.map(|stage| ("dist.stage", self.cx.i64_attr(stage))));
        attrs
    }

    /// One end of a message.
    pub(super) fn transfer(&mut self, at: usize, op: &'a Op) -> Option<()> {
        let transfer = self.source.pipeline?.transfers.get(&at)?;
        let peer = transfer
            .peer
            .iter()
            .map(|(axis, index)| (self.cx.ident(axis), self.cx.i64_attr(*index)))
            .collect();
        let mut attrs = self.place(at, op);
        attrs.push(("peer", self.cx.dict(peer)));
        attrs.push(("tag", self.cx.i64_attr(transfer.tag)));
        match op.kind.as_str() {
            "send_v2" => {
                let name = self.only(at, op, "X", op.input("X"))?;
                let value = self.value(at, op, name)?;
                self.emit_op(at, "dist.send", &[value], &[], &attrs);
            }
            _ => {
                let name = self.only(at, op, "Out", op.output("Out"))?;
                let ty = self.var_type(at, op, name)?;
                self.define(at, "dist.recv", &[], (ty, name), attrs);
            }
        }
        Some(())
    }

    /// A sum over micro-batches.
    pub(super) fn accumulate(&mut self, at: usize, op: &'a Op) -> Option<()> {
        let name = self.only(at, op, "X", op.input("X"))?;
        let value = self.value(at, op, name)?;
        let global = op.attr(GLOBAL).and_then(Value::as_str)?;
        let mut attrs = self.place(at, op);
        attrs.push(("global", self.cx.symbol_ref(global)));
        self.emit_op(at, "dist.accumulate", &[value], &[], &attrs);
        Some(())
    }

    /// Rows of a table, and the table's gradient.
    pub(super) fn lookup(&mut self, at: usize, op: &'a Op) -> Option<()> {
        let padding = op.attr("padding_idx").and_then(Value::as_i64);
        let sparse = ["is_sparse", "is_distributed"]
            .iter()
            .any(|name| op.attr(name).and_then(Value::as_bool) == Some(true));
        if !matches!(padding, None | Some(-1)) || sparse {
            self.error(
                at,
                "E0812",
                format!("`{}` has an unsupported attribute", op.kind),
                "tables are dense, and without a padding index",
            );
            return None;
        }
        let gradient = op.kind.ends_with("_grad");
        let (slot, result) = match gradient {
            true => ("Out@GRAD", "W@GRAD"),
            false => ("W", "Out"),
        };
        let ids = self.read(at, op, "Ids")?;
        let other = self.read(at, op, slot)?;
        let name = self.only(at, op, result, op.output(result))?;
        let ty = self.var_type(at, op, name)?;
        let mut attrs = self.place(at, op);
        attrs.push(("axes", self.cx.array(&[])));
        let dist = match gradient {
            true => "dist.embedding_grad",
            false => "dist.embedding",
        };
        self.define(at, dist, &[ids, other], (ty, name), attrs);
        Some(())
    }

    /// Softmax, logarithm and choice of the label's entry in one. Paddle's labels and losses have a last dimension of extent 1.
    pub(super) fn cross_entropy(&mut self, at: usize, op: &'a Op) -> Option<()> {
        let flag = |name| op.attr(name).and_then(Value::as_bool);
        let labels = self.read(at, op, "Label")?;
        let rank = self.shape_of(labels).len() as i64;
        let axis = op.attr("axis").and_then(Value::as_i64);
        let last = axis.is_none_or(|axis| axis == -1 || axis == rank - 1);
        let one = self.shape_of(labels).last() == Some(&1);
        if flag("soft_label") == Some(true) || flag("use_softmax") == Some(false) || !last || !one {
            self.error(
                at,
                "E0812",
                format!("`{}` has an unsupported attribute", op.kind),
                "classes are the last dimension of the logits; labels are their numbers, in a last dimension of extent 1",
            );
            return None;
        }
        let labels = self.without_last(at, op, labels);
        let ignore = op.attr("ignore_index").and_then(Value::as_i64);
        let mut attrs = self.place(at, op);
        attrs.push(("axes", self.cx.array(&[])));
        attrs.push(("ignore_index", self.cx.i64_attr(ignore.unwrap_or(-100))));
        if op.kind.ends_with("_grad") {
            let softmax = self.read(at, op, "Softmax")?;
            let dloss = self.read(at, op, "Loss@GRAD")?;
            let dloss = self.without_last(at, op, dloss);
            let name = self.only(at, op, "Logits@GRAD", op.output("Logits@GRAD"))?;
            let ty = self.var_type(at, op, name)?;
            let operands = [softmax, labels, dloss];
            self.define(
                at,
                "dist.softmax_cross_entropy_grad",
                &operands,
                (ty, name),
                attrs,
            );
            return Some(());
        }
        let logits = self.read(at, op, "Logits")?;
        let softmax = self.only(at, op, "Softmax", op.output("Softmax"))?;
        let loss = self.only(at, op, "Loss", op.output("Loss"))?;
        let (softmax_ty, loss_ty) = (
            self.var_type(at, op, softmax)?,
            self.var_type(at, op, loss)?,
        );
        let flat = self.drop_last(loss_ty);
        attrs.push((NAMES, self.cx.string_array(&["", softmax])));
        let results = self.emit_op(
            at,
            "dist.softmax_cross_entropy",
            &[logits, labels],
            &[flat, softmax_ty],
            &attrs,
        );
        self.values.insert(softmax, results[1]);
        let place = self.place(at, op);
        self.define(at, "dist.reshape", &results[..1], (loss_ty, loss), place);
        Some(())
    }

    fn shape_of(&self, value: ValueId) -> &'a [i64] {
        let ty = self.rw.ty(value);
        self.cx.as_tensor(ty).map_or(&[], |(shape, _)| shape)
    }

    fn drop_last(&self, ty: Type) -> Type {
        match self.cx.as_tensor(ty) {
            Some(([shape @ .., 1], element)) => self.cx.tensor(shape, element),
            _ => ty,
        }
    }

    fn without_last(&mut self, at: usize, op: &Op, value: ValueId) -> ValueId {
        let ty = self.drop_last(self.rw.ty(value));
        let place = self.place(at, op);
        self.emit_op(at, "dist.reshape", &[value], &[ty], &place)[0]
    }

    fn read(&mut self, at: usize, op: &'a Op, slot: &str) -> Option<ValueId> {
        let name = self.only(at, op, slot, op.input(slot))?;
        self.value(at, op, name)
    }

    /// The only variable in a slot.
    fn only(&mut self, at: usize, op: &Op, slot: &str, args: &'a [String]) -> Option<&'a str> {
        match args {
            [name] => Some(name),
            _ => {
                self.error(
                    at,
                    "E0813",
                    format!(
                        "slot `{slot}` of `{}` holds {} variables",
                        op.kind,
                        args.len()
                    ),
                    "it takes one variable",
                );
                None
            }
        }
    }

    fn emit_op(
        &mut self,
        at: usize,
        name: &str,
        operands: &[ValueId],
        results: &[Type],
        attrs: &[(&'static str, Attr)],
    ) -> Vec<ValueId> {
        let loc = self.source.program.loc(self.cx, at);
        let op = self.rw.build(name, loc, operands, results, attrs);
        self.rw.results(op).collect()
    }

    /// An op with one result, which a variable holds from now on.
    fn define(
        &mut self,
        at: usize,
        name: &str,
        operands: &[ValueId],
        (ty, variable): (Type, &'a str),
        mut attrs: Attrs,
    ) {
        attrs.push((NAMES, self.cx.string_array(&[variable])));
        let results = self.emit_op(at, name, operands, &[ty], &attrs);
        self.values.insert(variable, results[0]);
    }
}
