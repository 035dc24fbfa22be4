//! Values of Paddle's op attributes, between protobuf messages and IR attributes.
//!
//! The IR attribute's own type keeps the wire type: INT is an `i32`, LONG an `i64`, FLOAT an `f32`, INTS an `array<i32>`,
//! and so on. Kinds that MLIR has no builtin attribute for are one-entry dictionaries, `{var = "x"}`.

use raddle_dialect::ir::{Attr, AttrData, Context, FloatKind, Int};

use super::proto::{Complex, OpAttr, Scalar};

/// What an attribute holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Int(i32),
    Float(f32),
    Str(Vec<u8>),
    Ints(Vec<i32>),
    Floats(Vec<f32>),
    Strings(Vec<Vec<u8>>),
    Bool(bool),
    Bools(Vec<bool>),
    Block(i32),
    Long(i64),
    Blocks(Vec<i32>),
    Longs(Vec<i64>),
    Float64s(Vec<f64>),
    Var(Vec<u8>),
    Vars(Vec<Vec<u8>>),
    Float64(f64),
    Scalar(Number),
    Scalars(Vec<Number>),
}

/// A number that carries its type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Bool(bool),
    Long(i64),
    Float64(f64),
    Complex(f64, f64),
}

impl Value {
    /// The value of an attribute message; `None` if its type is unknown or a scalar in it is.
    pub(super) fn from_proto(attr: &OpAttr) -> Option<Self> {
        Some(match attr.r#type {
            0 => Self::Int(attr.i.unwrap_or_default()),
            1 => Self::Float(attr.f.unwrap_or_default()),
            2 => Self::Str(attr.s.clone().unwrap_or_default()),
            3 => Self::Ints(attr.ints.clone()),
            4 => Self::Floats(attr.floats.clone()),
            5 => Self::Strings(attr.strings.clone()),
            6 => Self::Bool(attr.b.unwrap_or_default()),
            7 => Self::Bools(attr.bools.clone()),
            8 => Self::Block(attr.block_idx.unwrap_or_default()),
            9 => Self::Long(attr.l.unwrap_or_default()),
            10 => Self::Blocks(attr.blocks_idx.clone()),
            11 => Self::Longs(attr.longs.clone()),
            12 => Self::Float64s(attr.float64s.clone()),
            13 => Self::Var(attr.var_name.clone().unwrap_or_default()),
            14 => Self::Vars(attr.vars_name.clone()),
            15 => Self::Float64(attr.float64.unwrap_or_default()),
            16 => Self::Scalar(Number::from_proto(attr.scalar.as_ref()?)?),
            17 => Self::Scalars(
                attr.scalars
                    .iter()
                    .map(Number::from_proto)
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }

    /// The message.
    pub(super) fn to_proto(&self, name: &str) -> OpAttr {
        let mut attr = OpAttr {
            name: name.as_bytes().to_vec(),
            ..OpAttr::default()
        };
        attr.r#type = match self.clone() {
            Self::Int(v) => set(&mut attr.i, v, 0),
            Self::Float(v) => set(&mut attr.f, v, 1),
            Self::Str(v) => set(&mut attr.s, v, 2),
            Self::Ints(v) => put(&mut attr.ints, v, 3),
            Self::Floats(v) => put(&mut attr.floats, v, 4),
            Self::Strings(v) => put(&mut attr.strings, v, 5),
            Self::Bool(v) => set(&mut attr.b, v, 6),
            Self::Bools(v) => put(&mut attr.bools, v, 7),
            Self::Block(v) => set(&mut attr.block_idx, v, 8),
            Self::Long(v) => set(&mut attr.l, v, 9),
            Self::Blocks(v) => put(&mut attr.blocks_idx, v, 10),
            Self::Longs(v) => put(&mut attr.longs, v, 11),
            Self::Float64s(v) => put(&mut attr.float64s, v, 12),
            Self::Var(v) => set(&mut attr.var_name, v, 13),
            Self::Vars(v) => put(&mut attr.vars_name, v, 14),
            Self::Float64(v) => set(&mut attr.float64, v, 15),
            Self::Scalar(v) => set(&mut attr.scalar, v.to_proto(), 16),
            Self::Scalars(v) => {
                let scalars = v.iter().map(|n| n.to_proto()).collect();
                put(&mut attr.scalars, scalars, 17)
            }
        };
        attr
    }

    /// The IR attribute.
    pub(super) fn to_attr(&self, cx: &Context) -> Attr {
        let tagged = |name, attr| cx.dict(vec![(cx.ident(name), attr)]);
        match self {
            Self::Int(v) => cx.int_attr((*v).into(), cx.int_type(32)),
            Self::Float(v) => float_attr(cx, *v),
            Self::Str(v) => bytes_attr(cx, v),
            Self::Ints(v) => cx.i32_array(v),
            Self::Floats(v) => dense(cx, cx.f32(), v.iter().flat_map(|f| f.to_le_bytes())),
            Self::Strings(v) => strings_attr(cx, v),
            Self::Bool(v) => cx.bool_attr(*v),
            Self::Bools(v) => dense(cx, cx.int_type(1), v.iter().map(|&b| u8::from(b))),
            Self::Block(v) => tagged("block", cx.i64_attr((*v).into())),
            Self::Long(v) => cx.i64_attr(*v),
            Self::Blocks(v) => tagged("blocks", cx.i32_array(v)),
            Self::Longs(v) => cx.i64_array(v),
            Self::Float64s(v) => {
                let f64 = cx.float_type(FloatKind::F64);
                dense(cx, f64, v.iter().flat_map(|f| f.to_le_bytes()))
            }
            Self::Var(v) => tagged("var", bytes_attr(cx, v)),
            Self::Vars(v) => tagged("vars", strings_attr(cx, v)),
            Self::Float64(v) => cx.f64_attr(*v),
            Self::Scalar(v) => tagged("scalar", v.to_attr(cx)),
            Self::Scalars(v) => {
                let items: Vec<_> = v.iter().map(|n| n.to_attr(cx)).collect();
                tagged("scalars", cx.array(&items))
            }
        }
    }

    /// Reads back what [`Value::to_attr`] made; `None` for any other attribute.
    pub(super) fn from_attr(cx: &Context, attr: Attr) -> Option<Self> {
        Some(match cx.attr_data(attr) {
            AttrData::Integer { value, ty } => {
                let value = value.to_i64()?;
                if *ty == cx.int_type(1) {
                    Self::Bool(value != 0)
                } else if *ty == cx.int_type(32) {
                    Self::Int(i32::try_from(value).ok()?)
                } else if *ty == cx.int_type(64) {
                    Self::Long(value)
                } else {
                    return None;
                }
            }
            AttrData::Float { bits, ty } => {
                if *ty == cx.f32() {
                    Self::Float(f32::from_bits(*bits as u32))
                } else if *ty == cx.float_type(FloatKind::F64) {
                    Self::Float64(f64::from_bits(*bits as u64))
                } else {
                    return None;
                }
            }
            AttrData::String { bytes, .. } => Self::Str(bytes.to_vec()),
            AttrData::Array(items) => Self::Strings(strings(cx, items)?),
            AttrData::DenseArray { element, bytes } => {
                if *element == cx.int_type(1) {
                    Self::Bools(bytes.iter().map(|&b| b != 0).collect())
                } else if *element == cx.int_type(32) {
                    Self::Ints(words(bytes).map(i32::from_le_bytes).collect())
                } else if *element == cx.int_type(64) {
                    Self::Longs(words(bytes).map(i64::from_le_bytes).collect())
                } else if *element == cx.f32() {
                    Self::Floats(words(bytes).map(f32::from_le_bytes).collect())
                } else if *element == cx.float_type(FloatKind::F64) {
                    Self::Float64s(words(bytes).map(f64::from_le_bytes).collect())
                } else {
                    return None;
                }
            }
            AttrData::Dict(entries) => {
                let &[(name, inner)] = &entries[..] else {
                    return None;
                };
                Self::from_tagged(cx, cx.str(name), inner)?
            }
            _ => return None,
        })
    }

    fn from_tagged(cx: &Context, tag: &str, inner: Attr) -> Option<Self> {
        let bytes = |attr| match cx.attr_data(attr) {
            AttrData::String { bytes, .. } => Some(bytes.to_vec()),
            _ => None,
        };
        Some(match tag {
            "block" => Self::Block(i32::try_from(cx.as_i64(inner)?).ok()?),
            "blocks" => Self::Blocks(cx.as_i32_array(inner)?),
            "var" => Self::Var(bytes(inner)?),
            "vars" => Self::Vars(strings(cx, cx.as_array(inner)?)?),
            "scalar" => Self::Scalar(Number::from_attr(cx, inner)?),
            "scalars" => Self::Scalars(
                cx.as_array(inner)?
                    .iter()
                    .map(|&a| Number::from_attr(cx, a))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }

    /// INT or LONG.
    pub(super) fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(v) => Some((*v).into()),
            Self::Long(v) => Some(*v),
            Self::Scalar(Number::Long(v)) => Some(*v),
            _ => None,
        }
    }

    /// FLOAT or FLOAT64.
    pub(super) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(v) => Some((*v).into()),
            Self::Float64(v) => Some(*v),
            Self::Scalar(Number::Float64(v)) => Some(*v),
            _ => None,
        }
    }

