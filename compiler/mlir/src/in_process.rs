//! The way to MLIR in this process, in a thread with a large stack, since MLIR recurses.

use std::thread;

use raddle_compiler::interop::mlir::wire::Answer;
use raddle_compiler::interop::mlir::{Door, Job, Options};
use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::Context;

use crate::exchange::{self, Task};

/// Stack of the thread that MLIR runs in, in bytes: what [`MAX_DEPTH`](raddle_compiler::interop::mlir::MAX_DEPTH) and
/// [`MAX_BRACKETS`](raddle_compiler::interop::mlir::MAX_BRACKETS) let through does not exhaust it.
const STACK_BYTES: usize = 512 << 20;

/// MLIR in this process: a crash there is a crash here.
#[derive(Clone, Copy, Default, Debug)]
pub struct InProcess;

impl Door for InProcess {
    fn ask(
        &mut self,
        cx: &Context,
        job: &Job,
        input: &[u8],
        options: Options,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<u8>> {
        ask(cx, input, Task::Job(job), options, diagnostics)
    }
}

/// Does a task for a module of this process, whose dialect is this program's.
pub fn ask(
    cx: &Context,
    input: &[u8],
    task: Task<'_>,
    options: Options,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<u8>> {
    let irdl = raddle_dialect::ops::irdl();
    let Some(answer) = answer(input, &irdl, task, options) else {
        let loc = cx.unknown_loc();
        diagnostics.push(Diagnostic::error("E0802", loc, "MLIR could not be run"));
        return None;
    };
    answer.report(cx, diagnostics)
}

/// Does a task with the dialect that `irdl` defines; none if the thread cannot be started, or panics.
pub fn answer(input: &[u8], irdl: &str, task: Task<'_>, options: Options) -> Option<Answer> {
    thread::scope(|scope| {
        let work = move || exchange::run(input, irdl, task, options);
        let thread = thread::Builder::new()
            .name("mlir".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work);
        thread.ok()?.join().ok()
    })
}
