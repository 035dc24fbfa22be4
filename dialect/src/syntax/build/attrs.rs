//! Attributes.

use super::super::cache::Known;
use super::super::error::{Failure, fail, report};
use super::super::text::ident_from_bytes;
use super::super::token::Tok;
use super::float::{self, NotAFloat};
use super::number::{IntFormat, int_value};
use super::{Builder, Literal, at, mark};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, DYNAMIC, FloatKind, Ident, Signedness, Type, TypeData};

/// An entry of a dictionary, and where its name stands.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    name: Ident,
    value: Attr,
    tok: Tok,
}

impl<'s> Builder<'s> {
    pub fn bool_attr(&mut self, value: bool) -> Attr {
        self.cx.bool_attr(value)
    }

    pub fn unit_attr(&mut self) -> Attr {
        self.cx.unit()
    }

    /// A number, of the written type or `i64` or `f64`.
    pub fn number(&mut self, literal: Literal, ty: Option<(u32, Type)>) -> Result<Attr, Failure> {
        let Literal { tok, negative } = literal;
        let is_float = super::is_float_literal(tok);
        let (start, ty) = ty.unwrap_or_else(|| {
            let ty = if is_float {
                self.cx.float_type(FloatKind::F64)
            } else {
                self.cx.int_type(64)
            };
            (tok.start, ty)
        });
        match *self.cx.type_data(ty) {
            TypeData::Float(kind) => {
                let bits = float::bits(self.bytes(tok), negative, kind)
                    .map_err(|why| not_a_float(tok, why))?;
                Ok(self.cx.attr(AttrData::Float { bits, ty }))
            }
            _ if is_float => Err(report(
                Diagnostic::error(
                    "E0180",
                    at(start),
                    "floating point value not valid for specified type",
                )
                .note(Some(tok.span().into()), "the number is written here"),
            )),
            _ => {
                let Some(format) = self.int_format(ty) else {
                    return Err(fail(
                        "E0180",
                        tok.span(),
                        "integer literal not valid for specified type",
                    ));
                };
                if negative && format.signedness == Signedness::Unsigned {
                    return Err(fail(
                        "E0181",
                        tok.span(),
                        "negative integer literal not valid for unsigned integer type",
                    ));
                }
                let value = int_value(self.bytes(tok), negative, format).ok_or_else(|| {
                    fail(
                        "E0181",
                        tok.span(),
                        "integer constant out of range for attribute",
                    )
                })?;
                Ok(self.cx.attr(AttrData::Integer { value, ty }))
            }
        }
    }

    /// How integers of a type are read; none for other types.
    pub(super) fn int_format(&self, ty: Type) -> Option<IntFormat> {
        match *self.cx.type_data(ty) {
            TypeData::Integer { width, signedness } => Some(IntFormat {
                width,
                signedness,
                is_index: false,
            }),
            TypeData::Index => Some(IntFormat {
                width: 64,
                signedness: Signedness::Signless,
                is_index: true,
            }),
            _ => None,
        }
    }

    pub fn string(&mut self, tok: Tok, ty: Option<Type>) -> Attr {
        let none = self.known_types.none;
        self.cx.attr(AttrData::String {
            bytes: self.string_bytes(tok).into(),
            ty: ty.filter(|&ty| ty != none),
        })
    }

    pub fn attrs_mark(&mut self) -> u32 {
        mark(&self.attrs)
    }

    pub fn push_attr(&mut self, attr: Attr) -> u32 {
        self.attrs.push(attr);
        mark(&self.attrs) - 1
    }

    pub fn array(&mut self, from: u32) -> Attr {
        let array = self.cx.array(&self.attrs[from as usize..]);
        self.attrs.truncate(from as usize);
        array
    }

    pub fn type_attr(&mut self, ty: Type) -> Attr {
        self.cx.type_attr(ty)
    }

    /// `@name`, as a part of a path of symbols.
    pub fn symbol_part(&mut self, tok: Tok) -> u32 {
        let name = self.name(tok);
        self.symbol_parts.push(name);
        mark(&self.symbol_parts) - 1
    }

    pub fn symbol_path(&mut self, from: u32) -> Attr {
        let path = self.symbol_parts[from as usize..].into();
        self.symbol_parts.truncate(from as usize);
        self.cx.attr(AttrData::SymbolRef { path })
    }

    // Dictionaries -------------------------------------------------------------------------------------------------

    pub fn known_dict(&mut self, tok: Tok) -> Attr {
        match self.cache.borrow().get(tok.known) {
            Known::Dict(dict) => dict,
            Known::Type(_) => unreachable!("a dictionary starts with a brace, a type does not"),
        }
    }

    pub fn entries_mark(&mut self) -> u32 {
        mark(&self.entries)
    }