    /// BOOLEAN.
    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// INTS or LONGS.
    pub(super) fn as_i64s(&self) -> Option<Vec<i64>> {
        match self {
            Self::Ints(v) => Some(v.iter().map(|&i| i.into()).collect()),
            Self::Longs(v) => Some(v.clone()),
            _ => None,
        }
    }

    /// FLOATS or FLOAT64S.
    pub(super) fn as_f64s(&self) -> Option<Vec<f64>> {
        match self {
            Self::Floats(v) => Some(v.iter().map(|&f| f.into()).collect()),
            Self::Float64s(v) => Some(v.clone()),
            _ => None,
        }
    }

    /// STRINGS in UTF-8.
    pub(super) fn as_strs(&self) -> Option<Vec<&str>> {
        match self {
            Self::Strings(v) => v.iter().map(|s| std::str::from_utf8(s).ok()).collect(),
            _ => None,
        }
    }

    /// STRING in UTF-8.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(v) => std::str::from_utf8(v).ok(),
            _ => None,
        }
    }
}

impl Number {
    fn from_proto(scalar: &Scalar) -> Option<Self> {
        Some(match scalar.r#type {
            1 => Self::Bool(scalar.b.unwrap_or_default()),
            2 => Self::Long(scalar.i.unwrap_or_default()),
            3 => Self::Float64(scalar.r.unwrap_or_default()),
            4 => {
                let c = scalar.c.unwrap_or_default();
                Self::Complex(c.r, c.i)
            }
            _ => return None,
        })
    }

    fn to_proto(self) -> Scalar {
        let mut scalar = Scalar::default();
        scalar.r#type = match self {
            Self::Bool(v) => set(&mut scalar.b, v, 1),
            Self::Long(v) => set(&mut scalar.i, v, 2),
            Self::Float64(v) => set(&mut scalar.r, v, 3),
            Self::Complex(r, i) => set(&mut scalar.c, Complex { r, i }, 4),
        };
        scalar
    }

    fn to_attr(self, cx: &Context) -> Attr {
        match self {
            Self::Bool(v) => cx.bool_attr(v),
            Self::Long(v) => cx.i64_attr(v),
            Self::Float64(v) => cx.f64_attr(v),
            Self::Complex(r, i) => cx.array(&[cx.f64_attr(r), cx.f64_attr(i)]),
        }
    }

    fn from_attr(cx: &Context, attr: Attr) -> Option<Self> {
        if let Some(&[r, i]) = cx.as_array(attr) {
            return Some(Self::Complex(cx.as_f64(r)?, cx.as_f64(i)?));
        }
        Some(match Value::from_attr(cx, attr)? {
            Value::Bool(v) => Self::Bool(v),
            Value::Long(v) => Self::Long(v),
            Value::Float64(v) => Self::Float64(v),
            _ => return None,
        })
    }
}

