//! The short form of `dist` ops.

use super::form::{Known, is_plain};
use super::op::Printer;
use super::text::{push_int, push_string, push_symbol};
use super::value::ValueWriter;
use crate::ir::{Attr, AttrData, Context, Ident, Module, OpId};
use crate::ops::{Count, Group, TypeShape, Uniform, segments};

/// Whether the short form shows all there is of an op, so that reading it gives the same op.
pub(super) fn fits(module: &Module, op: OpId, known: &Known, form: &Uniform) -> bool {
    if !is_plain(module, op) {
        return false;
    }
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let placed = |name: Option<Ident>, fits: &dyn Fn(Attr) -> bool| {
        name.is_none_or(|name| find(attrs, name).is_some_and(fits))
    };
    let shown = placed(known.symbol, &|a| symbol_text(cx, a, known).is_some())
        && placed(known.word, &|a| word_text(cx, a, known).is_some())
        && placed(known.over, &|a| are_axes(cx, a))
        && placed(known.typed, &|a| cx.as_type(a).is_some());
    if !shown || known.defaults.iter().any(|d| find(attrs, d.0).is_none()) {
        return false;
    }
    let (operands, results) = (module.num_operands(op), module.num_results(op));
    let def = known.def;
    if !groups_fit(cx, def.operands, operands, find(attrs, known.operand_sizes))
        || !groups_fit(cx, def.results, results, find(attrs, known.result_sizes))
    {
        return false;
    }
    match form.types {
        TypeShape::Nothing | TypeShape::Attr(_) => operands == 0 && results == 0,
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

fn find(attrs: &[(Ident, Attr)], name: Ident) -> Option<Attr> {
    attrs.iter().find(|a| a.0 == name).map(|a| a.1)
}

fn groups_fit(cx: &Context, groups: &[Group], count: usize, sizes: Option<Attr>) -> bool {
    if groups.iter().all(|g| g.count == Count::One) {
        return groups.len() == count;
    }
    let sizes = sizes.and_then(|a| cx.as_i32_array(a));
    segments(groups, count, sizes.as_deref()).is_ok()
}

/// The name that is written `@name`.
fn symbol_text<'c>(cx: &'c Context, attr: Attr, known: &Known) -> Option<&'c str> {
    let text = match known.symbol_is_ref {
        true => cx.as_symbol(attr)?,
        false => untyped(cx, attr)?,
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

/// The word, if it is one of those that the definition lists.
fn word_text<'c>(cx: &'c Context, attr: Attr, known: &Known) -> Option<&'c str> {
    untyped(cx, attr).filter(|word| known.words.contains(word))
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
pub(super) fn push(p: &mut Printer, op: OpId, known: &Known, form: &Uniform) {
    let module = p.module;
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    let get = |name: Option<Ident>| find(attrs, name?);
    p.values.out.push_str(known.def.name);
    if let Some(symbol) = get(known.symbol).and_then(|a| symbol_text(cx, a, known)) {
        p.values.out.push(' ');
        push_symbol(&mut p.values.out, symbol);
    }
    if let Some(word) = get(known.word).and_then(|a| word_text(cx, a, known)) {
        p.values.out.push(' ');
        p.values.out.push_str(word);
    }
    if module.num_operands(op) > 0 {
        p.values.out.push(' ');
        p.operands(op);
    }
    if let Some(axes) = get(known.over).filter(|&axes| known.over_default != Some(axes)) {
        p.values.out.push_str(" over ");
        p.values.attr(axes);
    }
    let (operands, results) = (module.num_operands(op), module.num_results(op));
    let hidden = |name: Ident, value: Attr| {
        [known.symbol, known.word, known.over, known.typed].contains(&Some(name))
            || known.defaults.contains(&(name, value))
            || (name == known.operand_sizes && is_implied(cx, known.def.operands, operands, value))
            || (name == known.result_sizes && is_implied(cx, known.def.results, results, value))
    };
    push_attrs(&mut p.values, attrs, hidden);
    match form.types {
        TypeShape::Nothing => {}
        TypeShape::Attr(_) => {
            if let Some(ty) = get(known.typed) {
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
    hidden: impl Fn(Ident, Attr) -> bool,
) {
    let mut any = false;
    for &(name, value) in attrs {
        if hidden(name, value) {
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
    let find = |name| cx.dict_get(module.attrs(op), name);
    let name = untyped(cx, find("sym_name")?)?;
    let axes = find("axes")?;
    let names: Option<Vec<_>> = cx.as_array(axes)?.iter().map(|&a| untyped(cx, a)).collect();
    let sizes = cx.as_i64_array(find("sizes")?)?;
    let plain = !name.is_empty() && sizes.iter().all(|&size| size >= 0);
    let names = names.filter(|n| n.len() == sizes.len() && plain)?;
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
    let cx = module.cx();
    let attrs = cx.dict_entries(module.attrs(op));
    push_attrs(&mut p.values, attrs, |name, _| {
        ["sym_name", "axes", "sizes"].contains(&cx.str(name))
    });
}