    /// `name = value`, or `name` for a unit attribute.
    pub fn entry(&mut self, tok: Tok, value: Option<Attr>) -> Result<u32, Failure> {
        let name = self.name(tok);
        if tok.end - tok.start == 2 && self.cx.str(name).is_empty() {
            return Err(fail("E0182", tok.span(), "expected valid attribute name"));
        }
        self.entries.push(Entry {
            name,
            value: value.unwrap_or(self.cx.unit()),
            tok,
        });
        Ok(mark(&self.entries) - 1)
    }

    pub fn dict(&mut self, open: Tok, from: u32, close: Tok) -> Result<Attr, Failure> {
        let cx = &self.cx;
        let entries = &mut self.entries[from as usize..];
        if !entries.is_sorted_by(|a, b| cx.str(a.name) < cx.str(b.name)) {
            entries.sort_by(|a, b| cx.str(a.name).cmp(cx.str(b.name)));
            // Equal names are next to each other now, still in the order of the text.
            let twice = entries.windows(2).filter(|w| w[0].name == w[1].name);
            if let Some(twice) = twice.min_by_key(|w| w[1].tok.start) {
                let name = cx.str(twice[0].name);
                return Err(report(
                    Diagnostic::error(
                        "E0183",
                        twice[1].tok.span(),
                        format!("duplicate key '{name}' in dictionary attribute"),
                    )
                    .note(Some(twice[0].tok.span().into()), "first given here"),
                ));
            }
        }
        let dict = cx.dict(entries.iter().map(|e| (e.name, e.value)).collect());
        self.entries.truncate(from as usize);
        let span = open.start as usize..close.end as usize;
        // An empty dictionary looks like an empty region.
        if dict != self.cx.empty_dict() {
            self.cache
                .borrow_mut()
                .insert(&self.text[span], Known::Dict(dict));
        }
        Ok(dict)
    }

    // Others -------------------------------------------------------------------------------------------------------

    pub fn dense_resource(&mut self, tok: Tok, key: Tok, ty: Type) -> Result<Attr, Failure> {
        if self.shape_of(ty).is_none() {
            return Err(fail(
                "E0184",
                tok.span(),
                "`dense_resource` expected a shaped type",
            ));
        }
        let key = self.name(key);
        Ok(self.cx.attr(AttrData::DenseResource { key, ty }))
    }

    pub fn strides_mark(&mut self) -> u32 {
        mark(&self.strides)
    }

    pub fn push_stride(&mut self, stride: i64) -> u32 {
        self.strides.push(stride);
        mark(&self.strides) - 1
    }

    pub fn stride(&mut self, tok: Tok, negative: bool) -> Result<i64, Failure> {
        let magnitude = self.magnitude(tok).and_then(|m| i128::try_from(m).ok());
        let value = magnitude.map(|m| if negative { -m } else { m });
        match value.and_then(|v| i64::try_from(v).ok()) {
            // The smallest number stands for `?`.
            Some(value) if value != DYNAMIC => Ok(value),
            _ => Err(fail(
                "E0185",
                tok.span(),
                "expected a 64-bit signed integer or '?'",
            )),
        }
    }

    pub fn strided(&mut self, from: u32, offset: Option<i64>) -> Result<Attr, Failure> {
        let strides = self.strides[from as usize..].into();
        self.strides.truncate(from as usize);
        Ok(self.cx.attr(AttrData::Strided {
            strides,
            offset: offset.unwrap_or(0),
        }))
    }

    /// `distinct[id]<attribute>`: the same number is the same attribute.
    pub fn distinct(&mut self, tok: Tok, id: Tok, attr: Option<Attr>) -> Result<Attr, Failure> {
        let Some(id) = self.magnitude(id).and_then(|m| u64::try_from(m).ok()) else {
            return Err(fail(
                "E0186",
                id.span(),
                "expected an unsigned 64-bit integer",
            ));
        };
        let attr = attr.unwrap_or(self.cx.unit());
        match self.distinct_attrs.insert(id, attr) {
            Some(earlier) if earlier != attr => Err(fail(
                "E0186",
                tok.span(),
                "referenced attribute does not match previous definition",
            )),
            _ => Ok(self.cx.attr(AttrData::Distinct { id, attr })),
        }
    }

    /// The name that a string or bare token says, as text.
    pub(super) fn text_of(&mut self, tok: Tok) -> String {
        let bytes = self.bytes(tok);
        if bytes.first() == Some(&b'"') {
            ident_from_bytes(&self.string_bytes(tok)).into_owned()
        } else {
            self.shown(tok)
        }
    }
}

pub(super) fn not_a_float(tok: Tok, why: NotAFloat) -> Failure {
    let diagnostic = |message: &str| Diagnostic::error("E0187", tok.span(), message);
    report(match why {
        NotAFloat::Integer => {
            diagnostic("unexpected decimal integer literal for a floating point value")
                .help("add a trailing dot to make the literal a float")
        }
        NotAFloat::NegativeHex => {
            diagnostic("hexadecimal float literal should not have a leading minus")
                .help("the sign is the first of the bits that the literal gives")
        }
        NotAFloat::TooWide => diagnostic("hexadecimal float constant out of range for type"),
    })
}
