//! `raddle-mlir`: MLIR's passes and bytecode, for `raddle-opt`, which starts this program beside it when it needs them.
//!
//! MLIR is in a process of its own for two reasons. Its libraries take longer to load than a large module takes to read, and more
//! memory. And MLIR believes what it reads and is told: what crashes or hangs here is a diagnostic there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    clap::Command::new("raddle-mlir")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Does what raddle-opt asks of MLIR. Only raddle-opt can start it.")
        .get_matches();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("raddle-mlir: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let input = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("there is no standard input")?;
    let input = File::from(input);
    let kind = input.metadata().context("cannot look at standard input")?;
    if !kind.file_type().is_socket() {
        bail!(
            "raddle-opt starts this program when it needs MLIR; by itself it does nothing\n  \
             help: raddle-opt FILE --mlir-pass-pipeline='builtin.module(...)'"
        );
    }
    let socket = UnixStream::from(OwnedFd::from(input));
    raddle_stock_mlir::serve(socket, || std::process::exit(1)).context("cannot speak with who asks")
}
