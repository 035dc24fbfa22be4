//! Whether a `dist` op keeps to its definition: groups, attributes, types. What is special to an op is in its `verify`.

use super::args::groups_error;
use super::attributes::{Attrs, OpAttributes};
use super::groups::{OPERAND_SEGMENTS, RESULT_SEGMENTS, needs_segments};
use super::{AttrDef, AttrKind, InferCx, OpDef, OpVerifier};
use crate::error::Error;
use crate::ir::{Attr, AttrData, Context, ValueId};
use crate::tensor_type::TensorType;

/// Checks an op of the `dist` dialect against its definition. Returns whether nothing was found.
pub(crate) fn conform(v: &mut OpVerifier, def: &'static OpDef) -> bool {
    let before = v.diagnostics.len();
    structure(v);
    for attr in def.attrs {
        attribute(v, attr);
    }
    unknown_attributes(v, def);
    groups(v, def);
    if v.diagnostics.len() != before {
        return false;
    }
    types(v, def);
    v.diagnostics.len() == before
}

fn structure(v: &mut OpVerifier) {
    if !v.module.regions(v.op).is_empty() {
        v.error("E0305", "must not have regions");
    }
    if !v.module.successors(v.op).is_empty() {
        v.error("E0305", "must not have successors");
    }
}

fn attribute(v: &mut OpVerifier, def: &AttrDef) {
    let found = v.module.attr(v.op, def.name);
    let wanted = describe(def.kind);
    match found {
        None if def.required => {
            v.error(
                "E0301",
                format!("requires attribute '{}', {wanted}", def.name),
            );
        }
        Some(attr) if !matches(v.cx(), attr, def.kind) => {
            let d = v.diagnostic(
                "E0302",
                format!("attribute '{}' must be {wanted}", def.name),
            );
            v.diagnostics.push(d);
        }
        _ => {}
    }
}

/// Discardable attributes carry a prefix; anything else is a mistake.
fn unknown_attributes(v: &mut OpVerifier, def: &OpDef) {
    let cx = v.module.cx();
    let known = |name: &str| {
        name.contains('.')
            || def.attrs.iter().any(|a| a.name == name)
            || (name == OPERAND_SEGMENTS && needs_segments(def.operands))
            || (name == RESULT_SEGMENTS && needs_segments(def.results))
    };
    let entries = [v.module.attrs(v.op), v.module.props(v.op)];
    let unknown: Vec<&str> = entries
        .iter()
        .flat_map(|&dict| cx.dict_entries(dict))
        .map(|&(name, _)| cx.str(name))
        .filter(|name| !known(name))
        .collect();
    let names: Vec<&str> = def.attrs.iter().map(|a| a.name).collect();
    for name in unknown {
        let help = match names.is_empty() {
            true => {
                "attributes that are not the op's own carry a prefix, as in `my.note`".to_owned()
            }
            false => format!(
                "its attributes are {}; others carry a prefix, as in `my.note`",
                names.join(", ")
            ),
        };
        let d = v
            .diagnostic("E0308", format!("has no attribute '{name}'"))
            .help(help);
        v.diagnostics.push(d);
    }
}

fn groups(v: &mut OpVerifier, def: &OpDef) {
    let operands = v.module.operand_segments(v.op, def);
    if let Err(error) = operands {
        v.report(&groups_error("operands", OPERAND_SEGMENTS, &error));
    }
    let results = v.module.result_segments(v.op, def);
    if let Err(error) = results {
        v.report(&groups_error("results", RESULT_SEGMENTS, &error));
    }
}

fn types(v: &mut OpVerifier, def: &'static OpDef) {
    let module = v.module;
    let operands = tensor_types(v, "operand", module.operands(v.op).collect());
    let results = tensor_types(v, "result", module.results(v.op).collect());
    let (Some(operands), Some(results)) = (operands, results) else {
        return;
    };
    let attributes = OpAttributes { module, op: v.op };
    let attrs = Attrs(&attributes);
    let mesh = v.scopes.around(module, v.op).mesh.ok();
    let checked =
        InferCx::new(def, &operands, attrs, mesh.as_deref()).and_then(|cx| cx.check(def, &results));
    if let Err(error) = checked {
        v.report(&error);
    }
}

fn tensor_types(v: &mut OpVerifier, what: &str, values: Vec<ValueId>) -> Option<Vec<TensorType>> {
    let count = values.len();
    let mut types = Vec::with_capacity(count);
    for (index, value) in values.into_iter().enumerate() {
        match TensorType::of(v.cx(), v.module.ty(value)) {
            Ok(ty) => types.push(ty),
            Err(Error::Op {
                code,
                message,
                help,
            }) => v.report(&Error::Op {
                code,
                message: format!("{what} #{index} {message}"),
                help,
            }),
            Err(other) => v.report(&other),
        }
    }
    (types.len() == count).then_some(types)
}

/// Whether an attribute is of a kind.
pub fn matches(cx: &Context, attr: Attr, kind: AttrKind) -> bool {
    let data = cx.attr_data(attr);
    match kind {
        AttrKind::Bool => cx.as_bool(attr).is_some(),
        AttrKind::I64 => {
            matches!(data, AttrData::Integer { ty, .. } if *ty == cx.int_type(64))
                && cx.as_i64(attr).is_some()
        }
        AttrKind::F64 => cx.as_f64(attr).is_some(),
        AttrKind::Str => cx.as_str(attr).is_some(),
        AttrKind::Enum(words) => cx.as_str(attr).is_some_and(|s| words.contains(&s)),
        AttrKind::Axes => cx.as_string_array(attr).is_some_and(|axes| {
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            sorted.windows(2).all(|pair| pair[0] != pair[1])
        }),
        AttrKind::I64Array => cx.as_i64_array(attr).is_some(),
        AttrKind::I32Array => cx.as_i32_array(attr).is_some(),
        AttrKind::Type => cx.as_type(attr).is_some(),
        AttrKind::Symbol => cx.as_symbol(attr).is_some(),
        AttrKind::Layout => matches!(data, AttrData::Layout(_)),
        AttrKind::Array => cx.as_array(attr).is_some(),
        AttrKind::Dict => matches!(data, AttrData::Dict(_)),
        AttrKind::Any => true,
    }
}

/// What an attribute of a kind is, in words.
pub(super) fn describe(kind: AttrKind) -> String {
    match kind {
        AttrKind::Bool => "`true` or `false`".into(),
        AttrKind::I64 => "an `i64`".into(),
        AttrKind::F64 => "an `f64`".into(),
        AttrKind::Str => "a string".into(),
        AttrKind::Enum(words) => {
            let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
            format!("one of {}", words.join(", "))
        }
        AttrKind::Axes => "an array of distinct mesh axes, as in `[\"dp\"]`".into(),
        AttrKind::I64Array => "an `array<i64: …>`".into(),
        AttrKind::I32Array => "an `array<i32: …>`".into(),
        AttrKind::Type => "a type".into(),
        AttrKind::Symbol => "a symbol, `@name`".into(),
        AttrKind::Layout => "a `#dist.layout<…>`".into(),
        AttrKind::Array => "an array".into(),
        AttrKind::Dict => "a dictionary".into(),
        AttrKind::Any => "an attribute".into(),
    }
}
