//! The form of an op's definition.

use super::{Gradient, InferCx, LayoutCx, Scopes};
use crate::diag::{Diagnostic, Diagnostics};
use crate::error::Error;
use crate::ir::{Attr, Context, Module, OpId, Type, ValueId};
use crate::layout::Layout;
use crate::reference::{CombineCx, EvalCx, Tensor};
use crate::tensor_type::TensorType;

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

/// A value that the pretty form leaves out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AttrDefault {
    /// `true` or `false`
    Bool(bool),
    /// `value : i64`
    I64(i64),
    /// `value : f64`
    F64(f64),
    /// A string.
    Str(&'static str),
    /// `array<i64: …>`
    I64Array(&'static [i64]),
    /// `[]`
    EmptyArray,
}

impl AttrDefault {
    /// The attribute.
    pub fn attr(self, cx: &Context) -> Attr {
        match self {
            AttrDefault::Bool(value) => cx.bool_attr(value),
            AttrDefault::I64(value) => cx.i64_attr(value),
            AttrDefault::F64(value) => cx.f64_attr(value),
            AttrDefault::Str(value) => cx.string(value),
            AttrDefault::I64Array(values) => cx.i64_array(values),
            AttrDefault::EmptyArray => cx.array(&[]),
        }
    }
}

/// An attribute (or property, for ops of other dialects) that the definition knows.
#[derive(Clone, Copy, Debug)]
pub struct AttrDef {
    /// Name.
    pub name: &'static str,
    /// What it holds.
    pub kind: AttrKind,
    /// Whether the generic form must have it.
    pub required: bool,
    /// The value that the pretty form leaves out. Only required attributes have one; the generic form always shows it.
    pub default: Option<AttrDefault>,
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
    /// Adds to the global named by `global`. Two such ops change places freely; a load or store in between keeps its own.
    Accumulates,
    /// Draws random numbers: it may be removed if unused, but is never merged with its like or repeated.
    Draws,
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

impl Traits {
    /// None of them.
    pub const NONE: Self = Self {
        terminator: false,
        symbol: false,
        symbol_table: false,
        isolated: false,
        graph_region: false,
        commutative: false,
    };
}

/// How an op is written when it is not written in generic form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pretty {
    /// Only in generic form.
    Generic,
    /// The form that all `dist` ops but `dist.mesh` share.
    Uniform(Uniform),
    /// A form of its own.
    Custom(Custom),
}

/// `[%r =] dist.name [@symbol] [word] [%operands] [over [axes]] [{attrs}] [: types]`
///
/// The form must lose nothing, so an op that does not fit its definition (counts, kinds of attributes, properties,
/// regions, successors) is printed in generic form. Hidden are attributes equal to their default, and the segment sizes
/// if every optional group is there and at most one group is variadic (it takes what the others leave).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uniform {
    /// The attribute written `@name`: of kind [`AttrKind::Str`] (`sym_name`) or [`AttrKind::Symbol`].
    pub symbol: Option<&'static str>,
    /// The attribute, of kind [`AttrKind::Enum`], written as a bare word; a `word` is never `over`.
    pub word: Option<&'static str>,
    /// The attribute, of kind [`AttrKind::Axes`], written `over ["dp"]`.
    pub over: Option<&'static str>,
    /// What follows the colon.
    pub types: TypeShape,
}

impl Uniform {
    /// Neither symbol, word nor axes.
    pub const fn new(types: TypeShape) -> Self {
        Self {
            symbol: None,
            word: None,
            over: None,
            types,
        }
    }

    /// With an attribute written `@name`.
    pub const fn symbol(mut self, attr: &'static str) -> Self {
        self.symbol = Some(attr);
        self
    }

    /// With an attribute written as a bare word.
    pub const fn word(mut self, attr: &'static str) -> Self {
        self.word = Some(attr);
        self
    }

