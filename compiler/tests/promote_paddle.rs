//! `promote-linear` on real programs of PaddlePaddle, against what Paddle's own pass made of them.

mod programs;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use programs::inspect::{classes, function, messages, run};
use raddle_compiler::bundle::lower;
use raddle_compiler::interop::paddle::{File, RankFiles, import};
use raddle_dialect::diag::{Diagnostics, Severity};
use raddle_dialect::ir::{Context, Module, OpId, Verified};
use raddle_runtime::validate::{Options, check_init, compare};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/data/paddle/promotion")
}

fn unzip(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_end(&mut out)
        .unwrap();
    out
}

/// Imports the files of these ranks, `X_rank0` and so on.
fn bring_in(names: &[String]) -> Verified {
    let files: Vec<[Vec<u8>; 3]> = names
        .iter()
        .map(|name| {
            let mesh = std::fs::read(folder().join(format!("{name}.mesh.json"))).unwrap();
            let [main, startup] =
                ["main", "startup"].map(|k| unzip(&format!("{name}.{k}.pdprog.gz")));
            [main, startup, mesh]
        })
        .collect();
    let files: Vec<_> = files
        .iter()
        .zip(names)
        .map(|(bytes, name)| {
            let [main, startup, mesh] = [0, 1, 2].map(|i| File {
                name,
                bytes: &bytes[i],
            });
            RankFiles {
                main,
                startup,
                mesh,
            }
        })
        .collect();
    let mut diagnostics = Diagnostics::new();
    let module = import(&Context::new(), &files, &mut diagnostics);
    module.unwrap_or_else(|| {
        panic!(
            "{names:?}: {:?}",
            messages(
                diagnostics.iter().cloned().collect::<Vec<_>>().as_slice(),
                Severity::Error
            )
        )
    })
}

/// Ops of a function by name, loads, stores and structure left out.
fn census(module: &Module, class: OpId, function_name: &str) -> BTreeMap<String, usize> {
    let structure = ["func.func", "func.return", "dist.load", "dist.store"];
    let mut census = BTreeMap::new();
    for op in module.walk(function(module, class, function_name)) {
        let name = module.name_str(op);
        if !structure.contains(&name) {
            *census.entry(name.to_owned()).or_default() += 1;
        }
    }
    census
}

fn total(census: &BTreeMap<String, usize>) -> usize {
    census.values().sum()
}

fn ranks(stem: &str, suffix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|rank| format!("{stem}_rank{rank}{suffix}"))
        .collect()
}

#[test]
fn op_counts_at_amp_o0_are_those_of_the_specification() {
    let cases = [
        ("mp_amp-o0_adamw_clip-none", 2, [29, 29, 26]),
        ("mp+sp_amp-o0_adamw_clip-none", 2, [43, 42, 38]),
        ("dpmp_amp-o0_adamw_clip-none", 4, [45, 45, 40]),
        ("dpmp+sp_amp-o0_adamw_clip-none", 4, [66, 65, 59]),
    ];
    for (stem, count, expected) in cases {
        let module = bring_in(&ranks(stem, "", count));
        let before = total(&census(&module, classes(&module)[0].1, "step"));
        let (module, found) = run(module, "builtin.module(promote-linear)");
        let classes = classes(&module);
        assert_eq!(
            classes.len(),
            2,
            "{stem}: {:?}",
            messages(&found, Severity::Remark)
        );
        let after = [0, 1].map(|i| total(&census(&module, classes[i].1, "step")));
        assert_eq!([before, after[0], after[1]], expected, "{stem}");
    }
}

/// All ranks of every program that is there for all ranks: every window, several optimizers and clips.
#[test]
fn all_programs_are_promoted_and_keep_their_meaning() {
    let mut seen = 0;
    for (name, members) in groups() {
        let mesh =
            std::fs::read_to_string(folder().join(format!("{}.mesh.json", members[0]))).unwrap();
        if members.len() != if mesh.contains("[2, 2]") { 4 } else { 2 } {
            continue;
        }
        seen += 1;
        let module = bring_in(&members);
        let mut diagnostics = Diagnostics::new();
        let before = lower(&module, &mut diagnostics).expect("a program");
        let (module, found) = run(module, "builtin.module(promote-linear,fuse-linear)");
        let said = messages(&found, Severity::Remark);
        assert!(
            said.iter().any(|m| m.starts_with("promoted")),
            "{name}: {said:?}"
        );
        assert!(
            !said
                .iter()
                .any(|m| m.contains("parameter, so it") || m.contains("not promoted: bias")),
            "{name}"
        );
        assert_eq!(
            messages(&found, Severity::Warning).is_empty(),
            !name.contains("+sp"),
            "{name}: sequence parallel gradients keep their scale"
        );
        let after = lower(&module, &mut diagnostics).expect("a program");
        let options = Options {
            steps: 2,
            ..Options::new(1)
        };
        let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let differ: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        assert!(differ.is_empty(), "{name}: {differ:#?}");
        let init = check_init(&after).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(init.is_empty(), "{name}: {init:#?}");
    }
    assert_eq!(seen, 18);
}

/// Ranks of the same program, by its name without the rank.
fn groups() -> BTreeMap<String, Vec<String>> {
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".mesh.json") {
            let at = name.find("_rank").unwrap();
            let key = format!("{}{}", &name[..at], &name[at + 6..]);
            groups.entry(key).or_default().push(name.to_owned());
        }
    }
    groups.values_mut().for_each(|names| names.sort());
    groups
}
