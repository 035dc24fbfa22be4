//! Collectives that the layout rules let pass, because what they compute is known, but that nobody means.
//!
//! A sum over ranks that all have the same is so many times that: mostly it was reduced before, or the axis is the wrong one. It is
//! meant if a factor beside it takes the number of ranks out again.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{OpId, ValueId};
use raddle_dialect::layout::Spread;

use super::{Known, path};

/// What is wrong with an op, if it is a collective.
pub fn check(known: &Known, op: OpId) -> Option<Diagnostic> {
    let module = known.module;
    match module.name_str(op) {
        "dist.all_reduce" | "dist.reduce_scatter" => reduction(known, op),
        "dist.all_gather" => gather(known, op, module.i64_attr(op, "dim")?),
        "dist.broadcast" => broadcast(known, op),
        _ => None,
    }
}

/// The axes of the group along which the operand is the same on all ranks.
fn whole_axes(known: &Known, op: OpId) -> Option<Vec<usize>> {
    let layout = known.layouts.get(known.module.operand(op, 0))?;
    let mut axes = known.group(op);
    axes.retain(|&a| known.held[a] && layout.on(a) == Spread::Replicated);
    Some(axes)
}

fn reduction(known: &Known, op: OpId) -> Option<Diagnostic> {
    let module = known.module;
    if module.str_attr(op, "reduction") != Some("sum") {
        return None;
    }
    let operand = module.operand(op, 0);
    let whole = whole_axes(known, op)?;
    let &axis = whole.first()?;
    let n = known.layouts.mesh.group_size(&whole);
    let name = module.name_str(op);
    let along = known.axis_name(axis);
    let loc = module.loc(op);
    if let Some(other) = known.partial_outside(op) {
        let other_name = known.axis_name(other);
        let diagnostic = Diagnostic::error(
            "E0412",
            loc,
            format!("'{name}' sums over axis '{along}', along which its operand is whole, and not over '{other_name}', along which it is partial"),
        )
        .help(format!("reduce over [\"{other_name}\"]"));
        return Some(path::add(known, diagnostic, &[operand], other));
    }
    if is_constant(known, operand) || is_scaled(known, op, n) {
        return None;
    }
    let diagnostic = Diagnostic::error(
        "E0411",
        loc,
        format!("'{name}' sums over axis '{along}', along which all ranks have the same: the result is {n} times too large"),
    )
    .help("drop the collective if its operand has been reduced before; take 'avg' if equal copies are meant to stay equal");
    Some(path::add(known, diagnostic, &[operand], axis))
}

/// Numbers of ranks are counted by summing ones.
fn is_constant(known: &Known, value: ValueId) -> bool {
    let source = known.module.defining_op(value);
    source.is_some_and(|op| known.module.is(op, "dist.fill"))
}

/// Whether a factor of at most 1/n stands before or after a collective.
fn is_scaled(known: &Known, op: OpId, n: usize) -> bool {
    let module = known.module;
    let enough = |op: OpId| {
        let scale = module.f64_attr(op, "scale");
        module.is(op, "dist.scale") && scale.is_some_and(|s| s.abs() <= (1.0 + 1e-6) / n as f64)
    };
    let passes = |op: OpId| module.is(op, "dist.cast") || module.is(op, "dist.identity");
    let mut before = module.operand(op, 0);
    while let Some(source) = module.defining_op(before) {
        if enough(source) {
            return true;
        }
        if !passes(source) {
            break;
        }
        before = module.operand(source, 0);
    }
    let mut after = module.result(op, 0);
    while let Some(only) = module.single_use(after) {
        if enough(only.op) {
            return true;
        }
        if !passes(only.op) {
            break;
        }
        after = module.result(only.op, 0);
    }
    false
}

/// A gather joins the pieces of the dimension that its axes cut.
fn gather(known: &Known, op: OpId, dim: i64) -> Option<Diagnostic> {
    let operand = known.module.operand(op, 0);
    let layout = known.layouts.get(operand)?;
    let wrong = |&axis: &usize| match layout.on(axis) {
        Spread::Sharded(d) => d as i64 != dim,
        spread => known.held[axis] && spread == Spread::Replicated,
    };
    let axis = known.group(op).into_iter().find(wrong)?;
    // Some systems gather along the first dimension only, then split the result and put its pieces where they belong.
    let resplit = |user: OpId| {
        let dim_of = known.module.i64_attr(user, "dim");
        known.module.is(user, "dist.split") && dim_of == Some(dim)
    };
    let mut users = known.module.uses(known.module.result(op, 0)).peekable();
    let cut = matches!(layout.on(axis), Spread::Sharded(_));
    if cut && users.peek().is_some() && users.all(|u| resplit(u.op)) {
        return None;
    }
    let along = known.axis_name(axis);
    let loc = known.module.loc(op);
    let mut diagnostic = match layout.on(axis) {
        Spread::Sharded(d) => Diagnostic::error(
            "E0412",
            loc,
            format!(
                "'dist.all_gather' joins dimension {dim} over axis '{along}', which cuts dimension {d}"
            ),
        ),
        _ => Diagnostic::error(
            "E0412",
            loc,
            format!(
                "'dist.all_gather' joins equal copies: its operand is whole along axis '{along}'"
            ),
        ),
    };
    let group = known.group(op);
    let cuts_dim = usize::try_from(dim).ok().and_then(|d| layout.dims.get(d));
    let meant = cuts_dim.and_then(|axes| axes.iter().find(|a| !group.contains(a)));
    if let Some(&meant) = meant {
        let text = format!(
            "gather over [\"{}\"], which cuts dimension {dim}",
            known.axis_name(meant)
        );
        diagnostic = diagnostic.help(text);
    }
    Some(path::add(known, diagnostic, &[operand], axis))
}

/// A broadcast makes one value of what all ranks should have alike, not of pieces or parts.
fn broadcast(known: &Known, op: OpId) -> Option<Diagnostic> {
    let operand = known.module.operand(op, 0);
    let layout = known.layouts.get(operand)?;
    let differs =
        |axis: &usize| matches!(layout.on(*axis), Spread::Sharded(_) | Spread::Partial(_));
    let axis = known.group(op).into_iter().find(differs)?;
    let what = path::words(layout.on(axis), known.axis_name(axis));
    let diagnostic = Diagnostic::error(
        "E0412",
        known.module.loc(op),
        format!("'dist.broadcast' gives every rank the root's share of a value that is {what}"),
    )
    .help("broadcast over axes along which the value is meant to be the same");
    Some(path::add(known, diagnostic, &[operand], axis))
}
