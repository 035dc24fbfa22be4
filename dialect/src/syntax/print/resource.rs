//! The trailer of a file, `{-# … #-}`: resources that the program names, and other tools' data.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::text::{push_hex, push_name, push_string};
use super::value::ValueWriter;
use crate::ir::{Ident, Module, ResourceGroup, ResourceValue};

/// Appends the trailer, if there is anything to put into it.
pub(super) fn push_trailer(values: &mut ValueWriter, module: &Module) {
    let resources = module.resources();
    let cx = values.cx;
    let builtin = cx.ident("builtin");
    // Of two resources under one name, the last counts.
    let known: HashMap<Ident, &ResourceValue, FxBuildHasher> = resources
        .dialects
        .iter()
        .filter(|group| group.owner == builtin)
        .flat_map(|group| group.entries.iter().map(|(key, value)| (*key, value)))
        .collect();
    let named: Vec<(Ident, &ResourceValue)> = values
        .resources
        .iter()
        .filter_map(|&key| Some((key, *known.get(&key)?)))
        .collect();
    let mut sections = Vec::new();
    if !named.is_empty() {
        let mut text = String::from("  dialect_resources: {\n    builtin: {\n");
        push_entries(values, &mut text, named.into_iter());
        text.push_str("\n    }\n  }");
        sections.push(text);
    }
    if !resources.external.is_empty() {
        let groups = resources.external.iter();
        let groups: Vec<_> = groups.map(|g| external(values, g)).collect();
        sections.push(format!(
            "  external_resources: {{\n{}\n  }}",
            groups.join(",\n")
        ));
    }
    if !sections.is_empty() {
        values.out.push_str("\n{-#\n");
        values.out.push_str(&sections.join(",\n"));
        values.out.push_str("\n#-}\n");
    }
}

fn external(values: &ValueWriter, group: &ResourceGroup) -> String {
    let mut text = String::from("    ");
    push_name(&mut text, values.cx.str(group.owner));
    text.push_str(": {\n");
    push_entries(
        values,
        &mut text,
        group.entries.iter().map(|(k, v)| (*k, v)),
    );
    text.push_str("\n    }");
    text
}

fn push_entries<'r>(
    values: &ValueWriter,
    text: &mut String,
    entries: impl Iterator<Item = (Ident, &'r ResourceValue)>,
) {
    for (index, (key, value)) in entries.enumerate() {
        text.push_str(if index == 0 { "      " } else { ",\n      " });
        push_name(text, values.cx.str(key));
        text.push_str(": ");
        match value {
            ResourceValue::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            ResourceValue::String(bytes) => push_string(text, bytes),
            ResourceValue::Blob { align, bytes } => {
                text.push_str("\"0x");
                push_hex(text, &align.to_le_bytes());
                push_hex(text, bytes);
                text.push('"');
            }
        }
    }
}
