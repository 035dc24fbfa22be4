//! `dce`: erases ops whose results nobody uses and that do nothing else.
//!
//! ```text
//! %0 = dist.load @w : tensor<4xf32>                      dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
//! %1 = dist.gelu %0 : tensor<4xf32>              ──▶
//! %2 = dist.all_reduce sum %x over ["mp"] : tensor<4xf32>
//! ```
//!
//! A load that nobody reads goes; a store or an accumulation stays, and so does every collective: the other ranks of its group wait for it.

use raddle_dialect::ir::{Module, OpId, Rewriter};
use raddle_dialect::ops::{Effects, meets_others};

use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "dce",
    summary: "erase ops whose results are not used",
    description: "Erases pure ops and loads whose results are not used, and then what only they used. Stores, accumulations, \
                  collectives, ops with regions and ops of unknown dialects stay.",
    anchor: Anchor::Any,
    options: &[],
    build: |_| Box::new(Dce),
};

struct Dce;

impl Pass for Dce {
    fn run(&self, module: &mut Module, target: OpId, _: &mut PassCx) -> Result<(), Failed> {
        erase_dead(&mut Rewriter::new(module), target);
        Ok(())
    }
}

/// Erases all dead ops inside `target`, and says how many.
pub fn erase_dead(rewriter: &mut Rewriter, target: OpId) -> usize {
    // Users come after what they use, so taking the last op first meets most dead chains in one go.
    let list: Vec<_> = rewriter.walk(target).skip(1).collect();
    erase_dead_among(rewriter, list)
}

/// Erases the dead ones of these ops, and what only they used.
pub fn erase_dead_among(rewriter: &mut Rewriter, mut list: Vec<OpId>) -> usize {
    let mut erased = 0;
    while let Some(op) = list.pop() {
        if rewriter.is_erased(op) || !is_dead(rewriter, op) {
            continue;
        }
        let operands: Vec<_> = rewriter.operands(op).collect();
        let definitions = operands.into_iter().filter_map(|v| rewriter.defining_op(v));
        list.extend(definitions.collect::<Vec<_>>());
        rewriter.erase(op);
        erased += 1;
    }
    erased
}

/// Whether an op can be erased: nothing uses its results, and it does nothing besides computing them.
pub fn is_dead(module: &Module, op: OpId) -> bool {
    let Some(def) = module.def_of(op) else {
        return false;
    };
    let silent = match def.effects {
        Effects::Pure | Effects::Reads | Effects::Draws => true,
        Effects::Communicates => !meets_others(module, op),
        _ => false,
    };
    silent
        && !def.traits.terminator
        && !def.traits.symbol
        && module.regions(op).is_empty()
        && module.results(op).all(|r| module.is_unused(r))
}
