//! The calls into MLIR. All `unsafe` of the door is here.

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use melior::diagnostic::{Diagnostic, DiagnosticSeverity};
use melior::dialect::DialectRegistry;
use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use melior::ir::{Location, Module};
use melior::pass::PassManager;
use melior::utility::{
    load_irdl_dialects, parse_pass_pipeline, register_all_dialects, register_all_passes,
};
use melior::{Context, StringRef};
use mlir_sys::{
    MlirStringRef, mlirIdentifierStr, mlirLocationFileLineColRangeGetFilename,
    mlirLocationFileLineColRangeGetStartColumn, mlirLocationFileLineColRangeGetStartLine,
    mlirLocationIsAFileLineColRange, mlirModuleCreateParse, mlirOperationWriteBytecode,
};
use raddle_dialect::diag::Severity;

use super::{Job, Message, Options, Position};

/// Parses the input, does the job, and returns its output, if it could be done, with what MLIR said.
pub(super) fn run(
    input: &[u8],
    irdl: &str,
    job: Job,
    options: Options,
) -> (Option<Vec<u8>>, Vec<Message>) {
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
    let output = work(&context, input, irdl, job, &said);
    context.detach_diagnostic_handler(handler);
    drop(context);
    (output, said.take())
}

fn work(
    context: &Context,
    input: &[u8],
    irdl: &str,
    job: Job,
    said: &RefCell<Vec<Message>>,
) -> Option<Vec<u8>> {
    // The IRDL module's ops define the dialect as long as the context lives.
    let definitions = Module::parse(context, irdl)?;
    if !load_irdl_dialects(&definitions) {
        return None;
    }
    let mut module = parse(context, input)?;
    if let Job::Pipeline(pipeline) = &job {
        register_all_passes();
        let manager = PassManager::new(context);
        let parsed = parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline);
        if let Err(error) = parsed {
            said.borrow_mut().push(Message {
                severity: Severity::Error,
                at: None,
                text: format!("MLIR does not take this pass pipeline: {error}"),
                notes: vec![],
            });
            return None;
        }
        manager.run(&mut module).ok()?;
    }
    match job {
        Job::Bytecode => Some(bytecode(&module)),
        Job::Execute(invocation) => Some(super::execute::invoke(context, &module, invocation)),
        Job::Pipeline(_) | Job::Text => {
            let flags = OperationPrintingFlags::new()
                .print_generic_operation_form()
                .enable_debug_info(true, false);
            let text = module.as_operation().to_string_with_flags(flags).ok()?;
            Some(text.into_bytes())
        }
    }
}

fn parse<'c>(context: &'c Context, input: &[u8]) -> Option<Module<'c>> {
    let text = MlirStringRef {
        data: input.as_ptr().cast(),
        length: input.len(),
    };
    // SAFETY: `text` covers `input`, which outlives the call; the context is alive. The result is null or a module that
    // nothing else owns.
    unsafe { Module::from_option_raw(mlirModuleCreateParse(context.to_raw(), text)) }
}

fn bytecode(module: &Module) -> Vec<u8> {
    unsafe extern "C" fn append(chunk: MlirStringRef, buffer: *mut c_void) {
        // SAFETY: MLIR passes back the pointer given below, and a chunk that is valid during the call.
        unsafe {
            let chunk = std::slice::from_raw_parts(chunk.data.cast::<u8>(), chunk.length);
            (*buffer.cast::<Vec<u8>>()).extend_from_slice(chunk);
        }
    }
    let mut buffer = Vec::<u8>::new();
    // SAFETY: the module is alive, and `buffer` outlives the call.
    unsafe {
        mlirOperationWriteBytecode(
            module.as_operation().to_raw(),
            Some(append),
            (&raw mut buffer).cast(),
        );
    }
    buffer
}

fn message(diagnostic: &Diagnostic) -> Message {
    let notes = (0..diagnostic.note_count()).filter_map(|at| diagnostic.note(at).ok());
    Message {
        severity: match diagnostic.severity() {
            DiagnosticSeverity::Error => Severity::Error,
            DiagnosticSeverity::Warning => Severity::Warning,
            DiagnosticSeverity::Note | DiagnosticSeverity::Remark => Severity::Remark,
        },
        at: file_position(diagnostic.location()),
        text: diagnostic.to_string(),
        notes: notes
            .map(|note| (file_position(note.location()), note.to_string()))
            .collect(),
    }
}

fn file_position(location: Location) -> Option<Position> {
    let raw = location.to_raw();
    // SAFETY: the location is alive; its kind is asked for before its fields are read.
    unsafe {
        if !mlirLocationIsAFileLineColRange(raw) {
            return None;
        }
        let file = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(raw));
        let file = StringRef::from_raw(file).as_str().ok()?.to_owned();
        let line = mlirLocationFileLineColRangeGetStartLine(raw);
        let col = mlirLocationFileLineColRangeGetStartColumn(raw);
        Some((file, line as u32, col as u32))
    }
}
