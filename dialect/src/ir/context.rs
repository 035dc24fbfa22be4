//! The context: every type, attribute, location and identifier of a compilation, stored once.
//!
//! Handles are four bytes, compare by identity and stay valid as long as the context lives. The stores only grow, so
//! reading needs no lock and a reference into them lives as long as the borrow of the context.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;

use super::attr::{Attr, AttrData, Int};
use super::loc::{Loc, LocData};
use super::types::{FloatKind, Signedness, Type, TypeData};
use crate::ops::{OpDef, Registry};

/// An interned identifier: an op name, an attribute name, a dialect name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ident(u32);

/// What is interned, with its hash.
trait Interned: Eq {
    fn short_hash(&self) -> u32;
}

/// The middle of a value's hash.
fn middle(value: &(impl Hash + ?Sized)) -> u32 {
    (FxBuildHasher.hash_one(value) >> 16) as u32
}

impl Interned for TypeData {
    fn short_hash(&self) -> u32 {
        middle(self)
    }
}

impl Interned for AttrData {
    fn short_hash(&self) -> u32 {
        middle(self)
    }
}

impl Interned for LocData {
    /// Places that follow each other in a file are neighbours in the table too, since a text is read from start to end.
    fn short_hash(&self) -> u32 {
        match *self {
            LocData::File {
                file,
                line,
                col,
                end: None,
            } => {
                let place = line.wrapping_mul(16).wrapping_add(col);
                let tag = (file.0 ^ col).wrapping_mul(0x9E37_79B9) >> 25;
                place & 0x01FF_FFFF | tag << 25
            }
            _ => middle(self),
        }
    }
}

/// 64 bits of hash, as the table wants them: it looks at the highest and the lowest.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// An append-only store of distinct values, addressed by dense indices.
struct Interner<T> {
    items: boxcar::Vec<T>,
    /// Positions, each with the low bits of its item's hash, so that growing looks at no item.
    index: Mutex<HashTable<(u32, u32)>>,
}

impl<T> Interner<T> {
    fn new() -> Self {
        Self {
            items: boxcar::Vec::new(),
            index: Mutex::new(HashTable::new()),
        }
    }

    fn get(&self, index: u32) -> &T {
        &self.items[index as usize]
    }

    fn intern(&self, value: T) -> u32
    where
        T: Interned,
    {
        let hash = value.short_hash();
        let mut index = self.index.lock();
        match index.find(spread(hash), |&(h, i)| h == hash && *self.get(i) == value) {
            Some(&(_, found)) => found,
            None => self.push(&mut index, hash, value),
        }
    }

    fn push(&self, index: &mut HashTable<(u32, u32)>, hash: u32, value: T) -> u32 {
        let new = u32::try_from(self.items.push(value)).expect("fewer than 2^32 interned values");
        index.insert_unique(spread(hash), (hash, new), |&(h, _)| spread(h));
        new
    }
}

impl Interner<Box<str>> {
    fn intern_str(&self, value: &str) -> u32 {
        let hash = middle(value);
        let mut index = self.index.lock();
        match index.find(spread(hash), |&(h, i)| h == hash && **self.get(i) == *value) {
            Some(&(_, found)) => found,
            None => self.push(&mut index, hash, value.into()),
        }
    }
}

/// Owns what modules share: interned data and the registry of known ops.
pub struct Context {
    idents: Interner<Box<str>>,
    types: Interner<TypeData>,
    attrs: Interner<AttrData>,
    locs: Interner<LocData>,
    registry: Registry,
    known: Known,
}

/// Handles that are used so often that looking them up again would show.
#[derive(Clone, Copy)]
struct Known {
    empty_dict: Attr,
    unit: Attr,
    unknown_loc: Loc,
}

impl Context {
    /// A context that knows the `dist`, `builtin`, `func`, `cf` and `arith` ops.
    pub fn new() -> Arc<Self> {
        let attrs = Interner::new();
        let locs = Interner::new();
        let known = Known {
            empty_dict: Attr(attrs.intern(AttrData::Dict(Box::default()))),
            unit: Attr(attrs.intern(AttrData::Unit)),
            unknown_loc: Loc(locs.intern(LocData::Unknown)),
        };
        let idents = Interner::new();
        let registry = Registry::new(|name| Ident(idents.intern_str(name)));
        Arc::new(Self {
            idents,
            types: Interner::new(),
            attrs,
            locs,
            registry,
            known,
        })
    }