/// An `f32` attribute with exactly these bits.
fn float_attr(cx: &Context, value: f32) -> Attr {
    cx.attr(AttrData::Float {
        bits: value.to_bits().into(),
        ty: cx.f32(),
    })
}

/// A string attribute of any bytes.
pub(super) fn bytes_attr(cx: &Context, bytes: &[u8]) -> Attr {
    cx.attr(AttrData::String {
        bytes: bytes.into(),
        ty: None,
    })
}

/// An integer attribute of type `i32`.
pub(super) fn i32_attr(cx: &Context, value: i32) -> Attr {
    cx.attr(AttrData::Integer {
        value: Int::Small(value.into()),
        ty: cx.int_type(32),
    })
}

fn strings_attr(cx: &Context, strings: &[Vec<u8>]) -> Attr {
    let items: Vec<_> = strings.iter().map(|s| bytes_attr(cx, s)).collect();
    cx.array(&items)
}

fn strings(cx: &Context, items: &[Attr]) -> Option<Vec<Vec<u8>>> {
    items
        .iter()
        .map(|&item| match cx.attr_data(item) {
            AttrData::String { bytes, .. } => Some(bytes.to_vec()),
            _ => None,
        })
        .collect()
}

fn dense(cx: &Context, element: raddle_dialect::ir::Type, bytes: impl Iterator<Item = u8>) -> Attr {
    cx.attr(AttrData::DenseArray {
        element,
        bytes: bytes.collect(),
    })
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes
        .chunks_exact(N)
        .map(|chunk| chunk.try_into().expect("chunks of N"))
}

fn set<T>(field: &mut Option<T>, value: T, code: i32) -> i32 {
    *field = Some(value);
    code
}

fn put<T>(field: &mut Vec<T>, value: Vec<T>, code: i32) -> i32 {
    *field = value;
    code
}
