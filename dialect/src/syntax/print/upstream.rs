//! The short forms of MLIR's own ops, as MLIR prints them. An op that the form cannot show is printed in generic form.

use super::inherent::merged_attrs;
use super::op::{EntryLabel, Printer};
use super::text::{push_name, push_symbol};
use super::uniform::push_attrs;
use super::visit::Visitor;
use crate::ir::{Attr, AttrData, Context, Ident, Module, OpId, RegionId, Type, ValueId};
use crate::ops::upstream::arith::{CMPF_PREDICATES, CMPI_PREDICATES, attr_type, flags_text};
use crate::ops::upstream::cf::COND_BR;
use crate::ops::{Custom, OPERAND_SEGMENTS, OpDef};

/// Attributes that each form shows in its own way.
fn shown(form: Custom) -> &'static [&'static str] {
    match form {
        Custom::Module => &["sym_name"],
        Custom::Func => &[
            "sym_name",
            "sym_visibility",
            "function_type",
            "arg_attrs",
            "res_attrs",
        ],
        Custom::Call => &["callee"],
        Custom::CondBranch => &[OPERAND_SEGMENTS, "branch_weights"],
        Custom::Constant => &["value"],
        Custom::Binary => &["fastmath", "overflowFlags", "isExact"],
        Custom::Compare => &["fastmath", "predicate"],
        Custom::Mesh | Custom::Return | Custom::Branch | Custom::Cast => &[],
    }
}

/// The flags that MLIR shows in the generic form even where they are not set.
pub(super) fn implied(cx: &Context, def: &OpDef) -> Vec<(Ident, Attr)> {
    let flags = [
        ("fastmath", "fastmath<none>"),
        ("overflowFlags", "overflow<none>"),
    ];
    flags
        .into_iter()
        .filter(|(name, _)| def.attrs.iter().any(|a| a.name == *name))
        .map(|(name, body)| {
            let none = AttrData::Opaque {
                dialect: cx.ident("arith"),
                body: body.into(),
                quoted: false,
                ty: None,
            };
            (cx.ident(name), cx.attr(none))
        })
        .collect()
}

/// Whether the form shows all there is of an op.
pub(super) fn fits(module: &Module, op: OpId, def: &OpDef, form: Custom) -> bool {
    let cx = module.cx();
    let results = module.num_results(op);
    let operands = module.num_operands(op);
    let successors = module.successors(op).len();
    let regions = module.regions(op).len();
    if !matches!(cx.attr_data(module.props(op)), AttrData::Dict(_)) {
        return false;
    }
    let plain = regions == 0 && successors == 0;
    match form {
        Custom::Mesh => false,
        Custom::Module => {
            let mut blocks = module.regions(op).iter().flat_map(|&r| module.blocks(r));
            let single = blocks.next().is_some_and(|b| module.args(b).is_empty());
            let named = module
                .attr(op, "sym_name")
                .is_none_or(|a| plain_string(cx, a).is_some());
            single
                && blocks.next().is_none()
                && named
                && (operands, results, regions, successors) == (0, 0, 1, 0)
        }
        Custom::Func => {
            (operands, results, regions, successors) == (0, 0, 1, 0) && fits_func(module, op)
        }
        Custom::Return => plain && results == 0,
        Custom::Call => {
            let callee = module.attr(op, "callee").and_then(|a| cx.as_symbol(a));
            plain && callee.is_some_and(|c| !c.is_empty())
        }
        Custom::Branch => (results, regions, successors) == (0, 0, 1),
        Custom::CondBranch => {
            let weights = module
                .attr(op, "branch_weights")
                .is_none_or(|a| cx.as_i32_array(a).is_some());
            (results, regions, successors) == (0, 0, 2)
                && weights
                && module.operand_segments(op, &COND_BR).is_ok()
                && module.ty(module.operand(op, 0)) == cx.int_type(1)
        }
        Custom::Constant => {
            let ty = module
                .attr(op, "value")
                .and_then(|a| attr_type(cx, cx.attr_data(a)));
            plain && (operands, results) == (0, 1) && ty == Some(module.ty(module.result(op, 0)))
        }
        Custom::Binary => {
            let ty = |value: ValueId| module.ty(value);
            plain
                && (operands, results) == (2, 1)
                && module
                    .operands(op)
                    .all(|v| ty(v) == ty(module.result(op, 0)))
                && flags_fit(module, op, def)
        }
        Custom::Compare => {
            plain
                && (operands, results) == (2, 1)
                && module.ty(module.operand(op, 0)) == module.ty(module.operand(op, 1))
                && predicate(module, op).is_some()
                && flags_fit(module, op, def)
        }
        Custom::Cast => plain && results > 0,
    }
}

