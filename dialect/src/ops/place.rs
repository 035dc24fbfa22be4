//! Which ops look at where they run.

use super::Effects;
use crate::ir::{Attr, Context, Module, OpId};

/// Whether an op computes something else on each rank, though all have the same operands and nothing is sent: a slice whose window the
/// rank's coordinate shifts, a lookup in the rank's own rows, a mask that each rank has for itself. Pure ops tell by their `axes`.
pub fn depends_on_rank(module: &Module, op: OpId) -> bool {
    let pure = module
        .def_of(op)
        .is_some_and(|d| d.effects == Effects::Pure);
    pure && module
        .attr(op, "axes")
        .is_some_and(|axes| names_any(module.cx(), axes))
}

/// Whether an op that communicates has anybody to meet. Over no axes a group is one rank.
pub fn meets_others(module: &Module, op: OpId) -> bool {
    let communicates = module
        .def_of(op)
        .is_some_and(|d| d.effects == Effects::Communicates);
    let alone = module
        .attr(op, "axes")
        .is_some_and(|axes| !names_any(module.cx(), axes));
    communicates && !alone
}

/// Whether a list of axes, or a list of such lists, names one.
fn names_any(cx: &Context, axes: Attr) -> bool {
    match cx.as_array(axes) {
        Some(items) => items.iter().any(|&item| match cx.as_array(item) {
            Some(inner) => !inner.is_empty(),
            None => true,
        }),
        None => true,
    }
}
