//! Expected diagnostics: comments in a test file that say what must be reported where.
//!
//! The comments are MLIR's, one a line, at the end of it:
//!
//! ```text
//! expected-error {{text the message contains}}
//! expected-remark@+2 {{…}}      two lines further down; also @-1
//! expected-note@above {{…}}     the last line above that holds no such comment
//! expected-warning@below {{…}}  the next line below that holds no such comment
//! expected-error@unknown {{…}}  without a place
//! expected-error-re {{got {{[0-9]+}} operands}}   regular expressions within inner braces
//! ```

use std::collections::HashMap;

use raddle_dialect::diag::{Diagnostic, Severity, Source, place};
use raddle_dialect::ir::Context;
use regex::Regex;

/// What kinds of message can be expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Message(Severity),
    Note,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Message(severity) => severity.word(),
            Kind::Note => "note",
        }
    }
}

/// One comment.
struct Expectation {
    kind: Kind,
    pattern: Pattern,
    /// The text between the braces.
    text: String,
    /// Where the comment stands in its section.
    comment: std::ops::Range<usize>,
    met: bool,
}

enum Pattern {
    Contains(String),
    Regex(Regex),
}

impl Pattern {
    fn fits(&self, message: &str) -> bool {
        match self {
            Pattern::Contains(text) => message.contains(text.as_str()),
            Pattern::Regex(regex) => regex.is_match(message),
        }
    }
}

/// What to do about diagnostics that nothing expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checked {
    /// They are wrong.
    #[default]
    All,
    /// They are passed over.
    OnlyExpected,
}

/// All comments of one section.
pub struct Expectations {
    /// By the line they speak of; `None` for no place.
    by_line: HashMap<Option<u32>, Vec<Expectation>>,
    faulty: Vec<Diagnostic>,
}

impl Expectations {
    /// Finds the comments in a section.
    pub fn read(source: &Source<'_>) -> Self {
        let mut reader = Reader {
            found: Self {
                by_line: HashMap::new(),
                faulty: Vec::new(),
            },
            last_plain: None,
            waiting: Vec::new(),
        };
        let mut line = source.first_line();
        let mut at = 0;
        for bytes in source.text().split_inclusive(|&b| b == b'\n') {
            let text = String::from_utf8_lossy(bytes);
            reader.line(line, at, text.trim_end());
            line = line.saturating_add(1);
            at += bytes.len();
        }
        // Nothing stands below the last line; the expectation stays unmet there.
        for expectation in std::mem::take(&mut reader.waiting) {
            reader.found.add(Some(line), expectation);
        }
        reader.found
    }

    /// Compares what was reported with what was expected, and reports the differences.
    pub fn check(
        mut self,
        reported: &[Diagnostic],
        source: &Source<'_>,
        cx: &Context,
        checked: Checked,
    ) -> Vec<Diagnostic> {
        let mut wrong = std::mem::take(&mut self.faulty);
        for diagnostic in reported {
            let own = (
                Kind::Message(diagnostic.severity),
                diagnostic.at,
                &diagnostic.message,
            );
            let notes = diagnostic
                .notes
                .iter()
                .map(|(at, text)| (Kind::Note, at.unwrap_or(diagnostic.at), text));
            for (kind, at, message) in std::iter::once(own).chain(notes) {
                let line = place(at, source, cx)
                    .filter(|found| found.file == source.name())
                    .map(|found| found.line);
                let text = match self.meet(line, kind, message) {
                    Meeting::Met => continue,
                    Meeting::OtherKind(expected) => {
                        format!(
                            "'{}' reported where '{}' is expected: {message}",
                            kind.word(),
                            expected.word()
                        )
                    }
                    Meeting::None if checked == Checked::OnlyExpected => continue,
                    Meeting::None => format!("unexpected {}: {message}", kind.word()),
                };
                wrong.push(Diagnostic::error("E0901", at, text));
            }
        }
        let mut unmet: Vec<_> = self
            .by_line
            .into_values()
            .flatten()
            .filter(|e| !e.met)
            .collect();
        unmet.sort_by_key(|e| e.comment.start);
        wrong.extend(unmet.into_iter().map(|e| {
            let message = format!("expected {} \"{}\" was not produced", e.kind.word(), e.text);
            Diagnostic::error("E0902", e.comment, message)
        }));
        wrong
    }

