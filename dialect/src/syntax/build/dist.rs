//! The short form of `dist` ops, and the dialect's layout attribute.

use super::super::error::{Failure, fail, report};
use super::super::token::Tok;
use super::{Builder, mark};
use crate::diag::Diagnostic;
use crate::ir::{Attr, AttrData, Ident, LayoutData, Type, TypeData};
use crate::ops::{
    AttrKind, Count, Group, OPERAND_SEGMENTS, OpDef, Pretty, RESULT_SEGMENTS, TypeShape, Uniform,
};

/// What was written of the op that is being read.
#[derive(Default)]
pub(super) struct Parts {
    symbol: Option<Tok>,
    word: Option<Tok>,
    over: Option<(Tok, Attr)>,
    types: Option<(u32, Type)>,
    axes: Vec<Attr>,
    sizes: Vec<i64>,
}

impl Builder<'_> {
    /// `dist.name`
    pub fn begin_dist(&mut self, tok: Tok) -> Result<(), Failure> {
        self.dist = Parts::default();
        self.begin_named(tok)
    }

    pub fn dist_symbol(&mut self, tok: Tok) {
        self.dist.symbol = Some(tok);
    }

    pub fn dist_word(&mut self, tok: Tok) {
        self.dist.word = Some(tok);
    }

    pub fn dist_over(&mut self, tok: Tok, from: u32) {
        let axes = self.array(from);
        self.dist.over = Some((tok, axes));
    }

    pub fn dist_types(&mut self, start: u32, ty: Type) {
        self.dist.types = Some((start, ty));
    }

    /// All of the op but its location is read.
    pub fn finish_dist(&mut self) -> Result<(), Failure> {
        let frame = self.frames.last().expect("an op is being read");
        let (tok, def) = (frame.tok, frame.def.expect("the op is registered"));
        let Pretty::Uniform(form) = def.pretty else {
            return Err(report(
                Diagnostic::error(
                    "E0154",
                    tok.span(),
                    format!("'{}' has no short form", def.name),
                )
                .help(format!(
                    "write \"{}\"(operands) {{attributes}} : types",
                    def.name
                )),
            ));
        };
        self.check_parts(tok, def, form)?;
        let mut entries = self
            .cx
            .dict_entries(self.frames[self.frames.len() - 1].attrs)
            .to_vec();
        let written = entries.len();
        if let (Some(name), Some(tok)) = (form.symbol, self.dist.symbol) {
            let value = self.symbol_value(tok, kind_of(def, name));
            entries.push((self.cx.ident(name), value));
        }
        if let (Some(name), Some(tok)) = (form.word, self.dist.word) {
            let value = self.cx.string(&self.shown(tok));
            entries.push((self.cx.ident(name), value));
        }
        if let (Some(name), Some((_, axes))) = (form.over, self.dist.over) {
            entries.push((self.cx.ident(name), axes));
        }
        self.dist_signature(def, form.types, &mut entries)?;
        for at in written..entries.len() {
            let name = entries[at].0;
            if entries[..written].iter().any(|e| e.0 == name) {
                let name = self.cx.str(name);
                return Err(report(
                    Diagnostic::error(
                        "E0155",
                        tok.span(),
                        format!("attribute '{name}' is given twice"),
                    )
                    .help("the short form says it before the braces"),
                ));
            }
        }
        for attr in def.attrs {
            if let Some(default) = attr.default {
                let name = self.cx.ident(attr.name);
                if entries.iter().all(|e| e.0 != name) {
                    entries.push((name, default.attr(&self.cx)));
                }
            }
        }
        self.hidden_segments(def, &mut entries);
        let attrs = self.cx.dict(entries);
        self.attributes(attrs);
        Ok(())
    }

    /// Nothing is written that the op's form does not have.
    fn check_parts(&self, tok: Tok, def: &OpDef, form: Uniform) -> Result<(), Failure> {
        let extra = |tok: Tok, what: &str| {
            Err(report(
                Diagnostic::error(
                    "E0156",
                    tok.span(),
                    format!("'{}' takes no {what} here", def.name),
                )
                .help("other attributes are written in braces"),
            ))
        };
        match (&self.dist, form) {
            (
                Parts {
                    symbol: Some(tok), ..
                },
                Uniform { symbol: None, .. },
            ) => extra(*tok, "symbol"),
            (
                Parts {
                    word: Some(tok), ..
                },
                Uniform { word: None, .. },
            ) => extra(*tok, "word"),
            (
                Parts {
                    over: Some((tok, _)),
                    ..
                },
                Uniform { over: None, .. },
            ) => extra(*tok, "'over'"),
            (
                Parts {
                    types: Some((start, _)),
                    ..
                },
                Uniform {
                    types: TypeShape::Nothing,
                    ..
                },
            ) => Err(fail(
                "E0156",
                super::at(*start),
                format!(
                    "'{}' has neither operands nor results, so it has no type",
                    def.name
                ),
            )),
            (Parts { types: None, .. }, Uniform { types, .. }) if types != TypeShape::Nothing => {
                Err(report(
                    Diagnostic::error(
                        "E0157",
                        tok.span(),
                        format!("expected ':' and the types of '{}'", def.name),
                    )
                    .help(match types {
                        TypeShape::Signature => "write : (operand types) -> result types",
                        _ => "write : type",
                    }),
                ))
            }
            _ => Ok(()),
        }
    }

    fn symbol_value(&mut self, tok: Tok, kind: Option<AttrKind>) -> Attr {
        let name = self.name(tok);
        if kind == Some(AttrKind::Symbol) {
            return self.cx.attr(AttrData::SymbolRef {
                path: Box::new([name]),
            });
        }
        let bytes = super::super::text::bytes_of_ident(self.cx.str(name)).into_owned();
        self.cx.attr(AttrData::String {
            bytes: bytes.into(),
            ty: None,
        })
    }

    /// Puts the types of operands and results on the stack.
    fn dist_signature(
        &mut self,
        def: &OpDef,
        shape: TypeShape,
        entries: &mut Vec<(Ident, Attr)>,
    ) -> Result<(), Failure> {
        let Some((start, ty)) = self.dist.types else {
            return Ok(());
        };
        let operands = mark(&self.operands) - self.frame().operands;
        let first = mark(&self.types);
        match shape {
            TypeShape::Nothing => {}
            TypeShape::Same => {
                self.types.extend((0..operands).map(|_| ty));
                let second = mark(&self.types);
                self.types.extend(def.results.iter().map(|_| ty));
                self.frame().types = (first, second);
            }
            TypeShape::Attr(name) => {
                entries.push((self.cx.ident(name), self.cx.type_attr(ty)));
                self.frame().types = (first, first);
            }
            TypeShape::Signature => {
                let cx = self.cx.clone();
                let TypeData::Function { inputs, results } = cx.type_data(ty) else {
                    return Err(report(
                        Diagnostic::error("E0121", super::at(start), "expected function type")
                            .help(format!(
                                "'{}' is written with : (operand types) -> result types",
                                def.name
                            )),
                    ));
                };
                self.types.extend_from_slice(inputs);
                let second = mark(&self.types);
                self.types.extend_from_slice(results);
                self.frame().types = (first, second);
            }
        }
        self.frame().type_at = start;
        Ok(())
    }

    /// Segment sizes that the short form leaves out: every optional group is there, the one variadic group takes the rest.
    fn hidden_segments(&mut self, def: &OpDef, entries: &mut Vec<(Ident, Attr)>) {
        let frame = self.frames.last().expect("an op is being read");
        let (first, second) = frame.types;
        let counts = [
            (OPERAND_SEGMENTS, def.operands, second - first),
            (RESULT_SEGMENTS, def.results, mark(&self.types) - second),
        ];
        for (name, groups, count) in counts {
            let name = self.cx.ident(name);
            if entries.iter().any(|e| e.0 == name) {
                continue;
            }
            if let Some(sizes) = full_segments(groups, count) {
                entries.push((name, self.cx.i32_array(&sizes)));
            }
        }
    }

    // The mesh -----------------------------------------------------------------------------------------------------

    /// `"axis" = size`
    pub fn mesh_axis(&mut self, name: Tok, size: Tok) -> Result<(), Failure> {
        let name = self.string(name, None);
        let Some(size_value) = self.magnitude(size).and_then(|m| i64::try_from(m).ok()) else {
            return Err(fail(
                "E0158",
                size.span(),
                "the size of a mesh axis does not fit 63 bits",
            ));
        };
        self.dist.axes.push(name);
        self.dist.sizes.push(size_value);
        Ok(())
    }

    /// `dist.mesh @mesh ["dp" = 2, "mp" = 2] {…}`
    pub fn mesh(&mut self, name: Tok) -> Result<(), Failure> {
        let name = self.symbol_value(name, None);
        let parts = std::mem::take(&mut self.dist);
        let added = [
            ("sym_name", name),
            ("axes", self.cx.array(&parts.axes)),
            ("sizes", self.cx.i64_array(&parts.sizes)),
        ];
        let attrs = self.frame().attrs;
        let mut entries = self.cx.dict_entries(attrs).to_vec();
        for (name, value) in added {
            if self.cx.dict_get(attrs, name).is_some() {
                let tok = self.frame().tok;
                return Err(fail(
                    "E0155",
                    tok.span(),
                    format!("attribute '{name}' is given twice"),
                ));
            }
            entries.push((self.cx.ident(name), value));
        }
        let attrs = self.cx.dict(entries);
        self.attributes(attrs);
        Ok(())
    }

    // Layouts ------------------------------------------------------------------------------------------------------

    /// `#dist.layout<[["dp"], []], ["mp"]>`
    pub(super) fn layout(&mut self, tok: Tok, body: &str) -> Result<Attr, Failure> {
        let parsed = body
            .strip_prefix("layout<")
            .and_then(|rest| rest.strip_suffix('>'))
            .map(|rest| LayoutText {
                rest: rest.as_bytes(),
            })
            .and_then(|mut text| {
                let dims = text.list(LayoutText::axes)?;
                text.take(b',')?;
                let partial = text.axes()?;
                text.skip_space();
                text.rest.is_empty().then_some((dims, partial))
            });
        let Some((dims, partial)) = parsed else {
            return Err(report(
                Diagnostic::error(
                    "E0175",
                    tok.span(),
                    format!("'{}' is not an attribute of dialect 'dist'", self.shown(tok)),
                )
                .help("a layout names the mesh axes of each dimension, then those of partial sums: #dist.layout<[[\"dp\"], []], [\"mp\"]>"),
            ));
        };
        let cx = &self.cx;
        let idents = |names: Vec<&str>| names.into_iter().map(|n| cx.ident(n)).collect();
        Ok(cx.attr(AttrData::Layout(LayoutData {
            dims: dims.into_iter().map(idents).collect(),
            partial: idents(partial),
        })))
    }
}

