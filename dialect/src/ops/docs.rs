//! `docs/dialect.md`: the reference of the dialect, generated from the definitions.

use std::fmt::Write;

use super::conform::describe;
use super::{
    ALL, AttrDef, AttrDefault, AttrKind, Count, Custom, Effects, Group, OpDef, Pretty, TypeShape,
    Uniform,
};

/// Family titles, by the name of a member.
const FAMILIES: &[(&str, &str)] = &[
    ("dist.mesh", "Structure"),
    ("dist.schedule", "Schedules"),
    ("dist.free", "Storage and streams"),
    ("dist.matmul", "Linear layers"),
    ("dist.add", "Arithmetic"),
    ("dist.add_grad", "Gradients of arithmetic"),
    ("dist.scale", "Functions of one tensor"),
    ("dist.gelu", "Activations"),
    ("dist.reshape", "Arranging one tensor"),
    ("dist.concat", "Joining and splitting"),
    ("dist.reduce_sum", "Reductions"),
    ("dist.layer_norm", "Normalisation"),
    ("dist.rms_norm", "Root-mean-square normalisation"),
    ("dist.softmax", "Softmax and loss"),
    ("dist.embedding", "Tables"),
    ("dist.dropout", "Dropout"),
    ("dist.attention", "Attention"),
    ("dist.all_reduce", "Collectives"),
    ("dist.send", "Sending and waiting"),
    ("dist.check_finite_and_unscale", "Loss scaling and clipping"),
    ("dist.sgd", "Optimizers"),
    ("dist.fill", "Constants and random numbers"),
];

const INTRODUCTION: &str = "\
# The `dist` dialect

<!-- Generated from the definitions in dialect/src/ops; do not edit. -->

Programs for training on a mesh of devices. Every op takes and gives tensors of one rank: shapes are local. Which ranks run
an op is said by the rank class around it, a module with `dist.mesh` and `dist.ranks`.

