//! Syntax errors: what the lexer, the grammar and the builder report.

use std::ops::Range;

use lalrpop_util::ParseError;

use super::token::{Bad, Kind, Tok};
use crate::diag::Diagnostic;

/// Why parsing stopped.
pub(super) type Failure = ParseError<u32, Tok, Box<Diagnostic>>;

/// A failure with a message at a place.
pub(super) fn fail(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Failure {
    report(Diagnostic::error(code, span, message))
}

/// A failure with a diagnostic.
pub(super) fn report(diagnostic: Diagnostic) -> Failure {
    ParseError::User {
        error: Box::new(diagnostic),
    }
}

pub(super) fn expected_x(span: Range<usize>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(
        "E0104",
        span,
        "expected 'x' in dimension list",
    ))
}

pub(super) fn unbalanced(open: Option<u8>, at: usize) -> Box<Diagnostic> {
    let message = match open {
        Some(open) => format!(
            "unbalanced '{}' character in pretty dialect name",
            char::from(open)
        ),
        None => "unexpected nul or EOF in pretty dialect name".to_owned(),
    };
    Box::new(
        Diagnostic::error("E0103", at..at + 1, message)
            .help("brackets in another dialect's type or attribute must be closed in order"),
    )
}

/// What the lexer cannot read.
pub(super) fn bad_token(bad: Bad, span: Range<usize>, text: &[u8]) -> Box<Diagnostic> {
    match bad {
        Bad::OpenString => Box::new(
            Diagnostic::error(
                "E0101",
                span.end..span.end + 1,
                "expected '\"' in string literal",
            )
            .note(Some(span.into()), "the string starts here"),
        ),
        Bad::Escape => Box::new(
            Diagnostic::error(
                "E0102",
                span.end..span.end + 2,
                "unknown escape in string literal",
            )
            .help("escapes are \\\", \\\\, \\n, \\t and two hexadecimal digits"),
        ),
        Bad::Character => {
            let (message, help) = match text.get(span.start) {
                Some(b'@') => (
                    "@ identifier expected to start with letter or '_'",
                    Some("any other name can be written in quotes: @\"1x\""),
                ),
                Some(b'%') => ("invalid SSA name", None),
                Some(b'^') => ("invalid block name", None),
                Some(b'#') => ("invalid attribute name", None),
                Some(b'!') => ("invalid type identifier", None),
                _ => ("unexpected character", None),
            };
            let mut diagnostic = Diagnostic::error("E0100", span, message);
            diagnostic.help = help.map(str::to_owned);
            Box::new(diagnostic)
        }
    }
}

/// The diagnostic of a failure.
pub(super) fn diagnostic(failure: Failure, text: &[u8]) -> Diagnostic {
    match failure {
        ParseError::User { error } => *error,
        ParseError::UnrecognizedToken { token, expected } => {
            unexpected(Some(token.1), token.1.span(), &expected, text)
        }
        ParseError::UnrecognizedEof { location, expected } => {
            let at = location as usize;
            unexpected(None, at..at, &expected, text)
        }
        ParseError::InvalidToken { location } => {
            let at = location as usize;
            Diagnostic::error("E0100", at..at + 1, "unexpected character")
        }
        ParseError::ExtraToken { token } => unexpected(Some(token.1), token.1.span(), &[], text),
    }
}

fn unexpected(
    tok: Option<Tok>,
    span: Range<usize>,
    expected: &[String],
    text: &[u8],
) -> Diagnostic {
    // Tokens that the lexer makes of several others go by those.
    let expected: Vec<&str> = expected
        .iter()
        .map(|e| e.trim_matches('"'))
        .filter(|e| !e.starts_with("Known") && !matches!(*e, "Dims" | "Unranked"))
        .collect();
    let word = tok.map(|t| String::from_utf8_lossy(&text[t.span()]).into_owned());
    let message = match (wanted(&expected), tok.map(|t| t.kind), &word) {
        (Wanted::Op, Some(kind), Some(word)) if is_word(kind) => {
            let tried = if word.contains('.') {
                String::new()
            } else {
                format!(" (tried 'builtin.{word}' as well)")
            };
            return Diagnostic::error("E0110", span, format!("custom op '{word}' is unknown{tried}"))
                .label("no op is written like this")
                .help("an op without a short form is written \"dialect.name\"(operands) : (types) -> types");
        }
        (Wanted::Op, ..) => "expected operation name in quotes".to_owned(),
        (Wanted::Phrase(phrase), ..) => phrase.to_owned(),
        (Wanted::OneOf, ..) => {
            let shown: Vec<_> = expected.iter().take(6).map(|e| readable(e)).collect();
            match shown.is_empty() {
                true => "unexpected token".to_owned(),
                false => format!("expected {}", shown.join(" or ")),
            }
        }
    };
    let diagnostic = Diagnostic::error("E0111", span, message);
    match word {
        Some(_) => diagnostic,
        None => diagnostic.label("the text ends here"),
    }
}

/// What a set of tokens amounts to.
enum Wanted {
    Op,
    Phrase(&'static str),
    OneOf,
}

fn wanted(expected: &[&str]) -> Wanted {
    let has = |what: &str| expected.contains(&what);
    let only = |all: &[&str]| expected.iter().all(|e| all.contains(e));
    // Every word may be a name, so a place for names takes the words of the others too.
    let phrase = if has("floordiv") && has("over") {
        match (has("String"), has("-")) {
            (true, _) => "expected attribute name",
            (_, true) => "expected affine expression",
            _ => "expected bare identifier",
        }
    } else if has("func") && has("cf.br") {
        return Wanted::Op;
    } else if has("over") && has(":") {
        "expected operands, 'over', attributes or a type"
    } else if has("affine_map") && has("Integer") && has("[") {
        "expected attribute value"
    } else if has("tuple") && has("tensor") {
        if has("(") {
            "expected type"
        } else {
            "expected non-function type"
        }
    } else if has("Ident") {
        "expected a name"
    } else if has("callsite") {
        "expected location instance"
    } else if has(":") && has("{") && only(&[":", "{", "<", "(", "["]) {
        "expected ':' followed by operation type"
    } else if has("=") && only(&["=", ",", ":"]) {
        "expected '=' after SSA name"
    } else {
        return Wanted::OneOf;
    };
    Wanted::Phrase(phrase)
}

fn is_word(kind: Kind) -> bool {
    kind == Kind::Ident
        || kind == Kind::DistOp
        || (Kind::True as u8..=Kind::CastOp as u8).contains(&(kind as u8))
}

fn readable(expected: &str) -> String {
    let name = expected.trim_matches('"');
    let words = match name {
        "Ident" => "a name",
        "String" => "a string",
        "Integer" => "an integer",
        "Float" => "a float",
        "AttrAlias" => "an alias",
        "Symbol" => "a symbol name",
        "Value" => "an SSA value",
        "Block" => "a block name",
        _ => return format!("'{name}'"),
    };
    words.to_owned()
}
