//! MLIR bytecode in, through a process of its own.
//!
//! MLIR's reader believes what it reads: on damaged bytecode it may crash or never end. So `raddle-opt` starts itself once
//! more to turn bytecode into text, and a crash there is a diagnostic here.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use raddle_compiler::interop::mlir;
use raddle_dialect::diag::{Diagnostic, Diagnostics, Source};
use raddle_dialect::ir::{Context, Module};
use raddle_dialect::syntax::{self, ParseOptions, PrintOptions};

/// The flag with which the second process is started.
pub const FLAG: &str = "--bytecode-to-text";

/// How long the second process may take for a small input, and how many bytes buy it another second.
const PATIENCE: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: usize = 100_000;

/// Reads bytecode.
///
/// Nothing is returned, and `diagnostics` say why, if MLIR cannot read it, or crashes or hangs on it.
pub fn read(
    cx: &Arc<Context>,
    bytes: &[u8],
    options: mlir::Options,
    diagnostics: &mut Diagnostics,
) -> Option<Module> {
    let outcome = match convert(bytes, options) {
        Ok(outcome) => outcome,
        Err(error) => {
            let message = format!("the process that reads bytecode cannot be run: {error}");
            diagnostics.push(Diagnostic::error("E0802", cx.unknown_loc(), message));
            return None;
        }
    };
    match outcome.status {
        Some(status) if status.success() => {
            let source = Source::new("<mlir>", &outcome.text);
            let options = ParseOptions {
                allow_unregistered: true,
            };
            return syntax::parse(cx, &source, options, diagnostics);
        }
        Some(status) if status.code() == Some(1) => {
            for message in outcome.said.lines() {
                diagnostics.push(Diagnostic::error("E0803", cx.unknown_loc(), message));
            }
        }
        Some(status) => diagnostics.push(damaged(cx, &format!("crashes on it ({status})"))),
        None => diagnostics.push(damaged(cx, "does not come to an end with it")),
    }
    None
}

fn damaged(cx: &Context, what: &str) -> Diagnostic {
    let message = format!("this bytecode is damaged: MLIR's reader {what}");
    Diagnostic::error("E0804", cx.unknown_loc(), message)
        .help("write it anew, with `raddle-opt --emit-bytecode` or `mlir-opt --emit-bytecode`")
}

/// The second process: bytecode from `input` to text on `output`; false, and the reasons on standard error, one a line, if it
/// cannot be read.
///
/// # Errors
/// If the streams fail.
pub fn to_text(
    mut input: impl Read,
    mut output: impl Write,
    options: mlir::Options,
) -> io::Result<bool> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let mut diagnostics = Diagnostics::new();
    let Some(module) = mlir::from_bytecode(&Context::new(), &bytes, options, &mut diagnostics)
    else {
        for diagnostic in diagnostics.take() {
            eprintln!("{}", diagnostic.message.replace('\n', " "));
        }
        return Ok(false);
    };
    let form = PrintOptions {
        generic: true,
        debug_info: true,
        ..PrintOptions::default()
    };
    syntax::write(&module, form, &mut output)?;
    Ok(true)
}

/// What became of the second process.
struct Outcome {
    text: Vec<u8>,
    said: String,
    /// None if its time was up.
    status: Option<ExitStatus>,
}

fn convert(bytes: &[u8], options: mlir::Options) -> io::Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(FLAG);
    if options.allow_unregistered {
        command.arg("--allow-unregistered-dialect");
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        // A process that ends early closes its end; that it did so is told by its status.
        scope.spawn(move || stdin.map(|mut pipe| pipe.write_all(bytes)));
        let text = scope.spawn(move || drain(stdout));
        let said = scope.spawn(move || drain(stderr));
        let limit = PATIENCE + Duration::from_secs((bytes.len() / BYTES_PER_SECOND) as u64);
        let status = wait(&mut child, limit);
        let text = text.join().unwrap_or_default();
        let said = said.join().unwrap_or_default();
        Ok(Outcome {
            text,
            said: String::from_utf8_lossy(&said).into_owned(),
            status: status?,
        })
    })
}

fn drain(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What came before a failure is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}

/// Waits for the process and stops it when its time is up.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
