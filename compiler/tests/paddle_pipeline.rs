//! Pipeline programs come in: stages, messages, micro-batches, the optimizer.

mod paddle_files;
mod programs;

use std::collections::{BTreeMap, BTreeSet};

use paddle_files::{bring_in, pipelines};
use programs::inspect::{classes, count, function, run};
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Module, OpId};
use raddle_runtime::validate::{Kind, Options, compare};

/// `..._pp4_..._m8_vpp2...`: the number behind a word.
fn number(name: &str, word: &str) -> i64 {
    let digits = |at: usize| {
        let rest = &name[at + word.len()..];
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    let found = name
        .match_indices(word)
        .map(|(at, _)| digits(at))
        .find(|d| !d.is_empty());
    found.unwrap().parse().unwrap()
}

fn ops<'m>(
    module: &'m Module,
    class: OpId,
    function_name: &str,
    name: &'m str,
) -> impl Iterator<Item = OpId> + 'm {
    let function = function(module, class, function_name);
    module.walk(function).filter(move |&op| module.is(op, name))
}

fn peer(module: &Module, op: OpId) -> i64 {
    let cx = module.cx();
    let peer = module.attr(op, "peer").unwrap();
    cx.as_i64(cx.dict_get(peer, "pp").unwrap()).unwrap()
}

#[test]
fn every_program_comes_in() {
    for (name, cases) in pipelines() {
        let cases: Vec<_> = cases.iter().collect();
        let module = bring_in(&cases);
        let (pp, m) = (number(&name, "pp"), number(&name, "_m"));
        let chunks = number(&name, "vpp");
        let classes = classes(&module);
        assert_eq!(classes.len() as i64, pp, "{name}: one class per stage");
        let mut sent = BTreeSet::new();
        let mut received = BTreeSet::new();
        for (stage, &(_, class)) in classes.iter().enumerate() {
            let stage = stage as i64;
            assert_eq!(module.i64_attr(class, "dist.microbatches"), Some(m));
            let parameters = module
                .symbols(class)
                .filter(|&(_, op)| module.str_attr(op, "kind") == Some("parameter"))
                .count();
            assert!(parameters > 0);
            assert_eq!(count(&module, class, "step", "dist.accumulate"), parameters);
            assert_eq!(count(&module, class, "step", "dist.adamw"), 0);
            assert_eq!(count(&module, class, "step", "dist.store"), 0);
            assert_eq!(count(&module, class, "optimizer", "dist.adamw"), parameters);
            // Updated: the parameter, two moments, two powers; and the sum is reset.
            let stores = count(&module, class, "optimizer", "dist.store");
            assert_eq!(stores, 6 * parameters, "{name}");
            let scaled = ops(&module, class, "optimizer", "dist.scale");
            for scale in scaled {
                assert_eq!(module.f64_attr(scale, "scale"), Some(1.0 / m as f64));
            }
            let counters = module
                .symbols(class)
                .filter(|(name, _)| name.contains("gradient_merge"));
            assert_eq!(counters.count(), 0, "{name}: the counter is gone");
            let mut stages = BTreeMap::<i64, usize>::new();
            let step = function(&module, class, "step");
            for op in module.block_ops(module.body(step)) {
                if module.str_attr(op, "dist.role").is_some() {
                    let stage = module.i64_attr(op, "dist.stage").unwrap();
                    *stages.entry(stage).or_default() += 1;
                }
            }
            let expected: Vec<i64> = (0..chunks).map(|chunk| chunk * pp + stage).collect();
            assert_eq!(stages.into_keys().collect::<Vec<_>>(), expected, "{name}");
            let last = expected.contains(&(chunks * pp - 1));
            let returned = module.block_ops(module.body(step)).last().unwrap();
            assert_eq!(module.num_operands(returned), usize::from(last), "{name}");
            for op in ops(&module, class, "step", "dist.send") {
                let ty = module.ty(module.operand(op, 0));
                let tag = module.i64_attr(op, "tag").unwrap();
                assert!(sent.insert((stage, peer(&module, op), tag, ty)));
            }
            for op in ops(&module, class, "step", "dist.recv") {
                let ty = module.ty(module.result(op, 0));
                let tag = module.i64_attr(op, "tag").unwrap();
                assert!(received.insert((peer(&module, op), stage, tag, ty)));
            }
        }
        assert_eq!(sent, received, "{name}");
        // There and back over every border between stages.
        assert_eq!(sent.len() as i64, 2 * (pp * chunks - 1), "{name}");
        let tags: BTreeSet<i64> = sent.iter().map(|edge| edge.2).collect();
        assert_eq!(tags.len(), sent.len(), "{name}: every edge has its own tag");
    }
}

#[test]
fn splitting_keeps_the_meaning() {
    for name in [
        "ZBH1_pp2_mp2_dp1_L2_m4_vpp1",
        "ZBH1_pp2_mp1_dp1_L2_m4_vpp1_amp-o1",
        "ZBH1_pp2_mp1_dp1_L2_m4_vpp1_attn",
        "VPP_pp2_mp1_dp1_L8_m4_vpp2",
    ] {
        let cases = &pipelines()[name];
        let module = bring_in(&cases.iter().collect::<Vec<_>>());
        let mut diagnostics = Diagnostics::new();
        let before = lower(&module, &mut diagnostics).expect("the program runs");
        let (module, _) = run(module, "builtin.module(split-backward)");
        let after = lower(&module, &mut diagnostics).expect("the split program runs");
        let options = Options {
            steps: 1,
            ..Options::new(3)
        };
        let report = compare(&before, &after, options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{name}: {found:#?}");
        assert!(report.compared[&Kind::Loss] > 0 && report.compared[&Kind::Global] > 0);
    }
}
