//! Which attributes, types and locations get a name of their own (`#map`, `!tuple`, `#loc1`), and which name.
//!
//! The rules are MLIR's: affine maps, integer sets, locations, distinct attributes that hold something, and tuples of more
//! than 16 types. Aliases are numbered by depth (an alias that uses others comes after them), then kind and name, then in
//! the order in which the program is visited. An alias that only trailing locations need is printed behind the program.

use super::text::push_uint;
use crate::ir::{Attr, AttrData, Context, Loc, LocData, Type, TypeData};

/// What can have an alias.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Attr(Attr),
    Type(Type),
    Loc(Loc),
}

/// One alias.
pub(super) struct Alias {
    /// `map`
    name: &'static str,
    /// Shown unless 0.
    number: u32,
    /// What it stands for.
    pub key: Key,
    /// Printed behind the program.
    pub deferred: bool,
}

impl Alias {
    /// Appends the name with its sigil: `#map1`.
    pub fn push(&self, out: &mut String) {
        out.push(match self.key {
            Key::Type(_) => '!',
            Key::Attr(_) | Key::Loc(_) => '#',
        });
        out.push_str(self.name);
        if self.number > 0 {
            push_uint(out, u64::from(self.number));
        }
    }
}

/// The aliases of a program, in the order in which they are printed.
#[derive(Default)]
pub(super) struct Aliases {
    pub list: Vec<Alias>,
    by_key: Table,
}

impl Aliases {
    /// Appends the alias of something; `false` if it has none.
    pub fn push(&self, out: &mut String, key: Key) -> bool {
        match self.by_key.get(key) {
            0 => false,
            at => {
                self.list[at as usize - 1].push(out);
                true
            }
        }
    }
}

/// A number for every key; 0 where none was set.
#[derive(Default)]
struct Table {
    attrs: Vec<u32>,
    types: Vec<u32>,
    locs: Vec<u32>,
}

impl Table {
    fn get(&self, key: Key) -> u32 {
        let (list, index) = match key {
            Key::Attr(attr) => (&self.attrs, attr.index()),
            Key::Type(ty) => (&self.types, ty.index()),
            Key::Loc(loc) => (&self.locs, loc.index()),
        };
        list.get(index).copied().unwrap_or(0)
    }

    fn set(&mut self, key: Key, value: u32) {
        let (list, index) = match key {
            Key::Attr(attr) => (&mut self.attrs, attr.index()),
            Key::Type(ty) => (&mut self.types, ty.index()),
            Key::Loc(loc) => (&mut self.locs, loc.index()),
        };
        if list.len() <= index {
            list.resize((index + 1).next_power_of_two(), 0);
        }
        list[index] = value;
    }
}

/// Something that is an alias or uses one.
struct Entry {
    key: Key,
    name: Option<&'static str>,
    depth: u32,
    deferrable: bool,
    /// Entries that it uses.
    uses: Vec<u32>,
}

/// Something whose parts are being visited.
struct Open {
    key: Key,
    parts: Vec<Key>,
    next: usize,
    depth: u32,
    deferrable: bool,
    uses: Vec<u32>,
}

/// Visited; neither an alias nor using one.
const PLAIN: u32 = 1;
/// First number that stands for an entry.
const FIRST: u32 = 2;

/// Collects what a program uses, in the order in which it is shown.
pub(super) struct Collector<'c> {
    cx: &'c Context,
    entries: Vec<Entry>,
    state: Table,
}

impl<'c> Collector<'c> {
    pub fn new(cx: &'c Context) -> Self {
        Self {
            cx,
            entries: Vec::new(),
            state: Table::default(),
        }
    }

    /// An attribute that is printed.
    pub fn attr(&mut self, attr: Attr) {
        self.visit(Key::Attr(attr), false);
    }

    /// A type that is printed.
    pub fn ty(&mut self, ty: Type) {
        self.visit(Key::Type(ty), false);
    }

    /// A location that is printed; behind an op it can be named later, in an argument list it cannot.
    pub fn loc(&mut self, loc: Loc, deferrable: bool) {
        self.visit(Key::Loc(loc), deferrable);
    }

    fn visit(&mut self, key: Key, deferrable: bool) {
        match self.state.get(key) {
            0 => self.visit_new(key, deferrable),
            seen => self.seen(seen, deferrable),
        }
    }

    fn seen(&mut self, state: u32, deferrable: bool) {
        if state >= FIRST && !deferrable {
            self.pin(state - FIRST);
        }
    }

    /// An entry is needed before the program after all, and so is what it uses.
    fn pin(&mut self, entry: u32) {
        let mut stack = vec![entry];
        while let Some(at) = stack.pop() {
            let entry = &mut self.entries[at as usize];
            if std::mem::replace(&mut entry.deferrable, false) {
                stack.extend(&entry.uses);
            }
        }
    }

    fn visit_new(&mut self, key: Key, deferrable: bool) {
        let first = self.open(key, deferrable);
        if first.parts.is_empty() {
            return self.close(first);
        }
        let mut stack = vec![first];
        while let Some(top) = stack.last_mut() {
            if let Some(&part) = top.parts.get(top.next) {
                let state = self.state.get(part);
                if state == 0 {
                    let part = self.open(part, top.deferrable);
                    stack.push(part);
                    continue;
                }
                top.next += 1;
                if state >= FIRST {
                    top.uses.push(state - FIRST);
                    top.depth = top.depth.max(self.entries[(state - FIRST) as usize].depth);
                    let deferrable = top.deferrable;
                    self.seen(state, deferrable);
                }
                continue;
            }
            if let Some(done) = stack.pop() {
                self.close(done);
            }
        }
    }

