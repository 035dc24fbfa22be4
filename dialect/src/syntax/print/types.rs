//! Writes types.

use super::text::{push_dialect_symbol, push_int, push_uint};
use super::value::{Elide, Item, ValueWriter};
use crate::ir::{Attr, AttrData, Context, DYNAMIC, Signedness, Type, TypeData};

impl ValueWriter<'_> {
    /// A type that has no alias: writes it, or pushes its parts.
    pub(super) fn expand_type(&mut self, ty: Type) {
        let cx = self.cx;
        match cx.type_data(ty) {
            TypeData::Integer { width, signedness } => {
                self.out.push_str(match signedness {
                    Signedness::Signless => "i",
                    Signedness::Signed => "si",
                    Signedness::Unsigned => "ui",
                });
                push_uint(&mut self.out, u64::from(*width));
            }
            TypeData::Index => self.out.push_str("index"),
            TypeData::Float(kind) => self.out.push_str(kind.name()),
            TypeData::None => self.out.push_str("none"),
            TypeData::Complex(element) => {
                self.out.push_str("complex<");
                self.list(std::iter::once(Item::Type(*element)), ">");
            }
            TypeData::Tuple(types) => {
                self.out.push_str("tuple<");
                self.list(types.iter().map(|&t| Item::Type(t)), ">");
            }
            TypeData::Function { inputs, results } => {
                let bare = matches!(results[..], [one] if !is_function(cx, one));
                let close = if bare { "" } else { ")" };
                self.list(results.iter().map(|&t| Item::Type(t)), close);
                self.stack
                    .push(Item::Text(if bare { ") -> " } else { ") -> (" }));
                self.out.push('(');
                self.list(inputs.iter().map(|&t| Item::Type(t)), "");
            }
            TypeData::Tensor {
                shape,
                element,
                encoding,
            } => {
                self.out.push_str("tensor<");
                self.shape(shape);
                self.shaped(
                    *element,
                    encoding.map(|e| Item::Attr(e, Elide::Never)),
                    None,
                );
            }
            TypeData::UnrankedTensor(element) => {
                self.out.push_str("tensor<*x");
                self.shaped(*element, None, None);
            }
            TypeData::Vector {
                shape,
                scalable,
                element,
            } => {
                self.out.push_str("vector<");
                for (index, &extent) in shape.iter().enumerate() {
                    let scales = scalable.get(index) == Some(&true);
                    if scales {
                        self.out.push('[');
                    }
                    push_extent(&mut self.out, extent);
                    self.out.push_str(if scales { "]x" } else { "x" });
                }
                self.shaped(*element, None, None);
            }
            TypeData::MemRef {
                shape,
                element,
                layout,
                space,
            } => {
                self.out.push_str("memref<");
                self.shape(shape);
                let layout = layout.filter(|&l| !is_identity(cx, l));
                let may = |attr: Option<Attr>| attr.map(|a| Item::Attr(a, Elide::May));
                self.shaped(*element, may(layout), may(*space));
            }
            TypeData::UnrankedMemRef { element, space } => {
                self.out.push_str("memref<*x");
                self.shaped(*element, space.map(|a| Item::Attr(a, Elide::May)), None);
            }
            TypeData::Opaque { dialect, body, .. } => {
                self.out.push('!');
                push_dialect_symbol(&mut self.out, cx.str(*dialect), body);
            }
        }
    }

    fn shape(&mut self, shape: &[i64]) {
        for &extent in shape {
            push_extent(&mut self.out, extent);
            self.out.push('x');
        }
    }

    /// Element type, further parameters and `>`.
    fn shaped(&mut self, element: Type, first: Option<Item>, second: Option<Item>) {
        let mut items = vec![Item::Type(element)];
        items.extend(first);
        items.extend(second);
        self.list(items.into_iter(), ">");
    }
}

/// Appends a number, `?` if it is dynamic.
pub(super) fn push_extent(out: &mut String, extent: i64) {
    if extent == DYNAMIC {
        out.push('?');
    } else {
        push_int(out, i128::from(extent));
    }
}

/// Whether this is a function type, which stands in parentheses as a result.
pub(super) fn is_function(cx: &Context, ty: Type) -> bool {
    matches!(cx.type_data(ty), TypeData::Function { .. })
}

fn is_identity(cx: &Context, layout: Attr) -> bool {
    matches!(cx.attr_data(layout), AttrData::AffineMap(map) if map.is_identity())
}