/// The text of a string attribute without a type.
fn plain_string(cx: &Context, attr: Attr) -> Option<&str> {
    match cx.attr_data(attr) {
        AttrData::String { bytes, ty: None } => std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty()),
        _ => None,
    }
}

fn fits_func(module: &Module, op: OpId) -> bool {
    let cx = module.cx();
    let Some((inputs, results)) = module.function_type(op) else {
        return false;
    };
    let named = module
        .attr(op, "sym_name")
        .is_some_and(|a| plain_string(cx, a).is_some());
    let visible = module.attr(op, "sym_visibility").is_none_or(|a| {
        plain_string(cx, a).is_some_and(|v| ["public", "private", "nested"].contains(&v))
    });
    let described = |name: &str, count: usize| {
        module.attr(op, name).is_none_or(|a| {
            cx.as_array(a).is_some_and(|items| {
                items.len() == count
                    && items
                        .iter()
                        .all(|&i| matches!(cx.attr_data(i), AttrData::Dict(_)))
            })
        })
    };
    let entry = module.first_block(module.regions(op)[0]);
    let typed = entry.is_none_or(|entry| {
        let types = module.args(entry).iter().map(|&a| module.ty(a));
        types.eq(inputs.iter().copied())
    });
    named
        && visible
        && typed
        && described("arg_attrs", inputs.len())
        && described("res_attrs", results.len())
}

fn flags_fit(module: &Module, op: OpId, def: &OpDef) -> bool {
    let known = |name: &str| def.attrs.iter().any(|a| a.name == name);
    ["fastmath", "overflowFlags", "isExact"]
        .iter()
        .all(|&name| match module.attr(op, name) {
            None => true,
            Some(_) if !known(name) => false,
            Some(value) if name == "isExact" => value == module.cx().unit(),
            Some(value) => flags(module.cx(), value).is_some(),
        })
}

/// `fastmath<…>` or `overflow<…>`; `None` for anything else.
fn flags(cx: &Context, attr: Attr) -> Option<String> {
    match cx.attr_data(attr) {
        AttrData::Opaque { dialect, body, .. } if cx.str(*dialect) == "arith" => flags_text(body),
        _ => None,
    }
}

/// The word for a comparison's predicate.
fn predicate(module: &Module, op: OpId) -> Option<&'static str> {
    let words = if module.is(op, "arith.cmpi") {
        CMPI_PREDICATES
    } else {
        CMPF_PREDICATES
    };
    let attr = module.attr(op, "predicate")?;
    let cx = module.cx();
    match cx.attr_data(attr) {
        AttrData::Integer { value, ty } if *ty == cx.int_type(64) => {
            let index = usize::try_from(value.to_i64()?).ok()?;
            words.get(index).copied()
        }
        _ => None,
    }
}

/// Visits an op that [`fits`] for aliases, in the order in which MLIR's printers come to them.
pub(super) fn visit(v: &mut Visitor, op: OpId, form: Custom) {
    let module = v.module;
    let hidden = shown(form);
    match form {
        Custom::Mesh => v.attrs_except(op, &[]),
        Custom::Module => {
            v.attrs_except(op, hidden);
            v.region(module.regions(op)[0]);
        }
        Custom::Func => visit_func(v, op),
        Custom::Return => {
            v.attrs_except(op, hidden);
            v.operand_types(op);
        }
        Custom::Call => {
            v.attrs_except(op, hidden);
            v.operand_types(op);
            v.result_types(op);
        }
        Custom::Branch | Custom::CondBranch => {
            v.operand_types(op);
            v.attrs_except(op, hidden);
        }
        Custom::Constant => {
            v.attrs_except(op, hidden);
            if let Some(value) = module.attr(op, "value") {
                v.collector.attr(value);
            }
        }
        Custom::Binary | Custom::Compare => {
            v.attrs_except(op, hidden);
            v.collector.ty(module.ty(module.operand(op, 0)));
        }
        Custom::Cast => {
            v.operand_types(op);
            v.result_types(op);
            v.attrs_except(op, hidden);
        }
    }
}