    fn add(&mut self, line: Option<u32>, expectation: Expectation) {
        self.by_line.entry(line).or_default().push(expectation);
    }

    fn meet(&mut self, line: Option<u32>, kind: Kind, message: &str) -> Meeting {
        let mut other = Meeting::None;
        for expectation in self.by_line.get_mut(&line).into_iter().flatten() {
            if expectation.met || !expectation.pattern.fits(message) {
                continue;
            }
            if expectation.kind == kind {
                expectation.met = true;
                return Meeting::Met;
            }
            other = Meeting::OtherKind(expectation.kind);
        }
        other
    }
}

enum Meeting {
    Met,
    OtherKind(Kind),
    None,
}

/// Reads line by line; comments about the line below wait until it comes.
struct Reader {
    found: Expectations,
    last_plain: Option<u32>,
    waiting: Vec<Expectation>,
}

impl Reader {
    /// `start` is the byte of the section at which `text` begins.
    fn line(&mut self, line: u32, start: usize, text: &str) {
        let Some(comment) = Comment::find(text) else {
            self.last_plain = Some(line);
            for expectation in self.waiting.drain(..) {
                self.found.add(Some(line), expectation);
            }
            return;
        };
        let span = start + comment.start..start + text.len();
        let pattern = match comment.pattern() {
            Ok(pattern) => pattern,
            Err(why) => {
                let message = format!("cannot read this expectation: {why}");
                self.found
                    .faulty
                    .push(Diagnostic::error("E0903", span, message));
                return;
            }
        };
        let expectation = Expectation {
            kind: comment.kind,
            pattern,
            text: comment.text.to_owned(),
            comment: span,
            met: false,
        };
        let about = match comment.place {
            Where::Offset(offset) => Some(line.saturating_add_signed(offset)),
            Where::Above => self.last_plain.or(Some(0)),
            Where::Unknown => None,
            Where::Below => return self.waiting.push(expectation),
        };
        self.found.add(about, expectation);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Offset(i32),
    Above,
    Below,
    Unknown,
}

/// A comment taken apart.
struct Comment<'a> {
    start: usize,
    kind: Kind,
    regex: bool,
    place: Where,
    text: &'a str,
}

impl<'a> Comment<'a> {
    fn find(line: &'a str) -> Option<Self> {
        line.match_indices("expected-")
            .find_map(|(start, word)| Self::read(start, &line[start + word.len()..]))
    }

    /// Reads what follows `expected-`.
    fn read(start: usize, rest: &'a str) -> Option<Self> {
        let kinds = [
            ("error", Kind::Message(Severity::Error)),
            ("warning", Kind::Message(Severity::Warning)),
            ("remark", Kind::Message(Severity::Remark)),
            ("note", Kind::Note),
        ];
        let (kind, rest) = kinds
            .into_iter()
            .find_map(|(word, kind)| Some((kind, rest.strip_prefix(word)?)))?;
        let (regex, rest) = match rest.strip_prefix("-re") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let rest = rest.trim_start_matches(' ');
        let (place, rest) = match rest.strip_prefix('@') {
            Some(rest) => {
                let end = rest.find([' ', '{']).unwrap_or(rest.len());
                (
                    Self::read_place(&rest[..end])?,
                    rest[end..].trim_start_matches(' '),
                )
            }
            None => (Where::Offset(0), rest),
        };
        let text = rest.strip_prefix("{{")?.strip_suffix("}}")?;
        Some(Self {
            start,
            kind,
            regex,
            place,
            text,
        })
    }

    fn read_place(word: &str) -> Option<Where> {
        match word {
            "above" => Some(Where::Above),
            "below" => Some(Where::Below),
            "unknown" => Some(Where::Unknown),
            _ if word.starts_with(['+', '-']) => word.parse().ok().map(Where::Offset),
            _ => None,
        }
    }

