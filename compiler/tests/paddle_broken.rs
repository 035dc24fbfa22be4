//! Files that are not what they should be: each gives a diagnostic with a code and advice, and none panics.

mod paddle_files;

use std::sync::OnceLock;

use paddle_files::{Case, cases};
use proptest::prelude::*;
use raddle_compiler::interop::paddle::{File, RankFiles, export, import};
use raddle_dialect::diag::{Diagnostic, Diagnostics, Severity};
use raddle_dialect::ir::Context;

fn case() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| {
        let mut cases = cases();
        let at = cases
            .iter()
            .position(|c| c.name == "dpmp_amp-o2_adamw_clip-gnorm_rank1")
            .unwrap();
        cases.swap_remove(at)
    })
}

/// Imports; what was wrong. What can be imported can be exported.
fn try_import(main: &[u8], startup: &[u8], mesh: &[u8]) -> Vec<Diagnostic> {
    let file = |name, bytes| File { name, bytes };
    let files = [RankFiles {
        main: file("main", main),
        startup: file("startup", startup),
        mesh: file("mesh", mesh),
    }];
    let mut diagnostics = Diagnostics::new();
    if let Some(module) = import(&Context::new(), &files, &mut diagnostics) {
        assert!(!diagnostics.has_errors());
        let mut found = Diagnostics::new();
        let exported = export(&module, 1, &mut found);
        assert!(exported.is_some() || found.has_errors());
        return Vec::new();
    }
    assert!(diagnostics.has_errors());
    diagnostics
        .take()
        .into_iter()
        .filter(|d| d.severity == Severity::Error)
        .collect()
}

/// A protobuf field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A program with one op of this type and attributes.
fn program(op: &[u8], attrs: &[Vec<u8>]) -> Vec<u8> {
    let mut desc = field(3, op);
    for attr in attrs {
        desc.extend(field(4, attr));
    }
    let block = [&[8, 0, 16, 0][..], &field(4, &desc)].concat();
    field(1, &block)
}

fn error(main: &[u8]) -> Diagnostic {
    let case = case();
    let found = try_import(main, &case.startup, &case.mesh);
    found.into_iter().next().expect("an error")
}

#[test]
fn control_flow_is_refused() {
    // An attribute of type BLOCK.
    let attr = [&field(1, b"sub_block")[..], &[16, 8, 96, 1]].concat();
    let one = program(b"while", std::slice::from_ref(&attr));
    assert_eq!(error(&one).code, "E0802");
    assert!(error(&one).message.contains("`while`"));
    let two = [one.clone(), field(1, &[8, 1, 16, 0])].concat();
    assert_eq!(error(&two).code, "E0802");
    assert!(error(&two).notes[0].1.contains("`while`"));
}

#[test]
fn unknown_things_are_named() {
    let found = error(&program(b"fft", &[]));
    assert_eq!(found.code, "E0810");
    assert!(found.message.contains("`fft`"), "{}", found.message);
    assert!(found.help.is_some());
    let attr = [&field(1, b"strange")[..], &[16, 99]].concat();
    let found = error(&program(b"relu", &[attr]));
    assert_eq!(found.code, "E0804");
    assert!(found.message.contains("`strange`"), "{}", found.message);
    assert_eq!(error(&program(b"re\xfflu", &[])).code, "E0805");
}

#[test]
fn fields_of_later_releases_do_no_harm() {
    let case = case();
    // Field 99 of the program: a varint, eight bytes, a text, four bytes.
    let later = [
        0x98, 6, 1, 0x99, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0x9a, 6, 1, 65, 0x9d, 6, 1, 2, 3, 4,
    ];
    let main = [&case.main[..], &later].concat();
    assert!(try_import(&main, &case.startup, &case.mesh).is_empty());
}

/// Positions of bytes of a text in a file.
fn find(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let starts = 0..bytes.len() - text.len();
    starts.filter(|&i| bytes[i..].starts_with(text)).collect()
}

#[test]
fn an_undeclared_variable_is_named() {
    let case = case();
    let mut main = case.main.clone();
    // The first mention is the declaration.
    let at = find(&main, b"gelu_0.tmp_0")[0];
    main[at] = b'x';
    let found = error(&main);
    assert_eq!(found.code, "E0815");
    assert!(
        found.message.contains("`gelu_0.tmp_0`"),
        "{}",
        found.message
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn changed_bytes_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        startup in any::<bool>(),
    ) {
        let case = case();
        let (mut main, mut start) = (case.main.clone(), case.startup.clone());
        let bytes = if startup { &mut start } else { &mut main };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        try_import(&main, &start, &case.mesh);
    }

    #[test]
    fn cut_files_do_not_panic(at in any::<prop::sample::Index>()) {
        let case = case();
        let at = at.index(case.main.len());
        try_import(&case.main[..at], &case.startup, &case.mesh);
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let case = case();
        try_import(&bytes, &case.startup, &case.mesh);
        try_import(&case.main, &bytes, &case.mesh);
        try_import(&case.main, &case.startup, &bytes);
    }

    #[test]
    fn any_rings_do_not_panic(
        shape in prop::collection::vec(0i64..4, 0..4),
        rank in -1i64..8,
        rings in prop::collection::btree_map(-1i64..16, prop::collection::vec(-1i64..8, 0..5), 0..5),
    ) {
        let case = case();
        let axes: Vec<_> = (0..shape.len()).map(|i| format!("axis{i}")).collect();
        let mesh = serde_json::json!({
            "mesh": {"axes": axes, "shape": shape},
            "rank": rank,
            "rings": rings,
        });
        try_import(&case.main, &case.startup, mesh.to_string().as_bytes());
    }
}
