//! Ops that give back their operand.

use raddle_dialect::ir::{Module, OpId, Rewriter};

use crate::pass::Pattern;

/// Replaces an op that changes nothing by its operand.
pub struct Unchanged;

impl Pattern for Unchanged {
    fn roots(&self) -> &'static [&'static str] {
        &[
            "dist.any_of",
            "dist.cast",
            "dist.concat",
            "dist.identity",
            "dist.reduce_any",
            "dist.reduce_max",
            "dist.reduce_mean",
            "dist.reduce_sum",
            "dist.reshape",
            "dist.scale",
            "dist.slice",
            "dist.split",
            "dist.sum",
            "dist.transpose",
        ]
    }

    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        if rewriter.num_operands(op) != 1 || rewriter.num_results(op) != 1 {
            return false;
        }
        let operand = rewriter.operand(op, 0);
        let same_type = rewriter.ty(operand) == rewriter.ty(rewriter.result(op, 0));
        if !same_type || !keeps_elements(rewriter, op) {
            return false;
        }
        rewriter.replace(op, &[operand]);
        true
    }
}

/// Whether the result is the operand, given that they have the same type.
fn keeps_elements(module: &Module, op: OpId) -> bool {
    let list = |name| {
        module
            .attr(op, name)
            .and_then(|a| module.cx().as_i64_array(a))
    };
    match module.name_str(op) {
        "dist.scale" => {
            module.f64_attr(op, "scale") == Some(1.0) && module.f64_attr(op, "bias") == Some(0.0)
        }
        "dist.transpose" => list("perm").is_some_and(|p| p.is_sorted()),
        // Dimensions may be of extent 1 only, or the type would differ.
        "dist.reduce_any" | "dist.reduce_max" | "dist.reduce_mean" | "dist.reduce_sum" => {
            list("dims").is_some_and(|dims| {
                dims.is_empty() || module.bool_attr(op, "keep_dims") == Some(true)
            })
        }
        // A window as large as the dimension starts at 0, on every rank.
        _ => true,
    }
}
