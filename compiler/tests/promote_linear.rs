//! `promote-linear` on training programs of every kind.

mod programs;

use programs::inspect::{classes, computing, count, function, messages, run};
use programs::{BiasReduction, Clip, LossScaling, Optimizer, Spec, build};
use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{FloatKind, Module, OpId, Verified};

fn promote(spec: &Spec) -> (Verified, Vec<Diagnostic>) {
    run(build(spec), "builtin.module(promote-linear)")
}

#[test]
fn tensor_parallel_splits_the_class() {
    let before = build(&Spec::default());
    let all = computing(&before, classes(&before)[0].1, "step");
    let (module, found) = promote(&Spec::default());
    let classes = classes(&module);
    assert_eq!(
        classes.iter().map(|c| c.0).collect::<Vec<_>>(),
        ["all_first", "all_rest"]
    );
    let [first, rest] = [classes[0].1, classes[1].1];
    assert_eq!(computing(&module, first, "step"), all);
    // Add, add_grad and the optimizer op are gone.
    assert_eq!(computing(&module, rest, "step"), all - 3);
    assert_eq!(count(&module, first, "init", "dist.broadcast"), 0);
    assert_eq!(module.find_symbol(rest, "b0_out"), None);
    assert_eq!(module.find_symbol(rest, "b0_out_moment1"), None);
    assert!(module.find_symbol(rest, "b0_in").is_some());
    assert_eq!(
        messages(&found, Severity::Remark),
        [
            "not promoted: its product is not summed over ranks",
            "promoted: @b0_out is added before the 'dist.all_reduce' over [\"mp\"], on the first rank only"
        ]
    );
}

/// Kind, axes and type of the collectives over the tensor axis, in order.
fn meetings(module: &Module, class: OpId, function_name: &str) -> Vec<String> {
    let function = function(module, class, function_name);
    let over_mp = |op: &OpId| module.axes_attr(*op, "axes").contains(&"mp");
    let show = |op: OpId| {
        let ty = module.cx().type_data(module.ty(module.operand(op, 0)));
        format!(
            "{} {:?} {ty:?}",
            module.name_str(op),
            module.axes_attr(op, "axes")
        )
    };
    module.walk(function).filter(over_mp).map(show).collect()
}

/// Every variation that must be promoted: ranks meet in the same order, and nothing of the biases is left on the other ranks.
fn check(spec: &Spec) -> (Verified, Vec<Diagnostic>) {
    let (module, found) = promote(spec);
    let classes = classes(&module);
    assert_eq!(
        classes.len(),
        2,
        "{spec:?}: {:?}",
        messages(&found, Severity::Remark)
    );
    let [(_, first), (_, rest)] = [classes[0], classes[1]];
    for function in ["init", "step"] {
        let [a, b] = [first, rest].map(|class| meetings(&module, class, function));
        assert_eq!(a, b, "{spec:?}: {function}");
    }
    let biases = if spec.tied_bias { 1 } else { spec.layers };
    for layer in 0..biases {
        let name = format!("b{layer}_out");
        let lost = module.symbols(rest).filter(|(n, _)| n.starts_with(&name));
        assert_eq!(lost.count(), 0, "{spec:?}");
        assert!(module.find_symbol(first, &name).is_some());
    }
    // Each product on the first rank is read by the add, not by the reduction.
    let step = function(&module, first, "step");
    for add in module
        .walk(step)
        .filter(|&o| module.is(o, "dist.all_reduce"))
    {
        let source = module.defining_op(module.operand(add, 0));
        assert!(
            !source.is_some_and(|o| module.is(o, "dist.matmul")),
            "{spec:?}"
        );
    }
    assert!(!found.iter().any(|d| d.severity == Severity::Error));
    (module, found)
}

#[test]
fn data_parallel_reductions_stay_on_the_first_rank_only() {
    let spec = Spec {
        dp: 2,
        ..Spec::default()
    };
    let before = build(&spec);
    let all = computing(&before, classes(&before)[0].1, "step");
    let (module, _) = check(&spec);
    let [first, rest] = [classes(&module)[0].1, classes(&module)[1].1];
    assert_eq!(computing(&module, first, "step"), all);
    assert_eq!(computing(&module, rest, "step"), all - 5);
    let over_dp = |class, function_name| {
        let f = function(&module, class, function_name);
        module
            .walk(f)
            .filter(|&o| module.axes_attr(o, "axes") == ["dp"])
            .count()
    };
    assert_eq!(over_dp(first, "init"), over_dp(rest, "init") + 1);
    assert_eq!(over_dp(first, "step"), over_dp(rest, "step") + 1);
}