    fn pattern(&self) -> Result<Pattern, String> {
        if !self.regex {
            return Ok(Pattern::Contains(self.text.to_owned()));
        }
        let mut regex = String::new();
        let mut rest = self.text;
        while let Some((plain, tail)) = rest.split_once("{{") {
            let Some((inner, tail)) = tail.split_once("}}") else {
                return Err("inner '{{' without '}}'".to_owned());
            };
            regex.push_str(&regex::escape(plain));
            regex.push_str("(?:");
            regex.push_str(inner);
            regex.push(')');
            rest = tail;
        }
        regex.push_str(&regex::escape(rest));
        Regex::new(&regex)
            .map(Pattern::Regex)
            .map_err(|error| error.to_string().replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_dialect::diag::At;

    /// What is wrong when `reported` (byte of the text, severity, message) meets the comments of `text`.
    fn check(text: &str, reported: &[(usize, Severity, &str)]) -> Vec<String> {
        let cx = Context::new();
        let source = Source::section("t", text.as_bytes(), 10);
        let reported: Vec<_> = reported
            .iter()
            .map(|&(at, severity, message)| Diagnostic::new(severity, "", at..at, message))
            .collect();
        Expectations::read(&source)
            .check(&reported, &source, &cx, Checked::All)
            .into_iter()
            .map(|d| {
                let line = place(d.at, &source, &cx).unwrap().line;
                format!("{line}: {}", d.message)
            })
            .collect()
    }

    const ERROR: Severity = Severity::Error;

    #[test]
    fn every_kind_of_place() {
        let text = "\
// expected-error@+1 {{plus}}
x // expected-remark {{here}}
// expected-error @above {{up}}
// expected-warning@below {{down}}
// expected-error-re@below {{got {{[0-9]+}} of {{a|b}}.}}
y
";
        let x = text.find("\nx").unwrap() + 1;
        let y = text.find("\ny").unwrap() + 1;
        let good = [
            (x, ERROR, "one plus one"),
            (x, Severity::Remark, "here"),
            (y, Severity::Warning, "down"),
            (y, ERROR, "got 17 of b."),
        ];
        // `above` skips the line that holds a comment itself, and nothing stands above that one.
        let wrong = check(text, &good);
        assert_eq!(wrong, ["12: expected error \"up\" was not produced"]);
        let wrong = check(text, &[(y, ERROR, "got 17 of bb")]);
        assert_eq!(wrong[0], "15: unexpected error: got 17 of bb");
        assert_eq!(wrong.len(), 6);
    }

    #[test]
    fn above_is_the_last_line_without_comment() {
        let text = "x\n// expected-error@above {{a}}\n// expected-error@above {{b}}\n";
        assert!(check(text, &[(0, ERROR, "a"), (0, ERROR, "b")]).is_empty());
    }

    #[test]
    fn one_expectation_meets_one_message() {
        let text = "x // expected-error {{a}}";
        let wrong = check(text, &[(0, ERROR, "a"), (0, ERROR, "a")]);
        assert_eq!(wrong, ["10: unexpected error: a"]);
    }

    #[test]
    fn kinds_must_agree() {
        let wrong = check("x // expected-warning {{a}}", &[(0, ERROR, "a")]);
        assert_eq!(
            wrong,
            [
                "10: 'error' reported where 'warning' is expected: a",
                "10: expected warning \"a\" was not produced"
            ]
        );
    }

    #[test]
    fn notes_and_unknown_places_are_expected_too() {
        let text = "// expected-error@unknown {{a}}\n// expected-note@+1 {{n}}\nx\n";
        let cx = Context::new();
        let source = Source::new("t", text.as_bytes());
        let x = text.find("\nx").unwrap() + 1;
        let at = At::Span { start: x, end: x };
        let reported = [Diagnostic::error("", cx.unknown_loc(), "a").note(Some(at), "n")];
        let wrong = Expectations::read(&source).check(&reported, &source, &cx, Checked::All);
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn unexpected_messages_may_be_passed_over() {
        let source = Source::new("t", b"x // expected-error {{a}}");
        let reported = [
            Diagnostic::error("", 0..1, "a"),
            Diagnostic::error("", 0..1, "b"),
        ];
        let cx = Context::new();
        let check = |checked| {
            Expectations::read(&source)
                .check(&reported, &source, &cx, checked)
                .len()
        };
        assert_eq!(check(Checked::All), 1);
        assert_eq!(check(Checked::OnlyExpected), 0);
    }

    #[test]
    fn broken_expressions_are_reported() {
        let wrong = check("x // expected-error-re {{a {{(}} b}}", &[]);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("cannot read this expectation"));
    }
}
