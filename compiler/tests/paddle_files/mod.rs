//! The programs in `lit-tests/data/paddle`, and how they come in.
#![allow(dead_code)] // Each test uses a part of this.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use raddle_compiler::interop::paddle::{File, RankFiles, import};
use raddle_dialect::diag::{Diagnostics, Severity};
use raddle_dialect::ir::{Context, Verified};

/// One rank's files.
pub struct Case {
    pub name: String,
    pub main: Vec<u8>,
    pub startup: Vec<u8>,
    pub mesh: Vec<u8>,
}

/// One of the folders of `lit-tests/data/paddle`.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../lit-tests/data/paddle")
        .join(name)
}

/// A gzipped file of the pipeline programs.
pub fn pipeline_file(name: &str) -> Vec<u8> {
    unzip(folder("pipeline").join(format!("{name}.gz")))
}

fn unzip(path: PathBuf) -> Vec<u8> {
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_end(&mut out)
        .unwrap();
    out
}

pub fn cases() -> Vec<Case> {
    cases_in("promotion")
}

fn cases_in(name: &str) -> Vec<Case> {
    let folder = || folder(name);
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

/// The ranks of each pipeline program, in order.
pub fn pipelines() -> BTreeMap<String, Vec<Case>> {
    let mut groups = BTreeMap::<String, Vec<Case>>::new();
    for case in cases_in("pipeline") {
        let at = case.name.find("_rank").unwrap();
        groups
            .entry(case.name[..at].to_owned())
            .or_default()
            .push(case);
    }
    groups
}

/// Cases by what is left of their names without the rank.
pub fn groups() -> BTreeMap<String, Vec<Case>> {
    let mut groups = BTreeMap::<String, Vec<Case>>::new();
    for case in cases() {
        let at = case.name.find("_rank").unwrap();
        let key = format!("{}{}", &case.name[..at], &case.name[at + 6..]);
        groups.entry(key).or_default().push(case);
    }
    groups
}

pub fn bring_in(cases: &[&Case]) -> Verified {
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

/// The groups in which every rank of the mesh has its file.
pub fn complete_groups() -> impl Iterator<Item = Vec<Case>> {
    groups().into_values().filter(|cases| {
        let mesh: serde_json::Value = serde_json::from_slice(&cases[0].mesh).unwrap();
        let shape = mesh["mesh"]["shape"].as_array().unwrap();
        let ranks: u64 = shape.iter().map(|n| n.as_u64().unwrap()).product();
        cases.len() as u64 == ranks
    })
}

/// The rank that a case is for.
pub fn rank_of(case: &Case) -> usize {
    let mesh: serde_json::Value = serde_json::from_slice(&case.mesh).unwrap();
    mesh["rank"].as_u64().unwrap() as usize
}
