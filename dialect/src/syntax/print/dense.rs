//! Elements of `dense<…>`, `sparse<…>` and `array<…>` attributes.
//!
//! More than 100 elements that are not all alike are written as one hex string, as MLIR does.

use num_bigint::{BigInt, Sign};

use super::float::push_float;
use super::text::{push_hex, push_int, push_string, push_uint};
use crate::ir::{Attr, AttrData, Context, DenseValue, Signedness, Type, TypeData};

/// More elements than this are written in hex.
const HEX_LIMIT: usize = 100;

/// Appends the attribute without its type. Returns the type if it is to follow.
pub(super) fn push(
    out: &mut String,
    cx: &Context,
    attr: Attr,
    elide_larger: Option<usize>,
) -> Option<Type> {
    match cx.attr_data(attr) {
        AttrData::Dense { ty, value } => {
            let elided = elide_larger.is_some_and(|limit| count(cx, *ty) > limit);
            if elided && !cx.is_splat(attr) {
                out.push_str("dense_resource<__elided__>");
            } else {
                out.push_str("dense<");
                push_dense(out, cx, *ty, value, Hex::Allowed);
                out.push('>');
            }
            Some(*ty)
        }
        AttrData::Sparse {
            ty,
            indices,
            values,
        } => {
            out.push_str("sparse<");
            if let (
                AttrData::Dense { ty, value },
                AttrData::Dense {
                    ty: value_ty,
                    value: values,
                },
            ) = (cx.attr_data(*indices), cx.attr_data(*values))
                && count(cx, *ty) > 0
            {
                push_dense(out, cx, *ty, value, Hex::Never);
                out.push_str(", ");
                push_dense(out, cx, *value_ty, values, Hex::Allowed);
            }
            out.push('>');
            Some(*ty)
        }
        AttrData::DenseArray { element, bytes } => {
            out.push_str("array<");
            push_element_type(out, cx, *element);
            let size = cx.dense_element_bytes(*element).unwrap_or(1).max(1);
            for (index, item) in bytes.chunks_exact(size).enumerate() {
                out.push_str(if index == 0 { ": " } else { ", " });
                push_element(out, cx, *element, item);
            }
            out.push('>');
            None
        }
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hex {
    Allowed,
    Never,
}

/// Number of elements; 0 for what has no static shape.
fn count(cx: &Context, ty: Type) -> usize {
    let product = cx.shape_of(ty).and_then(|(shape, _)| {
        shape.iter().try_fold(1usize, |product, &extent| {
            product.checked_mul(usize::try_from(extent).ok()?)
        })
    });
    product.unwrap_or(0)
}

/// The element type of an `array<…>`: an integer or a float.
fn push_element_type(out: &mut String, cx: &Context, ty: Type) {
    match cx.type_data(ty) {
        TypeData::Integer { width, signedness } => {
            out.push_str(match signedness {
                Signedness::Signless => "i",
                Signedness::Signed => "si",
                Signedness::Unsigned => "ui",
            });
            push_uint(out, u64::from(*width));
        }
        TypeData::Float(kind) => out.push_str(kind.name()),
        _ => out.push_str("index"),
    }
}

fn push_dense(out: &mut String, cx: &Context, ty: Type, value: &DenseValue, hex: Hex) {
    let Some((shape, element)) = cx.shape_of(ty) else {
        return;
    };
    let total = count(cx, ty);
    match value {
        DenseValue::Strings(items) if items.len() == 1 => push_string(out, &items[0]),
        DenseValue::Strings(items) => {
            push_nested(out, shape, items.len().min(total), |out, index| {
                push_string(out, &items[index]);
            });
        }
        DenseValue::Raw(bytes) => {
            let size = cx.dense_element_bytes(element).unwrap_or(1);
            let items = bytes.len() / size.max(1);
            if bytes.len() == size {
                push_element(out, cx, element, bytes);
            } else if hex == Hex::Allowed && total > HEX_LIMIT {
                out.push_str("\"0x");
                push_raw(out, cx, element, bytes);
                out.push('"');
            } else {
                push_nested(out, shape, items.min(total), |out, index| {
                    push_element(out, cx, element, &bytes[index * size..][..size]);
                });
            }
        }
    }
}

/// The bytes as MLIR stores them: `i1` packed, the bits above an integer's width zero.
fn push_raw(out: &mut String, cx: &Context, element: Type, bytes: &[u8]) {
    let part = match cx.type_data(element) {
        TypeData::Complex(part) => *part,
        _ => element,
    };
    match cx.type_data(part) {
        TypeData::Integer { width: 1, .. } if part == element => push_hex(out, &packed(bytes)),
        TypeData::Integer { width, .. } if width % 8 != 0 => {
            let size = width.div_ceil(8) as usize;
            let mut bytes = bytes.to_vec();
            for item in bytes.chunks_exact_mut(size) {
                item[size - 1] &= (1 << (width % 8)) - 1;
            }
            push_hex(out, &bytes);
        }
        _ => push_hex(out, bytes),
    }
}

/// Eight `i1` a byte, the first in the lowest bit.
fn packed(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(8)
        .map(|chunk| {
            chunk
                .iter()
                .zip(0..)
                .fold(0, |byte, (&bit, at)| byte | (bit & 1) << at)
        })
        .collect()
}

/// Elements in brackets, one pair per dimension.
fn push_nested(
    out: &mut String,
    shape: &[i64],
    total: usize,
    mut push: impl FnMut(&mut String, usize),
) {
    if total == 0 {
        return;
    }
    // Elements in one index of each dimension.
    let mut strides: Vec<usize> = shape
        .iter()
        .rev()
        .scan(1usize, |product, &extent| {
            *product *= extent as usize;
            Some(*product)
        })
        .collect();
    strides.reverse();
    for index in 0..total {
        let closing = strides.iter().filter(|&&s| index % s == 0).count();
        if index > 0 {
            for _ in 0..closing {
                out.push(']');
            }
            out.push_str(", ");
        }
        for _ in 0..closing {
            out.push('[');
        }
        push(out, index);
    }
    for _ in shape {
        out.push(']');
    }
}

fn push_element(out: &mut String, cx: &Context, ty: Type, bytes: &[u8]) {
    match cx.type_data(ty) {
        TypeData::Complex(part) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            push_element(out, cx, *part, real);
            out.push(',');
            push_element(out, cx, *part, imaginary);
            out.push(')');
        }
        TypeData::Float(kind) => {
            push_float(out, *kind, unsigned(bytes));
        }
        TypeData::Integer { width: 1, .. } => {
            out.push_str(if bytes[0] & 1 == 1 { "true" } else { "false" });
        }
        TypeData::Integer {
            width: width @ 1..=128,
            signedness,
        } => {
            let value = unsigned(bytes);
            if *signedness == Signedness::Unsigned {
                out.push_str(&value.to_string());
            } else {
                let unused = 128 - width;
                push_int(out, (value << unused) as i128 >> unused);
            }
        }
        TypeData::Index => push_int(out, unsigned(bytes) as i64 as i128),
        TypeData::Integer { signedness, .. } if *signedness == Signedness::Unsigned => {
            out.push_str(&BigInt::from_bytes_le(Sign::Plus, bytes).to_string());
        }
        _ => out.push_str(&BigInt::from_signed_bytes_le(bytes).to_string()),
    }
}

fn unsigned(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .take(16)
        .zip(0..)
        .fold(0, |value, (&byte, at)| value | u128::from(byte) << (8 * at))
}
