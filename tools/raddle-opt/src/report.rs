//! Diagnostics to standard error.

use std::io::{self, IsTerminal, Write};

use raddle_dialect::diag::{Diagnostic, Format, RenderOptions, Source, render};
use raddle_dialect::ir::Context;

use crate::options::DiagnosticFormat;

/// Where and how diagnostics are shown.
pub struct Reporter {
    options: RenderOptions,
}

impl Reporter {
    /// Colours only for people: when standard error is a terminal.
    pub fn new(format: DiagnosticFormat) -> Self {
        Self {
            options: RenderOptions {
                format: match format {
                    DiagnosticFormat::Plain => Format::Plain,
                    DiagnosticFormat::Pretty => Format::Pretty,
                },
                color: io::stderr().is_terminal(),
            },
        }
    }

    /// Shows diagnostics that point into `source`.
    pub fn show(&self, diagnostics: &[Diagnostic], source: &Source<'_>, cx: &Context) {
        let mut out = io::BufWriter::new(io::stderr().lock());
        for diagnostic in diagnostics {
            // Nothing more can be said where standard error is closed.
            let _ = out.write_all(render(diagnostic, source, cx, self.options).as_bytes());
        }
    }
}
