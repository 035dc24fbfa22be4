//! Gradients that nobody reads.

use raddle_dialect::ir::{NewOp, OpId, Rewriter};
use raddle_dialect::ops::Count;

use crate::pass::Pattern;

/// Takes unused optional results off an op whose results are computed independently of each other.
pub struct UnusedGradient;

impl Pattern for UnusedGradient {
    fn roots(&self) -> &'static [&'static str] {
        &[
            "dist.add_grad",
            "dist.fused_linear",
            "dist.fused_linear_grad",
            "dist.layer_norm_grad",
            "dist.matmul_grad",
            "dist.mul_grad",
        ]
    }

    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        let Some(def) = rewriter.def_of(op) else {
            return false;
        };
        let Ok(segments) = rewriter.result_segments(op, def) else {
            return false;
        };
        let is_unused = |index: usize| rewriter.is_unused(rewriter.result(op, index));
        let mut kept = Vec::new();
        let mut sizes = Vec::new();
        for (group, range) in def.results.iter().zip(segments) {
            let drop = group.count == Count::Optional && range.clone().all(is_unused);
            let range = if drop {
                range.start..range.start
            } else {
                range
            };
            sizes.push(range.len() as i32);
            kept.extend(range);
        }
        if kept.len() == rewriter.num_results(op) || kept.is_empty() {
            return false;
        }
        let cx = rewriter.cx().clone();
        let varying = def.results.iter().filter(|g| g.count != Count::One).count();
        let attrs = match varying {
            0 | 1 => rewriter.attrs(op),
            _ => cx.dict_with(
                rewriter.attrs(op),
                "resultSegmentSizes",
                Some(cx.i32_array(&sizes)),
            ),
        };
        let operands: Vec<_> = rewriter.operands(op).collect();
        let results: Vec<_> = kept
            .iter()
            .map(|&i| rewriter.ty(rewriter.result(op, i)))
            .collect();
        let (name, loc, props) = (rewriter.name(op), rewriter.loc(op), rewriter.props(op));
        let new = rewriter.before(op).create(NewOp {
            operands: &operands,
            results: &results,
            attrs,
            props,
            ..NewOp::new(name, loc, &cx)
        });
        for (at, &index) in kept.iter().enumerate() {
            let (old, new) = (rewriter.result(op, index), rewriter.result(new, at));
            rewriter.replace_uses(old, new);
        }
        rewriter.erase(op);
        true
    }
}
