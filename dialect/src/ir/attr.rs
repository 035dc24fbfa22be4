//! Attributes: MLIR's builtin attributes, plus attributes of other dialects kept verbatim.

use num_bigint::BigInt;

use super::affine::{AffineMap, IntegerSet};
use super::context::Ident;
use super::loc::Loc;
use super::types::Type;

/// An interned attribute; see [`Context::attr_data`](super::Context::attr_data).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Attr(pub(super) u32);

impl Attr {
    /// Position among the context's interned values: a dense key for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An integer of any width, sign-extended.
///
/// Values of signless and signed types lie in `[-2^(w-1), 2^(w-1))`, of unsigned types in `[0, 2^w)`; `true` is -1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Int {
    /// Fits 128 bits; anything that fits is stored like this.
    Small(i128),
    /// Does not.
    Big(Box<BigInt>),
}

impl Int {
    /// The value if it fits an `i64`.
    pub fn to_i64(&self) -> Option<i64> {
        match self {
            Int::Small(v) => i64::try_from(*v).ok(),
            Int::Big(_) => None,
        }
    }
}

impl From<BigInt> for Int {
    fn from(value: BigInt) -> Self {
        match i128::try_from(&value) {
            Ok(small) => Int::Small(small),
            Err(_) => Int::Big(Box::new(value)),
        }
    }
}

/// What an [`Attr`] is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AttrData {
    /// `unit`, or a bare name in a dictionary
    Unit,
    /// `1 : i32`, `true`
    Integer {
        /// The value.
        value: Int,
        /// An integer type or `index`.
        ty: Type,
    },
    /// `1.0 : f32`
    Float {
        /// The bits in the type's own format.
        bits: u128,
        /// A float type.
        ty: Type,
    },
    /// `"text"`, `"text" : !foo.ty`
    String {
        /// Not necessarily UTF-8.
        bytes: Box<[u8]>,
        /// Written type, if any.
        ty: Option<Type>,
    },
    /// `[1, 2]`
    Array(Box<[Attr]>),
    /// `{a = 1}`, sorted by name
    Dict(Box<[(Ident, Attr)]>),
    /// A type.
    Type(Type),
    /// `@root::@nested`
    SymbolRef {
        /// From the outermost table inwards; never empty.
        path: Box<[Ident]>,
    },
    /// `dense<…> : tensor<…>`
    Dense {
        /// A shaped type with static shape.
        ty: Type,
        /// The elements.
        value: DenseValue,
    },
    /// `dense_resource<key> : tensor<…>`
    DenseResource {
        /// Resource name.
        key: Ident,
        /// A shaped type.
        ty: Type,
    },
    /// `array<i64: 1, 2>`
    DenseArray {
        /// `i1`, `i8`, `i16`, `i32`, `i64`, `f32`, `f64`, …
        element: Type,
        /// Little-endian elements; an `i1` takes a byte (0 or 1).
        bytes: Box<[u8]>,
    },
    /// `sparse<[[0, 0]], [1]> : tensor<…>`
    Sparse {
        /// A shaped type with static shape.
        ty: Type,
        /// A dense `tensor<nxrxi64>`.
        indices: Attr,
        /// A dense `tensor<nxT>`.
        values: Attr,
    },
    /// `affine_map<…>`
    AffineMap(AffineMap),
    /// `affine_set<…>`
    IntegerSet(IntegerSet),
    /// `strided<[?, 1], offset: ?>`
    Strided {
        /// Strides; [`DYNAMIC`](super::DYNAMIC) for `?`.
        strides: Box<[i64]>,
        /// Offset.
        offset: i64,
    },
    /// `loc(…)`
    Loc(Loc),
    /// `distinct[0]<attr>`: equal only to itself, whatever it holds. The printer numbers them anew.
    Distinct {
        /// What tells it from others of the module.
        id: u64,
        /// What it holds; unit for `distinct[0]<>`.
        attr: Attr,
    },
    /// Properties that are written but empty, `<{}>`, on an op that is not registered. It occurs nowhere else; no properties
    /// at all are the empty dictionary.
    EmptyProperties,
    /// `#dist.layout<dims, partial>`
    Layout(LayoutData),
    /// `#foo.bar<…>` or `#foo<"…">`, kept verbatim
    Opaque {
        /// The dialect, `foo`.
        dialect: Ident,
        /// What follows the dialect's name, as written: `bar<…>`.
        body: Box<str>,
        /// Written as `#foo<body>` and not `#foo.body`.
        quoted: bool,
        /// Written type, if any.
        ty: Option<Type>,
    },
}

/// Elements of a `dense<…>` attribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DenseValue {
    /// Integers, floats and complex numbers: packed little-endian, each rounded up to whole bytes, `i1` one byte each. One
    /// element stands for all (a splat).
    Raw(Box<[u8]>),
    /// Strings. One stands for all.
    Strings(Box<[Box<[u8]>]>),
}

/// `#dist.layout<[["dp"], []], ["mp"]>`: how a value is spread over the mesh.
///
/// An axis that is named nowhere is replicated. `dims[d]` lists the axes that cut dimension `d`, outermost first;
/// `partial` lists the axes over which the value is yet to be summed.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LayoutData {
    /// Per tensor dimension, the mesh axes that shard it.
    pub dims: Box<[Box<[Ident]>]>,
    /// Mesh axes over which the value is a partial sum.
    pub partial: Box<[Ident]>,
}
