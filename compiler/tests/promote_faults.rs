//! Faults of PaddlePaddle's promotion pass that `docs/passes/promote-linear.md` lists, where no other test shows the difference.

mod programs;

use std::collections::BTreeMap;

use programs::inspect::{classes, count, function, messages, run};
use programs::random::differences;
use programs::{Shape, Spec, build, checked};
use raddle_compiler::bundle::lower;
use raddle_dialect::diag::{Diagnostics, Severity};
use raddle_dialect::ir::{Module, OpId, Position, Rewriter, Verified};
use raddle_dialect::ops::Effects;
use raddle_runtime::validate::{Options, check_init};

const SMALL: Shape = Shape {
    batch: 2,
    sequence: 4,
    hidden: 4,
    inner: 8,
};

fn windows() -> impl Iterator<Item = Spec> {
    (0..4).map(|window| Spec {
        layers: 2,
        dp: if window & 1 == 0 { 1 } else { 2 },
        sequence_parallel: window & 2 != 0,
        shape: SMALL,
        ..Spec::default()
    })
}

/// The step's ops in another order in which every value is still defined before it is read, a global loaded before it is stored, and
/// collectives come as they came.
fn shuffled(module: Verified, mut seed: u64) -> Verified {
    let mut module = module.into_module();
    let step = function(&module, classes(&module)[0].1, "step");
    let body = module.body(step);
    let ops: Vec<OpId> = module.block_ops(body).collect();
    let mut waits: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    let (mut last_call, mut loads) = (None, BTreeMap::<String, Vec<OpId>>::new());
    for &op in &ops {
        let mut before: Vec<OpId> = module
            .operands(op)
            .filter_map(|v| module.defining_op(v))
            .collect();
        match module.def_of(op).map(|d| d.effects) {
            Some(Effects::Communicates) => before.extend(last_call.replace(op)),
            Some(Effects::Reads) => {
                let global = module.symbol_attr(op, "global").expect("a global");
                loads.entry(global.to_owned()).or_default().push(op);
            }
            Some(Effects::Writes) => {
                let global = module.symbol_attr(op, "global").expect("a global");
                before.extend(loads.get(global).into_iter().flatten());
            }
            _ => {}
        }
        if module.is(op, "func.return") {
            before = ops.iter().copied().filter(|&o| o != op).collect();
        }
        waits.insert(op, before);
    }
    let mut rewriter = Rewriter::new(&mut module);
    let mut placed: Vec<OpId> = Vec::new();
    while placed.len() < ops.len() {
        let ready: Vec<OpId> = ops
            .iter()
            .copied()
            .filter(|o| !placed.contains(o) && waits[o].iter().all(|b| placed.contains(b)))
            .collect();
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let op = ready[(seed >> 33) as usize % ready.len()];
        rewriter.move_op(op, Position::End(body));
        placed.push(op);
    }
    checked(module)
}

/// Paddle's pass goes by the names of ops and by which stands next to which; in version 3 it never fires with sequence parallelism.
#[test]
fn the_order_of_ops_does_not_matter() {
    for spec in windows() {
        for seed in 0..4 {
            let module = shuffled(build(&spec), seed);
            let (_, found) = run(module.clone(), "builtin.module(promote-linear)");
            let said = messages(&found, Severity::Remark);
            let promoted = said.iter().filter(|m| m.starts_with("promoted")).count();
            assert_eq!(promoted, 2, "{spec:?} {seed}: {said:#?}");
            let options = Options {
                steps: 1,
                ..Options::exact(seed)
            };
            assert_eq!(differences(&module, options), [""; 0], "{spec:?} {seed}");
        }
    }
}

/// Paddle takes the group of the first forward op for the data-parallel one. With the sequence first that op is a gather over the tensor
/// axis, so the broadcast of the bias over it would stay, on the first rank alone.
#[test]
fn the_data_axis_is_not_that_of_the_first_op() {
    let spec = Spec {
        layers: 1,
        dp: 2,
        sequence_parallel: true,
        shape: SMALL,
        ..Spec::default()
    };
    let module = build(&spec);
    let step = function(&module, classes(&module)[0].1, "step");
    let communicates = |op: &OpId| !module.axes_attr(*op, "axes").is_empty();
    let first = module.walk(step).find(communicates).expect("a collective");
    assert_eq!(module.axes_attr(first, "axes"), ["mp"]);
    let broadcasts = |module: &Module, class| {
        let init = function(module, class, "init");
        let over = |axis: &str| {
            let axes = |&op: &OpId| module.axes_attr(op, "axes") == [axis];
            module.walk(init).filter(axes).count()
        };
        [over("dp"), over("mp")]
    };
    let before = broadcasts(&module, classes(&module)[0].1);
    let (module, _) = run(module, "builtin.module(promote-linear)");
    let [(_, first), (_, rest)] = classes(&module)[..] else {
        panic!("two classes");
    };
    // The first rank keeps what goes over the data axis, and nobody broadcasts the bias over the tensor axis.
    assert_eq!(broadcasts(&module, first), [before[0], before[1] - 1]);
    assert_eq!(broadcasts(&module, rest), [before[0] - 1, before[1] - 1]);
    let bundle = lower(&module, &mut Diagnostics::new()).expect("it runs");
    let found = check_init(&bundle).unwrap_or_else(|e| panic!("{e}"));
    assert!(found.is_empty(), "{found:#?}");
}

/// Ops of a function by name and stage.
fn by_stage(module: &Module, class: OpId) -> BTreeMap<(String, Option<i64>), usize> {
    let mut census = BTreeMap::new();
    for op in module.walk(function(module, class, "step")).skip(1) {
        let key = (
            module.name_str(op).to_owned(),
            module.i64_attr(op, "dist.stage"),
        );
        *census.entry(key).or_default() += 1;
    }
    census
}

/// Paddle sets the chunk of what it moves to 0, so that interleaved chunks run ops of each other.
#[test]
fn chunks_keep_their_ops() {
    for stages in [1, 2] {
        let spec = Spec {
            layers: 1,
            stages,
            chunks: 2,
            shape: SMALL,
            ..Spec::default()
        };
        let module = build(&spec);
        let before: Vec<_> = classes(&module)
            .iter()
            .map(|c| by_stage(&module, c.1))
            .collect();
        let (module, _) = run(module, "builtin.module(promote-linear)");
        let mut firsts = 0;
        for (name, class) in classes(&module) {
            let stage = usize::from(name.starts_with("stage1"));
            let after = by_stage(&module, class);
            if name.ends_with("_first") {
                assert_eq!(after, before[stage], "{name}");
                firsts += 1;
            } else {
                let more = after
                    .iter()
                    .find(|(key, n)| before[stage].get(key) < Some(n));
                assert_eq!(more, None, "{name}");
                assert!(count(&module, class, "step", "dist.add_grad") > 0);
            }
        }
        assert_eq!(firsts, stages);
    }
}