fn visit_func(v: &mut Visitor, op: OpId) {
    let module = v.module;
    let region = module.regions(op)[0];
    let Some((inputs, results)) = module.function_type(op) else {
        return;
    };
    match module.first_block(region) {
        // MLIR does not look into the attributes of a body's arguments.
        Some(entry) => (0..inputs.len()).for_each(|index| v.arg(entry, index)),
        None => visit_typed(v, op, "arg_attrs", inputs),
    }
    visit_typed(v, op, "res_attrs", results);
    v.attrs_except(op, shown(Custom::Func));
    v.body(region);
}

fn visit_typed(v: &mut Visitor, op: OpId, attrs: &str, types: &[Type]) {
    let module = v.module;
    let cx = module.cx();
    let attrs = module.attr(op, attrs).and_then(|a| cx.as_array(a));
    for (index, &ty) in types.iter().enumerate() {
        v.collector.ty(ty);
        for &(_, attr) in attrs.map_or(&[][..], |a| cx.dict_entries(a[index])) {
            v.collector.attr(attr);
        }
    }
}

/// Writes an op that [`fits`].
pub(super) fn push(p: &mut Printer, op: OpId, def: &'static OpDef, form: Custom) {
    let module = p.module;
    p.op_name(def.name);
    match form {
        Custom::Mesh => {}
        Custom::Module => push_module(p, op),
        Custom::Func => push_func(p, op),
        Custom::Return => {
            push_other_attrs(p, op, form);
            if module.num_operands(op) > 0 {
                p.values.out.push(' ');
                p.operands(op);
                p.values.out.push_str(" : ");
                p.types(module.operands(op));
            }
        }
        Custom::Call => {
            p.values.out.push(' ');
            push_symbol(
                &mut p.values.out,
                module.symbol_attr(op, "callee").unwrap_or_default(),
            );
            p.values.out.push('(');
            p.operands(op);
            p.values.out.push(')');
            push_other_attrs(p, op, form);
            p.values.out.push_str(" : ");
            p.signature(op);
        }
        Custom::Branch => {
            let values: Vec<_> = module.operands(op).collect();
            p.values.out.push(' ');
            push_successor(p, op, 0, &values);
            push_other_attrs(p, op, form);
        }
        Custom::CondBranch => push_cond_branch(p, op),
        Custom::Constant => {
            push_other_attrs(p, op, form);
            p.values.out.push(' ');
            if let Some(value) = module.attr(op, "value") {
                p.values.attr(value);
            }
        }
        Custom::Binary | Custom::Compare => push_arithmetic(p, op, form),
        Custom::Cast => {
            if module.num_operands(op) > 0 {
                p.values.out.push(' ');
                p.operands(op);
                p.values.out.push_str(" : ");
                p.types(module.operands(op));
            }
            p.values.out.push_str(" to ");
            p.types(module.results(op));
            push_other_attrs(p, op, form);
        }
    }
}

/// The attributes that the form has no place for, in braces.
fn push_other_attrs(p: &mut Printer, op: OpId, form: Custom) {
    let cx = p.module.cx();
    let attrs = merged_attrs(p.module, op);
    push_attrs(&mut p.values, &attrs, |name, _| {
        shown(form).contains(&cx.str(name))
    });
}

/// ` attributes {…}`, if there are any that the form has no place for.
fn push_keyword_attrs(p: &mut Printer, op: OpId, form: Custom) {
    let cx = p.module.cx();
    let attrs = merged_attrs(p.module, op);
    let hidden = shown(form);
    if attrs.iter().any(|a| !hidden.contains(&cx.str(a.0))) {
        p.values.out.push_str(" attributes");
        push_attrs(&mut p.values, &attrs, |name, _| {
            hidden.contains(&cx.str(name))
        });
    }
}

fn push_module(p: &mut Printer, op: OpId) {
    let module = p.module;
    if let Some(name) = module.str_attr(op, "sym_name") {
        p.values.out.push(' ');
        push_symbol(&mut p.values.out, name);
    }
    push_keyword_attrs(p, op, Custom::Module);
    p.values.out.push(' ');
    p.region(module.regions(op)[0], EntryLabel::Args, "builtin");
}

