//! `promote-linear` on real programs of PaddlePaddle, against what Paddle's own pass made of them.

mod programs;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use programs::inspect::{classes, function, messages, run};
use raddle_compiler::interop::paddle::{File, RankFiles, import};
use raddle_dialect::diag::{Diagnostics, Severity};
use raddle_dialect::ir::{Context, Module, OpId, Verified};

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
