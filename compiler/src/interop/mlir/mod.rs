//! The door to MLIR, through melior: modules go over as generic text with locations and come back the same way.
//!
//! The `dist` dialect is loaded from its IRDL description, so MLIR parses, verifies and keeps our ops without knowing what they
//! do. MLIR runs in a thread of its own with a large stack, since it recurses; modules that nest deeper than that are
//! refused before they reach it. Its diagnostics become ours.

mod exchange;
mod execute;

use std::sync::Arc;

use raddle_dialect::diag::{Diagnostic, Diagnostics, Severity, Source};
use raddle_dialect::ir::{Context, Loc, Module};
use raddle_dialect::syntax::{self, ParseOptions, PrintOptions};

/// Ops inside one another that MLIR is trusted with.
pub const MAX_DEPTH: usize = 1000;

/// Brackets inside one another that MLIR is trusted with: attributes and types nest too.
pub const MAX_BRACKETS: usize = 20_000;

/// Stack of the thread that MLIR runs in, in bytes.
const STACK_BYTES: usize = 512 << 20;

pub use execute::{Array, COMPILE_PIPELINE, execute};

/// What MLIR may do.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Ops of dialects that MLIR does not know are accepted.
    pub allow_unregistered: bool,
}

/// File, line and column.
type Position = (String, u32, u32);

/// What MLIR said, before it is turned into one of our diagnostics.
struct Message {
    severity: Severity,
    /// Where, if MLIR knew.
    at: Option<Position>,
    text: String,
    notes: Vec<(Option<Position>, String)>,
}

/// What is asked of MLIR.
enum Job {
    /// Run this pass pipeline and print the module.
    Pipeline(String),
    /// Write the module as bytecode.
    Bytecode,
    /// Print the module.
    Text,
    /// Compile the module, which is in the `llvm` dialect, and call one of its functions.
    Execute(execute::Invocation),
}

/// Runs a textual MLIR pass pipeline, `builtin.module(…)`, on a module, and reads the result back.
///
/// Nothing is returned, and `diagnostics` say why, if the module nests too deep, MLIR refuses it or the pipeline, or a pass
/// fails.
pub fn run_pipeline(
    module: &Module,
    pipeline: &str,
    options: Options,
    diagnostics: &mut Diagnostics,
) -> Option<Module> {
    let text = over(module, diagnostics)?;
    let job = Job::Pipeline(pipeline.to_owned());
    let output = ask(module.cx(), text, job, options, diagnostics)?;
    back(module.cx(), &output, diagnostics)
}

/// Writes a module as MLIR bytecode.
///
/// Nothing is returned, and `diagnostics` say why, if the module nests too deep or MLIR refuses it.
pub fn to_bytecode(
    module: &Module,
    options: Options,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<u8>> {
    let text = over(module, diagnostics)?;
    ask(module.cx(), text, Job::Bytecode, options, diagnostics)
}

/// Reads MLIR bytecode.
///
/// MLIR's reader believes what it reads: damaged bytecode may crash the process or never come to an end. Bytecode that is not
/// trusted is better read in a process of its own, as `raddle-opt` does.
///
/// Nothing is returned, and `diagnostics` say why, if it is not bytecode that this MLIR and this version of `dist` can read.
pub fn from_bytecode(
    cx: &Arc<Context>,
    bytes: &[u8],
    options: Options,
    diagnostics: &mut Diagnostics,
) -> Option<Module> {
    let output = ask(cx, bytes.to_vec(), Job::Text, options, diagnostics)?;
    back(cx, &output, diagnostics)
}

/// Whether these bytes are MLIR bytecode.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ML\xefR")
}

/// The module as text for MLIR, unless it nests too deep.
fn over(module: &Module, diagnostics: &mut Diagnostics) -> Option<Vec<u8>> {
    if let Some((loc, depth)) = too_deep(module) {
        diagnostics.push(
            Diagnostic::error(
                "E0801",
                loc,
                format!("ops nest {depth} deep here, more than MLIR can be given"),
            )
            .help(format!(
                "MLIR recurses into regions; at most {MAX_DEPTH} levels are passed on"
            )),
        );
        return None;
    }
    let options = PrintOptions {
        generic: true,
        debug_info: true,
        ..PrintOptions::default()
    };
    let text = syntax::print(module, options).into_bytes();
    let brackets = nesting(&text);
    if brackets > MAX_BRACKETS {
        let message = format!("brackets nest {brackets} deep, more than MLIR can be given");
        diagnostics.push(
            Diagnostic::error("E0801", module.loc(module.root()), message).help(format!(
                "MLIR recurses into attributes and types; at most {MAX_BRACKETS} levels are passed on"
            )),
        );
        return None;
    }
    Some(text)
}

/// How deep brackets of any kind nest in a text, strings and arrows apart.
fn nesting(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(byte) = bytes.next().filter(|&b| b != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'-' if bytes.peek() == Some(&b'>') => {
                bytes.next();
            }
            b'>' if bytes.peek() == Some(&b'=') => {}
            b'(' | b'[' | b'{' | b'<' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn too_deep(module: &Module) -> Option<(Loc, usize)> {
    let mut depth = vec![0usize; module.op_capacity()];
    for op in module.walk_all() {
        let own = module.parent_op(op).map_or(0, |p| depth[p.index()] + 1);
        depth[op.index()] = own;
        if own > MAX_DEPTH {
            return Some((module.loc(op), own));
        }
    }
    None
}

fn back(cx: &Arc<Context>, text: &[u8], diagnostics: &mut Diagnostics) -> Option<Module> {
    let source = Source::new("<mlir>", text);
    let options = ParseOptions {
        allow_unregistered: true,
    };
    syntax::parse(cx, &source, options, diagnostics)
}

/// Does the job in a thread with a stack that MLIR cannot exhaust within [`MAX_DEPTH`].
fn ask(
    cx: &Context,
    input: Vec<u8>,
    job: Job,
    options: Options,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<u8>> {
    let irdl = raddle_dialect::ops::irdl();
    let work = move || exchange::run(&input, &irdl, job, options);
    let thread = std::thread::Builder::new()
        .name("mlir".into())
        .stack_size(STACK_BYTES)
        .spawn(work);
    let (output, messages) = match thread.map(|t| t.join()) {
        Ok(Ok(done)) => done,
        Ok(Err(_)) | Err(_) => {
            let loc = cx.unknown_loc();
            diagnostics.push(Diagnostic::error("E0802", loc, "MLIR could not be run"));
            return None;
        }
    };
    for message in messages {
        diagnostics.push(ours(cx, message));
    }
    output
}

fn ours(cx: &Context, message: Message) -> Diagnostic {
    let place = |at: Option<Position>| match at {
        Some((file, line, col)) => cx.file_loc(&file, line, col),
        None => cx.unknown_loc(),
    };
    let mut diagnostic =
        Diagnostic::new(message.severity, "E0803", place(message.at), message.text);
    for (at, text) in message.notes {
        diagnostic = diagnostic.note(at.map(|at| place(Some(at)).into()), text);
    }
    diagnostic
}

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn brackets_count_outside_strings_and_arrows() {
        assert_eq!(
            nesting(br#""t.op"() {a = [[1]], b = "((((\"((("} : () -> ()"#),
            3
        );
        assert_eq!(
            nesting(b"affine_set<(d0) : (d0 >= 0, d0 - 4 == 0)> -> ->"),
            2
        );
    }
}
