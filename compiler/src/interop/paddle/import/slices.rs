//! Slices of a program that every rank runs, of which one rank's windows do not tell which axes shift them.
//!
//! On a 2×2 mesh rank 0 has coordinate 0 on both axes, so a window at 0 may be shifted by either. How the result is cut
//! elsewhere in the program decides; axes that another dimension of the same slice takes are out.

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::{Module, OpId, Rewriter};
use raddle_dialect::mesh::Mesh;

use super::super::form::OPEN;
use super::rules::State;

/// The open slices of a function.
pub(super) fn open(module: &Module, function: OpId) -> Vec<OpId> {
    module
        .block_ops(module.body(function))
        .filter(|&op| module.is(op, "dist.slice") && module.attr(op, OPEN).is_some())
        .collect()
}

/// Settles the open slices. `known` has, per axis, the state of each slice's result.
pub(super) fn close(
    rw: &mut Rewriter,
    mesh: &Mesh,
    open: &[OpId],
    known: &[Vec<State>],
    diagnostics: &mut Diagnostics,
) {
    for (at, &op) in open.iter().enumerate() {
        let mut sets = candidates(rw.module(), op);
        let cx = rw.module().cx().clone();
        let dims = rw.module().attr(op, "dims");
        let dims = dims.and_then(|a| cx.as_i64_array(a)).unwrap_or_default();
        for (axis, states) in mesh.axes().iter().zip(known) {
            let State::Cut(cut) = states[at] else {
                continue;
            };
            for (dim, sets) in dims.iter().zip(&mut sets) {
                let here = *dim == cut as i64;
                sets.retain(|set| set.contains(axis) == here);
            }
        }
        // What one dimension takes is not for the others.
        for _ in 0..sets.len() {
            for i in 0..sets.len() {
                if let [only] = &sets[i][..] {
                    let only = only.clone();
                    for (j, others) in sets.iter_mut().enumerate() {
                        others.retain(|set| i == j || set.iter().all(|a| !only.contains(a)));
                    }
                }
            }
        }
        rw.set_attr(op, OPEN, None);
        if sets.iter().any(|s| s.len() > 1) {
            diagnostics.push(
                Diagnostic::warning(
                    "W0822",
                    rw.module().loc(op),
                    "the window of this slice may depend on the rank, but one rank's program does not tell how: \
                     it is taken to be the same everywhere",
                )
                .help("give the programs of all ranks"),
            );
            continue;
        }
        let starts = rw.module().attr(op, "starts");
        let mut starts = starts.and_then(|a| cx.as_i64_array(a)).unwrap_or_default();
        let axes: Vec<_> = sets
            .iter()
            .zip(&mut starts)
            .map(|(sets, start)| match &sets[..] {
                [axes] => {
                    *start = 0;
                    cx.string_array(axes)
                }
                _ => cx.array(&[]),
            })
            .collect();
        rw.set_attr(op, "axes", Some(cx.array(&axes)));
        rw.set_attr(op, "starts", Some(cx.i64_array(&starts)));
    }
}

fn candidates(module: &Module, op: OpId) -> Vec<Vec<Vec<String>>> {
    let cx = module.cx();
    let list = |attr| cx.as_array(attr).unwrap_or_default().iter();
    let set = |&attr| {
        let axes = cx.as_string_array(attr).unwrap_or_default();
        axes.into_iter().map(str::to_owned).collect()
    };
    let attr = module.attr(op, OPEN);
    attr.into_iter()
        .flat_map(list)
        .map(|&sets| list(sets).map(set).collect())
        .collect()
}
