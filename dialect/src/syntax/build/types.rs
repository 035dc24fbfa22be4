//! Types.

use super::super::cache::Known;
use super::super::error::{Failure, fail, report};
use super::super::token::{Kind, Tok};
use super::{Builder, at, mark};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, DYNAMIC, FloatKind, Signedness, Type, TypeData};
use crate::ops::upstream::MLIR_DIALECTS;

/// Widths beyond this are refused, as in MLIR.
const MAX_WIDTH: u32 = 16_777_215;

impl Builder<'_> {
    pub fn types_mark(&mut self) -> u32 {
        self.no_types()
    }

    pub fn push_type(&mut self, ty: Type) -> u32 {
        self.types.push(ty);
        mark(&self.types) - 1
    }

    pub fn known_type(&mut self, tok: Tok) -> Type {
        match self.cache.borrow().get(tok.known) {
            Known::Type(ty) => ty,
            Known::Dict(_) => unreachable!("a type starts with a word, a dictionary does not"),
        }
    }

    /// A type that one short token stands for.
    fn by_text(&self, tok: Tok) -> Option<Type> {
        self.known_types.by_text.get(&self.short(tok)?).copied()
    }

    fn short(&self, tok: Tok) -> Option<[u8; 8]> {
        let bytes = self.bytes(tok);
        let mut short = [0; 8];
        short.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(short)
    }

    fn keep_by_text(&mut self, tok: Tok, ty: Type) {
        if let Some(short) = self.short(tok) {
            self.known_types.by_text.insert(short, ty);
        }
    }

    /// `i32`, `si8`, `ui64`
    pub fn int_type(&mut self, tok: Tok) -> Result<Type, Failure> {
        if let Some(ty) = self.by_text(tok) {
            return Ok(ty);
        }
        let bytes = self.bytes(tok);
        let (signedness, digits) = match bytes {
            [b's', b'i', digits @ ..] => (Signedness::Signed, digits),
            [b'u', b'i', digits @ ..] => (Signedness::Unsigned, digits),
            digits => (Signedness::Signless, &digits[1..]),
        };
        let width = super::number::magnitude(digits).and_then(|w| u32::try_from(w).ok());
        let Some(width) = width.filter(|&w| w <= MAX_WIDTH) else {
            return Err(fail(
                "E0197",
                tok.span(),
                format!("integer bitwidth is limited to {MAX_WIDTH} bits"),
            ));
        };
        let ty = self.cx.ty(TypeData::Integer { width, signedness });
        self.keep_by_text(tok, ty);
        Ok(ty)
    }

    pub fn float_type(&mut self, tok: Tok) -> Type {
        if let Some(ty) = self.by_text(tok) {
            return ty;
        }
        let kind = match self.bytes(tok) {
            b"f16" => FloatKind::F16,
            b"bf16" => FloatKind::BF16,
            b"tf32" => FloatKind::TF32,
            b"f32" => FloatKind::F32,
            b"f64" => FloatKind::F64,
            b"f80" => FloatKind::F80,
            b"f128" => FloatKind::F128,
            b"f8E5M2" => FloatKind::F8E5M2,
            b"f8E4M3" => FloatKind::F8E4M3,
            b"f8E4M3FN" => FloatKind::F8E4M3FN,
            b"f8E5M2FNUZ" => FloatKind::F8E5M2FNUZ,
            b"f8E4M3FNUZ" => FloatKind::F8E4M3FNUZ,
            b"f8E4M3B11FNUZ" => FloatKind::F8E4M3B11FNUZ,
            b"f8E3M4" => FloatKind::F8E3M4,
            b"f4E2M1FN" => FloatKind::F4E2M1FN,
            b"f6E2M3FN" => FloatKind::F6E2M3FN,
            b"f6E3M2FN" => FloatKind::F6E3M2FN,
            _ => FloatKind::F8E8M0FNU,
        };
        let ty = self.cx.float_type(kind);
        self.keep_by_text(tok, ty);
        ty
    }

    pub fn index_type(&mut self) -> Type {
        self.known_types.index
    }

    pub fn none_type(&mut self) -> Type {
        self.known_types.none
    }

    pub fn function_type(&mut self, inputs: u32, results: u32) -> Type {
        let (inputs, results) = (inputs as usize, results as usize);
        let ty = self
            .cx
            .function_type(&self.types[inputs..results], &self.types[results..]);
        self.types.truncate(inputs);
        ty
    }

    pub fn tuple(&mut self, from: u32) -> Type {
        let items = self.types[from as usize..].into();
        self.types.truncate(from as usize);
        self.cx.ty(TypeData::Tuple(items))
    }

    pub fn complex(&mut self, (start, element): (u32, Type)) -> Result<Type, Failure> {
        match self.cx.type_data(element) {
            TypeData::Integer { .. } | TypeData::Float(_) => {
                Ok(self.cx.ty(TypeData::Complex(element)))
            }
            _ => Err(fail("E0198", at(start), "invalid element type for complex")),
        }
    }

    /// `tensor<4x?xf32, encoding>`
    pub fn tensor(
        &mut self,
        open: Tok,
        dims: Option<Tok>,
        (start, element): (u32, Type),
        encoding: Option<Attr>,
        close: Tok,
    ) -> Result<Type, Failure> {
        let valid = matches!(
            self.cx.type_data(element),
            TypeData::Integer { .. }
                | TypeData::Float(_)
                | TypeData::Index
                | TypeData::Complex(_)
                | TypeData::Vector { .. }
                | TypeData::Opaque { .. }
        );
        if !valid {
            return Err(fail("E0198", at(start), "invalid tensor element type"));
        }
        let ty = match dims {
            Some(tok) if tok.kind == Kind::Unranked => {
                if encoding.is_some() {
                    return Err(fail(
                        "E0199",
                        close.span(),
                        "cannot apply encoding to unranked tensor",
                    ));
                }
                self.cx.ty(TypeData::UnrankedTensor(element))
            }
            dims => {
                let shape = self.shape(dims)?.0;
                self.cx.tensor_with(&shape, element, encoding)
            }
        };
        self.keep(open, close, ty);
        Ok(ty)
    }

    /// `vector<4x[2]xf32>`
    pub fn vector(
        &mut self,
        open: Tok,
        dims: Option<Tok>,
        (start, element): (u32, Type),
        close: Tok,
    ) -> Result<Type, Failure> {
        let valid = matches!(
            self.cx.type_data(element),
            TypeData::Integer { .. } | TypeData::Float(_) | TypeData::Index
        );
        if !valid {
            let ty = self.cx.display(element);
            return Err(fail(
                "E0198",
                at(start),
                format!(
                    "failed to verify 'elementType': VectorElementTypeInterface instance, but got '{ty}'"
                ),
            ));
        }
        let (shape, scalable) = self.shape(dims)?;
        if let (Some(tok), true) = (dims, shape.contains(&0)) {
            return Err(fail(
                "E0199",
                tok.span(),
                "vector types must have positive constant sizes but got 0",
            ));
        }
        let ty = self.cx.ty(TypeData::Vector {
            shape: shape.into(),
            scalable: scalable.into(),
            element,
        });
        self.keep(open, close, ty);
        Ok(ty)
    }

    /// `memref<4xf32, layout, space>`
    pub fn memref(
        &mut self,
        open: Tok,
        dims: Option<Tok>,
        (start, element): (u32, Type),
        params: u32,
        close: Tok,
    ) -> Result<Type, Failure> {
        let valid = matches!(
            self.cx.type_data(element),
            TypeData::Integer { .. }
                | TypeData::Float(_)
                | TypeData::Index
                | TypeData::Complex(_)
                | TypeData::Vector { .. }
                | TypeData::MemRef { .. }
                | TypeData::UnrankedMemRef { .. }
        );
        if !valid {
            return Err(fail("E0198", at(start), "invalid memref element type"));
        }
        let unranked = dims.is_some_and(|tok| tok.kind == Kind::Unranked);
        let shape = if unranked {
            Vec::new()
        } else {
            self.shape(dims)?.0
        };
        let params = self.attrs.split_off(params as usize);
        let (mut layout, mut space) = (None, None);
        let error = |message: &str| Err(fail("E0199", close.span(), message));
        for param in params {
            if matches!(
                self.cx.attr_data(param),
                AttrData::AffineMap(_) | AttrData::Strided { .. }
            ) {
                if unranked {
                    return error("cannot have affine map for unranked memref type");
                }
                if space.is_some() {
                    return error("expected memory space to be last in memref type");
                }
                layout = Some(param);
            } else if space.is_some() {
                return error("multiple memory spaces specified in memref type");
            } else {
                space = Some(param);
            }
        }
        if let Some(layout) = layout {
            self.check_layout(layout, shape.len(), close)?;
        }
        if let Some(space) = space {
            self.check_space(space, close)?;
        }
        let layout = layout.filter(|&l| !self.is_identity(l));
        let space = space.filter(|&s| !self.is_default_space(s));
        let ty = self.cx.ty(if unranked {
            TypeData::UnrankedMemRef { element, space }
        } else {
            TypeData::MemRef {
                shape: shape.into(),
                element,
                layout,
                space,
            }
        });
        self.keep(open, close, ty);
        Ok(ty)
    }

    fn check_layout(&self, layout: Attr, rank: usize, close: Tok) -> Result<(), Failure> {
        let (given, what) = match self.cx.attr_data(layout) {
            AttrData::AffineMap(map) => (
                map.dims as usize,
                "memref layout mismatch between rank and affine map",
            ),
            AttrData::Strided { strides, .. } => (
                strides.len(),
                "expected the number of strides to match the rank",
            ),
            _ => return Ok(()),
        };
        if given == rank {
            return Ok(());
        }
        Err(fail(
            "E0199",
            close.span(),
            format!("{what}: {rank} != {given}"),
        ))
    }

    fn check_space(&self, space: Attr, close: Tok) -> Result<(), Failure> {
        match self.cx.attr_data(space) {
            AttrData::Integer { .. } | AttrData::String { .. } | AttrData::Dict(_) => Ok(()),
            AttrData::Opaque { dialect, .. } if MLIR_DIALECTS.contains(&self.cx.str(*dialect)) => {
                Ok(())
            }
            _ => Err(fail(
                "E0199",
                close.span(),
                "unsupported memory space Attribute",
            )),
        }
    }

    /// Whether a layout is the one that a memref has anyway.
    fn is_identity(&self, layout: Attr) -> bool {
        match self.cx.attr_data(layout) {
            AttrData::AffineMap(map) => map.is_identity(),
            _ => false,
        }
    }

    /// Memory space 0 is the default.
    fn is_default_space(&self, space: Attr) -> bool {
        self.cx.as_i64(space) == Some(0)
    }

    /// Extents, and which of them are scalable.
    fn shape(&self, dims: Option<Tok>) -> Result<(Vec<i64>, Vec<bool>), Failure> {
        let Some(tok) = dims else {
            return Ok((Vec::new(), Vec::new()));
        };
        let (mut shape, mut scalable) = (Vec::new(), Vec::new());
        let bytes = self.bytes(tok);
        let mut at = 0;
        let mut bracket = false;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit());
                    let len = digits.count();
                    let value = super::number::magnitude(&bytes[at..at + len]);
                    let Some(value) = value.and_then(|v| i64::try_from(v).ok()) else {
                        let start = tok.start as usize + at;
                        return Err(report(
                            Diagnostic::error("E0104", start..start + len, "invalid dimension")
                                .label("does not fit 63 bits"),
                        ));
                    };
                    shape.push(value);
                    scalable.push(bracket);
                    at += len;
                    continue;
                }
                b'?' => {
                    shape.push(DYNAMIC);
                    scalable.push(false);
                }
                b'[' => bracket = true,
                b']' => bracket = false,
                // A comment between dimensions.
                b'/' => {
                    let rest = &bytes[at..];
                    at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        Ok((shape, scalable))
    }

    /// Remembers a type by its text.
    fn keep(&mut self, open: Tok, close: Tok, ty: Type) {
        let text = self.text;
        self.cache.borrow_mut().insert(
            &text[open.start as usize..close.end as usize],
            Known::Type(ty),
        );
    }
}
