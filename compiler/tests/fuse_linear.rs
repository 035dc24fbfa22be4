//! `fuse-linear` on training programs.

mod programs;

use programs::inspect::{classes, count, function, messages, run};
use programs::{Spec, build};
use raddle_dialect::diag::Severity;
use raddle_dialect::ir::{FloatKind, Module, OpId, Verified};

const PIPELINE: &str = "builtin.module(promote-linear,fuse-linear)";

fn fuse(spec: &Spec) -> Verified {
    run(build(spec), PIPELINE).0
}

fn fused<'m>(module: &'m Module, class: OpId, name: &'m str) -> impl Iterator<Item = OpId> + 'm {
    let step = function(module, class, "step");
    module.walk(step).filter(move |&op| module.is(op, name))
}

#[test]
fn the_first_rank_fuses_both_layers_the_others_one() {
    let module = fuse(&Spec::default());
    let [first, rest] = [classes(&module)[0].1, classes(&module)[1].1];
    assert_eq!(fused(&module, first, "dist.fused_linear").count(), 2);
    assert_eq!(fused(&module, rest, "dist.fused_linear").count(), 1);
    for name in [
        "dist.matmul",
        "dist.add",
        "dist.add_grad",
        "dist.matmul_grad",
    ] {
        assert_eq!(count(&module, first, "step", name), 0, "{name}");
    }
    // The row-parallel product stays a product; its gradient takes the derivative of gelu with it.
    assert_eq!(count(&module, rest, "step", "dist.matmul"), 1);
    assert_eq!(count(&module, rest, "step", "dist.matmul_grad"), 0);
    for class in [first, rest] {
        let gradients: Vec<_> = fused(&module, class, "dist.fused_linear_grad").collect();
        let kinds: Vec<_> = gradients
            .iter()
            .map(|&o| module.str_attr(o, "activation"))
            .collect();
        assert_eq!(kinds, [Some("gelu"), Some("none")]);
    }
    // The pre-activation that the gradient of gelu reads is the fused op's second result.
    let forward = fused(&module, first, "dist.fused_linear")
        .next()
        .expect("a fused op");
    let backward = fused(&module, first, "dist.fused_linear_grad")
        .next()
        .expect("a fused op");
    assert_eq!(
        module.operand_in(backward, "aux"),
        module.result_in(forward, "aux")
    );
    assert!(module.result_in(forward, "aux").is_some());
}

#[test]
fn every_window_fuses_and_verifies() {
    for window in 0..8 {
        for variation in 0..8 {
            let spec = Spec {
                layers: 2,
                dp: if window & 1 == 0 { 1 } else { 2 },
                sequence_parallel: window & 2 != 0,
                amp: (window & 4 != 0).then_some(FloatKind::BF16),
                recompute: variation & 1 != 0,
                residual: variation & 2 != 0,
                bias_first: variation & 4 != 0,
                ..Spec::default()
            };
            let module = fuse(&spec);
            let classes = classes(&module);
            for (index, &(_, class)) in classes.iter().enumerate() {
                let adds = count(&module, class, "step", "dist.add");
                assert_eq!(adds, if spec.residual { 2 } else { 0 }, "{spec:?}");
                assert_eq!(
                    count(&module, class, "step", "dist.add_grad"),
                    0,
                    "{spec:?}"
                );
                let products = count(&module, class, "step", "dist.matmul");
                let repeated = if spec.recompute { 2 } else { 1 };
                assert_eq!(
                    products,
                    if index == 0 { 0 } else { 2 * repeated },
                    "{spec:?}"
                );
            }
        }
    }
}

#[test]
fn a_bias_behind_a_reduction_is_not_fused() {
    let (module, found) = run(build(&Spec::default()), "builtin.module(fuse-linear)");
    assert_eq!(
        count(&module, classes(&module)[0].1, "step", "dist.fused_linear"),
        1
    );
    let declined: Vec<_> = messages(&found, Severity::Remark)
        .into_iter()
        .filter(|m| m.starts_with("not fused"))
        .collect();
    assert_eq!(
        declined,
        [
            "not fused: its product goes through 'dist.all_reduce'; a bias can be fused once promote-linear has moved it before \
          that"
        ]
    );
}

#[test]
fn a_second_run_changes_nothing() {
    let module = fuse(&Spec::default());
    let ops = module.walk_all().count();
    assert_eq!(
        run(module, "builtin.module(fuse-linear)")
            .0
            .walk_all()
            .count(),
        ops
    );
}
