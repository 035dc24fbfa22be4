//! Sparse elements.

use super::super::error::{Failure, fail};
use super::super::token::{Kind, Tok};
use super::Builder;
use super::dense::{Element, SCALAR, commas};
use crate::ir::{Attr, AttrData, DenseValue, Type};

impl Builder<'_> {
    /// `sparse<indices, values> : type`
    pub fn sparse(
        &mut self,
        tok: Tok,
        parts: Option<(Element, Element)>,
        ty: Type,
    ) -> Result<Attr, Failure> {
        let shape = self.literal_shape(tok, ty)?;
        let Some((_, element)) = self.shape_of(ty) else {
            unreachable!("the type has a shape");
        };
        let rank = shape.len() as i64;
        let i64_type = self.cx.int_type(64);
        let Some((indices, values)) = parts else {
            let empty = |ty| AttrData::Dense {
                ty,
                value: DenseValue::Raw(Box::default()),
            };
            let indices = self.cx.attr(empty(self.cx.tensor(&[0, rank], i64_type)));
            let values = self.cx.attr(empty(self.cx.tensor(&[0], element)));
            return Ok(self.cx.attr(AttrData::Sparse {
                ty,
                indices,
                values,
            }));
        };
        if let [only] = self.elements.literals[indices.first as usize..values.first as usize]
            && only.tok.kind == Kind::String
        {
            return Err(fail(
                "E0193",
                only.tok.span(),
                "integer constant out of range for type",
            ));
        }
        // The indices lie below the values on the stack.
        let values_literals = self.elements.literals.split_off(values.first as usize);
        let index_dims = if indices.shape == SCALAR {
            vec![1, rank]
        } else {
            self.elements.dims(indices.shape)
        };
        let index_type = self.cx.tensor(&index_dims, i64_type);
        let index_attr = self.elements_of(tok, indices, (&index_dims, index_type), &index_dims)?;
        self.elements.literals.truncate(indices.first as usize);
        let first = self.elements.literals.len() as u32;
        self.elements.literals.extend(values_literals);
        let value_dims = if values.shape == SCALAR {
            vec![index_dims[0]]
        } else {
            self.elements.dims(values.shape)
        };
        let value_type = self.cx.tensor(&value_dims, element);
        let mut values = values;
        values.first = first;
        let value_attr = self.elements_of(tok, values, (&value_dims, value_type), &value_dims)?;
        self.elements.literals.truncate(first as usize);
        let fits = match index_dims[..] {
            [_, per_index] => per_index == rank,
            [_] => rank == 1,
            _ => false,
        };
        if !fits || value_dims.len() != 1 || value_dims[0] != index_dims[0] {
            return Err(fail(
                "E0195",
                tok.span(),
                format!(
                    "expected shape ([{}]); inferred shape of indices literal ([{}]); inferred shape of values literal ([{}])",
                    commas(&shape),
                    commas(&index_dims),
                    commas(&value_dims)
                ),
            ));
        }
        self.check_indices(tok, index_attr, index_dims[0], (&shape, ty))?;
        Ok(self.cx.attr(AttrData::Sparse {
            ty,
            indices: index_attr,
            values: value_attr,
        }))
    }

    fn check_indices(
        &self,
        tok: Tok,
        indices: Attr,
        count: i64,
        (shape, ty): (&[i64], Type),
    ) -> Result<(), Failure> {
        let AttrData::Dense {
            value: DenseValue::Raw(bytes),
            ..
        } = self.cx.attr_data(indices)
        else {
            unreachable!("indices are integers");
        };
        let read = |at: usize| {
            let at = if bytes.len() == 8 { 0 } else { at * 8 };
            let bytes = bytes[at..at + 8].try_into().expect("8 bytes");
            i64::from_le_bytes(bytes)
        };
        let rank = shape.len();
        for entry in 0..count as usize {
            let inside = (0..rank).all(|d| (0..shape[d]).contains(&read(entry * rank + d)));
            if !inside {
                let index: Vec<_> = (0..rank).map(|d| read(entry * rank + d)).collect();
                let ty = self.cx.display(ty);
                return Err(fail(
                    "E0195",
                    tok.span(),
                    format!(
                        "sparse index #{entry} is not contained within the value shape, with index=[{}], and type='{ty}'",
                        commas(&index)
                    ),
                ));
            }
        }
        Ok(())
    }
}
