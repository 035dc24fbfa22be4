//! Turns diagnostics into text for people.
//!
//! Every diagnostic starts with one line `file:line:col: severity: message [code]`, which programs find. In
//! [`Format::Pretty`] the marked source text follows, drawn by `codespan-reporting`; in [`Format::Plain`] each note
//! and help is one more such line.

use std::fmt::Write as _;
use std::ops::Range;

use codespan_reporting::diagnostic as codespan;
use codespan_reporting::term::{self, termcolor};

use super::excerpt::Excerpt;
use super::{At, Diagnostic, Severity, Source};
use crate::ir::{Context, Loc, LocData};

/// How much to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One line for the message and one for each note.
    Plain,
    /// The first line, then the source text with marks.
    Pretty,
}

/// How to show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenderOptions {
    /// How much.
    pub format: Format,
    /// Whether to colour with ANSI escapes.
    pub color: bool,
}

/// A place resolved to file, line and column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// File name.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub col: u32,
    /// The bytes of the source, if the place lies in it.
    pub span: Option<Range<usize>>,
}

impl Severity {
    /// `error`, `warning` or `remark`.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
        }
    }
}

/// Finds the file position that a diagnostic points at; `None` for places no text has.
///
/// Of nested locations the innermost one with a position counts: the callee of a call site, the first of fused parts.
pub fn place(at: At, source: &Source<'_>, cx: &Context) -> Option<Place> {
    match at {
        At::Span { start, end } => {
            let (line, col) = source.line_col(start);
            let start = start.min(source.text().len());
            // A span of one byte stands for the word that starts there.
            let end = match end.clamp(start, source.text().len()) {
                end if end <= start + 1 => token_end(source.text(), start),
                end => end,
            };
            Some(Place {
                file: source.name().to_owned(),
                line,
                col,
                span: Some(start..end),
            })
        }
        At::Loc(loc) => {
            let (file, line, col) = file_position(loc, cx)?;
            let span = (file == source.name())
                .then(|| source.byte_at(line, col))
                .flatten()
                .map(|start| start..token_end(source.text(), start));
            Some(Place {
                file: file.to_owned(),
                line,
                col,
                span,
            })
        }
    }
}

/// The diagnostic as text, ending in a line break.
pub fn render(
    diagnostic: &Diagnostic,
    source: &Source<'_>,
    cx: &Context,
    options: RenderOptions,
) -> String {
    let found = place(diagnostic.at, source, cx);
    let paint = Paint(options.color);
    let mut out = header(&found, diagnostic, paint);
    let span = found.and_then(|place| place.span);
    match (options.format, span) {
        (Format::Pretty, Some(span)) => {
            out.push_str(&snippet(diagnostic, span, source, cx, options.color));
        }
        _ => facts(&mut out, diagnostic, source, cx, paint),
    }
    out
}

fn header(place: &Option<Place>, diagnostic: &Diagnostic, paint: Paint) -> String {
    let severity = diagnostic.severity;
    let color = match severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
        Severity::Remark => "1;36",
    };
    format!(
        "{}: {}: {}{}\n",
        shown(place),
        paint.apply(color, severity.word()),
        paint.apply("1", &diagnostic.message),
        if diagnostic.code.is_empty() {
            String::new()
        } else {
            format!(" [{}]", diagnostic.code)
        },
    )
}

/// Label, notes and help, one line each.
fn facts(
    out: &mut String,
    diagnostic: &Diagnostic,
    source: &Source<'_>,
    cx: &Context,
    paint: Paint,
) {
    let own = place(diagnostic.at, source, cx);
    let note = paint.apply("1;34", "note");
    let help = paint.apply("1;32", "help");
    // Writing to a string cannot fail.
    if let Some(label) = &diagnostic.label {
        let _ = writeln!(out, "{}: {note}: {label}", shown(&own));
    }
    for (at, text) in &diagnostic.notes {
        let there = at.and_then(|at| place(at, source, cx)).or(own.clone());
        let _ = writeln!(out, "{}: {note}: {text}", shown(&there));
    }
    if let Some(text) = &diagnostic.help {
        let _ = writeln!(out, "{}: {help}: {text}", shown(&own));
    }
}