#[test]
fn sequence_parallel_keeps_the_scale_and_warns() {
    for dp in [1, 2] {
        let spec = Spec {
            dp,
            sequence_parallel: true,
            ..Spec::default()
        };
        let before = build(&spec);
        let all = computing(&before, classes(&before)[0].1, "step");
        let (module, found) = check(&spec);
        let [first, rest] = [classes(&module)[0].1, classes(&module)[1].1];
        assert_eq!(computing(&module, first, "step"), all - 1);
        let data = if dp == 2 { 2 } else { 0 };
        assert_eq!(computing(&module, rest, "step"), all - 5 - data);
        assert_eq!(
            messages(&found, Severity::Warning),
            ["the gradient of bias @b0_out is the mean over [\"mp\"], that of its weight the sum"]
        );
        let summed = Spec {
            bias_reduction: BiasReduction::Sum,
            ..spec
        };
        assert!(messages(&check(&summed).1, Severity::Warning).is_empty());
    }
}

/// The bias gradient is taken of the whole sequence, and so is the product's: not of half of it, as Paddle's pass does.
#[test]
fn sequence_parallel_gradients_have_full_size() {
    let (module, _) = check(&Spec {
        sequence_parallel: true,
        ..Spec::default()
    });
    let step = function(&module, classes(&module)[0].1, "step");
    let with_gather = module.walk(step).find(|&op| {
        let gathered = |v| {
            module
                .defining_op(v)
                .is_some_and(|o| module.is(o, "dist.all_gather"))
        };
        module.is(op, "dist.add_grad") && gathered(module.operand(op, 2))
    });
    let op = with_gather.expect("an add_grad of the gathered gradient");
    for value in [
        module.operand(op, 0),
        module.operand(op, 2),
        module.result(op, 0),
    ] {
        let (shape, _) = module.cx().as_tensor(module.ty(value)).expect("a tensor");
        assert_eq!(shape[0], programs::SEQUENCE);
    }
}

#[test]
fn every_window_optimizer_clip_and_scaling() {
    let optimizers = [
        Optimizer::Sgd,
        Optimizer::Momentum,
        Optimizer::Adamw,
        Optimizer::Adamax,
    ];
    let clips = [
        Clip::None,
        Clip::Value,
        Clip::Norm,
        Clip::GlobalStack,
        Clip::GlobalSum,
    ];
    for window in 0..8 {
        for (i, optimizer) in optimizers.into_iter().enumerate() {
            for (j, clip) in clips.into_iter().enumerate() {
                let combined = (window + i + j) % 2 == 0;
                check(&Spec {
                    layers: 2,
                    dp: if window & 1 == 0 { 1 } else { 2 },
                    sequence_parallel: window & 2 != 0,
                    amp: (window & 4 != 0).then_some(FloatKind::BF16),
                    optimizer,
                    clip,
                    loss_scaling: if combined {
                        LossScaling::Combined
                    } else {
                        LossScaling::None
                    },
                    ..Spec::default()
                });
            }
        }
    }
}

#[test]
fn recompute_residual_tied_and_swapped_operands() {
    for window in 0..8 {
        for variation in 1..16 {
            check(&Spec {
                layers: 3,
                dp: if window & 1 == 0 { 1 } else { 2 },
                sequence_parallel: window & 2 != 0,
                amp: (window & 4 != 0).then_some(FloatKind::F16),
                recompute: variation & 1 != 0,
                residual: variation & 2 != 0,
                tied_bias: variation & 4 != 0,
                bias_first: variation & 8 != 0,
                ..Spec::default()
            });
        }
    }
}

/// The squares of all removed gradients reach the other ranks as one scalar.
#[test]
fn a_global_norm_keeps_the_removed_terms() {
    let spec = Spec {
        layers: 3,
        clip: Clip::PerRank,
        ..Spec::default()
    };
    let (module, _) = check(&spec);
    let [first, rest] = [classes(&module)[0].1, classes(&module)[1].1];
    for class in [first, rest] {
        assert_eq!(count(&module, class, "step", "dist.broadcast"), 1);
    }
    let stack = |class| {
        let f = function(&module, class, "step");
        let op = module.walk(f).find(|&o| module.is(o, "dist.stack"));
        module.num_operands(op.expect("a stack"))
    };
    assert_eq!(stack(first), 12);
    assert_eq!(stack(rest), 9 + 1);
}

/// With clip factors that are not the same on all ranks, the bias is not either: that is said, not hidden.
#[test]
fn ranks_that_clip_differently_are_warned_of() {
    let warned = |clip| {
        let (_, found) = check(&Spec {
            clip,
            ..Spec::default()
        });
        messages(&found, Severity::Warning)
            .iter()
            .filter(|m| m.contains("may update bias @b0_out differently"))
            .count()
    };
    assert_eq!(warned(Clip::PerRank), 1);
    assert_eq!(warned(Clip::GlobalStack), 0);
    assert_eq!(warned(Clip::Norm), 0);
}

