//! Diagnostics on standard error.

use raddle_dialect::diag::{Diagnostics, Format, RenderOptions, Source, render};
use raddle_dialect::ir::Context;

/// Shows all findings, with marks where they point into `source`.
pub fn show(found: &Diagnostics, source: &Source<'_>, cx: &Context) {
    let options = RenderOptions {
        format: Format::Pretty,
        color: false,
    };
    for diagnostic in found.iter() {
        eprint!("{}", render(diagnostic, source, cx, options));
    }
}
