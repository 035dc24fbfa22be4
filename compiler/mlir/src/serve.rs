//! The other end of [`Process`](raddle_compiler::interop::mlir::Process): what the program `raddle-mlir` does.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use raddle_compiler::interop::mlir::Options;
use raddle_compiler::interop::mlir::wire::{self, Answer, Message, Request, VERSION};

use crate::exchange::Task;
use crate::in_process;

/// Answers requests until there are no more.
///
/// Who asks may be gone while MLIR is at work, which then may never end. So a thread waits for the next request all the time, and
/// calls `abandoned` when the other end is closed.
///
/// # Errors
/// If the socket fails, or what comes through it is not a request.
pub fn serve(mut socket: UnixStream, abandoned: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut incoming = socket.try_clone()?;
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        loop {
            match wire::receive::<Request>(&mut incoming) {
                Ok(None) => return abandoned(),
                Ok(Some(request)) => {
                    if sender.send(Ok(request)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    // The loop below has ended if it does not take this.
                    let _ = sender.send(Err(error));
                    return;
                }
            }
        }
    });
    for request in requests {
        let (request, input) = request?;
        answer(&request, &input)?.send(&mut socket)?;
    }
    Ok(())
}

fn answer(request: &Request, input: &[u8]) -> io::Result<Answer> {
    if request.version != VERSION {
        let theirs = &request.version;
        let text = format!(
            "this raddle-mlir is of version {VERSION}, and the program that asks it of version {theirs}"
        );
        return Ok(Answer {
            output: None,
            messages: vec![Message::error(text)],
        });
    }
    let options = Options {
        allow_unregistered: request.allow_unregistered,
    };
    in_process::answer(input, &request.dialect, Task::Job(&request.job), options)
        .ok_or_else(|| io::Error::other("MLIR could not be run"))
}
