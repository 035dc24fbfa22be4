//! The short form of `dist` ops.

use super::form::{attr_def, is_plain};
use super::op::Printer;
use super::text::{is_bare, push_int, push_string, push_symbol};
use super::value::ValueWriter;
use crate::ir::{Attr, AttrData, Context, Ident, Module, OpId};
use crate::ops::{
    AttrKind, Count, Group, OPERAND_SEGMENTS, OpDef, RESULT_SEGMENTS, TypeShape, Uniform, segments,
};

/// Whether the short form shows all there is of an op, so that reading it gives the same op.
pub(super) fn fits(module: &Module, op: OpId, def: &OpDef, form: &Uniform) -> bool {
    if !is_plain(module, op) {
        return false;
    }
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let get = |name: &str| find(cx, attrs, name);
    let symbol = form
        .symbol
        .is_none_or(|name| get(name).is_some_and(|a| symbol_text(cx, a, def, name).is_some()));
    let word = form
        .word
        .is_none_or(|name| get(name).is_some_and(|a| word_text(cx, a).is_some()));
    let over = form
        .over
        .is_none_or(|name| get(name).is_some_and(|a| are_axes(cx, a)));
    if !symbol || !word || !over {
        return false;
    }
    let defaults = || {
        def.attrs.iter().filter(|a| {
            a.default.is_some() && form.word != Some(a.name) && form.over != Some(a.name)
        })
    };
    if defaults().any(|a| get(a.name).is_none()) {
        return false;
    }
    let (operands, results) = (module.num_operands(op), module.num_results(op));
    let sizes = |name| get(name).and_then(|a| cx.as_i32_array(a));
    if segments(def.operands, operands, sizes(OPERAND_SEGMENTS).as_deref()).is_err()
        || segments(def.results, results, sizes(RESULT_SEGMENTS).as_deref()).is_err()
    {
        return false;
    }
    match form.types {
        TypeShape::Nothing => operands == 0 && results == 0,
        TypeShape::Attr(name) => {
            operands == 0 && results == 0 && get(name).is_some_and(|a| cx.as_type(a).is_some())
        }
        TypeShape::Same => {
            let mut types = module
                .operands(op)
                .chain(module.results(op))
                .map(|v| module.ty(v));
            let fixed = def.results.iter().all(|g| g.count == Count::One);
            fixed && types.next().is_some_and(|first| types.all(|t| t == first))
        }
        TypeShape::Signature => true,
    }
}

fn find(cx: &Context, attrs: &[(Ident, Attr)], name: &str) -> Option<Attr> {
    attrs.iter().find(|a| cx.str(a.0) == name).map(|a| a.1)
}

/// The name that is written `@name`.
fn symbol_text<'c>(cx: &'c Context, attr: Attr, def: &OpDef, name: &str) -> Option<&'c str> {
    let text = match attr_def(def, name).map(|a| a.kind) {
        Some(AttrKind::Symbol) => cx.as_symbol(attr)?,
        _ => untyped(cx, attr)?,
    };
    (!text.is_empty()).then_some(text)
}

