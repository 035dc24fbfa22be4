//! How the elements of `dense<…>` attributes are stored.

use super::attr::{Attr, AttrData, DenseValue};
use super::context::Context;
use super::types::{Type, TypeData};

impl Context {
    /// Bytes that one element of this type takes in [`DenseValue::Raw`]; `None` for types that have no such form.
    pub fn dense_element_bytes(&self, element: Type) -> Option<usize> {
        match self.type_data(element) {
            TypeData::Integer { width, .. } => Some(width.div_ceil(8) as usize),
            TypeData::Index => Some(8),
            TypeData::Float(kind) => Some(kind.width().div_ceil(8) as usize),
            TypeData::Complex(part) => self.dense_element_bytes(*part).map(|bytes| 2 * bytes),
            _ => None,
        }
    }

    /// Shape and element type of a ranked tensor, vector or memref.
    pub fn shape_of(&self, ty: Type) -> Option<(&[i64], Type)> {
        match self.type_data(ty) {
            TypeData::Tensor { shape, element, .. }
            | TypeData::Vector { shape, element, .. }
            | TypeData::MemRef { shape, element, .. } => Some((shape, *element)),
            _ => None,
        }
    }

    /// Whether a `dense<…>` attribute stores one element that stands for all.
    pub fn is_splat(&self, attr: Attr) -> bool {
        let AttrData::Dense { ty, value } = self.attr_data(attr) else {
            return false;
        };
        match value {
            DenseValue::Raw(bytes) => self
                .shape_of(*ty)
                .and_then(|(_, element)| self.dense_element_bytes(element))
                .is_some_and(|size| bytes.len() == size),
            DenseValue::Strings(items) => items.len() == 1,
        }
    }
}