/// The text of a layout that is still to be read.
struct LayoutText<'t> {
    rest: &'t [u8],
}

impl<'t> LayoutText<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.take(b'[')?;
        let mut items = Vec::new();
        if self.take(b']').is_some() {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.take(b']').is_some() {
                return Some(items);
            }
            self.take(b',')?;
        }
    }

    /// `["dp", "mp"]`
    fn axes(&mut self) -> Option<Vec<&'t str>> {
        self.list(|text| {
            text.take(b'"')?;
            let end = memchr::memchr(b'"', text.rest)?;
            let name = std::str::from_utf8(&text.rest[..end]).ok()?;
            text.rest = &text.rest[end + 1..];
            (!name.contains('\\')).then_some(name)
        })
    }
}

fn kind_of(def: &OpDef, attr: &str) -> Option<AttrKind> {
    def.attrs.iter().find(|a| a.name == attr).map(|a| a.kind)
}

/// The sizes of groups, if they need to be said and follow from the number of values.
fn full_segments(groups: &[Group], count: u32) -> Option<Vec<i32>> {
    let of = |wanted| groups.iter().filter(|g| g.count == wanted).count();
    let (variadic, fixed) = (of(Count::Variadic), groups.len() - of(Count::Variadic));
    if groups.len() - of(Count::One) < 2 || variadic > 1 {
        return None;
    }
    let rest = (count as usize).checked_sub(fixed)?;
    if variadic == 0 && rest != 0 {
        return None;
    }
    let size = |g: &Group| {
        if g.count == Count::Variadic {
            rest as i32
        } else {
            1
        }
    };
    Some(groups.iter().map(size).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_if_all_groups_are_there() {
        let group = |count| Group {
            name: "g",
            count,
            doc: "",
        };
        let (one, optional, variadic) = (
            group(Count::One),
            group(Count::Optional),
            group(Count::Variadic),
        );
        assert_eq!(full_segments(&[one, optional], 2), None);
        assert_eq!(
            full_segments(&[one, optional, optional], 3),
            Some(vec![1, 1, 1])
        );
        assert_eq!(full_segments(&[one, optional, optional], 2), None);
        assert_eq!(full_segments(&[variadic, optional], 4), Some(vec![3, 1]));
        assert_eq!(full_segments(&[variadic, variadic], 4), None);
    }
}
