//! Constant factors between a parameter's gradient, as the backward pass makes it, and the optimizer.
//!
//! Along an axis that cuts the data, each rank's loss is a part of a mean, and dividing the summed gradient by the axis' size makes it
//! the gradient of that mean. Along any other axis, such as the tensor axis, the sum is the gradient; divided by the axis' size it
//! is too small by that factor. That is a warning and no error, because who wants such gradients may have them.

use std::collections::HashSet;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::layout::{Reduction, Spread};

use super::Known;

/// The axes by whose sizes a gradient may be divided: those that cut the data inputs, and those along which what the class returns is
/// not whole. `None` if it returns nothing, or something of which that is not known.
pub fn divided_axes(functions: &[Known]) -> Option<Vec<usize>> {
    let mut axes = Vec::new();
    let mut returns = false;
    for known in functions {
        let module = known.module;
        let sizes = known.layouts.mesh.sizes();
        let mut varies = |value: ValueId| {
            let layout = known.layouts.get(value)?;
            axes.extend((0..sizes.len()).filter(|&a| layout.on(a) != Spread::Replicated));
            Some(())
        };
        let body = module.regions(known.function).first();
        let Some(body) = body.and_then(|&r| module.first_block(r)) else {
            continue;
        };
        for &arg in module.args(body) {
            varies(arg);
        }
        for op in module.block_ops(body) {
            if module.is(op, "func.return") {
                for value in module.operands(op) {
                    varies(value)?;
                    returns = true;
                }
            }
        }
    }
    axes.sort_unstable();
    axes.dedup();
    returns.then_some(axes)
}

/// Looks at the gradient of an optimizer op.
pub fn check(known: &Known, op: OpId, divided: &[usize]) -> Option<Diagnostic> {
    let module = known.module;
    let def = module.def_of(op)?;
    let names = ["param", "grad"];
    if !names
        .iter()
        .all(|n| def.operands.iter().any(|g| g.name == *n))
    {
        return None;
    }
    let gradient = module.operand_in(op, "grad")?;
    let way = Way::back_from(known, gradient)?;
    let mesh = &known.layouts.mesh;
    let microbatches = module
        .enclosing_module(known.function)
        .and_then(|class| module.i64_attr(class, "dist.microbatches"))
        .unwrap_or(1)
        .max(1) as f64;
    let sizes: Vec<(usize, f64)> = (0..mesh.axes().len())
        .map(|a| (a, mesh.sizes()[a] as f64))
        .filter(|(_, n)| *n > 1.0)
        .collect();
    // Of the sets of axes that explain the factor, one that may be divided by, if there is one.
    let mut wrong: Option<usize> = None;
    for subset in 0..1usize << sizes.len().min(16) {
        let chosen: Vec<_> = (0..sizes.len()).filter(|i| subset >> i & 1 == 1).collect();
        let product: f64 = chosen.iter().map(|&i| sizes[i].1).product();
        for m in [1.0, microbatches] {
            if (way.factor * product * m - 1.0).abs() > 1e-6 {
                continue;
            }
            let outside = chosen.iter().map(|&i| sizes[i].0);
            match outside.clone().find(|a| !divided.contains(a)) {
                None => return None,
                Some(axis) => {
                    wrong.get_or_insert(axis);
                }
            }
        }
    }
    let axis = wrong?;
    // Without a reduction, any factor may be meant.
    let reduction = way.reduction?;
    let parameter = module
        .operand_in(op, "param")
        .and_then(|v| global(module, v));
    let name = parameter.map_or_else(String::new, |p| format!(" of '@{p}'"));
    let (along, n) = (known.axis_name(axis), mesh.sizes()[axis]);
    let mut diagnostic = Diagnostic::warning(
        "W0723",
        module.loc(way.scales.first().copied().unwrap_or(reduction)),
        format!("the gradient{name} is divided by {n}, the size of axis '{along}', along which the loss is whole"),
    )
    .help(format!(
        "sum the parts over '{along}' and leave it at that; only axes that cut the data divide gradients"
    ));
    for &op in way.ops.iter().rev() {
        let text = match module.name_str(op) {
            "dist.scale" => "the gradient is scaled here".to_owned(),
            name => format!(
                "'{name}' reduces it over {:?}",
                module.axes_attr(op, "axes")
            ),
        };
        diagnostic = diagnostic.note(Some(module.loc(op).into()), text);
    }
    Some(diagnostic.note(Some(module.loc(op).into()), "the optimizer reads it here"))
}