#[test]
fn flags_that_ranks_keep_to_themselves_are_broadcast() {
    let spec = Spec {
        loss_scaling: LossScaling::Local,
        layers: 2,
        ..Spec::default()
    };
    let (module, _) = check(&spec);
    for (_, class) in classes(&module) {
        assert_eq!(count(&module, class, "step", "dist.broadcast"), 1);
    }
    let (module, _) = check(&Spec {
        loss_scaling: LossScaling::Combined,
        ..spec
    });
    for (_, class) in classes(&module) {
        assert_eq!(count(&module, class, "step", "dist.broadcast"), 0);
    }
}

/// `b1` and `b10` are different biases; Paddle's pass deletes both when it means one.
#[test]
fn biases_are_told_apart_by_symbol() {
    let (module, _) = check(&Spec {
        layers: 11,
        ..Spec::default()
    });
    let rest = classes(&module)[1].1;
    for layer in 0..11 {
        assert!(module.find_symbol(rest, &format!("b{layer}_in")).is_some());
    }
}

#[test]
fn a_second_run_changes_nothing() {
    let (module, _) = promote(&Spec::default());
    let ops = module.walk_all().count();
    let (again, found) = run(module, "builtin.module(promote-linear)");
    assert_eq!(again.walk_all().count(), ops);
    assert!(
        messages(&found, Severity::Remark)
            .iter()
            .all(|m| m.starts_with("not promoted"))
    );
}

#[test]
fn layers_without_bias_are_left_alone() {
    let (module, found) = promote(&Spec {
        bias: false,
        residual: true,
        ..Spec::default()
    });
    assert_eq!(classes(&module).len(), 1);
    assert_eq!(
        messages(&found, Severity::Remark),
        [
            "not promoted: its product is not summed over ranks",
            "not promoted: what is added to the reduced product is not a parameter, so it is not a bias"
        ]
    );
}

#[test]
fn layers_take_linear_time() {
    let mut times = Vec::new();
    for layers in [50, 200] {
        let module = build(&Spec {
            layers,
            ..Spec::default()
        });
        let start = std::time::Instant::now();
        let (module, _) = run(module, "builtin.module(promote-linear)");
        times.push(start.elapsed());
        assert_eq!(classes(&module).len(), 2);
    }
    // Four times the layers; a quadratic pass would take sixteen times as long.
    assert!(times[1] < times[0] * 9, "{times:?}");
}

/// Pipeline stages, or ranks that differ for other reasons, are classes of their own. "First" is decided for each by its own
/// indices; Paddle looks at the first mesh only, and later stages lose the bias on every rank.
#[test]
fn first_is_decided_for_each_class_of_ranks() {
    let module = build(&Spec {
        dp: 2,
        ..Spec::default()
    });
    let module = split_class(module, [("dp", &[0]), ("dp", &[1])]);
    let (module, _) = run(module, "builtin.module(promote-linear)");
    let names: Vec<_> = classes(&module).iter().map(|c| c.0).collect();
    assert_eq!(
        names,
        ["all_first", "all_rest", "other_first", "other_rest"]
    );
    for (name, class) in classes(&module) {
        let owns = module.find_symbol(class, "b0_out").is_some();
        assert_eq!(owns, name.ends_with("_first"), "{name}");
    }
}

/// The ranks of a group are in different classes: both promote, each in its role.
#[test]
fn classes_that_share_groups_promote_together() {
    let module = build(&Spec {
        sequence_parallel: true,
        clip: Clip::GlobalSum,
        ..Spec::default()
    });
    let module = split_class(module, [("mp", &[0]), ("mp", &[1])]);
    let (module, _) = run(module, "builtin.module(promote-linear)");
    let [(_, first), (_, rest)] = classes(&module)[..] else {
        panic!("two classes stay two");
    };
    assert!(module.find_symbol(first, "b0_out").is_some());
    assert!(module.find_symbol(rest, "b0_out").is_none());
    assert_eq!(
        meetings(&module, first, "step"),
        meetings(&module, rest, "step")
    );
}

