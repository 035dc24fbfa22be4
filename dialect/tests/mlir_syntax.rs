//! Raddle reads and prints MLIR's text as `mlir-opt` does: same exit status, same text.
//!
//! The cases and what `mlir-opt` 22.1.8 made of them lie in `lit-tests/data/mlir-syntax`. Where LLVM 22's `mlir-opt` is
//! installed, what Raddle prints is also fed to it, and must come out as the original does.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use raddle_dialect::diag::{Diagnostics, Format, RenderOptions, Source, render};
use raddle_dialect::ir::{Context, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, PrintOptions, parse, print};
use serde::Deserialize;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lit-tests/data/mlir-syntax");
const MLIR_OPT: &str = "/usr/lib/llvm-22/bin/mlir-opt";

/// Of the given cases' output, this many bytes were kept.
const KEPT: usize = 600;

#[derive(Deserialize)]
struct Case {
    name: String,
    args: Vec<String>,
    encoding: String,
    input: Option<String>,
    rc: i32,
    stdout: String,
    first_error: Option<String>,
}

impl Case {
    fn has(&self, arg: &str) -> bool {
        self.args.iter().any(|a| a == arg)
    }

    fn input(&self) -> Vec<u8> {
        match &self.input {
            Some(hex) if self.encoding == "hex" => hex
                .as_bytes()
                .chunks(2)
                .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
                .collect(),
            Some(text) => text.clone().into_bytes(),
            None => long_input(&self.name).into_bytes(),
        }
    }

    /// Whether Raddle's text is what `mlir-opt` printed, as far as that was kept.
    fn matches(&self, text: &str) -> bool {
        let (text, kept) = (text.trim_end(), self.stdout.trim_end());
        text == kept || (KEPT - 2..=KEPT).contains(&self.stdout.len()) && text.starts_with(kept)
    }
}

/// The inputs that are too long to be kept.
fn long_input(name: &str) -> String {
    match name {
        "deep_region_nest" => {
            let depth = 3000;
            let open = "\"t.op\"() ({ ".repeat(depth);
            let close = "}) : () -> () ".repeat(depth);
            format!("{open}{close}\n")
        }
        "deep_type_nest" => {
            let (open, close) = ("tuple<".repeat(2000), ">".repeat(2000));
            format!("%0 = \"t.op\"() : () -> {open}{close}\n")
        }
        "deep_opaque" => {
            let (open, close) = ("[".repeat(2000), "]".repeat(2000));
            format!("\"t.op\"() {{a = #foo.bar<{open}{close}>}} : () -> ()\n")
        }
        "long_ident" => format!("%{} = \"t.op\"() : () -> i32\n", "a".repeat(100_000)),
        "many_results" => {
            let types = vec!["i1"; 70_000].join(", ");
            format!("%0:70000 = \"t.op\"() : () -> ({types})\n")
        }
        name => panic!("no input for {name}"),
    }
}

fn cases(file: &str) -> Vec<Case> {
    let file = std::fs::File::open(Path::new(DATA).join(file)).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap()
}

/// What Raddle makes of a case: its text, or its errors.
fn run(case: &Case) -> Result<String, String> {
    let cx = Context::new();
    let name = format!("cases/{}.mlir", case.name);
    let input = case.input();
    let source = Source::new(&name, &input);
    let mut diagnostics = Diagnostics::new();
    let allow_unregistered = case.has("--allow-unregistered-dialect");
    let options = ParseOptions { allow_unregistered };
    let module = parse(&cx, &source, options, &mut diagnostics);
    let verified =
        module.and_then(|m| verify(m, VerifyOptions { allow_unregistered }, &mut diagnostics).ok());
    match verified {
        Some(module) => Ok(print(
            &module,
            PrintOptions {
                generic: case.has("--mlir-print-op-generic"),
                debug_info: case.has("--mlir-print-debuginfo"),
                ..PrintOptions::default()
            },
        )),
        None => {
            assert!(
                diagnostics.has_errors(),
                "{}: refused without an error",
                case.name
            );
            let options = RenderOptions {
                format: Format::Plain,
                color: false,
            };
            let text: String = diagnostics
                .iter()
                .map(|d| render(d, &source, &cx, options))
                .collect();
            Err(text)
        }
    }
}

/// The start of a text, for messages.
fn start(text: &str) -> String {
    text.chars().take(2000).collect()
}

fn check(file: &str) {
    let cases = cases(file);
    let mut failures = String::new();
    let mut printed = Vec::new();
    for case in &cases {
        match run(case) {
            Ok(text) if case.rc == 0 => {
                if !case.matches(&text) {
                    let _ = writeln!(
                        failures,
                        "## {}: mlir-opt prints\n{}\nraddle prints\n{}",
                        case.name,
                        start(&case.stdout),
                        start(&text)
                    );
                }
                printed.push((case, text));
            }
            Ok(text) => {
                let error = case.first_error.as_deref().unwrap_or("a crash");
                let _ = writeln!(
                    failures,
                    "## {}: mlir-opt says {error}\nraddle prints\n{}",
                    case.name,
                    start(&text)
                );
            }
            Err(error) if case.rc == 0 => {
                let _ = writeln!(
                    failures,
                    "## {}: mlir-opt prints\n{}\nraddle says {error}",
                    case.name,
                    start(&case.stdout)
                );
            }
            Err(_) => {}
        }
    }
    for args in [
        vec![],
        vec!["--mlir-print-debuginfo"],
        vec!["--mlir-print-op-generic"],
        vec!["--mlir-print-debuginfo", "--mlir-print-op-generic"],
    ] {
        let same: Vec<_> = printed
            .iter()
            .filter(|(case, _)| {
                ["--mlir-print-debuginfo", "--mlir-print-op-generic"]
                    .iter()
                    .all(|a| case.has(a) == args.contains(a))
            })
            .collect();
        reprint(&args, &same, &mut failures);
    }
    assert!(failures.is_empty(), "{failures}");
}

/// `mlir-opt` prints Raddle's texts as it printed the originals.
fn reprint(args: &[&str], printed: &[&(&Case, String)], failures: &mut String) {
    const SPLIT: &str = "// -----\n";
    if printed.is_empty() || !Path::new(MLIR_OPT).exists() {
        return;
    }
    let input: Vec<_> = printed.iter().map(|(_, text)| text.as_str()).collect();
    let input = input.join(SPLIT);
    let mut child = Command::new(MLIR_OPT)
        .args(["--allow-unregistered-dialect", "--split-input-file"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let _ = writeln!(failures, "## mlir-opt refuses Raddle's text:\n{errors}");
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let pieces: Vec<_> = text.split(SPLIT).collect();
    assert_eq!(pieces.len(), printed.len());
    for ((case, _), piece) in printed.iter().zip(pieces) {
        if !case.matches(piece) {
            let _ = writeln!(
                failures,
                "## {}: mlir-opt prints\n{}\nand Raddle's text as\n{}",
                case.name,
                start(&case.stdout),
                start(piece)
            );
        }
    }
}

#[test]
fn given_cases() {
    check("cases.json.gz");
}

#[test]
fn further_cases() {
    check("more.json.gz");
}
