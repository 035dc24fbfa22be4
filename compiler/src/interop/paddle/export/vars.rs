//! The variables of an exported program.

use std::collections::BTreeMap;

use super::super::tables::VarEntry;

/// The variables under other names. A list that was sorted by name stays sorted.
pub(in super::super) fn renamed_vars(
    vars: &[VarEntry],
    renames: &BTreeMap<String, String>,
) -> Vec<VarEntry> {
    let sorted = vars.is_sorted_by(|a, b| a.desc.name <= b.desc.name);
    let mut vars = vars.to_vec();
    for var in &mut vars {
        let new = std::str::from_utf8(&var.desc.name)
            .ok()
            .and_then(|name| renames.get(name));
        if let Some(new) = new {
            var.desc.name = new.as_bytes().to_vec();
        }
    }
    if sorted {
        vars.sort_by(|a, b| a.desc.name.cmp(&b.desc.name));
    }
    vars
}
