//! Text to IR and back.
//!
//! MLIR's own text: the generic form of any op, and the short forms of `dist`, `builtin.module`, `func`, `cf` and `arith`.
//! The lexer is made by logos, the parser by lalrpop from `grammar.lalrpop`; its actions build the module as they go.

mod build;
mod cache;
mod error;
mod lexer;
pub mod print;
pub mod text;
mod token;

#[allow(
    clippy::all,
    dead_code,
    unused_imports,
    unused_parens,
    unused_variables
)]
mod grammar {
    //! Made from `grammar.lalrpop`.
    include!(concat!(env!("OUT_DIR"), "/grammar.rs"));
}

pub use print::{Displayed, PrintOptions, Printable, print, value_named, write};

use std::cell::RefCell;
use std::sync::Arc;

use crate::diag::{Diagnostic, Diagnostics, Source};
use crate::ir::{Context, Module};

/// What the parser accepts.
#[derive(Clone, Copy, Default, Debug)]
pub struct ParseOptions {
    /// Ops, types and attributes of dialects that are not registered are read; without this they are errors.
    pub allow_unregistered: bool,
}

/// Reads a module. A text that is not one `builtin.module` becomes the body of one.
///
/// Ops without a written location get the place of their name in the text. What is wrong is added to `diagnostics`; then there
/// is no module.
pub fn parse(
    cx: &Arc<Context>,
    source: &Source<'_>,
    options: ParseOptions,
    diagnostics: &mut Diagnostics,
) -> Option<Module> {
    let text = source.text();
    if u32::try_from(text.len()).is_err() {
        diagnostics.push(
            Diagnostic::error("E0105", 0..0, "text is larger than 4 GiB")
                .help("split the program into several files"),
        );
        return None;
    }
    let cache = RefCell::default();
    let mut builder = build::Builder::new(cx, source, options, &cache);
    let lexer = lexer::Lexer::new(text, &cache);
    let parsed = grammar::FileParser::new()
        .parse(&mut builder, lexer)
        .and_then(|()| builder.finish());
    match parsed {
        Ok(module) => Some(module),
        Err(failure) => {
            diagnostics.push(error::diagnostic(failure, text));
            None
        }
    }
}