/// The text of a string attribute that has no type written to it.
fn untyped(cx: &Context, attr: Attr) -> Option<&str> {
    match cx.attr_data(attr) {
        AttrData::String { bytes, ty: None } => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn word_text(cx: &Context, attr: Attr) -> Option<&str> {
    let word = untyped(cx, attr)?;
    (is_bare(word) && !word.contains(['.', '$']) && word != "over").then_some(word)
}

fn are_axes(cx: &Context, attr: Attr) -> bool {
    cx.as_array(attr)
        .is_some_and(|items| items.iter().all(|&a| untyped(cx, a).is_some()))
}

/// Whether the short form implies these segment sizes: every optional group is there, and a single variadic group takes what
/// is left.
fn is_implied(cx: &Context, groups: &[Group], count: usize, sizes: Attr) -> bool {
    let variadic = groups.iter().filter(|g| g.count == Count::Variadic).count();
    let others = groups.len() - variadic;
    let Some(rest) = count
        .checked_sub(others)
        .filter(|&rest| variadic == 1 || rest == 0)
    else {
        return false;
    };
    let implied: Vec<i32> = groups
        .iter()
        .map(|g| match g.count {
            Count::Variadic => rest as i32,
            _ => 1,
        })
        .collect();
    variadic <= 1 && cx.i32_array(&implied) == sizes
}

/// Writes an op that [`fits`].
pub(super) fn push(p: &mut Printer, op: OpId, def: &OpDef, form: &Uniform) {
    let module = p.module;
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let get = |name: &str| find(cx, attrs, name);
    p.values.out.push_str(def.name);
    if let Some(name) = form.symbol
        && let Some(symbol) = get(name).and_then(|a| symbol_text(cx, a, def, name))
    {
        p.values.out.push(' ');
        push_symbol(&mut p.values.out, symbol);
    }
    if let Some(word) = form.word.and_then(get).and_then(|a| word_text(cx, a)) {
        p.values.out.push(' ');
        p.values.out.push_str(word);
    }
    if module.num_operands(op) > 0 {
        p.values.out.push(' ');
        p.operands(op);
    }
    if let Some(axes) = form.over.and_then(get) {
        p.values.out.push_str(" over ");
        p.values.attr(axes);
    }
    let typed = match form.types {
        TypeShape::Attr(name) => Some(name),
        _ => None,
    };
    let hidden = |name: &str, value: Attr| {
        [form.symbol, form.word, form.over, typed].contains(&Some(name))
            || attr_def(def, name)
                .and_then(|a| a.default)
                .is_some_and(|d| d.attr(cx) == value)
            || (name == OPERAND_SEGMENTS
                && is_implied(cx, def.operands, module.num_operands(op), value))
            || (name == RESULT_SEGMENTS
                && is_implied(cx, def.results, module.num_results(op), value))
    };
    push_attrs(&mut p.values, attrs, hidden);
    match form.types {
        TypeShape::Nothing => {}
        TypeShape::Attr(name) => {
            if let Some(ty) = get(name) {
                p.values.out.push_str(" : ");
                p.values.attr(ty);
            }
        }
        TypeShape::Same => {
            let value = module.operands(op).chain(module.results(op)).next();
            if let Some(value) = value {
                p.values.out.push_str(" : ");
                p.values.ty(module.ty(value));
            }
        }
        TypeShape::Signature => {
            p.values.out.push_str(" : ");
            p.signature(op);
        }
    }
}

/// ` {a = 1, b}` without the hidden ones; nothing if none is left.
pub(super) fn push_attrs(
    values: &mut ValueWriter,
    attrs: &[(Ident, Attr)],
    hidden: impl Fn(&str, Attr) -> bool,
) {
    let cx = values.cx;
    let mut any = false;
    for &(name, value) in attrs {
        if hidden(cx.str(name), value) {
            continue;
        }
        values.out.push_str(if any { ", " } else { " {" });
        any = true;
        values.named(name, value);
    }
    if any {
        values.out.push('}');
    }
}

/// Names, axes and sizes of a mesh that can be written in short.
fn mesh(module: &Module, op: OpId) -> Option<(&str, Vec<&str>, Vec<i64>)> {
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let name = untyped(cx, find(cx, attrs, "sym_name")?)?;
    let axes = find(cx, attrs, "axes")?;
    let names: Option<Vec<_>> = cx.as_array(axes)?.iter().map(|&a| untyped(cx, a)).collect();
    let sizes = cx.as_i64_array(find(cx, attrs, "sizes")?)?;
    let names = names.filter(|n| n.len() == sizes.len() && !name.is_empty())?;
    Some((name, names, sizes))
}

/// Whether `dist.mesh @mesh ["dp" = 2]` shows all there is of the op.
pub(super) fn fits_mesh(module: &Module, op: OpId) -> bool {
    is_plain(module, op)
        && module.num_operands(op) == 0
        && module.num_results(op) == 0
        && mesh(module, op).is_some()
}

/// Writes a mesh that fits.
pub(super) fn push_mesh(p: &mut Printer, op: OpId) {
    let module = p.module;
    let Some((name, axes, sizes)) = mesh(module, op) else {
        return;
    };
    let out = &mut p.values.out;
    out.push_str("dist.mesh ");
    push_symbol(out, name);
    out.push_str(" [");
    for (index, (axis, &size)) in axes.iter().zip(&sizes).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_string(out, axis.as_bytes());
        out.push_str(" = ");
        push_int(out, i128::from(size));
    }
    out.push(']');
    let attrs = module.cx().dict_entries(module.attrs(op));
    push_attrs(&mut p.values, attrs, |name, _| {
        ["sym_name", "axes", "sizes"].contains(&name)
    });
}
