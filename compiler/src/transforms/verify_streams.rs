//! `verify-streams`: checks that ops on several streams wait for each other where they must.
//!
//! The module stays as it is; see [`analysis::streams`](crate::analysis::streams) for what is checked.

use raddle_dialect::diag::Severity;
use raddle_dialect::ir::{Module, OpId};

use crate::analysis::streams;
use crate::pass::{Anchor, Failed, Pass, PassCx, PassDef};

/// The pass.
pub static DEF: PassDef = PassDef {
    name: "verify-streams",
    summary: "check that streams wait for each other where they must",
    description: "An error for every value that is read before it is there, storage that ends while another stream may read it, receive \
                  that is queued behind an unrelated one, and channel that carries messages both ways or is not opened in one order.",
    anchor: Anchor::Top,
    options: &[],
    build: |_| Box::new(VerifyStreams),
};

struct VerifyStreams;

impl Pass for VerifyStreams {
    fn run(&self, module: &mut Module, _: OpId, cx: &mut PassCx) -> Result<(), Failed> {
        let found = streams::check(module);
        let failed = found.iter().any(|d| d.severity == Severity::Error);
        found.into_iter().for_each(|d| cx.report(d));
        match failed {
            true => Err(Failed),
            false => Ok(()),
        }
    }
}
