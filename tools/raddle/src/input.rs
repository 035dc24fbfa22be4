//! A module file, read, with what there is to say of it shown.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Context as _, Result};
use raddle_dialect::diag::{Diagnostics, Format, RenderOptions, Source, render};
use raddle_dialect::ir::{Context, Module};
use raddle_dialect::syntax::{ParseOptions, parse};

/// Parses a file and makes something of the module; `None` if the file or the module is wrong. The diagnostics of both go to
/// standard error.
///
/// # Errors
/// If the file cannot be read.
pub fn load<T>(
    path: &Path,
    make: impl FnOnce(Module, &mut Diagnostics) -> Option<T>,
) -> Result<Option<T>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.display().to_string();
    let source = Source::new(&name, &text);
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
    let made = module.and_then(|module| make(module, &mut diagnostics));
    let options = RenderOptions {
        format: Format::Pretty,
        color: io::stderr().is_terminal(),
    };
    for diagnostic in diagnostics.iter() {
        eprint!("{}", render(diagnostic, &source, &cx, options));
    }
    Ok(made)
}