fn push_func(p: &mut Printer, op: OpId) {
    let module = p.module;
    let cx = module.cx();
    let region = module.regions(op)[0];
    let Some((inputs, results)) = module.function_type(op) else {
        return;
    };
    p.values.out.push(' ');
    if let Some(visibility) = module.str_attr(op, "sym_visibility") {
        push_name(&mut p.values.out, visibility);
        p.values.out.push(' ');
    }
    push_symbol(
        &mut p.values.out,
        module.symbol_name(op).unwrap_or_default(),
    );
    let dicts = |name: &str| module.attr(op, name).and_then(|a| cx.as_array(a));
    let (arg_attrs, res_attrs) = (dicts("arg_attrs"), dicts("res_attrs"));
    p.values.out.push('(');
    push_arguments(p, region, inputs, arg_attrs);
    p.values.out.push(')');
    if !results.is_empty() {
        p.values.out.push_str(" -> ");
        let bare = results.len() == 1
            && !super::types::is_function(cx, results[0])
            && res_attrs.is_none_or(|a| a[0] == cx.empty_dict());
        if !bare {
            p.values.out.push('(');
        }
        for (index, &ty) in results.iter().enumerate() {
            if index > 0 {
                p.values.out.push_str(", ");
            }
            p.values.ty(ty);
            push_dict(p, res_attrs, index);
        }
        if !bare {
            p.values.out.push(')');
        }
    }
    push_keyword_attrs(p, op, Custom::Func);
    if module.first_block(region).is_some() {
        p.values.out.push(' ');
        p.region(region, EntryLabel::Hidden, "func");
    }
}

fn push_arguments(p: &mut Printer, region: RegionId, inputs: &[Type], attrs: Option<&[Attr]>) {
    let entry = p.module.first_block(region);
    for (index, &ty) in inputs.iter().enumerate() {
        if index > 0 {
            p.values.out.push_str(", ");
        }
        match entry {
            Some(entry) => {
                p.argument(entry, index);
                push_dict(p, attrs, index);
                p.argument_loc(entry, index);
            }
            None => {
                p.values.ty(ty);
                push_dict(p, attrs, index);
            }
        }
    }
}

/// ` {…}` unless empty.
fn push_dict(p: &mut Printer, dicts: Option<&[Attr]>, index: usize) {
    let cx = p.module.cx();
    if let Some(dict) = dicts.and_then(|d| d.get(index)) {
        push_attrs(&mut p.values, cx.dict_entries(*dict), |_, _| false);
    }
}

/// `^bb1(%0, %1 : i32, f32)`
fn push_successor(p: &mut Printer, op: OpId, index: usize, values: &[ValueId]) {
    let block = p.module.successors(op)[index];
    p.names.push_block(&mut p.values.out, block);
    if !values.is_empty() {
        p.values.out.push('(');
        p.values(values.iter().copied());
        p.values.out.push_str(" : ");
        p.types(values.iter().copied());
        p.values.out.push(')');
    }
}

fn push_cond_branch(p: &mut Printer, op: OpId) {
    let module = p.module;
    let Ok(segments) = module.operand_segments(op, &COND_BR) else {
        return;
    };
    p.values.out.push(' ');
    p.value(module.operand(op, 0));
    let weights = module
        .attr(op, "branch_weights")
        .and_then(|a| module.cx().as_i32_array(a));
    if let Some(weights) = weights {
        let weights: Vec<_> = weights.iter().map(i32::to_string).collect();
        p.values.out.push_str(" weights([");
        p.values.out.push_str(&weights.join(", "));
        p.values.out.push_str("])");
    }
    let values: Vec<_> = module.operands(op).collect();
    for index in 0..2 {
        p.values.out.push_str(", ");
        push_successor(p, op, index, &values[segments[index + 1].clone()]);
    }
    push_other_attrs(p, op, Custom::CondBranch);
}

fn push_arithmetic(p: &mut Printer, op: OpId, form: Custom) {
    let module = p.module;
    let cx = module.cx();
    p.values.out.push(' ');
    if form == Custom::Compare {
        p.values
            .out
            .push_str(predicate(module, op).unwrap_or_default());
        p.values.out.push_str(", ");
    }
    p.operands(op);
    for name in ["overflowFlags", "fastmath"] {
        let flags = module.attr(op, name).and_then(|a| flags(cx, a));
        if let Some(flags) = flags.filter(|f| !f.ends_with("<none>")) {
            p.values.out.push(' ');
            p.values.out.push_str(&flags);
        }
    }
    if module.attr(op, "isExact").is_some() {
        p.values.out.push_str(" exact");
    }
    push_other_attrs(p, op, form);
    p.values.out.push_str(" : ");
    p.values.ty(module.ty(module.operand(op, 0)));
}
