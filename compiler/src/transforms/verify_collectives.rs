//! `verify-collectives`: all ranks of a group come to the same collectives in the same order, and every send to its receive.
//!
//! Changes nothing. What hangs on real machines, or mixes up data, is an error here:
//!
//! ```text
//! module @a attributes {dist.ranks = [{mp = array<i64: 0>}]} {   module @b attributes {dist.ranks = [{mp = array<i64: 1>}]} {
//!   %1 = dist.all_reduce sum %0 over ["mp"] : tensor<4xf32>        %1 = dist.all_reduce max %0 over ["mp"] : tensor<4xf32>
//! }                                                              }
//! error: '@a' and '@b' come to calls that do not fit: they differ in 'reduction' [E0401]
//! ```

use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{Module, OpId};

use crate::analysis::meetings;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "verify-collectives",
    summary: "check that all rank classes of a group issue the same collectives in the same order",
    description: "For each kind of function, the rank classes are played against each other: kind, reduction, axes, type, shape, \
                  root and order of collectives must agree within every group, and every send must meet a receive with its tag \
                  and type. A mismatch is an error that shows both sides. Sends and receives of scheduled jobs (forward, \
                  backward) are paired by tag only. Changes nothing.",
    anchor: Anchor::Top,
    options: &[],
    build: |_| Box::new(VerifyCollectives),
};

struct VerifyCollectives;

impl Pass for VerifyCollectives {
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        report(meetings::check(module, target), cx)
    }
}

/// Passes on what a check found.
///
/// # Errors
/// If any of it is an error.
pub(super) fn report(found: Vec<Diagnostic>, cx: &mut PassCx) -> Result<(), Failed> {
    let failed = found.iter().any(|d| d.severity == Severity::Error);
    for diagnostic in found {
        cx.report(diagnostic);
    }
    if failed { Err(Failed) } else { Ok(()) }
}