/// What codespan draws below its own first line.
fn snippet(
    diagnostic: &Diagnostic,
    span: Range<usize>,
    source: &Source<'_>,
    cx: &Context,
    color: bool,
) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => codespan::Severity::Error,
        Severity::Warning => codespan::Severity::Warning,
        Severity::Remark => codespan::Severity::Note,
    };
    let mut secondary = Vec::new();
    let mut notes = Vec::new();
    for (at, text) in &diagnostic.notes {
        match at.and_then(|at| place(at, source, cx)) {
            Some(Place {
                span: Some(there), ..
            }) => secondary.push((there, text)),
            Some(elsewhere) => notes.push(format!("note: {}: {text}", shown(&Some(elsewhere)))),
            None => notes.push(format!("note: {text}")),
        }
    }
    if let Some(help) = &diagnostic.help {
        notes.push(format!("help: {help}"));
    }
    let marked = std::iter::once(&span).chain(secondary.iter().map(|(there, _)| there));
    let excerpt = Excerpt::new(source, marked);
    let mut primary = codespan::Label::primary((), excerpt.range(&span));
    if let Some(label) = &diagnostic.label {
        primary = primary.with_message(label);
    }
    let others = secondary.iter().map(|(there, text)| {
        codespan::Label::secondary((), excerpt.range(there)).with_message(text)
    });
    let drawn = codespan::Diagnostic::new(severity)
        .with_labels(std::iter::once(primary).chain(others).collect())
        .with_notes(notes);
    let config = term::Config::default();
    let mut buffer = if color {
        termcolor::Buffer::ansi()
    } else {
        termcolor::Buffer::no_color()
    };
    if term::emit_to_write_style(&mut buffer, &config, &excerpt, &drawn).is_err() {
        // The excerpt holds every line that a label touches.
        return String::new();
    }
    let text = String::from_utf8_lossy(buffer.as_slice()).into_owned();
    match text.split_once('\n') {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

fn shown(place: &Option<Place>) -> String {
    match place {
        Some(place) => format!("{}:{}:{}", place.file, place.line, place.col),
        None => "<unknown>:0:0".to_owned(),
    }
}

fn file_position(loc: Loc, cx: &Context) -> Option<(&str, u32, u32)> {
    let mut pending = vec![loc];
    while let Some(loc) = pending.pop() {
        match cx.loc_data(loc) {
            LocData::Unknown => {}
            LocData::File {
                file, line, col, ..
            } => return Some((cx.str(*file), *line, *col)),
            LocData::Name { child, .. } => pending.push(*child),
            LocData::CallSite { callee, caller } => pending.extend([*caller, *callee]),
            LocData::Fused { locs, .. } => pending.extend(locs.iter().rev()),
        }
    }
    None
}

/// The end of the word, name or string that starts at `start`.
fn token_end(text: &[u8], start: usize) -> usize {
    let rest = &text[start..];
    let length = match rest {
        [] | [b'\n', ..] => 0,
        [b'"', inner @ ..] => {
            let end = inner.iter().position(|b| b"\"\n".contains(b));
            match end {
                Some(at) if inner[at] == b'"' => at + 2,
                _ => 1,
            }
        }
        [first, inner @ ..] if b"%@^#!".contains(first) || is_word(*first) => {
            1 + inner.iter().take_while(|b| is_word(**b)).count()
        }
        _ => 1,
    };
    start + length
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_.$-".contains(&byte)
}

/// Wraps words in colour escapes, or not.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn apply(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "module {\n  %0 = \"foo.bar\"(%1) : (i32) -> i32\n}\n";

    fn options(format: Format) -> RenderOptions {
        RenderOptions {
            format,
            color: false,
        }
    }

    fn sample() -> Diagnostic {
        Diagnostic::error("E0301", 26..28, "use of undeclared value")
            .label("not defined")
            .note(Some(At::Span { start: 11, end: 13 }), "did you mean this")
            .note(None, "values are defined before use")
            .help("define it")
    }

    #[test]
    fn plain_has_one_line_per_fact() {
        let source = Source::new("t.mlir", TEXT.as_bytes());
        let text = render(&sample(), &source, &Context::new(), options(Format::Plain));
        assert_eq!(
            text,
            "t.mlir:2:18: error: use of undeclared value [E0301]\n\
             t.mlir:2:18: note: not defined\n\
             t.mlir:2:3: note: did you mean this\n\
             t.mlir:2:18: note: values are defined before use\n\
             t.mlir:2:18: help: define it\n"
        );
    }

    #[test]
    fn pretty_marks_the_text() {
        let source = Source::new("t.mlir", TEXT.as_bytes());
        let text = render(&sample(), &source, &Context::new(), options(Format::Pretty));
        assert_eq!(
            text,
            "\
t.mlir:2:18: error: use of undeclared value [E0301]
  ┌─ t.mlir:2:18
  │
2 │   %0 = \"foo.bar\"(%1) : (i32) -> i32
  │   --             ^^ not defined
  │   │               
  │   did you mean this
  │
  = note: values are defined before use
  = help: define it

"
        );
    }

    #[test]
    fn locations_are_followed_to_a_file() {
        let cx = Context::new();
        let source = Source::new("t.mlir", TEXT.as_bytes());
        let inner = cx.file_loc("t.mlir", 2, 8);
        let other = cx.file_loc("other.py", 7, 1);
        let named = cx.loc(LocData::Name {
            name: cx.ident("x"),
            child: inner,
        });
        let fused = cx.loc(LocData::Fused {
            locs: Box::new([cx.unknown_loc(), named, other]),
            metadata: None,
        });
        let found = place(At::Loc(fused), &source, &cx).unwrap();
        assert_eq!((found.line, found.col), (2, 8));
        assert_eq!(&TEXT[found.span.unwrap()], "\"foo.bar\"");
        let found = place(At::Loc(other), &source, &cx).unwrap();
        assert_eq!((found.file.as_str(), found.span), ("other.py", None));
        assert_eq!(place(At::Loc(cx.unknown_loc()), &source, &cx), None);
    }

    #[test]
    fn megabytes_on_one_line_are_cut() {
        let line = format!("{}@x{}", "é".repeat(100_000), "y".repeat(100_000));
        let source = Source::new("t", line.as_bytes());
        let diagnostic = Diagnostic::error("E1", 200_000..300_002, "here");
        let text = render(
            &diagnostic,
            &source,
            &Context::new(),
            options(Format::Pretty),
        );
        assert!(text.len() < 2000, "{}", text.len());
        assert!(text.contains("t:1:200001: error: here [E1]"));
        assert!(text.contains("@xy"));
    }

    #[test]
    fn any_span_can_be_drawn() {
        let text = b"a\r\n\n\xc3\xa9 \xff\xfe\xc3\n";
        let source = Source::new("t", text);
        let cx = Context::new();
        for start in 0..=text.len() + 2 {
            for end in start..=text.len() + 2 {
                let diagnostic = Diagnostic::warning("W1", start..end, "here");
                let drawn = render(&diagnostic, &source, &cx, options(Format::Pretty));
                assert!(drawn.contains("┌─ t:"), "{start}..{end}: {drawn}");
            }
        }
    }
}
