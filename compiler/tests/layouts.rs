//! The layout rules on imported programs of PaddlePaddle.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;

use raddle_compiler::analysis::layouts::Layouts;
use raddle_compiler::interop::paddle::{File, RankFiles, import};
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Context, Module, OpId};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/data/paddle/promotion")
}

fn unzip(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(folder().join(name)).expect("the file is there");
    let mut out = Vec::new();
    let read = flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut out);
    read.expect("gzip");
    out
}

/// Names of all cases, without what follows.
fn cases() -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder is there");
    let names = entries.map(|e| {
        e.expect("an entry")
            .file_name()
            .into_string()
            .expect("UTF-8")
    });
    names
        .filter_map(|n| Some(n.strip_suffix(".mesh.json")?.to_owned()))
        .collect()
}

/// The programs of these ranks; one alone stands for all.
fn bring_in(names: &[String]) -> Module {
    let read = |name: &String| {
        let mesh = std::fs::read(folder().join(format!("{name}.mesh.json"))).expect("the mesh");
        let [main, startup] = ["main", "startup"].map(|k| unzip(&format!("{name}.{k}.pdprog.gz")));
        [main, startup, mesh]
    };
    let bytes: Vec<_> = names.iter().map(read).collect();
    let files = bytes.iter().zip(names).map(|(bytes, name)| {
        let [main, startup, mesh] = [0, 1, 2].map(|i| File {
            name,
            bytes: &bytes[i],
        });
        RankFiles {
            main,
            startup,
            mesh,
        }
    });
    let files: Vec<_> = files.collect();
    let module = import(&Context::new(), &files, &mut Diagnostics::new());
    module.expect("the program imports").into_module()
}

/// Functions of all classes.
fn functions(module: &Module) -> Vec<OpId> {
    let top = module.block_ops(module.body(module.root()));
    let classes = top.filter(|&op| module.is(op, "builtin.module"));
    classes
        .flat_map(|class| module.block_ops(module.body(class)))
        .filter(|&op| module.is(op, "func.func"))
        .collect()
}

/// Code and op of every finding.
fn findings(names: &[String]) -> Vec<String> {
    let module = bring_in(names);
    let mut found = Vec::new();
    for function in functions(&module) {
        let layouts = Layouts::of(&module, function).expect("a class");
        for finding in layouts.findings {
            let name = module.name_str(finding.op);
            found.push(format!("{} {name}", finding.error.code()));
        }
    }
    found
}

/// Every op of these programs reads its operands as what they are, with two exceptions that are the programs' own.
#[test]
fn real_programs_follow_the_rules() {
    for case in cases() {
        let found = findings(std::slice::from_ref(&case));
        if case.contains("clip-gnorm") {
            // Paddle takes the norm of what the rank has: parts of sums are added up as if they were whole.
            assert!(
                found.iter().all(|f| f == "E0341 dist.stack"),
                "{case}: {found:?}"
            );
        } else if case.contains("+sp") {
            // One rank's program cuts the gradient at that rank's place, so for all ranks it is not the one that belongs to x.
            assert!(
                found.iter().all(|f| f.starts_with("E0340 ")),
                "{case}: {found:?}"
            );
        } else {
            assert!(found.is_empty(), "{case}: {found:?}");
        }
    }
}

/// With the programs of all ranks the cuts are known to follow the rank.
#[test]
fn programs_of_all_ranks_follow_the_rules() {
    let names = [0, 1, 2, 3].map(|r| format!("dpmp+sp_amp-o0_adamw_clip-none_rank{r}"));
    assert_eq!(findings(&names), Vec::<String>::new());

    // Nothing of it rests on values of which nothing is known.
    let module = bring_in(&names);
    for function in functions(&module) {
        let layouts = Layouts::of(&module, function).expect("a class");
        for op in module.walk(function) {
            for result in module.results(op) {
                assert!(layouts.get(result).is_some(), "{}", module.name_str(op));
            }
        }
    }
}
