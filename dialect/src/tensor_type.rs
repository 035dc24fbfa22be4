//! Types of tensors as plain data: what shape inference, layouts and the reference semantics work on.

use std::fmt;

use crate::error::Error;
use crate::ir::{Context, DYNAMIC, FloatKind, Signedness, Type, TypeData};

/// The element types that `dist` computes with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F8E4M3FN,
    F8E5M2,
    F16,
    BF16,
    TF32,
    F32,
    F64,
}

impl DType {
    /// Every one of them.
    pub const ALL: &[DType] = &[
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F8E4M3FN,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::TF32,
        DType::F32,
        DType::F64,
    ];

    /// MLIR's name: `i1`, `i32`, `ui8`, `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "i1",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "ui8",
            DType::U16 => "ui16",
            DType::U32 => "ui32",
            DType::U64 => "ui64",
            DType::F8E4M3FN => "f8E4M3FN",
            DType::F8E5M2 => "f8E5M2",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::TF32 => "tf32",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The element type of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|d| d.name() == name)
    }

    /// The element type that an MLIR type is, if it is one of these. Signless integers count as signed.
    pub fn of(cx: &Context, ty: Type) -> Option<Self> {
        Some(match cx.type_data(ty) {
            TypeData::Integer { width, signedness } => match (width, signedness) {
                (1, Signedness::Signless) => DType::Bool,
                (8, Signedness::Signless) => DType::I8,
                (16, Signedness::Signless) => DType::I16,
                (32, Signedness::Signless) => DType::I32,
                (64, Signedness::Signless) => DType::I64,
                (8, Signedness::Unsigned) => DType::U8,
                (16, Signedness::Unsigned) => DType::U16,
                (32, Signedness::Unsigned) => DType::U32,
                (64, Signedness::Unsigned) => DType::U64,
                _ => return None,
            },
            TypeData::Float(kind) => match kind {
                FloatKind::F8E4M3FN => DType::F8E4M3FN,
                FloatKind::F8E5M2 => DType::F8E5M2,
                FloatKind::F16 => DType::F16,
                FloatKind::BF16 => DType::BF16,
                FloatKind::TF32 => DType::TF32,
                FloatKind::F32 => DType::F32,
                FloatKind::F64 => DType::F64,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The MLIR type.
    pub fn ty(self, cx: &Context) -> Type {
        let int = |width, signedness| cx.ty(TypeData::Integer { width, signedness });
        match self {
            DType::Bool => int(1, Signedness::Signless),
            DType::I8 => int(8, Signedness::Signless),
            DType::I16 => int(16, Signedness::Signless),
            DType::I32 => int(32, Signedness::Signless),
            DType::I64 => int(64, Signedness::Signless),
            DType::U8 => int(8, Signedness::Unsigned),
            DType::U16 => int(16, Signedness::Unsigned),
            DType::U32 => int(32, Signedness::Unsigned),
            DType::U64 => int(64, Signedness::Unsigned),
            DType::F8E4M3FN => cx.float_type(FloatKind::F8E4M3FN),
            DType::F8E5M2 => cx.float_type(FloatKind::F8E5M2),
            DType::F16 => cx.float_type(FloatKind::F16),
            DType::BF16 => cx.float_type(FloatKind::BF16),
            DType::TF32 => cx.float_type(FloatKind::TF32),
            DType::F32 => cx.float_type(FloatKind::F32),
            DType::F64 => cx.float_type(FloatKind::F64),
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        self >= DType::F8E4M3FN
    }

    /// Whether it is an integer type; `i1` is not.
    pub fn is_int(self) -> bool {
        !self.is_float() && self != DType::Bool
    }

    /// Size of an element in memory, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 | DType::F8E4M3FN | DType::F8E5M2 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 | DType::TF32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Shape and element type of a tensor. An extent may be [`DYNAMIC`], printed `?`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Extents, not negative, or [`DYNAMIC`].
    pub shape: Vec<i64>,
    /// Element type.
    pub dtype: DType,
}

impl TensorType {
    /// A tensor type.
    pub fn new(shape: impl Into<Vec<i64>>, dtype: DType) -> Self {
        Self {
            shape: shape.into(),
            dtype,
        }
    }

    /// Reads a ranked tensor type; its encoding is ignored.
    ///
    /// # Errors
    /// `E0306` if it is another type, or its element type is none that `dist` computes with.
    pub fn of(cx: &Context, ty: Type) -> Result<Self, Error> {
        let Some((shape, element)) = cx.as_tensor(ty) else {
            return Err(Error::op("E0306", "must be a ranked tensor"));
        };
        let dtype = DType::of(cx, element).ok_or_else(|| {
            let known: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
            Error::op("E0306", "has an element type that dist does not know")
                .with_help(format!("element types are {}", known.join(", ")))
        })?;
        Ok(Self::new(shape, dtype))
    }

    /// The MLIR type, without encoding.
    pub fn ty(&self, cx: &Context) -> Type {
        cx.tensor(&self.shape, self.dtype.ty(cx))
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Whether no extent is dynamic.
    pub fn is_static(&self) -> bool {
        !self.shape.contains(&DYNAMIC)
    }

    /// Number of elements; `None` if an extent is dynamic or the number does not fit.
    pub fn elements(&self) -> Option<i64> {
        if !self.is_static() {
            return None;
        }
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1i64, |n, &d| n.checked_mul(d))
    }

    /// Size in memory, in bytes; `None` as for [`TensorType::elements`].
    pub fn bytes(&self) -> Option<i64> {
        self.elements()?
            .checked_mul(i64::try_from(self.dtype.bytes()).ok()?)
    }

    /// Whether both are the same where both say something: a dynamic extent goes with any.
    pub fn agrees(&self, other: &Self) -> bool {
        self.dtype == other.dtype && shapes_agree(&self.shape, &other.shape)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("tensor<")?;
        for &extent in &self.shape {
            match extent {
                DYNAMIC => f.write_str("?x")?,
                _ => write!(f, "{extent}x")?,
            }
        }
        write!(f, "{}>", self.dtype)
    }
}

/// Whether two shapes are the same where both say something.
pub fn shapes_agree(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| extents_agree(a, b))
}

/// Whether two extents are the same or one of them is dynamic.
pub fn extents_agree(a: i64, b: i64) -> bool {
    a == b || a == DYNAMIC || b == DYNAMIC
}
