//! Runs the verifier's lit files without raddle-opt: sections between `// -----`, and `expected-error @+N {{text}}` comments.

use std::path::Path;

use raddle_dialect::diag::{At, Diagnostics, Severity, Source};
use raddle_dialect::ir::{Context, Loc, LocData, VerifyOptions, verify};
use raddle_dialect::syntax::{self, ParseOptions};

/// What a section expects: line (counted within the section) and text.
fn expectations(section: &str) -> Vec<(usize, String)> {
    let mut expected = Vec::new();
    for (number, line) in section.lines().enumerate() {
        let Some((_, rest)) = line.split_once("expected-error @+") else {
            continue;
        };
        let (offset, rest) = rest.split_once(" {{").expect("an offset");
        let text = rest.strip_suffix("}}").expect("one line");
        let offset: usize = offset.parse().expect("a number");
        expected.push((number + 1 + offset, text.to_owned()));
    }
    expected
}

fn line_of(cx: &Context, loc: Loc) -> usize {
    match cx.loc_data(loc) {
        LocData::File { line, .. } => *line as usize,
        other => panic!("an unexpected location {other:?}"),
    }
}

fn check(name: &str, section: &str, codes: &mut Vec<&'static str>) {
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("section", section.as_bytes());
    let module = syntax::parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
    if let Some(module) = module {
        let _ = verify(module, VerifyOptions::default(), &mut diagnostics);
    }
    let mut expected = expectations(section);
    for d in diagnostics.iter().filter(|d| d.severity == Severity::Error) {
        codes.push(d.code);
        let line = match d.at {
            At::Loc(loc) => line_of(&cx, loc),
            At::Span { start, .. } => section[..start].lines().count().max(1),
        };
        let found = expected
            .iter()
            .position(|(at, text)| *at == line && d.message.contains(text.as_str()));
        let found = found
            .unwrap_or_else(|| panic!("{name}: line {line}: unexpected: {}\n{section}", d.message));
        expected.remove(found);
    }
    assert!(
        expected.is_empty(),
        "{name}: missing {expected:?}\n{section}"
    );
}

#[test]
fn the_verifiers_lit_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/verify");
    let mut codes = Vec::new();
    for file in [
        "dist-definition",
        "dist-shapes",
        "dist-mesh",
        "dist-globals",
        "dist-schedule",
        "dist-gpt",
    ] {
        let text =
            std::fs::read_to_string(folder.join(file).with_extension("mlir")).expect("the file");
        for section in text.split("// -----\n") {
            check(file, section, &mut codes);
        }
    }
    codes.sort_unstable();
    codes.dedup();
    // Every code that a module's text can give rise to.
    let all = [
        "E0301", "E0302", "E0303", "E0304", "E0305", "E0306", "E0308", "E0310", "E0311", "E0312",
        "E0313", "E0314", "E0315", "E0316", "E0317", "E0320", "E0321", "E0322", "E0323", "E0324",
        "E0325", "E0330", "E0331", "E0332", "E0333", "E0334", "E0551", "E0552", "E0553", "E0554",
        "E0555",
    ];
    assert_eq!(codes, all);
}
