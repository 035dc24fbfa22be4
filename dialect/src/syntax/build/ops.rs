//! Ops: begun at their name, created when their text ends.

use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::super::cache::Known;
use super::super::error::{Failure, fail, report};
use super::super::token::Tok;
use super::locs::OpLoc;
use super::{Builder, at, mark};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, Ident, NewOp, Position, Type, TypeData};
use crate::ops::{Custom, OpDef, Pretty};

/// An op whose text is being read. The marks say where its parts start on the builder's stacks.
pub(in super::super) struct Frame {
    pub name: Ident,
    pub def: Option<&'static OpDef>,
    /// The token of its name.
    pub tok: Tok,
    pub generic: bool,
    pub results: u32,
    pub operands: u32,
    pub successors: u32,
    pub regions: u32,
    pub inherent: u32,
    /// Where the types of its operands start, and those of its results.
    pub types: (u32, u32),
    /// Where its type is written.
    pub type_at: u32,
    pub props: Option<Attr>,
    pub attrs: Attr,
}

impl<'s> Builder<'s> {
    /// `"dialect.op"`
    pub fn begin_generic(&mut self, tok: Tok) -> Result<(), Failure> {
        let name = match self.op_names.get(self.bytes(tok)) {
            Some(&known) => known,
            None => self.new_op_name(tok)?,
        };
        self.begin(name, tok, true);
        Ok(())
    }

    /// A name that no op had so far.
    fn new_op_name(&mut self, tok: Tok) -> Result<Ident, Failure> {
        let name = self.name(tok);
        let text = self.cx.str(name);
        if text.is_empty() {
            return Err(fail("E0120", tok.span(), "empty operation name is invalid"));
        }
        if text.contains('\0') {
            return Err(fail(
                "E0120",
                tok.span(),
                "null character not allowed in operation name",
            ));
        }
        let dialect = text.split('.').next().unwrap_or_default();
        if !self.options.allow_unregistered && !self.cx.registry().accepts_dialect(dialect) {
            return Err(report(
                Diagnostic::error(
                    "E0201",
                    tok.span(),
                    format!("operation '{text}' belongs to the unregistered dialect '{dialect}'"),
                )
                .help("pass --allow-unregistered-dialect to accept ops of unknown dialects"),
            ));
        }
        self.op_names.insert(self.bytes(tok), name);
        Ok(name)
    }

    /// An op in its short form, by its full name.
    pub fn begin_pretty(&mut self, tok: Tok, name: &str) -> Result<(), Failure> {
        let written = self.shown(tok);
        if written != name {
            // Without its dialect, the name belongs to the dialect that the enclosing op sets.
            let default = self.default_dialect();
            if format!("{default}.{written}") != name && written != "func" {
                return Err(report(
                    Diagnostic::error(
                        "E0110",
                        tok.span(),
                        format!(
                            "custom op '{written}' is unknown (tried '{default}.{written}' as well)"
                        ),
                    )
                    .help(format!("here the op is written '{name}'")),
                ));
            }
            if written == "func" && default != "func" {
                return Err(report(
                    Diagnostic::error(
                        "E0110",
                        tok.span(),
                        format!("custom op 'func' is unknown (tried '{default}.func' as well)"),
                    )
                    .help("the op is written 'func.func'"),
                ));
            }
        }
        let name = self.cx.ident(name);
        self.begin(name, tok, false);
        Ok(())
    }

    /// An op in its short form, by the name as it is written.
    pub fn begin_named(&mut self, tok: Tok) -> Result<(), Failure> {
        let name = self.name(tok);
        if self.cx.op_def(name).is_none() {
            let name = self.shown(tok);
            return Err(fail(
                "E0110",
                tok.span(),
                format!("custom op '{name}' is unknown"),
            ));
        }
        self.begin(name, tok, false);
        Ok(())
    }

    fn begin(&mut self, name: Ident, tok: Tok, generic: bool) {
        let results = self.values.pending_results.take();
        self.frames.push(Frame {
            name,
            def: self.cx.op_def(name),
            tok,
            generic,
            results: results.unwrap_or(mark(&self.results)),
            operands: mark(&self.operands),
            successors: mark(&self.successors),
            regions: mark(&self.finished_regions),
            inherent: mark(&self.inherent),
            types: (mark(&self.types), mark(&self.types)),
            type_at: tok.start,
            props: None,
            attrs: self.cx.empty_dict(),
        });
    }

