//! The calls into MLIR. All `unsafe` of the door is here.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::fmt::{Display, Write};
use std::rc::Rc;

use melior::Context;
use melior::diagnostic::{Diagnostic, DiagnosticSeverity};
use melior::dialect::DialectRegistry;
use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use melior::ir::{Location, Module};
use melior::pass::PassManager;
use melior::utility::{
    load_irdl_dialects, parse_pass_pipeline, register_all_dialects, register_all_passes,
};

use raddle_compiler::interop::mlir::wire::{Answer, Level, Message, Position};
use raddle_compiler::interop::mlir::{Job, Options};

use crate::execute::{self, Invocation};

/// What is done with a module.
pub enum Task<'j> {
    /// What every door offers.
    Job(&'j Job),
    /// Compile the module, which is in the `llvm` dialect, and call one of its functions.
    Execute(Invocation),
}

/// Parses the input, does the task, and returns its output, if it could be done, with what MLIR said.
pub fn run(input: &[u8], irdl: &str, task: Task<'_>, options: Options) -> Answer {
    let said = Rc::new(RefCell::new(Vec::new()));
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let context = Context::new_with_registry(&registry, false);
    context.load_all_available_dialects();
    context.set_allow_unregistered_dialects(options.allow_unregistered);
    let heard = said.clone();
    let handler = context.attach_diagnostic_handler(move |diagnostic| {
        heard.borrow_mut().push(message(&diagnostic));
        true
    });
    let output = work(&context, input, irdl, task, &said);
    context.detach_diagnostic_handler(handler);
    drop(context);
    Answer {
        output,
        messages: said.take(),
    }
}

fn work(
    context: &Context,
    input: &[u8],
    irdl: &str,
    task: Task<'_>,
    said: &RefCell<Vec<Message>>,
) -> Option<Vec<u8>> {
    // The IRDL module's ops define the dialect as long as the context lives.
    let definitions = Module::parse(context, irdl)?;
    if !load_irdl_dialects(&definitions) {
        return None;
    }
    let mut module = parse(context, input)?;
    if let Task::Job(Job::Pipeline(pipeline)) = &task {
        register_all_passes();
        let manager = PassManager::new(context);
        let parsed = parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline);
        if let Err(error) = parsed {
            let text = format!("MLIR does not take this pass pipeline: {error}");
            said.borrow_mut().push(Message::error(text));
            return None;
        }
        manager.run(&mut module).ok()?;
    }
    match task {
        Task::Execute(invocation) => Some(execute::invoke(context, &module, invocation)),
        Task::Job(Job::Bytecode) => Some(module.as_operation().write_bytecode()),
        Task::Job(Job::Pipeline(_) | Job::Text) => {
            let flags = OperationPrintingFlags::new()
                .print_generic_operation_form()
                .enable_debug_info(true, false);
            let text = module.as_operation().to_string_with_flags(flags).ok()?;
            Some(text.into_bytes())
        }
    }
}

/// An object of MLIR's C interface.
#[repr(C)]
struct Handle {
    ptr: *const c_void,
}

/// `MlirStringRef`.
#[repr(C)]
struct Text {
    data: *const c_char,
    length: usize,
}

// Declared here, and not taken from the crate that binds it: so this crate's build script, which says what to do where MLIR is
// missing, need not wait for that crate's.
unsafe extern "C" {
    fn mlirModuleCreateParse(context: Handle, module: Text) -> Handle;
}

/// Reads text or bytecode. melior takes text only.
fn parse<'c>(context: &'c Context, input: &[u8]) -> Option<Module<'c>> {
    let handle = Handle {
        ptr: context.to_raw().ptr,
    };
    let text = Text {
        data: input.as_ptr().cast(),
        length: input.len(),
    };
    // A module of the binding's type, to be pointed at the one that is read.
    let mut raw = Module::new(Location::unknown(context)).to_raw();
    // SAFETY: `text` covers `input`, which outlives the call; the context is alive. The result is null or a module that
    // nothing else owns.
    unsafe {
        raw.ptr = mlirModuleCreateParse(handle, text).ptr;
        Module::from_option_raw(raw)
    }
}

fn message(diagnostic: &Diagnostic) -> Message {
    let notes = (0..diagnostic.note_count()).filter_map(|at| diagnostic.note(at).ok());
    Message {
        level: match diagnostic.severity() {
            DiagnosticSeverity::Error => Level::Error,
            DiagnosticSeverity::Warning => Level::Warning,
            DiagnosticSeverity::Note | DiagnosticSeverity::Remark => Level::Remark,
        },
        at: file_position(diagnostic.location()),
        text: shown(diagnostic),
        notes: notes
            .map(|note| (file_position(note.location()), shown(&note)))
            .collect(),
    }
}

/// What MLIR prints for a thing. Names out of damaged bytecode need not be UTF-8, which the binding reports as a failure to
/// print: what came before is kept.
fn shown(thing: &impl Display) -> String {
    let mut text = String::new();
    if write!(text, "{thing}").is_err() {
        text.push_str("… (the rest is not UTF-8)");
    }
    text
}

/// The position in a location that is one: `loc("file":12:7)`.
fn file_position(location: Location) -> Option<Position> {
    let text = shown(&location);
    let (file, rest) = text.strip_prefix("loc(\"")?.rsplit_once("\":")?;
    let (line, rest) = rest.split_once(':')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    Some((
        file.to_owned(),
        line.parse().ok()?,
        rest[..digits].parse().ok()?,
    ))
}
