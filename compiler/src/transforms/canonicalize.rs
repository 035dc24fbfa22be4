//! `canonicalize`: brings each op into its simplest form, until nothing changes.

use raddle_dialect::ir::{Module, OpId, Rewriter};

use super::dce::is_dead;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef, Pattern, PatternSet, rewrite_greedily};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "canonicalize",
    summary: "bring each op into its simplest form",
    description: "Erases dead ops, until nothing changes.",
    anchor: Anchor::Any,
    options: &[],
    build: |_| Box::new(Canonicalize),
};

struct Canonicalize;

impl Pass for Canonicalize {
    fn run(&self, module: &mut Module, target: OpId, _: &mut PassCx) -> Result<(), Failed> {
        let cx = module.cx().clone();
        let patterns = PatternSet::new(&cx, vec![Box::new(Dead)]);
        rewrite_greedily(&mut Rewriter::new(module), target, &patterns);
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
