//! Which ops look at where they run.

use super::Effects;
use crate::ir::{Attr, Context, Module, OpId};

/// The mesh axes along which an op computes something else on each rank, though all have the same operands and nothing is sent: a slice
/// whose window the rank's coordinate shifts, a lookup in the rank's own rows, a mask that each rank has for itself. Pure ops tell by
/// their `axes`.
pub fn coordinate_axes(module: &Module, op: OpId) -> Vec<&str> {
    let pure = module
        .def_of(op)
        .is_some_and(|d| d.effects == Effects::Pure);
    let axes = module.attr(op, "axes").filter(|_| pure);
    axes.map_or_else(Vec::new, |axes| names(module.cx(), axes))
}

/// Whether an op that communicates has anybody to meet. Over no axes a group is one rank.
pub fn meets_others(module: &Module, op: OpId) -> bool {
    let communicates = module
        .def_of(op)
        .is_some_and(|d| d.effects == Effects::Communicates);
    let alone = module
        .attr(op, "axes")
        .is_some_and(|axes| names(module.cx(), axes).is_empty());
    communicates && !alone
}

/// The axes that a list, or a list of lists, names.
fn names(cx: &Context, axes: Attr) -> Vec<&str> {
    let items = cx.as_array(axes).unwrap_or_default().iter();
    let inner = items.flat_map(|&item| match cx.as_array(item) {
        Some(inner) => inner.to_vec(),
        None => vec![item],
    });
    inner.filter_map(|name| cx.as_str(name)).collect()
}
