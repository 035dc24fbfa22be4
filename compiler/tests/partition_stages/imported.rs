//! Paddle's pipeline programs, which are cut already: their steps become jobs.

use raddle_dialect::ir::Module;
use raddle_runtime::validate::Options;

use super::paddle_files::{bring_in, pipelines};
use super::{bundle, hold, passed};

/// Kinds of the functions of a module, sorted.
fn kinds(module: &Module) -> Vec<String> {
    let functions = module.walk(module.root());
    let functions = functions.filter(|&op| module.is(op, "func.func"));
    let mut kinds: Vec<_> = functions
        .filter_map(|op| module.str_attr(op, "dist.kind"))
        .map(str::to_owned)
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn their_steps_become_jobs() {
    for (name, pipeline, expected) in [
        (
            "ZBH1_pp2_mp1_dp1_L2_m4_vpp1",
            "partition-stages",
            "backward forward init optimizer",
        ),
        (
            "ZBH1_pp2_mp1_dp1_L2_m4_vpp1_amp-o1",
            "split-backward,partition-stages",
            "backward_b backward_w forward init optimizer",
        ),
        (
            "VPP_pp2_mp1_dp1_L8_m4_vpp2",
            "infer-stages{stages=4},split-backward,partition-stages{chunks=2}",
            "backward_b backward_w forward init optimizer",
        ),
    ] {
        let cases = &pipelines()[name];
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let after = passed(module.clone(), pipeline);
        assert_eq!(kinds(&after).join(" "), expected, "{name}");
        let options = Options {
            steps: 1,
            ..Options::new(3)
        };
        let report = hold(&bundle(&module), &bundle(&after), options);
        assert!(report.passed(), "{name}: {:#?}", report.failures);
    }
}
