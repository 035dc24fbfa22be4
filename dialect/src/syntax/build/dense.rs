//! Dense elements and dense arrays.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::super::error::{Failure, fail, report};
use super::super::text::hex_bytes;
use super::super::token::{Kind, Tok};
use super::attrs::not_a_float;
use super::number::{int_bytes, int_value};
use super::{Builder, at, float};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, DYNAMIC, DenseValue, FloatKind, Signedness, Type, TypeData};

/// A number, `true`, `false` or a string, as an attribute or an element.
#[derive(Clone, Copy)]
pub(in super::super) struct Literal {
    pub tok: Tok,
    pub negative: bool,
}

/// Elements from `first` on, nested in lists of a shape.
#[derive(Clone, Copy)]
pub(in super::super) struct Element {
    pub(super) first: u32,
    pub(super) shape: Shape,
    /// How many of them a list that is not closed has so far.
    count: u32,
}

/// A shape of nested lists: 0 is a single element, others are in [`Elements::shapes`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape(u32);

pub(super) const SCALAR: Shape = Shape(0);

/// The elements that are being read.
#[derive(Default)]
pub(super) struct Elements {
    pub(super) literals: Vec<Literal>,
    /// The elements are those of a dense array, where negative numbers of unsigned types wrap around.
    in_array: bool,
    /// Shape `n + 1` is a list of so many of another shape.
    shapes: Vec<(u32, Shape)>,
    known: HashMap<(u32, Shape), Shape, FxBuildHasher>,
}

impl Elements {
    fn list_of(&mut self, count: u32, inner: Shape) -> Shape {
        let shapes = &mut self.shapes;
        *self.known.entry((count, inner)).or_insert_with(|| {
            shapes.push((count, inner));
            Shape(shapes.len() as u32)
        })
    }

    pub(super) fn dims(&self, mut shape: Shape) -> Vec<i64> {
        let mut dims = Vec::new();
        while shape != SCALAR {
            let (count, inner) = self.shapes[shape.0 as usize - 1];
            dims.push(count.into());
            shape = inner;
        }
        dims
    }
}

/// How the elements of a type are stored.
#[derive(Clone, Copy)]
enum Storage {
    Int(super::number::IntFormat),
    Float(FloatKind),
    /// Strings of an unknown type.
    Text,
}

