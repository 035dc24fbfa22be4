//! Diagnostics: what is wrong with a program, where, and what would help.

mod excerpt;
mod render;
mod source;

pub use render::{Format, Place, RenderOptions, place, render};
pub use source::Source;

use crate::ir::Loc;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The program is refused.
    Error,
    /// The program is taken, but probably not meant like this.
    Warning,
    /// What a pass did, or why it did not.
    Remark,
}

/// Where a diagnostic points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Bytes `start..end` of the text being read.
    Span {
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
    },
    /// The location of an op.
    Loc(Loc),
}

/// One message.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable code, such as `E0301`; codes are listed in `docs/diagnostics.md`.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where.
    pub at: At,
    /// What is written under the marked text, if more than the message.
    pub label: Option<String>,
    /// Further places, or further facts.
    pub notes: Vec<(Option<At>, String)>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without label, notes and help.
    pub fn new(
        severity: Severity,
        code: &'static str,
        at: impl Into<At>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            at: at.into(),
            label: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// An error.
    pub fn error(code: &'static str, at: impl Into<At>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, at, message)
    }

    /// A warning.
    pub fn warning(code: &'static str, at: impl Into<At>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, at, message)
    }

    /// A remark.
    pub fn remark(code: &'static str, at: impl Into<At>, message: impl Into<String>) -> Self {
        Self::new(Severity::Remark, code, at, message)
    }

    /// With text under the marked place.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// With a note, at a place or without one.
    pub fn note(mut self, at: Option<At>, note: impl Into<String>) -> Self {
        self.notes.push((at, note.into()));
        self
    }

    /// With advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<Loc> for At {
    fn from(loc: Loc) -> Self {
        At::Loc(loc)
    }
}

impl From<std::ops::Range<usize>> for At {
    fn from(span: std::ops::Range<usize>) -> Self {
        At::Span {
            start: span.start,
            end: span.end,
        }
    }
}

/// Diagnostics in the order in which they were found.
#[derive(Clone, Default, Debug)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.items.push(diagnostic);
    }

    /// Whether any is an error.
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(|d| d.severity == Severity::Error)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes them out.
    pub fn take(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.items)
    }

    /// Adds all of another collection.
    pub fn extend(&mut self, other: impl IntoIterator<Item = Diagnostic>) {
        self.items.extend(other);
    }
}
