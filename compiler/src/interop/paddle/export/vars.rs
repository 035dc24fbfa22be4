//! The variables of an exported program.

use std::collections::{BTreeMap, HashMap, HashSet};

use raddle_dialect::ir::{Attr, Context};
use rustc_hash::FxBuildHasher;

use super::super::proto::{LodTensorDesc, VarDesc, VarType};
use super::super::tables::{VarEntry, tensor_desc};
use super::super::value::Value as AttrValue;
use super::names::Named;
use super::values::{Value, Values};

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

/// Takes out of `op_role_var` the pairs of parameter and gradient that no longer exist.
pub(super) fn drop_unknown(named: &mut Named) {
    let known: HashSet<Vec<u8>, FxBuildHasher> = named
        .variables
        .iter()
        .map(|(name, _)| name.as_bytes().to_vec())
        .collect();
    for op in &mut named.ops {
        for (name, value) in &mut op.attrs {
            if name == "op_role_var"
                && let AttrValue::Strings(names) = value
                && names.len().is_multiple_of(2)
            {
                let pairs = names.chunks(2);
                let pairs = pairs.filter(|pair| pair.iter().all(|n| known.contains(n)));
                *names = pairs.flatten().cloned().collect();
            }
        }
    }
}

/// Descriptions of all variables: those of the import that are still in use, in their order, then new ones.
pub(super) fn describe(
    cx: &Context,
    old: &[VarEntry],
    named: &Named,
    values: &Values,
    globals: &[(String, Attr, bool)],
) -> Vec<VarDesc> {
    let used: HashMap<&[u8], Value, FxBuildHasher> = named
        .variables
        .iter()
        .map(|(name, value)| (name.as_bytes(), *value))
        .collect();
    let mut described: HashSet<&[u8], FxBuildHasher> = HashSet::default();
    let mut vars = Vec::with_capacity(old.len());
    for entry in old {
        let name = &entry.desc.name[..];
        described.insert(name);
        let mut desc = entry.desc.clone();
        match used.get(name) {
            Some(&value) => {
                let tensor = tensor_desc(cx, values.ty(value));
                if let (Some(tensor), Some(lod)) = (tensor, &mut desc.r#type.lod_tensor) {
                    lod.tensor = tensor;
                }
            }
            None if entry.unused => {}
            None => continue,
        }
        vars.push(desc);
    }
    let globals: HashMap<&[u8], bool, FxBuildHasher> = globals
        .iter()
        .map(|(name, _, parameter)| (name.as_bytes(), *parameter))
        .collect();
    for (name, value) in &named.variables {
        if described.contains(name.as_bytes()) {
            continue;
        }
        let global = globals.get(name.as_bytes());
        vars.push(VarDesc {
            name: name.as_bytes().to_vec(),
            r#type: VarType {
                r#type: 7,
                lod_tensor: tensor_desc(cx, values.ty(*value)).map(|tensor| LodTensorDesc {
                    tensor,
                    lod_level: Some(0),
                }),
                ..VarType::default()
            },
            persistable: Some(global.is_some()),
            need_check_feed: None,
            is_parameter: global.filter(|p| **p).copied(),
            stop_gradient: Some(false),
            attrs: Vec::new(),
        });
    }
    vars
}
