//! `docs/diagnostics.md`: every diagnostic code with the messages it stands for, collected from the sources.
//!
//! A code is a string literal like `"E0301"` (errors; `W` is for warnings, `R` for remarks); its message is the string literal
//! after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where diagnostics are made.
const FOLDERS: [&str; 5] = [
    "dialect/src",
    "compiler/src",
    "compiler/mlir/src",
    "runtime",
    "tools",
];

/// What the letter and the first two digits of a code say.
const ROOMS: [(&str, &str); 16] = [
    ("E01", "Reading text"),
    ("E02", "Verifying the structure of a module"),
    ("E03", "Verifying ops"),
    ("E04", "Layouts and collectives"),
    ("E05", "Stages and schedules"),
    ("E06", "Pipelines and passes"),
    ("E07", "Writing bundles"),
    ("E08", "Importing and exporting"),
    ("E09", "Command line tools"),
    ("E", "Other errors"),
    ("W07", "Warnings of passes"),
    ("W08", "Warnings of importers and exporters"),
    ("W", "Other warnings"),
    ("R07", "Remarks of passes"),
    ("R08", "Remarks of importers and exporters"),
    ("R", "Other remarks"),
];

/// Messages by code.
type Codes = BTreeMap<String, BTreeSet<String>>;

/// The text of the page.
///
/// # Errors
/// When a source file cannot be read.
pub fn page(root: &Path) -> Result<String> {
    let mut codes = Codes::new();
    for folder in FOLDERS {
        for file in sources(&root.join(folder))? {
            let text = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            collect(&text, &mut codes);
        }
    }
    Ok(write(&codes))
}

/// The Rust files below a folder, tests aside.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() {
                if !["tests", "examples", "target", "xtask"]
                    .iter()
                    .any(|skip| name == *skip)
                {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|e| e == "rs" || e == "lalrpop")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Adds the codes of one file.
fn collect(text: &str, codes: &mut Codes) {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let literals = literals(text);
    for (index, (literal, end)) in literals.iter().enumerate() {
        if !is_code(literal) {
            continue;
        }
        let messages = codes.entry((*literal).to_owned()).or_default();
        let Some((message, _)) = literals.get(index + 1) else {
            continue;
        };
        // What lies between them tells whether the second belongs to the same call.
        let between = &text[*end..];
        let between = &between[..between.find('"').unwrap_or(between.len())];
        if !is_code(message) && !between.contains(';') && message.contains(' ') {
            messages.insert(readable(message));
        }
    }
}

fn is_code(literal: &str) -> bool {
    let digits = literal.strip_prefix(['E', 'W', 'R']).unwrap_or_default();
    digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit())
}

/// String literals outside comments, each with the byte at which it ends.
fn literals(text: &str) -> Vec<(&str, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
            }
            // A character literal may hold a quote.
            b'\'' if bytes.get(at + 1..at + 3) == Some(b"\"'") => at += 3,
            b'"' => {
                let start = at + 1;
                at = start;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let end = at.min(bytes.len());
                found.push((&text[start..end], (end + 1).min(bytes.len())));
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// A message as a reader sees it: `…` where a value is put in, and no line breaks.
fn readable(message: &str) -> String {
    let mut out = String::new();
    let mut chars = message
        .replace("\\\n", "")
        .replace("\\\"", "\"")
        .chars()
        .collect::<Vec<_>>();
    chars.push('\0');
    let mut at = 0;
    while chars[at] != '\0' {
        match (chars[at], chars[at + 1]) {
            ('{', '{') | ('}', '}') => {
                out.push(chars[at]);
                at += 2;
            }
            ('{', _) => {
                out.push('…');
                while chars[at] != '}' && chars[at] != '\0' {
                    at += 1;
                }
                at += usize::from(chars[at] == '}');
            }
            (c, _) => {
                out.push(c);
                at += 1;
            }
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn write(codes: &Codes) -> String {
    let mut text = String::from(
        "# Diagnostics\n\n\
         Every error, warning and remark has a code. This page lists them with their messages; `…` stands for what a\n\
         message fills in. It is made from the sources by `cargo xtask docs`.\n",
    );
    let room_of = |code: &str| {
        ROOMS
            .iter()
            .position(|(prefix, _)| code.starts_with(prefix))
    };
    for (index, (prefix, room)) in ROOMS.into_iter().enumerate() {
        let mut listed = codes
            .iter()
            .filter(|(code, _)| room_of(code) == Some(index))
            .peekable();
        if listed.peek().is_none() {
            continue;
        }
        text.push_str(&format!(
            "\n## {prefix:x<5}: {room}\n\n| code | message |\n|---|---|\n"
        ));
        for (code, messages) in listed {
            let mut shown: Vec<_> = messages.iter().map(|m| m.replace('|', "\\|")).collect();
            if shown.is_empty() {
                shown.push("(worded by what went wrong)".to_owned());
            }
            text.push_str(&format!("| {code} | {} |\n", shown.join("<br>")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_messages_are_found() {
        let source = r#"
            // "E0999" in a comment
            Diagnostic::error("E0101", span, "plain message");
            fail("E0101", at(x), format!("has {} of {name}, not {{}}"));
            const CODE: &str = "E0102"; let c = '"'; let other = "not a message";
            error("E0103", "code"); error("E0104", "two \
                 lines");
            #[cfg(test)] mod tests { error("E0105", "in a test"); }
        "#;
        let mut codes = Codes::new();
        collect(source, &mut codes);
        let shown: Vec<_> = codes
            .iter()
            .map(|(code, messages)| {
                let messages: Vec<_> = messages.iter().map(String::as_str).collect();
                format!("{code}: {}", messages.join("/"))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "E0101: has … of …, not {}/plain message",
                "E0102: ",
                "E0103: ",
                "E0104: two lines",
            ]
        );
    }
}
