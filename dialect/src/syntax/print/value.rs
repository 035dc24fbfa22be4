//! Writes attributes, types and locations.
//!
//! They nest as deep as the input likes, so they are written from a stack of what is still to come. What has been written
//! once is kept, and copied the next time.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rustc_hash::FxBuildHasher;

use super::super::text::bytes_of_ident;
use super::affine::{push_map, push_set};
use super::alias::{Aliases, Key};
use super::dense;
use super::float::push_float;
use super::text::{push_dialect_symbol, push_int, push_name, push_string, push_symbol, push_uint};
use super::types::push_extent;
use crate::ir::{Attr, AttrData, Context, FloatKind, Ident, Int, Loc, LocData, Type, TypeData};
use crate::ops::upstream::arith::flags_text;

/// Whether an attribute's type may be left out where it is the usual one (`i64`, `f64`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Elide {
    Never,
    May,
}

/// What is still to be written, last in first out.
pub(super) enum Item {
    Attr(Attr, Elide),
    Type(Type),
    /// Inside another location: without `loc(…)`.
    Loc(Loc),
    Text(&'static str),
    /// A dictionary's key, with ` = ` unless the value is unit.
    Key(Ident, Attr),
    /// The quoted axes of a layout.
    Axes(Box<[Ident]>),
}

/// Text that was written before, as a range of [`ValueWriter::kept`]; empty if none was.
type Kept = Vec<(u32, u32)>;

/// Longer texts are not kept.
const KEEP: usize = 4096;

/// Writes into [`ValueWriter::out`].
pub(super) struct ValueWriter<'c> {
    pub cx: &'c Context,
    pub out: String,
    pub aliases: Aliases,
    /// Dense attributes of more elements are written as `dense_resource<__elided__>`.
    pub elide_larger: Option<usize>,
    /// The dialect resources that the program names, in the order in which it does.
    pub resources: Vec<Ident>,
    named_resources: HashSet<Ident, FxBuildHasher>,
    distinct: HashMap<u64, u64, FxBuildHasher>,
    pub(super) stack: Vec<Item>,
    kept: String,
    kept_attrs: Kept,
    kept_types: Kept,
}

impl<'c> ValueWriter<'c> {
    pub fn new(cx: &'c Context) -> Self {
        Self {
            cx,
            out: String::new(),
            aliases: Aliases::default(),
            elide_larger: None,
            resources: Vec::new(),
            named_resources: HashSet::default(),
            distinct: HashMap::default(),
            stack: Vec::new(),
            kept: String::new(),
            kept_attrs: Vec::new(),
            kept_types: Vec::new(),
        }
    }

    /// A type.
    pub fn ty(&mut self, ty: Type) {
        if let Some(&(start, end)) = self.kept_types.get(ty.index())
            && start != end
        {
            self.out.push_str(&self.kept[start as usize..end as usize]);
            return;
        }
        let start = self.out.len();
        self.stack.push(Item::Type(ty));
        self.run();
        let (kept, table) = (&mut self.kept, &mut self.kept_types);
        keep(kept, table, ty.index(), &self.out[start..]);
    }

    /// An attribute with its type.
    pub fn attr(&mut self, attr: Attr) {
        if let Some(&(start, end)) = self.kept_attrs.get(attr.index())
            && start != end
        {
            self.out.push_str(&self.kept[start as usize..end as usize]);
            return;
        }
        let start = self.out.len();
        self.stack.push(Item::Attr(attr, Elide::Never));
        self.run();
        let (kept, table) = (&mut self.kept, &mut self.kept_attrs);
        keep(kept, table, attr.index(), &self.out[start..]);
    }

    /// `loc(…)`: by alias if `alias` is set and there is one.
    pub fn loc(&mut self, loc: Loc, alias: bool) {
        self.out.push_str("loc(");
        if !(alias && self.aliases.push(&mut self.out, Key::Loc(loc))) {
            self.expand_loc(loc);
            self.run();
        }
        self.out.push(')');
    }

    /// What an alias stands for.
    pub fn definition(&mut self, key: Key) {
        match key {
            Key::Attr(attr) => {
                self.expand_attr(attr, Elide::Never);
                self.run();
            }
            Key::Type(ty) => {
                self.expand_type(ty);
                self.run();
            }
            Key::Loc(loc) => self.loc(loc, false),
        }
    }

    /// `name`, or `name = value`.
    pub fn named(&mut self, name: Ident, value: Attr) {
        push_name(&mut self.out, self.cx.str(name));
        if value != self.cx.unit() {
            self.out.push_str(" = ");
            self.attr(value);
        }
    }

