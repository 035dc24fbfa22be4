//! Real programs of PaddlePaddle come in, and go out again as they came.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use raddle_compiler::interop::paddle::{File, RankFiles, export, import};
use raddle_dialect::diag::{Diagnostics, Severity};
use raddle_dialect::ir::{Context, Verified};

/// One rank's files.
struct Case {
    name: String,
    main: Vec<u8>,
    startup: Vec<u8>,
    mesh: Vec<u8>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/data/paddle/promotion")
}

fn unzip(path: PathBuf) -> Vec<u8> {
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_end(&mut out)
        .unwrap();
    out
}

fn cases() -> Vec<Case> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            Some(name.strip_suffix(".mesh.json")?.to_owned())
        })
        .collect();
    names.sort();
    let case = |name: String| Case {
        main: unzip(folder().join(format!("{name}.main.pdprog.gz"))),
        startup: unzip(folder().join(format!("{name}.startup.pdprog.gz"))),
        mesh: std::fs::read(folder().join(format!("{name}.mesh.json"))).unwrap(),
        name,
    };
    names.into_iter().map(case).collect()
}

/// Cases by what is left of their names without the rank.
fn groups() -> BTreeMap<String, Vec<Case>> {
    let mut groups = BTreeMap::<String, Vec<Case>>::new();
    for case in cases() {
        let at = case.name.find("_rank").unwrap();
        let key = format!("{}{}", &case.name[..at], &case.name[at + 6..]);
        groups.entry(key).or_default().push(case);
    }
    groups
}

fn bring_in(cases: &[&Case]) -> Verified {
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let files: Vec<_> = cases
        .iter()
        .map(|case| RankFiles {
            main: File {
                name: &case.name,
                bytes: &case.main,
            },
            startup: File {
                name: &case.name,
                bytes: &case.startup,
            },
            mesh: File {
                name: &case.name,
                bytes: &case.mesh,
            },
        })
        .collect();
    let module = import(&cx, &files, &mut diagnostics);
    let errors: Vec<_> = diagnostics
        .iter()
        .filter(|d| d.severity != Severity::Remark)
        .map(|d| format!("{:?} {} {}", cx_loc(&cx, d.at), d.code, d.message))
        .collect();
    assert!(errors.is_empty(), "{}: {errors:#?}", cases[0].name);
    module.unwrap_or_else(|| panic!("{} is not imported", cases[0].name))
}

fn cx_loc(cx: &Context, at: raddle_dialect::diag::At) -> String {
    match at {
        raddle_dialect::diag::At::Loc(loc) => format!("{:?}", cx.loc_data(loc)),
        span => format!("{span:?}"),
    }
}

#[test]
fn every_program_is_imported_alone() {
    for case in cases() {
        bring_in(&[&case]);
    }
}

#[test]
fn all_ranks_together_fold_into_one_class() {
    let mut seen = 0;
    for cases in groups().into_values() {
        let mesh = std::str::from_utf8(&cases[0].mesh).unwrap();
        let ranks = if mesh.contains("[2, 2]") { 4 } else { 2 };
        if cases.len() != ranks {
            continue;
        }
        seen += 1;
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let classes = module
            .block_ops(module.body(module.root()))
            .filter(|&op| module.is(op, "builtin.module"))
            .count();
        // In this case each rank reads its own result of a split, so their programs differ in more than names.
        let split = cases[0].name.starts_with("mp+sp_amp-o1");
        assert_eq!(classes, if split { 2 } else { 1 }, "{}", cases[0].name);
    }
    assert_eq!(seen, 18);
}

fn rank_of(case: &Case) -> usize {
    let mesh: serde_json::Value = serde_json::from_slice(&case.mesh).unwrap();
    mesh["rank"].as_u64().unwrap() as usize
}

fn check_round_trip(module: &Verified, case: &Case) {
    let mut diagnostics = Diagnostics::new();
    let back = export(module, rank_of(case), &mut diagnostics);
    let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
    let back = back.unwrap_or_else(|| panic!("{}: {messages:?}", case.name));
    // Not just equal messages: equal bytes.
    assert!(back.main == case.main, "{}: main differs", case.name);
    assert!(
        back.startup == case.startup,
        "{}: startup differs",
        case.name
    );
}

#[test]
fn every_program_goes_out_as_it_came_alone() {
    for case in cases() {
        check_round_trip(&bring_in(&[&case]), &case);
    }
}

#[test]
fn every_rank_of_a_class_goes_out_as_it_came() {
    for cases in groups().into_values() {
        let mesh = std::str::from_utf8(&cases[0].mesh).unwrap();
        let ranks = if mesh.contains("[2, 2]") { 4 } else { 2 };
        if cases.len() == ranks {
            let module = bring_in(&cases.iter().collect::<Vec<_>>());
            for case in &cases {
                check_round_trip(&module, case);
            }
        }
    }
}
