//! The builder: what the grammar's actions do.
//!
//! Everything that the text lists lies on stacks: operands, types, attributes, regions. A list's start is a mark, the height of
//! its stack. Types and attributes are interned from the inside out, ops are created when their text ends, after the ops they
//! hold. So neither time nor stack depends on how deep the text nests.

mod affine;
mod aliases;
mod attrs;
mod dense;
mod dist;
mod float;
mod function;
mod locs;
mod number;
mod ops;
mod pretty;
mod regions;
mod resources;
mod simplify;
mod sparse;
mod types;
mod values;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::ParseOptions;
use super::cache::TextCache;
use super::error::Failure;
use super::text::{ident_from_bytes, unescape};
use super::token::{Kind, Tok};
use crate::diag::Source;
use crate::ir::{Attr, Context, Ident, Loc, Module, OpId, Type, ValueId};

pub(super) use dense::{Element, Literal};
pub(super) use locs::OpLoc;

/// The state of parsing one text.
pub(super) struct Builder<'s> {
    cx: Arc<Context>,
    text: &'s [u8],
    options: ParseOptions,
    cache: &'s RefCell<TextCache<'s>>,
    module: Module,
    // Stacks.
    frames: Vec<ops::Frame>,
    regions: Vec<regions::Region<'s>>,
    results: Vec<values::ResultName>,
    operands: Vec<values::Operand>,
    successors: Vec<crate::ir::BlockId>,
    finished_regions: Vec<crate::ir::RegionId>,
    inherent: Vec<(Ident, Attr)>,
    types: Vec<Type>,
    attrs: Vec<Attr>,
    entries: Vec<attrs::Entry>,
    symbol_parts: Vec<Ident>,
    strides: Vec<i64>,
    locs: Vec<Loc>,
    block_args: Vec<regions::BlockArg>,
    // Parts.
    values: values::Scope<'s>,
    free_block_names: Vec<regions::BlockNames<'s>>,
    elements: dense::Elements,
    affine: simplify::Affine<'s>,
    aliases: aliases::Aliases<'s>,
    positions: locs::Positions,
    deferred_locs: Vec<(locs::Target, Tok)>,
    function: function::Function,
    dist: dist::Parts,
    metadata: resources::Metadata,
    /// How many operands a branch has up to the end of each successor.
    successor_ends: Vec<i32>,
    last_op: Option<OpId>,
    scratch: Vec<ValueId>,
    distinct_attrs: HashMap<u64, Attr, FxBuildHasher>,
    known_types: KnownTypes,
    known_names: HashMap<&'s [u8], Ident, FxBuildHasher>,
    /// Names of ops in generic form, with their quotes, that were found to be allowed.
    op_names: HashMap<&'s [u8], Ident, FxBuildHasher>,
}

/// Types that single tokens stand for, so that they need no look-up.
struct KnownTypes {
    index: Type,
    none: Type,
    by_text: HashMap<[u8; 8], Type, FxBuildHasher>,
}

impl<'s> Builder<'s> {
    pub fn new(
        cx: &Arc<Context>,
        source: &'s Source<'_>,
        options: ParseOptions,
        cache: &'s RefCell<TextCache<'s>>,
    ) -> Self {
        let text: &'s [u8] = source.text();
        let file = cx.ident(source.name());
        let module = Module::new(cx, cx.loc(crate::ir::LocData::file(file, 0, 0)));
        let mut builder = Self {
            cx: cx.clone(),
            text,
            options,
            cache,
            module,
            frames: Vec::new(),
            regions: Vec::new(),
            results: Vec::new(),
            operands: Vec::new(),
            successors: Vec::new(),
            finished_regions: Vec::new(),
            inherent: Vec::new(),
            types: Vec::new(),
            attrs: Vec::new(),
            entries: Vec::new(),
            symbol_parts: Vec::new(),
            strides: Vec::new(),
            locs: Vec::new(),
            block_args: Vec::new(),
            values: values::Scope::default(),
            free_block_names: Vec::new(),
            elements: dense::Elements::default(),
            affine: simplify::Affine::default(),
            aliases: aliases::Aliases::default(),
            positions: locs::Positions::new(file, text, source.first_line()),
            deferred_locs: Vec::new(),
            function: function::Function::default(),
            dist: dist::Parts::default(),
            metadata: resources::Metadata::default(),
            successor_ends: Vec::new(),
            last_op: None,
            scratch: Vec::new(),
            distinct_attrs: HashMap::default(),
            known_types: KnownTypes {
                index: cx.index_type(),
                none: cx.ty(crate::ir::TypeData::None),
                by_text: HashMap::default(),
            },
            known_names: HashMap::default(),
            op_names: HashMap::default(),
        };
        builder.open_file();
        builder
    }

    /// The module, once the whole text is read.
    pub fn finish(mut self) -> Result<Module, Failure> {
        self.close_file()?;
        self.check_forward_references()?;
        self.resolve_deferred_locs()?;
        self.unwrap_single_module();
        Ok(self.module)
    }

    /// The bytes of a token.
    fn bytes(&self, tok: Tok) -> &'s [u8] {
        &self.text[tok.span()]
    }

    /// What a string token says.
    fn string_bytes(&self, tok: Tok) -> std::borrow::Cow<'s, [u8]> {
        unescape(self.bytes(tok))
    }

    /// The name that a bare identifier, a string, `@name` or `@"name"` says.
    fn name(&mut self, tok: Tok) -> Ident {
        let bytes = self.bytes(tok);
        if let Some(&known) = self.known_names.get(bytes) {
            return known;
        }
        let bare = match bytes {
            [b'@', rest @ ..] => rest,
            all => all,
        };
        let ident = if bare.first() == Some(&b'"') {
            self.cx.ident(&ident_from_bytes(&unescape(bare)))
        } else {
            self.cx.ident(&ident_from_bytes(bare))
        };
        self.known_names.insert(bytes, ident);
        ident
    }

    /// A token's text, for messages.
    fn shown(&self, tok: Tok) -> String {
        String::from_utf8_lossy(self.bytes(tok)).into_owned()
    }

    fn no_types(&self) -> u32 {
        mark(&self.types)
    }
}

/// The height of a stack: where a list that begins now will start.
fn mark<T>(stack: &[T]) -> u32 {
    stack.len() as u32
}

/// The place of a single token that starts at a byte.
fn at(start: u32) -> Range<usize> {
    start as usize..start as usize + 1
}

fn is_float_literal(tok: Tok) -> bool {
    tok.kind == Kind::Float
}
