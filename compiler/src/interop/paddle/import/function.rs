//! One program becomes one function: variables written in place become SSA values.
//!
//! A persistable variable is loaded before the first op that reads it and stored after the last op that writes it. Other
//! variables that are read before anything writes them are the data inputs.

use std::collections::{HashMap, HashSet};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Attr, BlockId, Context, Rewriter, ValueId};
use raddle_dialect::mesh::Mesh;
use rustc_hash::FxBuildHasher;

use super::super::fold::{Candidates, Shifts, part};
use super::super::form::Forms;
use super::super::gradient_merge::ACCUMULATE;
use super::super::mapping::{LOSS_ROLE, Mapping, Reading, Special, role_of};
use super::super::mesh_file::Rings;
use super::super::program::{Op, Program};
use super::super::tables::tensor_type;
use super::super::transfers::Pipeline;
use super::super::value::Value;
use super::globals::Globals;
use super::slots::Parts;

/// A program and what it is imported with.
pub(super) struct Source<'a> {
    pub program: &'a Program,
    pub shifts: &'a Shifts,
    /// Slices of which only the layouts can tell what shifts them.
    pub open: Option<&'a Candidates>,
    /// Its sends, receives and stages, if it has a pipeline.
    pub pipeline: Option<&'a Pipeline>,
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

type Attrs = Vec<(&'static str, Attr)>;
type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// Builds the ops of a function.
pub(super) struct Builder<'a, 'm, 'd> {
    pub(super) source: &'a Source<'a>,
    pub(super) cx: &'a Context,
    pub(super) rw: &'a mut Rewriter<'m>,
    pub(super) diagnostics: &'d mut Diagnostics,
    pub(super) values: Map<&'a str, ValueId>,
    pub(super) last_writes: Map<&'a str, usize>,
    pub(super) body: Body,
    pub(super) groups: i64,
    seeded: bool,
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

    pub(super) fn error(&mut self, at: usize, code: &'static str, message: String, help: &str) {
        let loc = self.source.program.loc(self.cx, at);
        self.diagnostics
            .push(Diagnostic::error(code, loc, message).help(help));
    }

    fn op(&mut self, at: usize, op: &'a Op) {
        let done = match op.kind.as_str() {
            ACCUMULATE => self.accumulate(at, op),
            "send_v2" | "recv_v2" => self.transfer(at, op),
            "lookup_table_v2" | "lookup_table_v2_grad" => self.lookup(at, op),
            "softmax_with_cross_entropy" | "softmax_with_cross_entropy_grad" => {
                self.cross_entropy(at, op)
            }
            _ => return self.mapped(at, op),
        };
        match done {
            Some(()) => self.written(at, op),
            None => self.abandon(at, op),
        }
    }

    /// An op with a row in the table.
    fn mapped(&mut self, at: usize, op: &'a Op) {
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
        if mapping.special == Special::Split
            && let Some([shift]) = self.source.shifts.get(&at).map(Vec::as_slice)
            && let Some(part) = part(self.source.program, op)
        {
            return self.part(at, op, mapping, (inputs, outputs), &part, shift);
        }
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
        let own = || match mapping.merges() {
            true => (0..op.input("Param").len())
                .map(|i| reading.of_tensor(i))
                .collect(),
            false => Ok(vec![]),
        };
        match reading.attrs().and_then(|attrs| Ok((attrs, own()?))) {
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

    /// The current value of a variable.
    pub(super) fn value(&mut self, at: usize, op: &Op, name: &'a str) -> Option<ValueId> {
        if let Some(&value) = self.values.get(name) {
            return Some(value);
        }
        if let Some(global) = self.source.globals.get(name) {
            let loc = self.source.program.loc(self.cx, at);
            let mut attrs = vec![("global", self.cx.symbol_ref(name))];
            if self.source.pipeline.is_some() {
                attrs.extend(self.place(at, op));
            }
            let load = self.rw.build("dist.load", loc, &[], &[global.ty], &attrs);
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
        (mut attrs, own): (Attrs, Vec<Attrs>),
    ) {
        attrs.extend(self.place(at, op));
        let created = if mapping.merges() {
            self.merged(at, mapping, (inputs, outputs), attrs, own)
        } else if mapping.spreads() {
            self.spread(at, mapping, inputs, outputs, attrs)
        } else {
            Some(self.single(at, mapping, inputs, outputs, attrs))
        };
        let Some(created) = created else {
            return self.abandon(at, op);
        };
        self.record(at, op, mapping, &created);
        self.written(at, op);
    }

    /// After an op: what persists of what it wrote is stored.
    fn written(&mut self, at: usize, op: &'a Op) {
        let role = op.attr("op_role").and_then(Value::as_i64).unwrap_or(0);
        let written: Vec<&'a str> = op
            .outputs
            .iter()
            .flat_map(|s| s.args.iter().map(String::as_str))
            .collect();
        self.store(at, &written);
        self.note_loss(op, role);
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