impl Builder<'_> {
    pub fn push_element(&mut self, literal: Literal) -> u32 {
        self.elements.literals.push(literal);
        self.elements.literals.len() as u32 - 1
    }

    pub fn scalar_shape(&mut self, first: u32) -> Element {
        Element {
            first,
            shape: SCALAR,
            count: 1,
        }
    }

    pub fn empty_elements(&mut self) -> Element {
        Element {
            first: self.elements.literals.len() as u32,
            shape: self.elements.list_of(0, SCALAR),
            count: 0,
        }
    }

    pub fn first_element(&mut self, element: Element) -> Element {
        Element {
            count: 1,
            ..element
        }
    }

    pub fn next_element(
        &mut self,
        list: Element,
        element: Element,
        start: u32,
        end: u32,
    ) -> Result<Element, Failure> {
        if element.shape != list.shape {
            return Err(report(
                Diagnostic::error(
                    "E0190",
                    start as usize..end as usize,
                    "tensor literal is invalid; ranks are not consistent between elements",
                )
                .label("is nested differently than the elements before it"),
            ));
        }
        Ok(Element {
            count: list.count + 1,
            ..list
        })
    }

    pub fn close_elements(&mut self, list: Element) -> Element {
        Element {
            shape: self.elements.list_of(list.count, list.shape),
            count: 1,
            ..list
        }
    }

    /// `dense<…> : type`
    pub fn dense(
        &mut self,
        tok: Tok,
        elements: Option<Element>,
        ty: Type,
    ) -> Result<Attr, Failure> {
        let shape = self.literal_shape(tok, ty)?;
        let elements = elements.unwrap_or(Element {
            first: self.elements.literals.len() as u32,
            shape: SCALAR,
            count: 0,
        });
        let dims = self.elements.dims(elements.shape);
        let attr = self.elements_of(tok, elements, (&dims, ty), &shape)?;
        self.elements.literals.truncate(elements.first as usize);
        Ok(attr)
    }

    /// The static shape of the type behind an elements literal.
    pub(super) fn literal_shape(&self, tok: Tok, ty: Type) -> Result<Box<[i64]>, Failure> {
        match self.shape_of(ty) {
            None => Err(fail(
                "E0191",
                tok.span(),
                "elements literal must be a shaped type",
            )),
            Some((Some(shape), _)) if !shape.contains(&DYNAMIC) => Ok(shape.into()),
            Some(_) => Err(fail(
                "E0191",
                tok.span(),
                "elements literal type must have static shape",
            )),
        }
    }

    /// Shape (none if unranked) and element type of a shaped type.
    pub(super) fn shape_of(&self, ty: Type) -> Option<(Option<&[i64]>, Type)> {
        match self.cx.type_data(ty) {
            TypeData::Tensor { shape, element, .. }
            | TypeData::Vector { shape, element, .. }
            | TypeData::MemRef { shape, element, .. } => Some((Some(shape), *element)),
            TypeData::UnrankedTensor(element) | TypeData::UnrankedMemRef { element, .. } => {
                Some((None, *element))
            }
            _ => None,
        }
    }

    /// The attribute of a type that some elements, nested in lists of the given lengths, make.
    pub(super) fn elements_of(
        &mut self,
        tok: Tok,
        elements: Element,
        (dims, ty): (&[i64], Type),
        shape: &[i64],
    ) -> Result<Attr, Failure> {
        let Some((_, element)) = self.shape_of(ty) else {
            return Err(fail(
                "E0191",
                tok.span(),
                "elements literal must be a shaped type",
            ));
        };
        let total = shape
            .iter()
            .try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?));
        let (part, parts) = match *self.cx.type_data(element) {
            TypeData::Complex(part) => (part, 2),
            _ => (element, 1),
        };
        let storage = match *self.cx.type_data(part) {
            TypeData::Float(kind) => Storage::Float(kind),
            _ => self.int_format(part).map_or(Storage::Text, Storage::Int),
        };
        let literals = &self.elements.literals[elements.first as usize..];
        if let ([only], SCALAR) = (literals, elements.shape)
            && only.tok.kind == Kind::String
            && !matches!(storage, Storage::Text)
        {
            let value = self.hex_elements(*only, storage, (parts, total), ty)?;
            return Ok(self.cx.attr(AttrData::Dense { ty, value }));
        }
        if elements.shape != SCALAR && dims != shape {
            return Err(fail(
                "E0192",
                tok.span(),
                format!(
                    "inferred shape of elements literal ([{}]) does not match type ([{}])",
                    commas(dims),
                    commas(shape)
                ),
            ));
        }
        let given = literals.len() as u64;
        if given == 0 && total != Some(0) {
            let ty = self.cx.display(ty);
            return Err(fail(
                "E0192",
                tok.span(),
                format!("parsed zero elements, but type ('{ty}') expected at least 1"),
            ));
        }
        let wanted = if elements.shape == SCALAR && (given == parts || total == Some(0)) {
            given
        } else {
            total.map_or(u64::MAX, |t| t.saturating_mul(parts))
        };
        if given != wanted {
            let ty = self.cx.display(ty);
            return Err(fail(
                "E0192",
                tok.span(),
                format!("parsed {given} elements, but type ('{ty}') expected {wanted} elements"),
            ));
        }
        let value = match storage {
            Storage::Text => DenseValue::Strings(self.text_elements(tok, elements.first)?),
            _ => {
                let mut bytes = Vec::new();
                for index in elements.first as usize..self.elements.literals.len() {
                    self.element_bytes(self.elements.literals[index], storage, &mut bytes)?;
                }
                let size = storage.bytes() * parts as usize;
                splat(&mut bytes, size);
                DenseValue::Raw(bytes.into())
            }
        };
        Ok(self.cx.attr(AttrData::Dense { ty, value }))
    }

    fn text_elements(&self, tok: Tok, first: u32) -> Result<Box<[Box<[u8]>]>, Failure> {
        let mut strings: Vec<Box<[u8]>> = Vec::new();
        for literal in &self.elements.literals[first as usize..] {
            if literal.tok.kind != Kind::String {
                let found = self.shown(literal.tok);
                return Err(report(
                    Diagnostic::error(
                        "E0193",
                        tok.span(),
                        format!("expected string token, got {found}"),
                    )
                    .note(Some(literal.tok.span().into()), "this element"),
                ));
            }
            strings.push(self.string_bytes(literal.tok).into());
        }
        if strings.windows(2).all(|w| w[0] == w[1]) {
            strings.truncate(1);
        }
        Ok(strings.into())
    }

    /// Adds the bytes of a number.
    fn element_bytes(
        &self,
        literal: Literal,
        storage: Storage,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let Literal { tok, negative } = literal;
        match storage {
            Storage::Int(format) => {
                let one_bit = format.width == 1;
                match tok.kind {
                    Kind::True | Kind::False if one_bit => {
                        bytes.push((tok.kind == Kind::True).into());
                        return Ok(());
                    }
                    Kind::True | Kind::False => {
                        return Err(fail(
                            "E0193",
                            tok.span(),
                            "expected i1 type for 'true' or 'false' values",
                        ));
                    }
                    Kind::Float => {
                        return Err(fail(
                            "E0193",
                            tok.span(),
                            "expected integer elements, but parsed floating-point",
                        ));
                    }
                    _ => {}
                }
                if negative && format.signedness == Signedness::Unsigned && !self.elements.in_array
                {
                    return Err(fail(
                        "E0193",
                        tok.span(),
                        "expected unsigned integer elements, but parsed negative value",
                    ));
                }
                let value = (tok.kind == Kind::Integer)
                    .then(|| int_value(self.bytes(tok), negative, format))
                    .flatten();
                let value = value.ok_or_else(|| {
                    fail(
                        "E0193",
                        tok.span(),
                        "integer constant out of range for type",
                    )
                })?;
                int_bytes(&value, format.width, bytes);
            }
            Storage::Float(kind) => {
                if !matches!(tok.kind, Kind::Float | Kind::Integer) {
                    return Err(fail("E0193", tok.span(), "expected floating point literal"));
                }
                let bits = float::bits(self.bytes(tok), negative, kind)
                    .map_err(|why| not_a_float(tok, why))?;
                bytes.extend_from_slice(&bits.to_le_bytes()[..storage.bytes()]);
            }
            Storage::Text => unreachable!("strings are not packed"),
        }
        Ok(())
    }

    /// `dense<"0x…">`: the elements' bytes; single bits are packed.
    fn hex_elements(
        &self,
        literal: Literal,
        storage: Storage,
        (parts, total): (u64, Option<u64>),
        ty: Type,
    ) -> Result<DenseValue, Failure> {
        let tok = literal.tok;
        let Some(mut bytes) = hex_bytes(&self.string_bytes(tok)) else {
            return Err(fail(
                "E0194",
                tok.span(),
                "expected string containing hex digits starting with `0x`",
            ));
        };
        let invalid = || {
            let ty = self.cx.display(ty);
            fail(
                "E0194",
                tok.span(),
                format!("elements hex data size is invalid for provided type: '{ty}'"),
            )
        };
        let packed = parts == 1 && matches!(storage, Storage::Int(f) if f.width == 1);
        if packed {
            let total = total.ok_or_else(invalid)?;
            let all = matches!(bytes[..], [0 | 0xFF]);
            if all && total != 0 {
                bytes[0] &= 1;
                return Ok(DenseValue::Raw(bytes.into()));
            }
            if bytes.len() as u64 != total.div_ceil(8) {
                return Err(invalid());
            }
            let mut bits: Vec<u8> = (0..total as usize)
                .map(|i| bytes[i / 8] >> (i % 8) & 1)
                .collect();
            splat(&mut bits, 1);
            return Ok(DenseValue::Raw(bits.into()));
        }
        let size = storage.bytes() * parts as usize;
        let wanted = total.and_then(|t| t.checked_mul(size as u64));
        if bytes.len() != size && Some(bytes.len() as u64) != wanted {
            return Err(invalid());
        }
        storage.clear_padding(&mut bytes);
        splat(&mut bytes, size);
        Ok(DenseValue::Raw(bytes.into()))
    }

    /// `array<type: …>`
    pub fn dense_array(
        &mut self,
        (start, element): (u32, Type),
        first: Option<u32>,
    ) -> Result<Attr, Failure> {
        let storage = match *self.cx.type_data(element) {
            TypeData::Float(kind) => Storage::Float(kind),
            TypeData::Integer { .. } => {
                Storage::Int(self.int_format(element).expect("it is an integer"))
            }
            _ => {
                let ty = self.cx.display(element);
                return Err(fail(
                    "E0196",
                    at(start),
                    format!("expected integer or float type, got: '{ty}'"),
                ));
            }
        };
        let width = storage.width();
        if width != 1 && !width.is_multiple_of(8) {
            return Err(fail(
                "E0196",
                at(start),
                "element type bitwidth must be a multiple of 8",
            ));
        }
        let mut bytes = Vec::new();
        if let Some(first) = first {
            self.elements.in_array = true;
            for index in first as usize..self.elements.literals.len() {
                let literal = self.elements.literals[index];
                if width == 1 && literal.tok.kind == Kind::Integer {
                    return Err(fail(
                        "E0193",
                        literal.tok.span(),
                        "expected 'true' or 'false' values for i1 type",
                    ));
                }
                self.element_bytes(literal, storage, &mut bytes)?;
            }
            self.elements.literals.truncate(first as usize);
            self.elements.in_array = false;
        }
        Ok(self.cx.attr(AttrData::DenseArray {
            element,
            bytes: bytes.into(),
        }))
    }

    /// The `i32` numbers from a mark on, as `array<i32: …>`.
    pub(super) fn i32_array(&mut self, first: u32) -> Result<Attr, Failure> {
        let i32_type = self.cx.int_type(32);
        self.dense_array((0, i32_type), Some(first))
    }
}

impl Storage {
    fn width(self) -> u32 {
        match self {
            Storage::Int(format) => format.width,
            Storage::Float(kind) => kind.width(),
            Storage::Text => 0,
        }
    }

    fn bytes(self) -> usize {
        self.width().div_ceil(8) as usize
    }

    /// Bits above the width mean nothing.
    fn clear_padding(self, bytes: &mut [u8]) {
        let used = self.width() % 8;
        if used != 0 {
            for last in bytes
                .iter_mut()
                .skip(self.bytes() - 1)
                .step_by(self.bytes())
            {
                *last &= (1 << used) - 1;
            }
        }
    }
}

/// Leaves one element if all are equal.
fn splat(bytes: &mut Vec<u8>, size: usize) {
    if size > 0 && bytes.len() > size && bytes[size..] == bytes[..bytes.len() - size] {
        bytes.truncate(size);
    }
}

pub(super) fn commas(numbers: &[i64]) -> String {
    let numbers: Vec<_> = numbers.iter().map(i64::to_string).collect();
    numbers.join(", ")
}
