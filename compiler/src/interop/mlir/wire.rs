//! What goes between a program and `raddle-mlir`: a request with a module, and an answer with what became of it.
//!
//! Both are frames: the lengths of the two parts that follow, each a little-endian `u64`; a header in JSON; and bytes, which are
//! the module. The dialect travels with the request, so it is always that of the program that asks.

use std::io::{self, ErrorKind, Read, Write};

use raddle_dialect::diag::{Diagnostic, Diagnostics, Severity};
use raddle_dialect::ir::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Job;

/// The version of both programs, which must be the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is asked of MLIR, beside the module.
#[derive(Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`] of the program that asks.
    pub version: String,
    /// What to do.
    pub job: Job,
    /// Ops of dialects that MLIR does not know are accepted.
    pub allow_unregistered: bool,
    /// The dialect in IRDL.
    pub dialect: String,
}

/// What came of it.
pub struct Answer {
    /// The module as the job leaves it; none if that failed.
    pub output: Option<Vec<u8>>,
    /// What MLIR said meanwhile.
    pub messages: Vec<Message>,
}

/// The header of an [`Answer`].
#[derive(Serialize, Deserialize)]
struct AnswerHeader {
    done: bool,
    messages: Vec<Message>,
}

/// How bad a message is.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Level {
    /// MLIR refuses the module or the job.
    Error,
    /// It does not.
    Warning,
    /// MLIR tells what it did.
    Remark,
}

/// File, line and column.
pub type Position = (String, u32, u32);

/// What MLIR said, before it is turned into one of our diagnostics.
#[derive(Serialize, Deserialize)]
pub struct Message {
    /// How bad it is.
    pub level: Level,
    /// Where, if MLIR knew.
    pub at: Option<Position>,
    /// What is wrong.
    pub text: String,
    /// Further facts and places.
    pub notes: Vec<(Option<Position>, String)>,
}

impl Message {
    /// An error without a place.
    pub fn error(text: String) -> Self {
        Self {
            level: Level::Error,
            at: None,
            text,
            notes: vec![],
        }
    }

    fn diagnostic(self, cx: &Context) -> Diagnostic {
        let place = |at: Option<Position>| match at {
            Some((file, line, col)) => cx.file_loc(&file, line, col),
            None => cx.unknown_loc(),
        };
        let severity = match self.level {
            Level::Error => Severity::Error,
            Level::Warning => Severity::Warning,
            Level::Remark => Severity::Remark,
        };
        let mut diagnostic = Diagnostic::new(severity, "E0803", place(self.at), self.text);
        for (at, text) in self.notes {
            diagnostic = diagnostic.note(at.map(|at| place(Some(at)).into()), text);
        }
        diagnostic
    }
}

impl Answer {
    /// Puts what MLIR said into `diagnostics`; returns the output.
    pub fn report(self, cx: &Context, diagnostics: &mut Diagnostics) -> Option<Vec<u8>> {
        for message in self.messages {
            diagnostics.push(message.diagnostic(cx));
        }
        self.output
    }

    /// Writes it as a frame.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn send(self, to: &mut impl Write) -> io::Result<()> {
        let header = AnswerHeader {
            done: self.output.is_some(),
            messages: self.messages,
        };
        send(to, &header, &self.output.unwrap_or_default())
    }

    /// Reads a frame; none if there is no more.
    ///
    /// # Errors
    /// As [`receive`].
    pub fn receive(from: &mut impl Read) -> io::Result<Option<Self>> {
        let frame = receive::<AnswerHeader>(from)?;
        Ok(frame.map(|(header, bytes)| Self {
            output: header.done.then_some(bytes),
            messages: header.messages,
        }))
    }
}

/// Writes a frame.
///
/// # Errors
/// If it cannot be written.
pub fn send(to: &mut impl Write, header: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut lengths = [0; 16];
    lengths[..8].copy_from_slice(&(header.len() as u64).to_le_bytes());
    lengths[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    to.write_all(&lengths)?;
    to.write_all(&header)?;
    to.write_all(bytes)?;
    to.flush()
}

/// Reads a frame; none if there is no more.
///
/// # Errors
/// If it cannot be read, ends in the middle (`UnexpectedEof`), or has another header (`InvalidData`).
pub fn receive<H: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(H, Vec<u8>)>> {
    let mut first = [0];
    if from.read(&mut first)? == 0 {
        return Ok(None);
    }
    let mut lengths = [0; 16];
    lengths[0] = first[0];
    from.read_exact(&mut lengths[1..])?;
    let [header, bytes] = [0, 8].map(|at| {
        let mut length = [0; 8];
        length.copy_from_slice(&lengths[at..at + 8]);
        u64::from_le_bytes(length)
    });
    let header = exactly(from, header)?;
    let header = serde_json::from_slice(&header)?;
    Ok(Some((header, exactly(from, bytes)?)))
}

/// That many bytes. Room is made as they come, so a wrong length costs nothing.
fn exactly(from: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(count).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < count {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut pipe = Vec::new();
        let job = Job::Pipeline("builtin.module(cse)".into());
        send(&mut pipe, &job, b"module {}\n").unwrap();
        send(&mut pipe, &Job::Text, b"").unwrap();
        let mut rest = pipe.as_slice();
        let first = receive::<Job>(&mut rest).unwrap().unwrap();
        assert_eq!(first, (job, b"module {}\n".to_vec()));
        let second = receive::<Job>(&mut rest).unwrap().unwrap();
        assert_eq!(second, (Job::Text, vec![]));
        assert!(receive::<Job>(&mut rest).unwrap().is_none());
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Job::Bytecode, b"text").unwrap();
        for end in 1..pipe.len() {
            assert!(receive::<Job>(&mut &pipe[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_length_beyond_all_memory_is_an_error() {
        let pipe = [0xff; 40];
        assert!(receive::<Job>(&mut pipe.as_slice()).is_err());
    }
}
