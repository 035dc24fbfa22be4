//! Which form an op is printed in, and what the printer needs to know of each op's definition, looked up once.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::{PrintOptions, uniform, upstream};
use crate::ir::{Attr, Context, Ident, Module, OpId};
use crate::ops::{
    AttrKind, Custom, OPERAND_SEGMENTS, OpDef, Pretty, RESULT_SEGMENTS, TypeShape, Uniform,
    definitions,
};

/// The form of one op.
#[derive(Clone, Copy)]
pub(super) enum Form<'f> {
    Generic,
    Uniform(&'f Known, &'static Uniform),
    Custom(&'f Known, Custom),
}

/// A registered op, with its names interned.
pub(super) struct Known {
    pub def: &'static OpDef,
    /// Attributes that are properties in the generic form.
    pub inherent: Vec<Ident>,
    /// Values that the generic form shows of attributes that are absent.
    pub implied: Vec<(Ident, Attr)>,
    /// Values that the short form leaves out.
    pub defaults: Vec<(Ident, Attr)>,
    /// Attributes with a place of their own in the uniform form.
    pub symbol: Option<Ident>,
    pub symbol_is_ref: bool,
    pub word: Option<Ident>,
    /// What the word can be.
    pub words: &'static [&'static str],
    pub over: Option<Ident>,
    /// The axes that are left out.
    pub over_default: Option<Attr>,
    pub typed: Option<Ident>,
    pub operand_sizes: Ident,
    pub result_sizes: Ident,
}

impl Known {
    fn new(cx: &Context, def: &'static OpDef) -> Self {
        let form = match &def.pretty {
            Pretty::Uniform(form) => *form,
            _ => Uniform::new(TypeShape::Signature),
        };
        let ident = |name: &str| cx.ident(name);
        let typed = match form.types {
            TypeShape::Attr(name) => Some(name),
            _ => None,
        };
        let kind = |name| def.attrs.iter().find(|a| a.name == name).map(|a| a.kind);
        let inherent = match def.has_properties() {
            true => def.attrs.iter().map(|a| ident(a.name)).collect(),
            false => Vec::new(),
        };
        let defaults = def.attrs.iter().filter(|a| {
            let elsewhere = [form.symbol, form.word, form.over, typed];
            !elsewhere.contains(&Some(a.name))
        });
        Self {
            def,
            inherent,
            implied: upstream::implied(cx, def),
            defaults: defaults
                .filter_map(|a| Some((ident(a.name), a.default?.attr(cx))))
                .collect(),
            symbol: form.symbol.map(ident),
            symbol_is_ref: form.symbol.and_then(kind) == Some(AttrKind::Symbol),
            word: form.word.map(ident),
            words: match form.word.and_then(kind) {
                Some(AttrKind::Enum(words)) => words,
                _ => &[],
            },
            over: form.over.map(ident),
            over_default: form.over.and_then(|over| {
                let attr = def.attrs.iter().find(|a| a.name == over)?;
                Some(attr.default?.attr(cx))
            }),
            typed: typed.map(ident),
            operand_sizes: ident(OPERAND_SEGMENTS),
            result_sizes: ident(RESULT_SEGMENTS),
        }
    }
}

/// All registered ops.
pub(super) struct Forms {
    known: HashMap<Ident, Known, FxBuildHasher>,
    options: PrintOptions,
}

impl Forms {
    pub fn new(cx: &Context, options: PrintOptions) -> Self {
        Self {
            known: definitions()
                .map(|def| (cx.ident(def.name), Known::new(cx, def)))
                .collect(),
            options,
        }
    }

    /// What is known of an op, if its name is registered.
    pub fn known(&self, module: &Module, op: OpId) -> Option<&Known> {
        self.known.get(&module.name(op))
    }

    /// The form that an op is printed in: its short one, if it has one and loses nothing by it.
    pub fn of(&self, module: &Module, op: OpId) -> Form<'_> {
        if self.options.generic {
            return Form::Generic;
        }
        let Some(known) = self.known(module, op) else {
            return Form::Generic;
        };
        match &known.def.pretty {
            Pretty::Uniform(form) if uniform::fits(module, op, known, form) => {
                Form::Uniform(known, form)
            }
            Pretty::Custom(Custom::Mesh) if uniform::fits_mesh(module, op) => {
                Form::Custom(known, Custom::Mesh)
            }
            Pretty::Custom(form) if upstream::fits(module, op, known.def, *form) => {
                Form::Custom(known, *form)
            }
            _ => Form::Generic,
        }
    }
}

/// Whether an op has neither properties nor regions nor successors, as every op in the uniform form.
pub(super) fn is_plain(module: &Module, op: OpId) -> bool {
    module.props(op) == module.cx().empty_dict()
        && module.regions(op).is_empty()
        && module.successors(op).is_empty()
}