    /// The definition of a known op, or `None` for an op that is not registered.
    pub fn op_def(&self, name: Ident) -> Option<&'static OpDef> {
        self.registry.get(name)
    }

    /// The registry of known ops.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Interns an identifier.
    pub fn ident(&self, name: &str) -> Ident {
        Ident(self.idents.intern_str(name))
    }

    /// The text of an identifier.
    pub fn str(&self, ident: Ident) -> &str {
        self.idents.get(ident.0)
    }

    /// Interns a type.
    pub fn ty(&self, data: TypeData) -> Type {
        Type(self.types.intern(data))
    }

    /// What a type is.
    pub fn type_data(&self, ty: Type) -> &TypeData {
        self.types.get(ty.0)
    }

    /// Interns an attribute. Dictionaries must go through [`Context::dict`], which sorts them.
    pub fn attr(&self, data: AttrData) -> Attr {
        Attr(self.attrs.intern(data))
    }

    /// What an attribute is.
    pub fn attr_data(&self, attr: Attr) -> &AttrData {
        self.attrs.get(attr.0)
    }

    /// Interns a location.
    pub fn loc(&self, data: LocData) -> Loc {
        Loc(self.locs.intern(data))
    }

    /// `fused<metadata>[…]` as MLIR builds it: unknown and repeated parts are dropped, parts fused with the same metadata are
    /// taken apart, and one part without metadata stands for itself.
    pub fn fused_loc(&self, parts: &[Loc], metadata: Option<Attr>) -> Loc {
        let mut locs: Vec<Loc> = Vec::new();
        let mut seen: HashSet<Loc, FxBuildHasher> = HashSet::default();
        let mut add = |loc: Loc| {
            if loc != self.known.unknown_loc && seen.insert(loc) {
                locs.push(loc);
            }
        };
        for &part in parts {
            match self.loc_data(part) {
                LocData::Fused {
                    locs,
                    metadata: inner,
                } if *inner == metadata => locs.iter().copied().for_each(&mut add),
                _ => add(part),
            }
        }
        match (&locs[..], metadata) {
            ([], None) => self.known.unknown_loc,
            ([only], None) => *only,
            ([], Some(_)) => self.loc(LocData::Fused {
                locs: Box::new([self.known.unknown_loc]),
                metadata,
            }),
            _ => self.loc(LocData::Fused {
                locs: locs.into(),
                metadata,
            }),
        }
    }

    /// What a location is.
    pub fn loc_data(&self, loc: Loc) -> &LocData {
        self.locs.get(loc.0)
    }

    /// Whether any interned attribute or type is of a kind that is printed under an alias.
    pub(crate) fn may_need_alias(&self) -> bool {
        let attr = |a: &AttrData| {
            matches!(
                a,
                AttrData::AffineMap(_)
                    | AttrData::IntegerSet(_)
                    | AttrData::Loc(_)
                    | AttrData::Distinct { .. }
            )
        };
        let ty = |t: &TypeData| matches!(t, TypeData::Tuple(types) if types.len() > 16);
        self.attrs.items.iter().any(|(_, a)| attr(a)) || self.types.items.iter().any(|(_, t)| ty(t))
    }

    /// `loc(unknown)`.
    pub fn unknown_loc(&self) -> Loc {
        self.known.unknown_loc
    }

    /// A file position (1-based line and column).
    pub fn file_loc(&self, file: &str, line: u32, col: u32) -> Loc {
        self.loc(LocData::file(self.ident(file), line, col))
    }

    // Types --------------------------------------------------------------------------------------------------------

    /// A signless integer type, `iN`.
    pub fn int_type(&self, width: u32) -> Type {
        self.ty(TypeData::Integer {
            width,
            signedness: Signedness::Signless,
        })
    }

    /// `index`.
    pub fn index_type(&self) -> Type {
        self.ty(TypeData::Index)
    }

    /// A floating-point type.
    pub fn float_type(&self, kind: FloatKind) -> Type {
        self.ty(TypeData::Float(kind))
    }

    /// `f32`.
    pub fn f32(&self) -> Type {
        self.float_type(FloatKind::F32)
    }

    /// A ranked tensor without encoding. `DYNAMIC` stands for `?`.
    pub fn tensor(&self, shape: &[i64], element: Type) -> Type {
        self.tensor_with(shape, element, None)
    }

    /// A ranked tensor, with an encoding such as a `#dist.layout`.
    pub fn tensor_with(&self, shape: &[i64], element: Type, encoding: Option<Attr>) -> Type {
        self.ty(TypeData::Tensor {
            shape: shape.into(),
            element,
            encoding,
        })
    }

    /// `(inputs) -> (results)`.
    pub fn function_type(&self, inputs: &[Type], results: &[Type]) -> Type {
        self.ty(TypeData::Function {
            inputs: inputs.into(),
            results: results.into(),
        })
    }

    /// Shape and element type of a ranked tensor.
    pub fn as_tensor(&self, ty: Type) -> Option<(&[i64], Type)> {
        match self.type_data(ty) {
            TypeData::Tensor { shape, element, .. } => Some((shape, *element)),
            _ => None,
        }
    }

    // Attributes ---------------------------------------------------------------------------------------------------

    /// `unit`.
    pub fn unit(&self) -> Attr {
        self.known.unit
    }

    /// `true` or `false` (an `i1`).
    pub fn bool_attr(&self, value: bool) -> Attr {
        self.attr(AttrData::Integer {
            value: Int::Small(if value { -1 } else { 0 }),
            ty: self.int_type(1),
        })
    }

    /// `value : i64`.
    pub fn i64_attr(&self, value: i64) -> Attr {
        self.int_attr(value, self.int_type(64))
    }

    /// `value : ty` for an integer or index type.
    pub fn int_attr(&self, value: i64, ty: Type) -> Attr {
        self.attr(AttrData::Integer {
            value: Int::Small(value.into()),
            ty,
        })
    }

    /// `value : f64`.
    pub fn f64_attr(&self, value: f64) -> Attr {
        self.attr(AttrData::Float {
            bits: value.to_bits().into(),
            ty: self.float_type(FloatKind::F64),
        })
    }

    /// A string.
    pub fn string(&self, value: &str) -> Attr {
        self.attr(AttrData::String {
            bytes: value.as_bytes().into(),
            ty: None,
        })
    }

    /// An array.
    pub fn array(&self, items: &[Attr]) -> Attr {
        self.attr(AttrData::Array(items.into()))
    }

    /// An array of strings, as axis lists are written: `["dp", "mp"]`.
    pub fn string_array<S: AsRef<str>>(&self, items: &[S]) -> Attr {
        let items: Vec<_> = items.iter().map(|s| self.string(s.as_ref())).collect();
        self.array(&items)
    }

    /// `array<i64: …>`.
    pub fn i64_array(&self, items: &[i64]) -> Attr {
        self.attr(AttrData::DenseArray {
            element: self.int_type(64),
            bytes: items.iter().flat_map(|v| v.to_le_bytes()).collect(),
        })
    }

    /// `array<i32: …>`, as operand and result segment sizes are written.
    pub fn i32_array(&self, items: &[i32]) -> Attr {
        self.attr(AttrData::DenseArray {
            element: self.int_type(32),
            bytes: items.iter().flat_map(|v| v.to_le_bytes()).collect(),
        })
    }

    /// A type as an attribute.
    pub fn type_attr(&self, ty: Type) -> Attr {
        self.attr(AttrData::Type(ty))
    }

    /// `@name`.
    pub fn symbol_ref(&self, name: &str) -> Attr {
        self.attr(AttrData::SymbolRef {
            path: Box::new([self.ident(name)]),
        })
    }

    /// A dictionary; entries are sorted by name. Names must be distinct (the parser reports duplicates before).
    pub fn dict(&self, mut entries: Vec<(Ident, Attr)>) -> Attr {
        if entries.is_empty() {
            return self.known.empty_dict;
        }
        if !entries.is_sorted_by(|a, b| self.str(a.0) <= self.str(b.0)) {
            entries.sort_by(|a, b| self.str(a.0).cmp(self.str(b.0)));
        }
        self.attr(AttrData::Dict(entries.into()))
    }

    /// `{}`.
    pub fn empty_dict(&self) -> Attr {
        self.known.empty_dict
    }

    /// The entries of a dictionary, sorted by name; empty for anything else.
    pub fn dict_entries(&self, dict: Attr) -> &[(Ident, Attr)] {
        match self.attr_data(dict) {
            AttrData::Dict(entries) => entries,
            _ => &[],
        }
    }

    /// One entry of a dictionary.
    pub fn dict_get(&self, dict: Attr, name: &str) -> Option<Attr> {
        let entries = self.dict_entries(dict);
        entries
            .binary_search_by(|(key, _)| self.str(*key).cmp(name))
            .ok()
            .map(|at| entries[at].1)
    }

    /// The dictionary with `name` set to `value`, or without it.
    pub fn dict_with(&self, dict: Attr, name: &str, value: Option<Attr>) -> Attr {
        let entries = self.dict_entries(dict);
        let found = entries.binary_search_by(|(key, _)| self.str(*key).cmp(name));
        let mut entries = entries.to_vec();
        match (found, value) {
            (Ok(at), Some(value)) => entries[at].1 = value,
            (Ok(at), None) => {
                entries.remove(at);
            }
            (Err(at), Some(value)) => entries.insert(at, (self.ident(name), value)),
            (Err(_), None) => return dict,
        }
        self.dict(entries)
    }

    // Readers ------------------------------------------------------------------------------------------------------

    /// The value of an integer (or boolean, or index) attribute that fits.
    pub fn as_i64(&self, attr: Attr) -> Option<i64> {
        match self.attr_data(attr) {
            AttrData::Integer { value, .. } => value.to_i64(),
            _ => None,
        }
    }

    /// The value of an `i1` attribute.
    pub fn as_bool(&self, attr: Attr) -> Option<bool> {
        match self.attr_data(attr) {
            AttrData::Integer { value, ty } if *ty == self.int_type(1) => {
                Some(value.to_i64() != Some(0))
            }
            _ => None,
        }
    }

    /// The value of an `f64` attribute.
    pub fn as_f64(&self, attr: Attr) -> Option<f64> {
        match self.attr_data(attr) {
            AttrData::Float { bits, ty } if *ty == self.float_type(FloatKind::F64) => {
                Some(f64::from_bits(*bits as u64))
            }
            _ => None,
        }
    }

    /// The text of a string attribute that is UTF-8.
    pub fn as_str(&self, attr: Attr) -> Option<&str> {
        match self.attr_data(attr) {
            AttrData::String { bytes, .. } => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The items of an array attribute.
    pub fn as_array(&self, attr: Attr) -> Option<&[Attr]> {
        match self.attr_data(attr) {
            AttrData::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The items of an array of strings.
    pub fn as_string_array(&self, attr: Attr) -> Option<Vec<&str>> {
        self.as_array(attr)?
            .iter()
            .map(|&a| self.as_str(a))
            .collect()
    }

    /// The items of `array<i64: …>`.
    pub fn as_i64_array(&self, attr: Attr) -> Option<Vec<i64>> {
        match self.attr_data(attr) {
            AttrData::DenseArray { element, bytes } if *element == self.int_type(64) => Some(
                bytes
                    .chunks_exact(8)
                    .map(|c| i64::from_le_bytes(c.try_into().expect("chunks of 8")))
                    .collect(),
            ),
            _ => None,
        }
    }

    /// The items of `array<i32: …>`.
    pub fn as_i32_array(&self, attr: Attr) -> Option<Vec<i32>> {
        match self.attr_data(attr) {
            AttrData::DenseArray { element, bytes } if *element == self.int_type(32) => Some(
                bytes
                    .chunks_exact(4)
                    .map(|c| i32::from_le_bytes(c.try_into().expect("chunks of 4")))
                    .collect(),
            ),
            _ => None,
        }
    }

    /// The type in a type attribute.
    pub fn as_type(&self, attr: Attr) -> Option<Type> {
        match self.attr_data(attr) {
            AttrData::Type(ty) => Some(*ty),
            _ => None,
        }
    }

    /// The name in a flat symbol reference, `@name`.
    pub fn as_symbol(&self, attr: Attr) -> Option<&str> {
        match self.attr_data(attr) {
            AttrData::SymbolRef { path } if path.len() == 1 => Some(self.str(path[0])),
            _ => None,
        }
    }
}
