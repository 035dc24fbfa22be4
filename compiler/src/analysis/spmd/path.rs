//! How a value came to be what it is along an axis: from the op at which it became so, over those that passed it on.

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Loc, OpId, ValueId};
use raddle_dialect::layout::{Reduction, Spread};

use super::Known;

/// How many ops of a path are shown: the first and the last ones.
const SHOWN: usize = 6;

/// Adds the paths of these values as notes.
pub fn add(
    known: &Known,
    mut diagnostic: Diagnostic,
    values: &[ValueId],
    axis: usize,
) -> Diagnostic {
    for &value in values {
        let steps = steps(known, value, axis);
        let left_out = steps.len().saturating_sub(SHOWN);
        for (index, (loc, text)) in steps.iter().enumerate() {
            let from_end = steps.len() - index;
            if left_out > 0 && (SHOWN / 2..SHOWN / 2 + left_out).contains(&index) {
                if index == SHOWN / 2 {
                    let text = format!("… through {left_out} more ops …");
                    diagnostic = diagnostic.note(None, text);
                }
                continue;
            }
            debug_assert!(from_end > 0);
            diagnostic = diagnostic.note(Some((*loc).into()), text.clone());
        }
    }
    diagnostic
}

/// The path of a value, its origin first.
fn steps(known: &Known, mut value: ValueId, axis: usize) -> Vec<(Loc, String)> {
    let module = known.module;
    let mut steps = Vec::new();
    while let Some(spread) = known.spread(value, axis) {
        let what = words(spread, known.axis_name(axis));
        let Some(op) = module.defining_op(value) else {
            steps.push((module.loc(known.function), format!("an argument is {what}")));
            break;
        };
        match source(known, op, axis, spread) {
            Some(operand) => {
                steps.push((
                    module.loc(op),
                    format!("'{}' leaves it {what}", module.name_str(op)),
                ));
                value = operand;
            }
            None => {
                steps.push((module.loc(op), origin(known, op, axis, &what)));
                break;
            }
        }
    }
    steps.reverse();
    steps
}

/// The operand from which an op's result has what it is along the axis.
fn source(known: &Known, op: OpId, axis: usize, spread: Spread) -> Option<ValueId> {
    let module = known.module;
    let communicates = module.attr(op, "axes").is_some() && known.group(op).contains(&axis);
    if communicates {
        return None;
    }
    let same = |operand: Spread| match (spread, operand) {
        (Spread::Sharded(_), Spread::Sharded(_)) => true,
        _ => operand == spread,
    };
    module
        .operands(op)
        .find(|&v| known.spread(v, axis).is_some_and(same))
}

fn origin(known: &Known, op: OpId, axis: usize, what: &str) -> String {
    let module = known.module;
    let name = module.name_str(op);
    if let ("dist.load", Some(global)) = (name, module.symbol_attr(op, "global")) {
        return format!("'@{global}' is {what}, as its layout says");
    }
    let cut = module
        .operands(op)
        .any(|v| matches!(known.spread(v, axis), Some(Spread::Sharded(_))));
    let sums = module
        .results(op)
        .any(|v| matches!(known.spread(v, axis), Some(Spread::Partial(_))));
    if cut && sums && module.attr(op, "axes").is_none() {
        return format!(
            "'{name}' makes it {what}: it combines elements along a dimension that the axis cuts"
        );
    }
    format!("'{name}' makes it {what}")
}

/// What a value is along an axis, in words.
pub fn words(spread: Spread, axis: &str) -> String {
    match spread {
        Spread::Replicated => format!("whole along '{axis}'"),
        Spread::Sharded(dim) => format!("cut along '{axis}', in dimension {dim}"),
        Spread::Partial(Reduction::Sum) => format!("a part of a sum along '{axis}'"),
        Spread::Partial(Reduction::Avg) => format!("a part of a mean along '{axis}'"),
        Spread::Partial(reduction) => format!("partial ({}) along '{axis}'", reduction.name()),
        Spread::Own => format!("each rank's own along '{axis}'"),
    }
}