Ops have a generic form, as every MLIR op has, and a short one:

    [%r, … =] dist.NAME [@symbol] [word] [%operands, …] [over [\"axis\", …]] [{attributes}] [: type] [loc(…)]

The short form leaves out attributes that have their default. A single type after the colon is that of all operands and results;
otherwise `(operand types) -> result types` is written. An op that does not fit its definition is printed in generic form. In the
generic form all attributes stand in `{}`, and an op with two or more optional or variadic groups counts them in
`operandSegmentSizes` or `resultSegmentSizes`.

A layout, `#dist.layout<dims, partial>`, lists per dimension the mesh axes that cut it, outermost first, and then the axes over which
the value is a partial sum; any other axis holds equal copies: `#dist.layout<[[\"dp\"], []], [\"mp\"]>`. The layout rules of the ops know
besides means, maxima, minima and ors that are yet to be completed.

Attributes with a prefix may stand on any op: `dist.role` (`\"forward\"`, `\"backward\"`, `\"optimizer\"`) says what an op is there for,
`dist.stage` which pipeline stage it belongs to; `paddle.*` are notes of the importer.
";

/// The text of `docs/dialect.md`.
pub fn docs() -> String {
    let mut text = String::from(INTRODUCTION);
    for family in ALL {
        let family: Vec<&OpDef> = family.iter().filter(|d| d.dialect() == "dist").collect();
        let Some(first) = family.first() else {
            continue;
        };
        let title = FAMILIES.iter().find(|f| f.0 == first.name);
        let _ = writeln!(text, "\n## {}", title.map_or("Further ops", |f| f.1));
        for def in family {
            operation(&mut text, def);
        }
    }
    text
}

fn operation(text: &mut String, def: &OpDef) {
    let _ = writeln!(text, "\n### `{}`: {}\n", def.name, def.summary);
    let _ = writeln!(text, "    {}\n", form(def));
    let _ = writeln!(text, "{}", def.description);
    groups(text, "Operands", def.operands);
    groups(text, "Results", def.results);
    attributes(text, def);
    let effects = match def.effects {
        Effects::Pure => "pure",
        Effects::Reads => "reads the global",
        Effects::Writes => "writes the global",
        Effects::Accumulates => "adds to the global",
        Effects::Draws => "draws random numbers: never merged",
        Effects::Communicates => "meets other ranks: never removed, merged or reordered",
        Effects::Opaque => "a declaration",
    };
    let order = if def.traits.commutative {
        ", commutative"
    } else {
        ""
    };
    let _ = writeln!(text, "\nEffects: {effects}{order}.");
    if let Some(why) = def.no_gradient {
        let _ = writeln!(text, "\nGradient: none; {why}.");
    } else if def.gradient.is_some() {
        let _ = writeln!(text, "\nGradient: yes.");
    }
}

fn groups(text: &mut String, title: &str, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:\n");
    for group in groups {
        let count = match group.count {
            Count::One => "",
            Count::Optional => " (optional)",
            Count::Variadic => " (any number)",
        };
        let _ = writeln!(text, "- `{}`{count}: {}", group.name, group.doc);
    }
}

fn attributes(text: &mut String, def: &OpDef) {
    if def.attrs.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nAttributes:\n");
    for attr in def.attrs {
        let _ = writeln!(text, "- `{}`, {}: {}", attr.name, kind(attr), attr.doc);
    }
}

fn kind(attr: &AttrDef) -> String {
    let mut kind = match attr.kind {
        AttrKind::Bool => "bool".to_owned(),
        kind => describe(kind),
    };
    if let Some(default) = attr.default {
        let _ = write!(kind, ", default {}", value(default));
    }
    if !attr.required {
        kind.push_str(", optional");
    }
    kind
}

fn value(default: AttrDefault) -> String {
    match default {
        AttrDefault::Bool(value) => value.to_string(),
        AttrDefault::I64(value) => value.to_string(),
        AttrDefault::F64(value) => format!("{value:?}"),
        AttrDefault::Str(value) => format!("\"{value}\""),
        AttrDefault::I64Array(values) => format!("{values:?}"),
        AttrDefault::EmptyArray => "[]".to_owned(),
    }
}

/// How the op is written, with placeholders.
fn form(def: &OpDef) -> String {
    match def.pretty {
        Pretty::Uniform(uniform) => uniform_form(def, &uniform),
        Pretty::Custom(Custom::Mesh) => format!("{} @name [\"axis\" = size, …]", def.name),
        _ => format!("\"{}\"(…) {{…}} : (…) -> …", def.name),
    }
}

fn uniform_form(def: &OpDef, uniform: &Uniform) -> String {
    let mut form = String::new();
    if !def.results.is_empty() {
        form = format!("{} = ", values(def.results));
    }
    form.push_str(def.name);
    if let Some(symbol) = uniform.symbol {
        let _ = write!(form, " @{symbol}");
    }
    if let Some(word) = uniform.word {
        let _ = write!(form, " <{word}>");
    }
    if !def.operands.is_empty() {
        let _ = write!(form, " {}", values(def.operands));
    }
    if let Some(over) = uniform.over {
        let may_be_absent = |a: &AttrDef| a.name == over && a.default.is_some();
        form.push_str(match def.attrs.iter().any(may_be_absent) {
            true => " [over [\"axis\", …]]",
            false => " over [\"axis\", …]",
        });
    }
    let shown = [uniform.symbol, uniform.word, uniform.over];
    let typed = |name: &str| uniform.types == TypeShape::Attr("type") && name == "type";
    let attrs = def.attrs.iter().map(|a| a.name);
    let attrs: Vec<String> = attrs
        .filter(|name| !shown.contains(&Some(name)) && !typed(name))
        .map(|name| format!("{name} = …"))
        .collect();
    if !attrs.is_empty() {
        let _ = write!(form, " {{{}}}", attrs.join(", "));
    }
    form.push_str(match uniform.types {
        TypeShape::Nothing => "",
        TypeShape::Same | TypeShape::Attr(_) => " : type",
        TypeShape::Signature => " : (types) -> types",
    });
    form
}

fn values(groups: &[Group]) -> String {
    let value = |group: &Group| match group.count {
        Count::One => format!("%{}", group.name),
        Count::Optional => format!("[%{}]", group.name),
        Count::Variadic => format!("%{}…", group.name),
    };
    groups.iter().map(value).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_title() {
        assert!(!docs().contains("Further ops"));
    }

    /// The checked-in copies; `cargo xtask docs` writes them anew.
    #[test]
    fn generated_files_are_up_to_date() {
        let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        for (path, text) in [
            ("../docs/dialect.md", docs()),
            ("dist.irdl.mlir", super::super::irdl()),
        ] {
            let found = std::fs::read_to_string(manifest.join(path)).unwrap_or_default();
            assert!(
                found == text,
                "{path} is out of date: run `cargo xtask docs`"
            );
        }
    }
}
