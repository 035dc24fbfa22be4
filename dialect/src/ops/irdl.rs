//! `dist.irdl.mlir`: the dialect for stock MLIR tools, generated from the definitions.
//!
//! IRDL sees names, counts and kinds, not shapes. Each operand, result and attribute has a constraint variable of its own, because
//! two that share one must be equal.

use std::fmt::Write;

use super::{AttrKind, Count, Group, OpDef, definitions};

/// The text of `dist.irdl.mlir`.
pub fn irdl() -> String {
    let mut text = String::from(
        "\
// The `dist` dialect for stock MLIR: mlir-opt --irdl-file=dist.irdl.mlir
// Generated from the definitions in dialect/src/ops; do not edit.

irdl.dialect @dist {
  irdl.type @token {
  }
  irdl.attribute @layout {
    %dims = irdl.base \"#builtin.array\"
    %partial = irdl.base \"#builtin.array\"
    irdl.parameters(dims: %dims, partial: %partial)
  }
",
    );
    for def in definitions() {
        if def.dialect() == "dist" {
            operation(&mut text, def);
        }
    }
    text.push_str("}\n");
    text
}

fn operation(text: &mut String, def: &OpDef) {
    let name = def.name.strip_prefix("dist.").unwrap_or(def.name);
    line(text, 1, format_args!("irdl.operation @{name} {{"));
    for (prefix, groups) in [("operand", def.operands), ("result", def.results)] {
        for group in groups {
            let variable = variable(prefix, group.name);
            line(
                text,
                2,
                format_args!("{variable} = irdl.base \"!builtin.tensor\""),
            );
        }
    }
    // An optional attribute cannot be listed: what is listed must be there.
    let attrs: Vec<_> = def.attrs.iter().filter(|a| a.required).collect();
    for attr in &attrs {
        attribute(text, &variable("attr", attr.name), attr.kind);
    }
    values(text, "operands", "operand", def.operands);
    values(text, "results", "result", def.results);
    if !attrs.is_empty() {
        let entries = attrs
            .iter()
            .map(|a| format!("\"{}\" = {}", a.name, variable("attr", a.name)));
        let entries: Vec<String> = entries.collect();
        line(
            text,
            2,
            format_args!("irdl.attributes {{ {} }}", entries.join(", ")),
        );
    }
    line(text, 1, format_args!("}}"));
}

fn values(text: &mut String, what: &str, prefix: &str, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    let entry = |group: &Group| {
        let count = match group.count {
            Count::One => "",
            Count::Optional => "optional ",
            Count::Variadic => "variadic ",
        };
        format!("{}: {count}{}", group.name, variable(prefix, group.name))
    };
    let entries: Vec<String> = groups.iter().map(entry).collect();
    line(text, 2, format_args!("irdl.{what}({})", entries.join(", ")));
}

fn attribute(text: &mut String, variable: &str, kind: AttrKind) {
    let base = match kind {
        AttrKind::Bool => return alternatives(text, variable, &["true", "false"]),
        AttrKind::Enum(words) => {
            let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            return alternatives(text, variable, &words);
        }
        AttrKind::Layout => {
            return line(
                text,
                2,
                format_args!("{variable} = irdl.base @dist::@layout"),
            );
        }
        AttrKind::Any => return line(text, 2, format_args!("{variable} = irdl.any")),
        AttrKind::I64 => "integer",
        AttrKind::F64 => "float",
        AttrKind::Str => "string",
        AttrKind::I64Array | AttrKind::I32Array => "dense_array",
        AttrKind::Type => "type",
        AttrKind::Symbol => "symbol_ref",
        AttrKind::Axes | AttrKind::Array => "array",
        AttrKind::Dict => "dictionary",
    };
    line(
        text,
        2,
        format_args!("{variable} = irdl.base \"#builtin.{base}\""),
    );
}

fn alternatives(text: &mut String, variable: &str, values: &[&str]) {
    let mut names = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let name = format!("{variable}_{index}");
        line(text, 2, format_args!("{name} = irdl.is {value}"));
        names.push(name);
    }
    line(
        text,
        2,
        format_args!("{variable} = irdl.any_of({})", names.join(", ")),
    );
}

fn variable(prefix: &str, name: &str) -> String {
    format!("%{prefix}_{name}")
}

fn line(text: &mut String, depth: usize, content: std::fmt::Arguments) {
    let _ = writeln!(text, "{:width$}{content}", "", width = 2 * depth);
}
