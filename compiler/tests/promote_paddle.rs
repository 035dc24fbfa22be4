//! `promote-linear` on real programs of PaddlePaddle, against what Paddle's own pass made of them.

mod paddle_files;
mod programs;

use std::collections::BTreeMap;

use paddle_files::{bring_in, complete_groups, groups};
use programs::inspect::{classes, function, messages, run};
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::{Diagnostics, Severity};
use raddle_dialect::ir::{Module, OpId};
use raddle_runtime::validate::{Options, check_init, compare};

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

#[test]
fn op_counts_at_amp_o0_are_those_of_the_specification() {
    let cases = [
        ("mp_amp-o0_adamw_clip-none", [29, 29, 26]),
        ("mp+sp_amp-o0_adamw_clip-none", [43, 42, 38]),
        ("dpmp_amp-o0_adamw_clip-none", [45, 45, 40]),
        ("dpmp+sp_amp-o0_adamw_clip-none", [66, 65, 59]),
    ];
    let groups = groups();
    for (stem, expected) in cases {
        let module = bring_in(&groups[stem].iter().collect::<Vec<_>>());
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
    for members in complete_groups() {
        seen += 1;
        let name = &members[0].name;
        let module = bring_in(&members.iter().collect::<Vec<_>>());
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
        // Sequence-parallel gradients keep their scale; Paddle's norms are each rank's own.
        let warned = messages(&found, Severity::Warning);
        assert_eq!(
            warned.iter().any(|m| m.contains(" is the mean over ")),
            name.contains("+sp")
        );
        assert_eq!(
            warned.iter().any(|m| m.contains(" differently; ")),
            name.contains("gnorm")
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