    fn open(&self, key: Key, deferrable: bool) -> Open {
        Open {
            key,
            parts: parts(self.cx, key),
            next: 0,
            depth: 0,
            deferrable,
            uses: Vec::new(),
        }
    }

    fn close(&mut self, done: Open) {
        let name = alias_name(self.cx, done.key);
        if name.is_none() && done.depth == 0 {
            self.state.set(done.key, PLAIN);
            return;
        }
        self.state.set(done.key, FIRST + self.entries.len() as u32);
        self.entries.push(Entry {
            key: done.key,
            name,
            depth: done.depth + 1,
            deferrable: done.deferrable,
            uses: done.uses,
        });
    }

    /// Names the aliases.
    pub fn finish(self) -> Aliases {
        let mut named: Vec<Entry> = self.entries;
        named.retain(|e| e.name.is_some());
        named.sort_by_key(|e| (e.depth, matches!(e.key, Key::Type(_)), e.name));
        let mut aliases = Aliases::default();
        let mut counts: Vec<(&str, u32)> = Vec::new();
        for entry in named {
            let name = entry.name.unwrap_or_default();
            let at = match counts.iter().position(|c| c.0 == name) {
                Some(at) => at,
                None => {
                    counts.push((name, 0));
                    counts.len() - 1
                }
            };
            let number = counts[at].1;
            counts[at].1 += 1;
            aliases.list.push(Alias {
                name,
                number,
                key: entry.key,
                deferred: entry.deferrable,
            });
            let number = aliases.list.len() as u32;
            aliases.by_key.set(entry.key, number);
        }
        aliases
    }
}

/// The alias name that MLIR gives to this, if any.
fn alias_name(cx: &Context, key: Key) -> Option<&'static str> {
    match key {
        Key::Loc(_) => Some("loc"),
        Key::Type(ty) => match cx.type_data(ty) {
            TypeData::Tuple(types) if types.len() > 16 => Some("tuple"),
            _ => None,
        },
        Key::Attr(attr) => match cx.attr_data(attr) {
            AttrData::AffineMap(_) => Some("map"),
            AttrData::IntegerSet(_) => Some("set"),
            AttrData::Distinct { attr, .. } if *attr != cx.unit() => Some("distinct"),
            _ => None,
        },
    }
}

/// What is printed inside something, in order.
fn parts(cx: &Context, key: Key) -> Vec<Key> {
    match key {
        Key::Attr(attr) => attr_parts(cx, attr),
        Key::Type(ty) => type_parts(cx, ty),
        Key::Loc(loc) => loc_parts(cx, loc),
    }
}

fn attr_parts(cx: &Context, attr: Attr) -> Vec<Key> {
    match cx.attr_data(attr) {
        AttrData::Array(items) => items.iter().map(|&a| Key::Attr(a)).collect(),
        AttrData::Dict(entries) => entries.iter().map(|e| Key::Attr(e.1)).collect(),
        AttrData::Type(ty)
        | AttrData::Integer { ty, .. }
        | AttrData::Float { ty, .. }
        | AttrData::Dense { ty, .. }
        | AttrData::DenseResource { ty, .. }
        | AttrData::Sparse { ty, .. } => vec![Key::Type(*ty)],
        AttrData::String { ty, .. } | AttrData::Opaque { ty, .. } => {
            ty.iter().map(|&t| Key::Type(t)).collect()
        }
        AttrData::Loc(loc) => vec![Key::Loc(*loc)],
        AttrData::Distinct { attr, .. } => vec![Key::Attr(*attr)],
        _ => Vec::new(),
    }
}

fn type_parts(cx: &Context, ty: Type) -> Vec<Key> {
    let types = |list: &[Type]| list.iter().map(|&t| Key::Type(t)).collect::<Vec<_>>();
    match cx.type_data(ty) {
        TypeData::Complex(element) | TypeData::UnrankedTensor(element) => {
            vec![Key::Type(*element)]
        }
        TypeData::Vector { element, .. } => vec![Key::Type(*element)],
        TypeData::Tuple(items) => types(items),
        TypeData::Function { inputs, results } => {
            let mut all = types(inputs);
            all.extend(types(results));
            all
        }
        TypeData::Tensor {
            element, encoding, ..
        } => with_attrs(*element, [*encoding, None]),
        TypeData::MemRef {
            element,
            layout,
            space,
            ..
        } => with_attrs(*element, [*layout, *space]),
        TypeData::UnrankedMemRef { element, space } => with_attrs(*element, [*space, None]),
        _ => Vec::new(),
    }
}

fn with_attrs(element: Type, attrs: [Option<Attr>; 2]) -> Vec<Key> {
    let mut all = vec![Key::Type(element)];
    all.extend(attrs.into_iter().flatten().map(Key::Attr));
    all
}

fn loc_parts(cx: &Context, loc: Loc) -> Vec<Key> {
    match cx.loc_data(loc) {
        LocData::Name { child, .. } if *child != cx.unknown_loc() => vec![Key::Loc(*child)],
        LocData::CallSite { callee, caller } => vec![Key::Loc(*callee), Key::Loc(*caller)],
        LocData::Fused { locs, metadata } => {
            let metadata = metadata.iter().map(|&a| Key::Attr(a));
            metadata.chain(locs.iter().map(|&l| Key::Loc(l))).collect()
        }
        _ => Vec::new(),
    }
}
