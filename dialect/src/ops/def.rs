//! The form of an op's definition.

use crate::diag::{Diagnostic, Diagnostics};
use crate::ir::{Context, Module, OpId, Type, ValueId};

/// How many values a group of operands or results holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Exactly one.
    One,
    /// None or one.
    Optional,
    /// Any number.
    Variadic,
}

/// A named group of operands or results.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Name in the documentation and in IRDL.
    pub name: &'static str,
    /// How many values.
    pub count: Count,
    /// What they are, for the documentation.
    pub doc: &'static str,
}

/// What an attribute holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttrKind {
    /// `true` or `false`
    Bool,
    /// `i64`
    I64,
    /// `f64`
    F64,
    /// A string.
    Str,
    /// One of these strings.
    Enum(&'static [&'static str]),
    /// Mesh axes: an array of distinct strings.
    Axes,
    /// `array<i64: …>`
    I64Array,
    /// `array<i32: …>`
    I32Array,
    /// A type.
    Type,
    /// `@symbol`
    Symbol,
    /// `#dist.layout<…>`
    Layout,
    /// An array.
    Array,
    /// A dictionary.
    Dict,
    /// Anything.
    Any,
}

/// A required attribute (or property, for ops of other dialects).
#[derive(Clone, Copy, Debug)]
pub struct AttrDef {
    /// Name.
    pub name: &'static str,
    /// What it holds.
    pub kind: AttrKind,
    /// Whether the generic form must have it.
    pub required: bool,
    /// What it means, for the documentation.
    pub doc: &'static str,
}

/// What an op does besides computing its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effects {
    /// Nothing: it may be removed if unused, merged with its like, and moved.
    Pure,
    /// Reads the global named by `global`.
    Reads,
    /// Writes the global named by `global`.
    Writes,
    /// Meets other ranks: it is never removed, merged or moved past another of its kind.
    Communicates,
    /// Unknown or structural: never touched.
    Opaque,
}

/// Structural facts about an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traits {
    /// Ends its block.
    pub terminator: bool,
    /// Defines a symbol (`sym_name`).
    pub symbol: bool,
    /// Its region is a symbol table.
    pub symbol_table: bool,
    /// Its regions may not use values from outside.
    pub isolated: bool,
    /// Its region's ops need not be in order, and need no terminator.
    pub graph_region: bool,
    /// `f(a, b) = f(b, a)`
    pub commutative: bool,
}

/// One op.
#[derive(Debug)]
pub struct OpDef {
    /// `dialect.op`
    pub name: &'static str,
    /// One line, for lists.
    pub summary: &'static str,
    /// Shapes, formula, source.
    pub description: &'static str,
    /// Operand groups, in order. With two or more groups that are not [`Count::One`], the op carries
    /// `operandSegmentSizes`.
    pub operands: &'static [Group],
    /// Result groups, in order; likewise `resultSegmentSizes`.
    pub results: &'static [Group],
    /// Attributes that passes and the verifier know.
    pub attrs: &'static [AttrDef],
    /// Structure.
    pub traits: Traits,
    /// Effects.
    pub effects: Effects,
    /// What the groups, attributes and traits do not say.
    pub verify: Option<fn(&mut OpVerifier)>,
}

impl OpDef {
    /// `dist`, `func`, …
    pub fn dialect(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// Whether the op's own attributes are printed as properties, `<{…}>`. `dist` ops print all in `{…}`.
    pub fn has_properties(&self) -> bool {
        self.dialect() != "dist"
    }
}

/// What an op's `verify` function works with.
pub struct OpVerifier<'a> {
    /// The module.
    pub module: &'a Module,
    /// The op to verify.
    pub op: OpId,
    /// Where findings go.
    pub diagnostics: &'a mut Diagnostics,
}

impl OpVerifier<'_> {
    /// The context.
    pub fn cx(&self) -> &Context {
        self.module.cx()
    }

    /// Reports an error at the op; MLIR's form, `'dialect.op' op message`.
    pub fn error(&mut self, code: &'static str, message: impl std::fmt::Display) {
        let d = self.diagnostic(code, message);
        self.diagnostics.push(d);
    }

    /// An error at the op, to be completed and pushed.
    pub fn diagnostic(&self, code: &'static str, message: impl std::fmt::Display) -> Diagnostic {
        let name = self.module.name_str(self.op);
        Diagnostic::error(
            code,
            self.module.loc(self.op),
            format!("'{name}' op {message}"),
        )
    }

    /// Type of an operand.
    pub fn operand_type(&self, index: usize) -> Type {
        self.module.ty(self.module.operand(self.op, index))
    }

    /// Type of a result.
    pub fn result_type(&self, index: usize) -> Type {
        self.module.ty(self.module.result(self.op, index))
    }

    /// The op's results.
    pub fn results(&self) -> Vec<ValueId> {
        self.module.results(self.op).collect()
    }
}
