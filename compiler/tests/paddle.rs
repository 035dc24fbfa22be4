//! Real programs of PaddlePaddle come in, and go out again as they came.

mod paddle_files;

use paddle_files::{Case, bring_in, cases, complete_groups, rank_of};
use raddle_compiler::analysis::layouts::Layouts;
use raddle_compiler::interop::paddle::export;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::Verified;

#[test]
fn every_program_goes_out_as_it_came_alone() {
    let cases = cases();
    assert_eq!(cases.len(), 50);
    for case in cases {
        check_round_trip(&bring_in(&[&case]), &case);
    }
}

#[test]
fn ranks_fold_into_one_class_and_go_out_as_they_came() {
    let mut seen = 0;
    for cases in complete_groups() {
        seen += 1;
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let classes = module
            .block_ops(module.body(module.root()))
            .filter(|&op| module.is(op, "builtin.module"))
            .count();
        assert_eq!(classes, 1, "{}", cases[0].name);
        for case in &cases {
            check_round_trip(&module, case);
        }
    }
    assert_eq!(seen, 18);
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

/// Ops that read a value as something that it is not, by the layouts that were imported. Paddle's optimizers do so in earnest:
/// its global norm is that of each rank's tensors.
fn misread(module: &Verified) -> Vec<String> {
    let classes = module.block_ops(module.body(module.root()));
    let classes = classes.filter(|&op| module.is(op, "builtin.module"));
    let findings = classes.flat_map(|class| {
        let step = module.find_symbol(class, "step").unwrap();
        Layouts::of(module, step).unwrap().findings
    });
    findings
        .filter(|f| module.str_attr(f.op, "dist.role") != Some("optimizer"))
        .map(|f| format!("{}: {}", module.name_str(f.op), f.error))
        .collect()
}

/// In these cases each rank reads its own part of a split, which one rank's program does not say.
fn reads_own_part(name: &str) -> bool {
    name.contains("+sp_amp-o1")
}

#[test]
fn imported_layouts_go_together() {
    for cases in complete_groups() {
        let name = &cases[0].name;
        let findings = misread(&bring_in(&cases.iter().collect::<Vec<_>>()));
        assert!(findings.is_empty(), "{name}: {findings:#?}");
    }
    for case in cases() {
        let findings = misread(&bring_in(&[&case]));
        assert!(
            findings.is_empty() || reads_own_part(&case.name),
            "{}: {findings:#?}",
            case.name
        );
    }
}