    pub(super) fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("an op is being read")
    }

    fn default_dialect(&self) -> &'static str {
        match self.frames.last() {
            Some(frame) if !frame.generic => frame.def.map_or("builtin", OpDef::dialect),
            _ => "builtin",
        }
    }

    pub fn properties(&mut self, value: Attr) {
        self.frame().props = Some(value);
    }

    pub fn attributes(&mut self, dict: Attr) {
        self.frame().attrs = dict;
    }

    /// A property of an op in its short form.
    pub(super) fn inherent(&mut self, name: &str, value: Attr) {
        let name = self.cx.ident(name);
        self.inherent.push((name, value));
    }

    /// `(…) -> …` behind a generic op; the types lie on the stack.
    pub fn signature(&mut self, open: Tok, inputs: u32, results: u32, end: u32) {
        let frame = self.frame();
        frame.types = (inputs, results);
        frame.type_at = open.start;
        let text: &'s [u8] = &self.text[open.start as usize..end as usize];
        if text.last().is_some_and(|b| matches!(b, b'>' | b')')) {
            let (inputs, results) = (inputs as usize, results as usize);
            let (inputs, results) = (&self.types[inputs..results], &self.types[results..]);
            let ty = self.cx.function_type(inputs, results);
            self.cache.borrow_mut().insert(text, Known::Type(ty));
        }
    }

    /// A signature that was read before.
    pub fn known_signature(&mut self, tok: Tok) -> Result<(), Failure> {
        let ty = self.known_type(tok);
        self.alias_signature(tok.start, ty)
    }

    /// A function type as a whole in place of a signature.
    pub fn alias_signature(&mut self, start: u32, ty: Type) -> Result<(), Failure> {
        let TypeData::Function { inputs, results } = self.cx.type_data(ty) else {
            return Err(fail("E0121", at(start), "expected function type"));
        };
        let first = mark(&self.types);
        self.types.extend_from_slice(inputs);
        let second = mark(&self.types);
        self.types.extend_from_slice(results);
        let frame = self.frame();
        frame.types = (first, second);
        frame.type_at = start;
        Ok(())
    }

    /// Creates the op that was begun last.
    pub fn finish_op(&mut self, loc: Option<OpLoc>) -> Result<(), Failure> {
        let frame = self.frames.pop().expect("an op is being read");
        let (inputs, results) = (frame.types.0 as usize, frame.types.1 as usize);
        let operands = frame.operands as usize;
        let wanted = self.operands.len() - operands;
        if results - inputs != wanted {
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!(
                "expected {wanted} operand type{plural} but had {}",
                results - inputs
            );
            return Err(fail("E0122", at(frame.type_at), message));
        }
        let mut values = std::mem::take(&mut self.scratch);
        values.clear();
        for index in 0..wanted {
            let value =
                self.resolve(self.operands[operands + index], self.types[inputs + index])?;
            values.push(value);
        }
        let (attrs, props) = self.attributes_of(&frame)?;
        let (place, deferred) = match loc {
            None => (self.positions.loc(&self.cx, frame.tok.start), None),
            Some(OpLoc::Known(loc)) => (loc, None),
            Some(OpLoc::Alias(tok)) => (self.cx.unknown_loc(), Some(tok)),
        };
        let op = self.module.create_op(NewOp {
            name: frame.name,
            loc: place,
            operands: &values,
            results: &self.types[results..],
            attrs,
            props,
            successors: &self.successors[frame.successors as usize..],
            regions: 0,
        });
        self.scratch = values;
        let regions = frame.regions as usize;
        if matches!(
            frame.def.map(|d| d.pretty),
            Some(Pretty::Custom(Custom::Func))
        ) && self.finished_regions.len() == regions
            && !frame.generic
        {
            let region = self.module.create_region();
            self.finished_regions.push(region);
        }
        if self.finished_regions.len() > regions {
            self.module
                .attach_regions(op, &self.finished_regions[regions..]);
            self.finished_regions.truncate(regions);
        }
        self.types.truncate(inputs);
        self.operands.truncate(operands);
        self.successors.truncate(frame.successors as usize);
        self.inherent.truncate(frame.inherent as usize);
        let block = self.current_block();
        self.module.insert_op(op, Position::End(block));
        if let Some(tok) = deferred {
            self.deferred_locs.push((super::locs::Target::Op(op), tok));
        }
        self.last_op = Some(op);
        self.define_results(op, frame.results as usize, frame.tok)
    }

    /// The attributes and properties of an op, sorted into the one and the other.
    fn attributes_of(&mut self, frame: &Frame) -> Result<(Attr, Attr), Failure> {
        let cx: &Arc<_> = &self.cx;
        let none = cx.empty_dict();
        let Some(def) = frame.def else {
            let props = match frame.props {
                None => none,
                Some(props) if props == none => cx.attr(AttrData::EmptyProperties),
                Some(props) => props,
            };
            return Ok((frame.attrs, props));
        };
        let mut props: Vec<(Ident, Attr)> = match frame.props {
            None => Vec::new(),
            Some(props) if matches!(cx.attr_data(props), AttrData::Dict(_)) => {
                cx.dict_entries(props).to_vec()
            }
            Some(_) => {
                let name = cx.str(frame.name);
                return Err(report(
                    Diagnostic::error(
                        "E0123",
                        frame.tok.span(),
                        format!("invalid properties for op {name}: expected a dictionary"),
                    )
                    .help("properties are written <{name = value}>"),
                ));
            }
        };
        let written = &self.inherent[frame.inherent as usize..];
        if !def.has_properties() {
            props.extend_from_slice(written);
            if props.is_empty() {
                return Ok((frame.attrs, none));
            }
            let mut all = cx.dict_entries(frame.attrs).to_vec();
            merge(&mut all, props);
            return Ok((cx.dict(all), none));
        }
        let is_inherent = |name: Ident| {
            def.attrs.iter().any(|a| a.name == cx.str(name)) || is_segments(cx.str(name))
        };
        // As MLIR does, properties that the op does not have are ignored.
        props.retain(|p| is_inherent(p.0));
        let entries = cx.dict_entries(frame.attrs);
        if !entries.iter().any(|e| is_inherent(e.0)) {
            props.extend_from_slice(written);
            return Ok((frame.attrs, cx.dict(props)));
        }
        let (inherent, discardable): (Vec<_>, Vec<_>) =
            entries.iter().partition(|e| is_inherent(e.0));
        merge(&mut props, inherent);
        // The dictionary of a short form has the last word.
        merge(&mut props, written.to_vec());
        Ok((cx.dict(discardable), cx.dict(props)))
    }
}

/// Adds what is not there yet.
fn merge(into: &mut Vec<(Ident, Attr)>, from: Vec<(Ident, Attr)>) {
    let known: HashSet<Ident, FxBuildHasher> = into.iter().map(|e| e.0).collect();
    into.extend(from.into_iter().filter(|e| !known.contains(&e.0)));
}

fn is_segments(name: &str) -> bool {
    name == "operandSegmentSizes" || name == "resultSegmentSizes"
}
