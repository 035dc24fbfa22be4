//! Writes ops, blocks and regions. They nest as deep as the input likes, so what is still to come lies on a stack.

use std::io;

use super::form::{Form, Forms};
use super::inherent::divided;
use super::names::Names;
use super::types::is_function;
use super::uniform::push_attrs;
use super::value::ValueWriter;
use super::{PrintOptions, Sink, uniform, upstream};
use crate::ir::{BlockId, Module, OpId, RegionId, ValueId};
use crate::ops::Custom;

/// Whether a region starts with the label of its first block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryLabel {
    /// If the block has arguments.
    Args,
    /// If the block has arguments or is empty.
    ArgsOrEmpty,
    /// Never: the arguments are shown elsewhere.
    Hidden,
}

/// Text is handed on in pieces of about this size.
const PIECE_BYTES: usize = 1 << 16;

enum Item {
    /// The ops of a block, from this one on.
    Ops(Option<OpId>),
    /// The blocks of a region behind the first, from this one on.
    Blocks(Option<BlockId>),
    /// The end of a region.
    Close,
    /// Region `index` and the following ones of an op in generic form, then the rest of the op.
    Regions(OpId, usize),
    /// What comes behind an op.
    End(OpId),
}

/// Writes one module.
pub(super) struct Printer<'m> {
    pub module: &'m Module,
    pub values: ValueWriter<'m>,
    pub names: Names,
    forms: &'m Forms,
    options: PrintOptions,
    indent: usize,
    stack: Vec<Item>,
    /// The dialect that ops of each open region may leave out of their name.
    dialects: Vec<&'static str>,
}

impl<'m> Printer<'m> {
    pub fn new(
        module: &'m Module,
        values: ValueWriter<'m>,
        names: Names,
        forms: &'m Forms,
        options: PrintOptions,
    ) -> Self {
        Self {
            module,
            values,
            names,
            forms,
            options,
            indent: 0,
            stack: Vec::new(),
            dialects: vec!["builtin"],
        }
    }

    /// Writes the root with all it holds, handing finished text to the sink piece by piece.
    pub fn run(&mut self, sink: Sink) -> io::Result<()> {
        self.op(self.module.root());
        while let Some(item) = self.stack.pop() {
            if self.values.out.len() >= PIECE_BYTES {
                sink(&self.values.out)?;
                self.values.out.clear();
            }
            match item {
                Item::Ops(Some(op)) => {
                    self.stack.push(Item::Ops(self.module.next_op(op)));
                    self.op(op);
                }
                Item::Ops(None) => self.indent -= 1,
                Item::Blocks(Some(block)) => {
                    self.stack.push(Item::Blocks(self.module.next_block(block)));
                    self.block(block, true);
                }
                Item::Blocks(None) => {}
                Item::Close => {
                    self.dialects.pop();
                    self.line_start();
                    self.values.out.push('}');
                }
                Item::Regions(op, index) => self.generic_regions(op, index),
                Item::End(op) => self.end(op),
            }
        }
        Ok(())
    }

    fn line_start(&mut self) {
        for _ in 0..self.indent {
            self.values.out.push_str("  ");
        }
    }

    fn op(&mut self, op: OpId) {
        self.line_start();
        let results = self.module.num_results(op);
        if results > 0 {
            let first = self.module.result(op, 0);
            self.names.push_name(&mut self.values.out, first);
            if results > 1 {
                self.values.out.push(':');
                super::text::push_uint(&mut self.values.out, results as u64);
            }
            self.values.out.push_str(" = ");
        }
        self.stack.push(Item::End(op));
        let forms = self.forms;
        match forms.of(self.module, op) {
            Form::Uniform(known, form) => uniform::push(self, op, known, form),
            Form::Custom(_, Custom::Mesh) => uniform::push_mesh(self, op),
            Form::Custom(known, form) => upstream::push(self, op, known.def, form),
            Form::Generic => self.generic(op),
        }
    }

    fn end(&mut self, op: OpId) {
        if self.options.debug_info {
            self.values.out.push(' ');
            self.values.loc(self.module.loc(op), true);
        }
        self.values.out.push('\n');
    }

    fn generic(&mut self, op: OpId) {
        let module = self.module;
        let out = &mut self.values.out;
        super::text::push_string(out, module.name_str(op).as_bytes());
        out.push('(');
        self.operands(op);
        self.values.out.push(')');
        let successors = module.successors(op);
        if !successors.is_empty() {
            self.values.out.push('[');
            for (index, &block) in successors.iter().enumerate() {
                if index > 0 {
                    self.values.out.push_str(", ");
                }
                self.names.push_block(&mut self.values.out, block);
            }
            self.values.out.push(']');
        }
        self.properties(op);
        if module.regions(op).is_empty() {
            self.generic_tail(op);
        } else {
            self.values.out.push_str(" (");
            self.generic_regions(op, 0);
        }
    }

    fn generic_regions(&mut self, op: OpId, index: usize) {
        let Some(&region) = self.module.regions(op).get(index) else {
            self.values.out.push(')');
            return self.generic_tail(op);
        };
        if index > 0 {
            self.values.out.push_str(", ");
        }
        self.stack.push(Item::Regions(op, index + 1));
        self.region(region, EntryLabel::ArgsOrEmpty, "");
    }

