//! Types: MLIR's builtin types, plus types of other dialects kept verbatim.

use super::attr::Attr;
use super::context::Ident;

/// A dynamic dimension, `?`.
pub const DYNAMIC: i64 = i64::MIN;

/// An interned type; see [`Context::type_data`](super::Context::type_data).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Type(pub(super) u32);

impl Type {
    /// Position among the context's interned values: a dense key for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether an integer type says how its bits are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Signedness {
    /// `iN`
    Signless,
    /// `siN`
    Signed,
    /// `uiN`
    Unsigned,
}

/// The floating-point formats that MLIR knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FloatKind {
    /// `f16`: IEEE binary16
    F16,
    /// `bf16`
    BF16,
    /// `tf32`
    TF32,
    /// `f32`: IEEE binary32
    F32,
    /// `f64`: IEEE binary64
    F64,
    /// `f80`: x87 extended
    F80,
    /// `f128`: IEEE binary128
    F128,
    /// `f8E5M2`
    F8E5M2,
    /// `f8E4M3`
    F8E4M3,
    /// `f8E4M3FN`
    F8E4M3FN,
    /// `f8E5M2FNUZ`
    F8E5M2FNUZ,
    /// `f8E4M3FNUZ`
    F8E4M3FNUZ,
    /// `f8E4M3B11FNUZ`
    F8E4M3B11FNUZ,
    /// `f8E3M4`
    F8E3M4,
    /// `f4E2M1FN`
    F4E2M1FN,
    /// `f6E2M3FN`
    F6E2M3FN,
    /// `f6E3M2FN`
    F6E3M2FN,
    /// `f8E8M0FNU`
    F8E8M0FNU,
}

/// What a [`Type`] is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TypeData {
    /// `i32`, `si8`, `ui64`
    Integer {
        /// Bits, at most 16,777,215.
        width: u32,
        /// How the bits are read.
        signedness: Signedness,
    },
    /// `index`
    Index,
    /// `f32` and the like
    Float(FloatKind),
    /// `none`
    None,
    /// `complex<f32>`
    Complex(Type),
    /// `tuple<i32, f32>`
    Tuple(Box<[Type]>),
    /// `(i32) -> f32`
    Function {
        /// Parameter types.
        inputs: Box<[Type]>,
        /// Result types.
        results: Box<[Type]>,
    },
    /// `tensor<4x?xf32, #enc>`
    Tensor {
        /// Extents; [`DYNAMIC`] for `?`.
        shape: Box<[i64]>,
        /// Element type.
        element: Type,
        /// Encoding, such as a `#dist.layout`.
        encoding: Option<Attr>,
    },
    /// `tensor<*xf32>`
    UnrankedTensor(Type),
    /// `vector<4x[2]xf32>`
    Vector {
        /// Extents.
        shape: Box<[i64]>,
        /// Which dimensions are scalable (`[n]`).
        scalable: Box<[bool]>,
        /// Element type.
        element: Type,
    },
    /// `memref<4xf32, layout, space>`
    MemRef {
        /// Extents; [`DYNAMIC`] for `?`.
        shape: Box<[i64]>,
        /// Element type.
        element: Type,
        /// Layout: an affine map, a strided layout, or another dialect's attribute.
        layout: Option<Attr>,
        /// Memory space.
        space: Option<Attr>,
    },
    /// `memref<*xf32, space>`
    UnrankedMemRef {
        /// Element type.
        element: Type,
        /// Memory space.
        space: Option<Attr>,
    },
    /// `!foo.bar<…>` or `!foo<"…">`, kept verbatim; `!dist.token` is one of these.
    Opaque {
        /// The dialect, `foo`.
        dialect: Ident,
        /// What follows the dialect's name, as written: `bar<…>`.
        body: Box<str>,
        /// Written as `!foo<body>` and not `!foo.body`.
        quoted: bool,
    },
}
