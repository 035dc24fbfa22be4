//! The way to MLIR in another process, the program `raddle-mlir`: what crashes or hangs there is a diagnostic here.
//!
//! The process is started for the first request and serves all that follow, unless it dies of one. It is spoken to through a
//! socket that is its standard input, so that what passes print goes where it always goes.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::Context;

use super::wire::{self, Answer, Request, VERSION};
use super::{Door, Job, Options};

/// How long reading or writing bytecode may take for a small module, and how many bytes buy it another second.
const PATIENCE: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: usize = 100_000;

/// MLIR in a process of its own.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    pipeline_limit: Duration,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    socket: UnixStream,
}

/// Why there is no answer.
enum Failure {
    /// The program cannot be started.
    Missing(io::Error),
    /// The process ended before it answered.
    Ended(ExitStatus),
    /// The time was up.
    Endless(Duration),
    /// The answer makes no sense, or the system does not let us have it.
    Garbled(io::Error),
}

impl Process {
    /// MLIR by way of `program`, which is a `raddle-mlir`; a pass pipeline may take as long as `pipeline_limit`. Nothing is
    /// started yet.
    pub fn new(program: PathBuf, pipeline_limit: Duration) -> Self {
        Self {
            program,
            pipeline_limit,
            running: None,
        }
    }

    fn exchange(
        &mut self,
        request: &Request,
        input: &[u8],
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => start(&self.program).map_err(Failure::Missing)?,
        };
        let mut line = Line {
            socket: &running.socket,
            end: Instant::now().checked_add(limit),
        };
        // A process that dies does not take what it is sent; that it died is told by its status.
        let _ = wire::send(&mut line, request, input);
        match Answer::receive(&mut line) {
            Ok(Some(answer)) => {
                self.running = Some(running);
                Ok(answer)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Err(Failure::Endless(limit)),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(Failure::Garbled(error)),
            Ok(None) | Err(_) => match running.child.wait() {
                Ok(status) => Err(Failure::Ended(status)),
                Err(error) => Err(Failure::Garbled(error)),
            },
        }
    }

    fn explain(&self, cx: &Context, job: &Job, failure: Failure) -> Diagnostic {
        let loc = cx.unknown_loc();
        let error = |code, message: String| Diagnostic::error(code, loc, message);
        let program = self.program.display();
        match (failure, job) {
            (Failure::Missing(e), _) => error(
                "E0802",
                format!("MLIR needs the program '{program}', which cannot be started: {e}"),
            )
            .help(
                "it belongs beside this one; `cargo build -p raddle-opt` makes both, if the feature `mlir` is not switched off",
            ),
            (Failure::Garbled(e), _) => error(
                "E0802",
                format!("the answer of '{program}' cannot be read: {e}"),
            )
            .help("both programs must come from one build"),
            (Failure::Ended(status), Job::Text) => {
                damaged(cx, &format!("crashes on it ({status})"))
            }
            (Failure::Endless(_), Job::Text) => damaged(cx, "does not come to an end with it"),
            (Failure::Ended(status), Job::Pipeline(_)) => error(
                "E0804",
                format!("MLIR crashes in this pass pipeline ({status})"),
            )
            .help(
                "run its passes one by one to see which of them it is; the module that MLIR was given is printed without the pipeline",
            ),
            (Failure::Endless(limit), Job::Pipeline(_)) => error(
                "E0804",
                format!(
                    "MLIR does not come to an end with this pass pipeline in {} s",
                    limit.as_secs()
                ),
            )
            .help("`--mlir-timeout=SECONDS` gives it more time"),
            (Failure::Ended(status), Job::Bytecode) => error(
                "E0804",
                format!("MLIR crashes when it writes this module as bytecode ({status})"),
            )
            .help("print it as text, which needs no MLIR"),
            (Failure::Endless(_), Job::Bytecode) => error(
                "E0804",
                "MLIR does not come to an end with writing this module as bytecode".to_owned(),
            )
            .help("print it as text, which needs no MLIR"),
        }
    }
}

fn damaged(cx: &Context, what: &str) -> Diagnostic {
    let message = format!("this bytecode is damaged: MLIR's reader {what}");
    Diagnostic::error("E0804", cx.unknown_loc(), message)
        .help("write it anew, with `raddle-opt --emit-bytecode` or `mlir-opt --emit-bytecode`")
}

impl Door for Process {
    fn ask(
        &mut self,
        cx: &Context,
        job: &Job,
        input: &[u8],
        options: Options,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<u8>> {
        let request = Request {
            version: VERSION.to_owned(),
            job: job.clone(),
            allow_unregistered: options.allow_unregistered,
            dialect: raddle_dialect::ops::irdl(),
        };
        let limit = match job {
            Job::Pipeline(_) => self.pipeline_limit,
            Job::Bytecode | Job::Text => {
                PATIENCE + Duration::from_secs((input.len() / BYTES_PER_SECOND) as u64)
            }
        };
        match self.exchange(&request, input, limit) {
            Ok(answer) => answer.report(cx, diagnostics),
            Err(failure) => {
                diagnostics.push(self.explain(cx, job, failure));
                None
            }
        }
    }
}

fn start(program: &PathBuf) -> io::Result<Running> {
    let (socket, theirs) = UnixStream::pair()?;
    let child = Command::new(program)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    Ok(Running { child, socket })
}

impl Drop for Running {
    /// Nothing that it still does is wanted.
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A socket that is given up at some time, with [`ErrorKind::TimedOut`].
struct Line<'s> {
    socket: &'s UnixStream,
    /// None for never.
    end: Option<Instant>,
}

impl Line<'_> {
    /// The time that is left: none if there is no end to it.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(end) = self.end else {
            return Ok(None);
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

/// The system says `WouldBlock` when the time is up.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for Line<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(bytes).map_err(timed_out)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