    fn properties(&mut self, op: OpId) {
        let module = self.module;
        let cx = module.cx();
        match self.forms.known(module, op) {
            Some(known) if known.def.has_properties() => {
                let inherent = divided(module, op, known).inherent;
                if !inherent.is_empty() {
                    self.values.out.push_str(" <{");
                    self.values.entries(&inherent);
                    self.values.out.push_str("}>");
                }
            }
            _ => {
                let props = module.props(op);
                if props != cx.empty_dict() {
                    self.values.out.push_str(" <");
                    self.values.attr(props);
                    self.values.out.push('>');
                }
            }
        }
    }

    fn generic_tail(&mut self, op: OpId) {
        let module = self.module;
        match self.forms.known(module, op) {
            Some(known) if known.def.has_properties() => {
                let attrs = divided(module, op, known).discardable;
                push_attrs(&mut self.values, &attrs, |_, _| false);
            }
            _ => {
                let attrs = module.attrs(op);
                if attrs != module.cx().empty_dict() {
                    self.values.out.push(' ');
                    self.values.attr(attrs);
                }
            }
        }
        self.values.out.push_str(" : ");
        self.signature(op);
    }

    /// `{` and what follows up to `}`. Ops inside may leave out `dialect`.
    pub fn region(&mut self, region: RegionId, label: EntryLabel, dialect: &'static str) {
        self.values.out.push_str("{\n");
        self.dialects.push(dialect);
        self.stack.push(Item::Close);
        let Some(entry) = self.module.first_block(region) else {
            return;
        };
        self.stack.push(Item::Blocks(self.module.next_block(entry)));
        let args = !self.module.args(entry).is_empty();
        let shown = match label {
            EntryLabel::Args => args,
            EntryLabel::ArgsOrEmpty => args || self.module.first_op(entry).is_none(),
            EntryLabel::Hidden => false,
        };
        self.block(entry, shown);
    }

    fn block(&mut self, block: BlockId, label: bool) {
        if label {
            self.label(block);
        }
        self.indent += 1;
        self.stack.push(Item::Ops(self.module.first_op(block)));
    }

    fn label(&mut self, block: BlockId) {
        let module = self.module;
        self.line_start();
        self.names.push_block(&mut self.values.out, block);
        let args = module.args(block);
        if !args.is_empty() {
            self.values.out.push('(');
            for index in 0..args.len() {
                if index > 0 {
                    self.values.out.push_str(", ");
                }
                self.argument(block, index);
                self.argument_loc(block, index);
            }
            self.values.out.push(')');
        }
        self.values.out.push(':');
        let predecessors = self.names.predecessors(block);
        let out = &mut self.values.out;
        match predecessors {
            [] => {
                let entry = module.first_block(module.block_parent(block));
                if entry != Some(block) {
                    out.push_str("  // no predecessors");
                }
            }
            [(_, one)] => {
                out.push_str("  // pred: ^bb");
                super::text::push_uint(out, u64::from(*one));
            }
            several => {
                out.push_str("  // ");
                super::text::push_uint(out, several.len() as u64);
                out.push_str(" preds: ");
                for (index, (_, from)) in several.iter().enumerate() {
                    out.push_str(if index == 0 { "^bb" } else { ", ^bb" });
                    super::text::push_uint(out, u64::from(*from));
                }
            }
        }
        self.values.out.push('\n');
    }

    /// `%arg0: i32`
    pub fn argument(&mut self, block: BlockId, index: usize) {
        let arg = self.module.args(block)[index];
        self.value(arg);
        self.values.out.push_str(": ");
        self.values.ty(self.module.ty(arg));
    }

    /// The location of a block argument, if locations are shown.
    pub fn argument_loc(&mut self, block: BlockId, index: usize) {
        if self.options.debug_info {
            self.values.out.push(' ');
            self.values.loc(self.module.arg_loc(block, index), false);
        }
    }

    /// `%0`
    pub fn value(&mut self, value: ValueId) {
        self.names
            .push_value(&mut self.values.out, self.module, value);
    }

    /// `%0, %1`
    pub fn values(&mut self, values: impl Iterator<Item = ValueId>) {
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.values.out.push_str(", ");
            }
            self.value(value);
        }
    }

    /// All operands of an op, `%0, %1`.
    pub fn operands(&mut self, op: OpId) {
        let module = self.module;
        self.values(module.operands(op));
    }

    /// `i32, f32`
    pub fn types(&mut self, values: impl Iterator<Item = ValueId>) {
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.values.out.push_str(", ");
            }
            self.values.ty(self.module.ty(value));
        }
    }

    /// `(i32, f32) -> i32`
    pub fn signature(&mut self, op: OpId) {
        let module = self.module;
        self.values.out.push('(');
        self.types(module.operands(op));
        self.values.out.push_str(") -> ");
        let bare = module.num_results(op) == 1
            && !is_function(module.cx(), module.ty(module.result(op, 0)));
        if !bare {
            self.values.out.push('(');
        }
        self.types(module.results(op));
        if !bare {
            self.values.out.push(')');
        }
    }

    /// The op's name, without the dialect that this region leaves out.
    pub fn op_name(&mut self, name: &'static str) {
        let dialect = self.dialects.last().copied().unwrap_or_default();
        let short = name
            .strip_prefix(dialect)
            .and_then(|rest| rest.strip_prefix('.'))
            .filter(|_| !dialect.is_empty());
        self.values.out.push_str(short.unwrap_or(name));
    }
}
