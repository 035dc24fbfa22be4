//! `verify-spmd`: what ranks compute together is what the ops say.
//!
//! Along every mesh axis a value is whole on each rank, cut among them, or a part of a sum. Changes nothing; an op that takes one for
//! the other is an error that shows how the value came to be what it is:
//!
//! ```text
//! %p = dist.matmul %x, %w                  // w is cut along "mp", so p is a part of a sum
//! %b = dist.load @b                        // whole on every rank
//! %s = dist.add %p, %b                     // error: b would count once per rank [E0348]
//! %r = dist.all_reduce sum %s over ["mp"]
//! ```

use raddle_dialect::ir::{Module, OpId};

use super::verify_collectives::report;
use crate::analysis::spmd;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "verify-spmd",
    summary: "check that no partial sum is read as whole, none is reduced twice, and gradients keep their size",
    description: "Infers for every value and mesh axis whether it is replicated, sharded or partial, from the layouts of inputs and \
                  globals and the rule of each op, and reports with the path of values that led there: a partial value read as \
                  whole, a bias added on every rank before a sum, a reduction that is missing or done twice, a collective over \
                  the wrong axis, a gradient divided by the size of an axis along which the loss is whole. What follows from \
                  inputs without a layout is not checked, which a remark says. Changes nothing.",
    anchor: Anchor::Top,
    options: &[],
    build: |_| Box::new(VerifySpmd),
};

struct VerifySpmd;

impl Pass for VerifySpmd {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        report(spmd::check(module, target), cx)
    }
}