fn global(module: &Module, value: ValueId) -> Option<&str> {
    let op = module.defining_op(value)?;
    module.symbol_attr(op, "global")
}

/// What happens to a gradient on its way to the optimizer.
struct Way {
    /// By how much it is larger than what the backward pass made, summed over ranks.
    factor: f64,
    /// Ops that scale or reduce it, from the optimizer back.
    ops: Vec<OpId>,
    scales: Vec<OpId>,
    /// The last reduction.
    reduction: Option<OpId>,
}

impl Way {
    /// Follows a gradient back; `None` if its terms are scaled differently or not all is known.
    fn back_from(known: &Known, gradient: ValueId) -> Option<Self> {
        let module = known.module;
        let mut seen = HashSet::new();
        let mut open = vec![(gradient, 1.0)];
        let mut way = Self {
            factor: 0.0,
            ops: Vec::new(),
            scales: Vec::new(),
            reduction: None,
        };
        let mut factor: Option<f64> = None;
        while let Some((value, so_far)) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            let op = module.defining_op(value);
            let Some((op, name)) = op.map(|op| (op, module.name_str(op))) else {
                agree(&mut factor, so_far)?;
                continue;
            };
            match name {
                "dist.cast"
                | "dist.identity"
                | "dist.reshape"
                | "dist.clip"
                | "dist.clip_by_norm"
                | "dist.all_gather"
                | "dist.broadcast"
                | "dist.check_finite_and_unscale"
                | "dist.update_loss_scaling" => open.push((module.operand(op, 0), so_far)),
                // A clip factor and a gradient.
                "dist.mul" => {
                    let like = |&v: &ValueId| module.ty(v) == module.ty(value);
                    match module.operands(op).find(like) {
                        Some(operand) => open.push((operand, so_far)),
                        None => agree(&mut factor, so_far)?,
                    }
                }
                "dist.sum" => open.extend(module.operands(op).map(|v| (v, so_far))),
                "dist.scale" => {
                    let scale = module.f64_attr(op, "scale")?;
                    way.ops.push(op);
                    way.scales.push(op);
                    open.push((module.operand(op, 0), so_far * scale));
                }
                "dist.all_reduce" | "dist.reduce_scatter" => {
                    let times = reduced(known, op)?;
                    way.ops.push(op);
                    way.reduction.get_or_insert(op);
                    if times != 1.0 {
                        way.scales.push(op);
                    }
                    open.push((module.operand(op, 0), so_far * times));
                }
                _ => agree(&mut factor, so_far)?,
            }
        }
        way.factor = factor?;
        Some(way)
    }
}

/// Notes the factor of one term, which must be that of the others.
fn agree(factor: &mut Option<f64>, of_term: f64) -> Option<()> {
    let known = *factor.get_or_insert(of_term);
    ((known - of_term).abs() <= 1e-9 * known.abs()).then_some(())
}

/// By how much a reduction's result is larger than the sum of the parts that its operand is.
fn reduced(known: &Known, op: OpId) -> Option<f64> {
    let module = known.module;
    let mean = match module.str_attr(op, "reduction")? {
        "sum" => false,
        "avg" => true,
        _ => return None,
    };
    let layout = known.layouts.get(module.operand(op, 0))?;
    let mut times = 1.0;
    for axis in known.group(op) {
        let n = known.layouts.mesh.sizes()[axis] as f64;
        match (layout.on(axis), mean) {
            (Spread::Partial(Reduction::Sum), false) => {}
            (Spread::Replicated, true) if known.held[axis] => {}
            (Spread::Partial(Reduction::Sum), true) => times /= n,
            (Spread::Replicated, false) if known.held[axis] => times *= n,
            _ => return None,
        }
    }
    Some(times)
}