/// Only one of the classes that share groups adds a bias: it may not be added before the sum that the other takes part in.
#[test]
fn a_class_whose_groups_reach_outside_is_left_alone() {
    let module = build(&Spec::default());
    let mut module = split_class(module, [("mp", &[0]), ("mp", &[1])]).into_module();
    let other = classes(&module)[1].1;
    let step = function(&module, other, "step");
    let sum = |op: &OpId| {
        let reduced = |v| {
            module
                .defining_op(v)
                .is_some_and(|o| module.is(o, "dist.all_reduce"))
        };
        module.is(*op, "dist.add") && module.operands(*op).any(reduced)
    };
    let add = module.walk(step).find(sum).expect("the add");
    let source = module.operand(add, 0);
    let mut rewriter = raddle_dialect::ir::Rewriter::new(&mut module);
    let result = rewriter.result(add, 0);
    rewriter.replace_uses(result, source);
    rewriter.erase(add);
    let (module, found) = run(programs::checked(module), "builtin.module(promote-linear)");
    assert_eq!(classes(&module).len(), 2);
    assert!(
        messages(&found, Severity::Remark)
            .iter()
            .any(|m| m.contains("does not hold whole groups over [\"mp\"]"))
    );
    assert!(
        module
            .find_symbol(classes(&module)[1].1, "b0_out")
            .is_some()
    );
}

/// Cuts the only class in two, `@all` and `@other`, along an axis.
fn split_class(module: Verified, ranks: [(&str, &[i64]); 2]) -> Verified {
    let mut module = module.into_module();
    let cx = module.cx().clone();
    let class = classes(&module)[0].1;
    let mut rewriter = raddle_dialect::ir::Rewriter::new(&mut module);
    let copy = rewriter
        .after(class)
        .clone_op(class, &mut Default::default());
    rewriter.set_attr(copy, "sym_name", Some(cx.string("other")));
    for (op, (axis, indices)) in [class, copy].into_iter().zip(ranks) {
        let entry = cx.dict(vec![(cx.ident(axis), cx.i64_array(indices))]);
        rewriter.set_attr(op, "dist.ranks", Some(cx.array(&[entry])));
    }
    programs::checked(module)
}

#[test]
fn reductions_of_sequence_parallel_gradients_become_those_over_the_other_axes() {
    let reductions = [
        (BiasReduction::Sum, 1, 1),
        (BiasReduction::Scaled, 1, 2),
        (BiasReduction::Average, 1, 2),
        (BiasReduction::Joint, 1, 1),
    ];
    for (bias_reduction, reduced, scaled) in reductions {
        let spec = Spec {
            dp: 2,
            sequence_parallel: true,
            bias_reduction,
            ..Spec::default()
        };
        let (module, found) = check(&spec);
        let warned = !messages(&found, Severity::Warning).is_empty();
        assert_eq!(
            warned,
            bias_reduction != BiasReduction::Sum,
            "{bias_reduction:?}"
        );
        // From the bias gradient to the optimizer: one reduction over the data axis, and what divides.
        let step = function(&module, classes(&module)[0].1, "step");
        let parameter = |op: OpId| module.defining_op(module.operand(op, 0));
        let update = module.walk(step).find(|&op| {
            module.is(op, "dist.adamw")
                && parameter(op).is_some_and(|l| module.symbol_attr(l, "global") == Some("b0_out"))
        });
        let (mut reductions, mut scales) = (0, 0);
        let mut at = module.operand(update.expect("the bias has an optimizer"), 1);
        while let Some(op) = module.defining_op(at) {
            match module.name_str(op) {
                "dist.all_reduce" => {
                    assert_eq!(module.axes_attr(op, "axes"), ["dp"]);
                    reductions += 1;
                }
                "dist.scale" => scales += 1,
                _ => break,
            }
            at = module.operand(op, 0);
        }
        assert_eq!(
            (reductions, scales),
            (reduced, scaled),
            "{bias_reduction:?}"
        );
    }
}

#[test]
fn a_group_over_two_axes_keeps_the_bias_on_one_rank() {
    let (module, _) = check(&Spec {
        dp: 2,
        mp: 4,
        grid: true,
        ..Spec::default()
    });
    let ranks = |index: usize| {
        let class = classes(&module)[index].1;
        let mesh = raddle_dialect::mesh::Mesh::of(&module, class).unwrap();
        raddle_dialect::mesh::RankSet::from_module(&module, class, &mesh)
            .unwrap()
            .ranks(&mesh)
    };
    assert_eq!(ranks(0), [0, 4]);
    assert_eq!(ranks(1), [1, 2, 3, 5, 6, 7]);
}

/// Gradients written out instead of `add_grad`: what only serves the bias is found backward from its optimizer.
#[test]
fn written_out_gradients_are_left_out_too() {
    for sequence_parallel in [false, true] {
        let spec = Spec {
            dp: 2,
            explicit: true,
            sequence_parallel,
            ..Spec::default()
        };
        let (module, _) = check(&spec);
        let [first, rest] = [classes(&module)[0].1, classes(&module)[1].1];
        let sums = [first, rest].map(|class| count(&module, class, "step", "dist.reduce_sum"));
        // After a reduce_scatter each rank has the gradient of its own piece, so all of them go on summing it.
        assert_eq!(sums, if sequence_parallel { [2, 2] } else { [2, 1] });
    }
}