    /// `name = value, …`
    pub fn entries(&mut self, entries: &[(Ident, Attr)]) {
        for (index, &(name, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.named(name, value);
        }
    }

    fn run(&mut self) {
        while let Some(item) = self.stack.pop() {
            match item {
                Item::Text(text) => self.out.push_str(text),
                Item::Attr(attr, elide) => {
                    if !self.aliases.push(&mut self.out, Key::Attr(attr)) {
                        self.expand_attr(attr, elide);
                    }
                }
                Item::Type(ty) => {
                    if !self.aliases.push(&mut self.out, Key::Type(ty)) {
                        self.expand_type(ty);
                    }
                }
                Item::Loc(loc) => {
                    if !self.aliases.push(&mut self.out, Key::Loc(loc)) {
                        self.expand_loc(loc);
                    }
                }
                Item::Key(name, value) => {
                    push_name(&mut self.out, self.cx.str(name));
                    if value != self.cx.unit() {
                        self.out.push_str(" = ");
                        self.stack.push(Item::Attr(value, Elide::Never));
                    }
                }
                Item::Axes(axes) => self.axes(&axes),
            }
        }
    }

    /// Pushes items so that they come in the order of the list, with `, ` between.
    pub(super) fn list(
        &mut self,
        items: impl DoubleEndedIterator<Item = Item>,
        close: &'static str,
    ) {
        self.stack.push(Item::Text(close));
        let from = self.stack.len();
        for item in items.rev() {
            if self.stack.len() > from {
                self.stack.push(Item::Text(", "));
            }
            self.stack.push(item);
        }
    }

    fn expand_attr(&mut self, attr: Attr, elide: Elide) {
        let cx = self.cx;
        match cx.attr_data(attr) {
            AttrData::Unit => self.out.push_str("unit"),
            AttrData::Integer { value, ty } => self.integer(value, *ty, elide),
            AttrData::Float { bits, ty } => {
                let TypeData::Float(kind) = cx.type_data(*ty) else {
                    return self.out.push_str("<<invalid float>>");
                };
                let hex = push_float(&mut self.out, *kind, *bits);
                if elide == Elide::Never || *kind != FloatKind::F64 || hex {
                    self.suffix(*ty);
                }
            }
            AttrData::String { bytes, ty } => {
                push_string(&mut self.out, bytes);
                if let Some(ty) = ty {
                    self.suffix(*ty);
                }
            }
            AttrData::Array(items) => {
                self.out.push('[');
                self.list(items.iter().map(|&a| Item::Attr(a, Elide::May)), "]");
            }
            AttrData::Dict(entries) => {
                self.out.push('{');
                self.list(entries.iter().map(|&(k, v)| Item::Key(k, v)), "}");
            }
            AttrData::EmptyProperties => self.out.push_str("{}"),
            AttrData::Type(ty) => self.stack.push(Item::Type(*ty)),
            AttrData::SymbolRef { path } => {
                for (index, &name) in path.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str("::");
                    }
                    push_symbol(&mut self.out, cx.str(name));
                }
            }
            AttrData::Dense { .. } | AttrData::Sparse { .. } | AttrData::DenseArray { .. } => {
                if let Some(ty) = dense::push(&mut self.out, cx, attr, self.elide_larger) {
                    self.suffix(ty);
                }
            }
            AttrData::DenseResource { key, ty } => {
                if self.named_resources.insert(*key) {
                    self.resources.push(*key);
                }
                self.out.push_str("dense_resource<");
                push_name(&mut self.out, cx.str(*key));
                self.out.push('>');
                self.suffix(*ty);
            }
            AttrData::AffineMap(map) => {
                self.out.push_str("affine_map<");
                push_map(&mut self.out, map);
                self.out.push('>');
            }
            AttrData::IntegerSet(set) => {
                self.out.push_str("affine_set<");
                push_set(&mut self.out, set);
                self.out.push('>');
            }
            AttrData::Strided { strides, offset } => self.strided(strides, *offset),
            AttrData::Loc(loc) => self.loc_attr(*loc),
            AttrData::Layout(layout) => {
                self.out.push_str("#dist.layout<[");
                self.stack.push(Item::Text(">"));
                self.stack.push(Item::Axes(layout.partial.clone()));
                let dims = layout.dims.iter().map(|d| Item::Axes(d.clone()));
                self.list(dims, "], ");
            }
            AttrData::Opaque {
                dialect, body, ty, ..
            } => {
                self.out.push('#');
                self.opaque(*dialect, body);
                if let Some(ty) = ty {
                    self.suffix(*ty);
                }
            }
            AttrData::Distinct { id, attr } => {
                let next = self.distinct.len() as u64;
                let number = match self.distinct.entry(*id) {
                    Entry::Occupied(entry) => *entry.get(),
                    Entry::Vacant(entry) => *entry.insert(next),
                };
                self.out.push_str("distinct[");
                push_uint(&mut self.out, number);
                self.out.push_str("]<");
                self.stack.push(Item::Text(">"));
                if *attr != cx.unit() {
                    self.stack.push(Item::Attr(*attr, Elide::Never));
                }
            }
        }
    }

    /// A location as an attribute; unlike elsewhere its alias stands without `loc(…)`.
    fn loc_attr(&mut self, loc: Loc) {
        if self.aliases.push(&mut self.out, Key::Loc(loc)) {
            return;
        }
        self.out.push_str("loc(");
        self.stack.push(Item::Text(")"));
        self.expand_loc(loc);
    }

    /// ` : T`
    fn suffix(&mut self, ty: Type) {
        if !matches!(self.cx.type_data(ty), TypeData::None) {
            self.out.push_str(" : ");
            self.stack.push(Item::Type(ty));
        }
    }

    fn integer(&mut self, value: &Int, ty: Type, elide: Elide) {
        let cx = self.cx;
        if ty == cx.int_type(1) {
            let set = !matches!(value, Int::Small(0));
            self.out.push_str(if set { "true" } else { "false" });
            return;
        }
        push_big(&mut self.out, value);
        if elide == Elide::Never || ty != cx.int_type(64) {
            self.suffix(ty);
        }
    }

    fn strided(&mut self, strides: &[i64], offset: i64) {
        self.out.push_str("strided<[");
        for (index, &stride) in strides.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            push_extent(&mut self.out, stride);
        }
        self.out.push(']');
        if offset != 0 {
            self.out.push_str(", offset: ");
            push_extent(&mut self.out, offset);
        }
        self.out.push('>');
    }

    fn axes(&mut self, axes: &[Ident]) {
        self.out.push('[');
        for (index, &axis) in axes.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            push_string(&mut self.out, self.cx.str(axis).as_bytes());
        }
        self.out.push(']');
    }

    /// The text of another dialect's attribute or type. Flags of `arith` get their usual spelling and order.
    fn opaque(&mut self, dialect: Ident, body: &str) {
        let dialect = self.cx.str(dialect);
        if dialect == "arith"
            && let Some(flags) = flags_text(body)
        {
            self.out.push_str("arith.");
            self.out.push_str(&flags);
            return;
        }
        push_dialect_symbol(&mut self.out, dialect, body);
    }

    fn expand_loc(&mut self, loc: Loc) {
        let cx = self.cx;
        match cx.loc_data(loc) {
            LocData::Unknown => self.out.push_str("unknown"),
            LocData::File {
                file,
                line,
                col,
                end,
            } => {
                push_string(&mut self.out, &bytes_of_ident(cx.str(*file)));
                self.position(&[*line, *col]);
                match *end {
                    Some(end) if end == (*line, *col) => {}
                    Some((last, col)) if last == *line => {
                        self.out.push_str(" to ");
                        self.position(&[col]);
                    }
                    Some((last, col)) => {
                        self.out.push_str(" to ");
                        push_uint(&mut self.out, u64::from(last));
                        self.position(&[col]);
                    }
                    None => {}
                }
            }
            LocData::Name { name, child } => {
                push_string(&mut self.out, &bytes_of_ident(cx.str(*name)));
                if *child != cx.unknown_loc() {
                    self.out.push('(');
                    self.list(std::iter::once(Item::Loc(*child)), ")");
                }
            }
            LocData::CallSite { callee, caller } => {
                self.out.push_str("callsite(");
                self.list(std::iter::once(Item::Loc(*caller)), ")");
                self.stack.push(Item::Text(" at "));
                self.stack.push(Item::Loc(*callee));
            }
            LocData::Fused { locs, metadata } => {
                self.out.push_str("fused");
                self.list(locs.iter().map(|&l| Item::Loc(l)), "]");
                match metadata {
                    Some(metadata) => {
                        self.out.push('<');
                        self.stack.push(Item::Text(">["));
                        self.stack.push(Item::Attr(*metadata, Elide::Never));
                    }
                    None => self.stack.push(Item::Text("[")),
                }
            }
        }
    }

    fn position(&mut self, numbers: &[u32]) {
        for &number in numbers {
            self.out.push(':');
            push_uint(&mut self.out, u64::from(number));
        }
    }
}

fn keep(kept: &mut String, table: &mut Kept, index: usize, text: &str) {
    if text.len() > KEEP || kept.len() > u32::MAX as usize - KEEP {
        return;
    }
    if table.len() <= index {
        table.resize((index + 1).next_power_of_two(), (0, 0));
    }
    let start = kept.len() as u32;
    kept.push_str(text);
    table[index] = (start, kept.len() as u32);
}

fn push_big(out: &mut String, value: &Int) {
    match value {
        Int::Small(value) => push_int(out, *value),
        Int::Big(value) => out.push_str(&value.to_string()),
    }
}
