//! `canonicalize`: brings each op into its simplest form, until nothing changes.
//!
//! ```text
//! %1 = dist.identity %0                                    %4 = dist.transpose %0 {perm = array<i64: 1, 0, 2>}
//! %2 = dist.transpose %1 {perm = array<i64: 1, 2, 0>}  ──▶ %6 = dist.add_grad %a, %b, %4      (only the gradient of b)
//! %3 = dist.scale %2 {scale = 1.0 : f64}
//! %4 = dist.transpose %3 {perm = array<i64: 0, 2, 1>}
//! %5, %6 = dist.add_grad %a, %b, %4       (%5 unused)
//! ```
//!
//! Dead ops go, as in `dce`. Stores stay, and so do collectives, also over axes of size 1: whether the others of a group skip
//! one too is not for a local rewrite to say. Nothing that rounds is changed: two casts are not one, and a sum is not reordered.

mod chains;
mod gradients;
mod operands;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::{Module, OpId, Rewriter};

use super::dce::is_dead;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef, Pattern, PatternSet, rewrite_greedily};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "canonicalize",
    summary: "bring each op into its simplest form",
    description: "Erases dead ops; replaces ops that change nothing (identity, cast, reshape, slice, transpose, scale by 1, sum, \
                  concat or any_of of one) by their operand; joins chains of reshapes, of transposes and of scales by powers of \
                  two; takes unused gradients off gradient ops. Stores and collectives stay.",
    anchor: Anchor::Any,
    options: &[],
    build: |_| Box::new(Canonicalize),
};

struct Canonicalize;

impl Pass for Canonicalize {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let context = module.cx().clone();
        let patterns: Vec<Box<dyn Pattern>> = vec![
            Box::new(Dead),
            Box::new(operands::Unchanged),
            Box::new(chains::Reshapes),
            Box::new(chains::Transposes),
            Box::new(chains::Scales),
            Box::new(gradients::UnusedGradient),
        ];
        let patterns = PatternSet::new(&context, patterns);
        let outcome = rewrite_greedily(&mut Rewriter::new(module), target, &patterns);
        if outcome.cut_off {
            let loc = module.loc(target);
            cx.report(Diagnostic::warning(
                "W0602",
                loc,
                format!("canonicalize stopped after {} rewrites", outcome.rewrites),
            ));
        }
        Ok(())
    }
}

/// Erases an op that is dead.
struct Dead;

impl Pattern for Dead {
    fn roots(&self) -> &'static [&'static str] {
        &[]
    }

    fn rewrite(&self, op: OpId, rewriter: &mut Rewriter) -> bool {
        let dead = is_dead(rewriter, op);
        if dead {
            rewriter.erase(op);
        }
        dead
    }
}
