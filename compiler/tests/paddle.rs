//! Real programs of PaddlePaddle come in, and go out again as they came.

mod paddle_files;

use paddle_files::{Case, bring_in, cases, complete_groups, rank_of};
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
        // In this case each rank reads its own result of a split, so their programs differ in more than names.
        let split = cases[0].name.starts_with("mp+sp_amp-o1");
        assert_eq!(classes, if split { 2 } else { 1 }, "{}", cases[0].name);
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
