//! The door to MLIR: modules go over as generic text with locations and come back the same way.
//!
//! The `dist` dialect is loaded from its IRDL description, so MLIR parses, verifies and keeps our ops without knowing what they
//! do. Its diagnostics become ours. Modules that nest deeper than MLIR's recursion bears are refused before they reach it.
//!
//! There are two ways through the door, which differ in where MLIR is. [`Process`] asks the program `raddle-mlir`, so who uses it
//! loads neither libMLIR nor libLLVM, and survives whatever happens there. The other is `InProcess` of the crate
//! `raddle-stock-mlir`, which has MLIR in its own process and which `raddle-mlir` is made of. This crate knows nothing of MLIR's
//! libraries, so a program that does not name that other one is linked without them.

mod depth;
mod process;
pub mod wire;

use std::sync::Arc;

use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, Module};
use raddle_dialect::syntax::{self, ParseOptions, PrintOptions};

pub use depth::{MAX_BRACKETS, MAX_DEPTH};
pub use process::Process;

/// What MLIR may do.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Ops of dialects that MLIR does not know are accepted.
    pub allow_unregistered: bool,
}

/// What MLIR does with a module that it reads, as text or bytecode.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Job {
    /// Run this pass pipeline and print the module.
    Pipeline(String),
    /// Write the module as bytecode.
    Bytecode,
    /// Print the module.
    Text,
}

/// A way to MLIR.
pub trait Door {
    /// Lets MLIR read `input` and do a job with it; returns what it prints or writes.
    ///
    /// Nothing is returned, and `diagnostics` say why, if MLIR is not to be had, refuses the input, or fails.
    fn ask(
        &mut self,
        cx: &Context,
        job: &Job,
        input: &[u8],
        options: Options,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<u8>>;

    /// Runs a textual MLIR pass pipeline, `builtin.module(…)`, on a module, and reads the result back.
    ///
    /// Nothing is returned, and `diagnostics` say why, if the module nests too deep, MLIR refuses it or the pipeline, or a pass
    /// fails.
    fn run_pipeline(
        &mut self,
        module: &Module,
        pipeline: &str,
        options: Options,
        diagnostics: &mut Diagnostics,
    ) -> Option<Module> {
        let text = over(module, diagnostics)?;
        let job = Job::Pipeline(pipeline.to_owned());
        let output = self.ask(module.cx(), &job, &text, options, diagnostics)?;
        back(module.cx(), &output, diagnostics)
    }

    /// Writes a module as MLIR bytecode.
    ///
    /// Nothing is returned, and `diagnostics` say why, if the module nests too deep or MLIR refuses it.
    fn write_bytecode(
        &mut self,
        module: &Module,
        options: Options,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<u8>> {
        let text = over(module, diagnostics)?;
        self.ask(module.cx(), &Job::Bytecode, &text, options, diagnostics)
    }

    /// Reads MLIR bytecode.
    ///
    /// MLIR's reader believes what it reads: damaged bytecode may crash the process that MLIR is in, or never come to an end.
    ///
    /// Nothing is returned, and `diagnostics` say why, if it is not bytecode that this MLIR and this version of `dist` can read.
    fn read_bytecode(
        &mut self,
        cx: &Arc<Context>,
        bytes: &[u8],
        options: Options,
        diagnostics: &mut Diagnostics,
    ) -> Option<Module> {
        let output = self.ask(cx, &Job::Text, bytes, options, diagnostics)?;
        back(cx, &output, diagnostics)
    }
}

/// Whether these bytes are MLIR bytecode.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ML\xefR")
}

/// The module as text for MLIR, generic and with locations.
///
/// Nothing is returned, and `diagnostics` say why, if the module nests too deep.
pub fn over(module: &Module, diagnostics: &mut Diagnostics) -> Option<Vec<u8>> {
    depth::of_ops(module, diagnostics)?;
    let options = PrintOptions {
        generic: true,
        debug_info: true,
        ..PrintOptions::default()
    };
    let text = syntax::print(module, options).into_bytes();
    depth::of_brackets(module, &text, diagnostics)?;
    Some(text)
}

fn back(cx: &Arc<Context>, text: &[u8], diagnostics: &mut Diagnostics) -> Option<Module> {
    let source = Source::new("<mlir>", text);
    let options = ParseOptions {
        allow_unregistered: true,
    };
    syntax::parse(cx, &source, options, diagnostics)
}