    /// With mesh axes written `over ["dp"]`.
    pub const fn over(mut self, attr: &'static str) -> Self {
        self.over = Some(attr);
        self
    }
}

/// What the uniform pretty form says about types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeShape {
    /// Nothing: the op has neither operands nor results.
    Nothing,
    /// `: T`, the type of every operand and every result. The result groups are all [`Count::One`], and there is at least
    /// one operand or result.
    Same,
    /// `: T`, the value of this [`AttrKind::Type`] attribute; the op has neither operands nor results.
    Attr(&'static str),
    /// `: (T, U) -> V`, with `(V, W)` for several results and `()` for none.
    Signature,
}

/// Forms of single ops or families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Custom {
    /// `dist.mesh @mesh ["dp" = 2, "mp" = 2] {attrs}`
    Mesh,
    /// `module @name attributes {…} {…}`
    Module,
    /// `func.func private @f(%arg0: i32 {…}) -> (i32 {…}) attributes {…} {…}`
    Func,
    /// `return %0 : i32`
    Return,
    /// `call @f(%0) : (i32) -> i32`
    Call,
    /// `cf.br ^bb1(%0 : i32)`
    Branch,
    /// `cf.cond_br %c, ^bb1(%0 : i32), ^bb2`
    CondBranch,
    /// `arith.constant 1 : i32`
    Constant,
    /// `arith.addi %0, %1 overflow<nsw> : i32`
    Binary,
    /// `arith.cmpi slt, %0, %1 : i32`
    Compare,
    /// `builtin.unrealized_conversion_cast %0 : i32 to i64`
    Cast,
}

/// An op's [`infer`](OpDef::infer).
pub type Infer = fn(&InferCx) -> Result<Vec<TensorType>, Error>;
/// An op's [`layout`](OpDef::layout).
pub type LayoutRule = fn(&LayoutCx) -> Result<Vec<Layout>, Error>;
/// An op's [`eval`](OpDef::eval).
pub type Eval = fn(&EvalCx) -> Result<Vec<Tensor>, Error>;
/// An op's [`combine`](OpDef::combine).
pub type Combine = fn(&CombineCx) -> Result<Vec<Vec<Tensor>>, Error>;

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
    /// The short form.
    pub pretty: Pretty,
    /// What the groups, attributes and traits do not say.
    pub verify: Option<fn(&mut OpVerifier)>,
    /// Checks operand types and attributes, and gives the result types. `dist` ops on tensors have it.
    pub infer: Option<Infer>,
    /// How the results are spread over the mesh, given how the operands are; see [`crate::ops::layouts`].
    pub layout: Option<LayoutRule>,
    /// What one rank computes; see [`crate::reference::eval`].
    pub eval: Option<Eval>,
    /// What a collective gives each rank of a group; see [`crate::reference::combine`].
    pub combine: Option<Combine>,
    /// How the gradients of the operands follow from those of the results; see [`crate::ops::differentiate`]. An op without it
    /// cannot stand between a parameter and the loss.
    pub gradient: Option<Gradient>,
    /// Why the op has no [`gradient`](OpDef::gradient), where it has operands and could have one.
    pub no_gradient: Option<&'static str>,
}

impl OpDef {
    /// An op without anything: what a definition does not mention.
    pub const NONE: Self = Self {
        name: "",
        summary: "",
        description: "",
        operands: &[],
        results: &[],
        attrs: &[],
        traits: Traits::NONE,
        effects: Effects::Opaque,
        pretty: Pretty::Generic,
        verify: None,
        infer: None,
        layout: None,
        eval: None,
        combine: None,
        gradient: None,
        no_gradient: None,
    };

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
    /// What is around the op.
    pub scopes: &'a Scopes,
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

    /// Reports an error at the op that has a code and perhaps advice of its own.
    pub fn report(&mut self, error: &Error) {
        let mut d = self.diagnostic(error.code(), error);
        d.help = error.help();
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
