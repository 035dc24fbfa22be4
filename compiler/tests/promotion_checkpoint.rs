//! A checkpoint saved before `promote-linear` loads after it, and back.

mod programs;

use programs::inspect::{classes, run};
use programs::{BiasReduction, Optimizer, Spec, build};
use raddle_bundle::{Bundle, GlobalKind, Held};
use raddle_compiler::bundle::lower;
use raddle_compiler::generate;
use raddle_compiler::transforms::promote_linear::{PromotionReport, Snapshot};
use raddle_dialect::DType;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::{Context, Verified, VerifyOptions, verify};
use raddle_dialect::reference::{Tensor, random};
use raddle_runtime::checkpoint::{after, before};
use raddle_runtime::device::reference::{Globals, Machine, Mode, Program, Wanted};

/// A program, promoted, with the report, which has been text in between.
fn promoted(module: &Verified) -> (Bundle, Bundle, PromotionReport) {
    let (promoted, _) = run(module.clone(), "builtin.module(promote-linear)");
    let report = Snapshot::of(module).report(&Snapshot::of(&promoted));
    let text = report.to_json();
    let report: PromotionReport = serde_json::from_str(&text).unwrap();
    let mut diagnostics = Diagnostics::new();
    let bundle = |module| lower(module, &mut diagnostics).expect("the program runs");
    let [first, second] = [module, &promoted].map(bundle);
    (first, second, report)
}

/// Training steps from a state; the state after them. Step numbers say which data is read.
fn train(program: &Program, state: &[Globals], steps: std::ops::Range<u64>) -> Vec<Globals> {
    let mut machine = Machine::new(program, Mode::Exact);
    for (rank, globals) in state.iter().enumerate() {
        for (name, value) in globals {
            machine.set_global(rank, name, value.clone());
        }
    }
    for step in steps {
        let feed = |wanted: &Wanted| {
            let param = &wanted.function.plain.params[wanted.param];
            // Pieces of the data axis differ, copies along the tensor axis do not.
            let coordinate = program.mesh().coordinate(wanted.rank);
            let mut place = 0;
            for axis in param.layout.dims.iter().flatten() {
                place = place * 8 + coordinate[program.mesh().axis(axis).unwrap()] as u64;
            }
            let stream = (step * 64 + wanted.microbatch as u64) * 64 + place;
            let dtype = DType::parse(&param.ty.dtype).unwrap();
            let value = Tensor::from_fn(param.ty.shape.clone(), dtype, |at| {
                random::unit(stream, at as u64) - 0.5
            });
            Some(value)
        };
        machine.step(&feed, &mut ()).unwrap();
    }
    let ranks = 0..program.mesh().ranks();
    ranks.map(|rank| machine.globals(rank).clone()).collect()
}

/// What `init` writes, moved a little so that nothing is zero.
fn start(program: &Program) -> Vec<Globals> {
    let mut machine = Machine::new(program, Mode::Exact);
    let kind = raddle_bundle::FunctionKind::Init;
    machine.run(kind, &[], &mut ()).unwrap();
    let ranks = 0..program.mesh().ranks();
    ranks.map(|rank| machine.globals(rank).clone()).collect()
}

fn largest_difference(a: &[Globals], b: &[Globals]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut largest = 0.0f64;
    for (a, b) in a.iter().zip(b) {
        let mut names: Vec<_> = a.keys().collect();
        names.sort();
        let mut others: Vec<_> = b.keys().collect();
        others.sort();
        assert_eq!(names, others);
        for (name, a) in a {
            let apart = a
                .zip(&b[name], |x, y| (x - y).abs() / (1.0 + x.abs()))
                .unwrap();
            largest = apart.data.iter().copied().fold(largest, f64::max);
        }
    }
    largest
}

fn specs() -> impl Iterator<Item = Spec> {
    Optimizer::ALL
        .into_iter()
        .enumerate()
        .map(|(at, optimizer)| Spec {
            layers: 2,
            dp: [1, 2][at % 2],
            mp: [2, 4][at / 2 % 2],
            grid: at % 3 == 0,
            sequence_parallel: at % 4 == 1,
            tied_bias: at % 5 == 2,
            bias_reduction: BiasReduction::Sum,
            optimizer,
            ..Spec::default()
        })
}

#[test]
fn a_checkpoint_goes_there_and_back_and_trains_on() {
    for spec in specs() {
        let (first, second, report) = promoted(&build(&spec));
        let map = &report.checkpoint;
        assert!(!map.moved.is_empty(), "{spec:?}");
        let [first, second] = [&first, &second].map(|b| Program::load(b).unwrap());
        let saved = train(&first, &start(&first), 0..2);
        let converted = after(map, &saved).unwrap();
        // The converted state has exactly the globals that the promoted program has.
        for (rank, globals) in converted.iter().enumerate() {
            let mut names: Vec<_> = globals.keys().map(String::as_str).collect();
            names.sort_unstable();
            let declared = &second.class_of(rank).globals;
            let mut wanted: Vec<_> = declared.iter().map(|g| g.name.as_str()).collect();
            wanted.sort_unstable();
            assert_eq!(names, wanted, "{spec:?}, rank {rank}");
        }
        assert_eq!(before(map, &converted).unwrap(), saved, "{spec:?}");
        // Two more steps, before and after; and back in the program before.
        let straight = train(&first, &saved, 2..4);
        let detour = train(&second, &converted, 2..4);
        let back = before(map, &detour).unwrap();
        assert!(largest_difference(&straight, &back) < 1e-12, "{spec:?}");
        assert_eq!(after(map, &back).unwrap(), detour, "{spec:?}");
        let further = [train(&first, &straight, 4..5), train(&first, &back, 4..5)];
        assert!(
            largest_difference(&further[0], &further[1]) < 1e-12,
            "{spec:?}"
        );
    }
}

/// With sequence parallelism and micro-batches each rank has a share of the sum of a bias's gradients.
#[test]
fn shares_of_sums_are_added_up() {
    let spec = generate::Spec {
        model: generate::Model::Mlp,
        layers: 1,
        hidden: 4,
        inner: 8,
        seq: 4,
        batch: 4,
        microbatches: 2,
        mesh: vec![("dp".into(), 2), ("mp".into(), 2)],
        sequence_parallel: generate::SequenceParallel::On,
        ..generate::Spec::default()
    };
    let module = generate::generate(&Context::new(), &spec).unwrap();
    let mut diagnostics = Diagnostics::new();
    let module = verify(module, VerifyOptions::default(), &mut diagnostics);
    let module = module.unwrap_or_else(|_| panic!("{diagnostics:#?}"));
    let (module, _) = run(
        module,
        "builtin.module(append-backward{optimizer=momentum})",
    );
    let (first, second, report) = promoted(&module);
    let map = &report.checkpoint;
    let sums = || map.moved.iter().filter(|m| m.before == Held::Shares);
    let sum = sums().next().expect("a sum of shares");
    assert_eq!((sums().count(), sum.kind), (1, GlobalKind::Buffer));
    let [first, second] = [&first, &second].map(|b| Program::load(b).unwrap());

    let saved = train(&first, &start(&first), 0..1);
    let converted = after(map, &saved).unwrap();
    let straight = train(&first, &saved, 1..3);
    let back = before(map, &train(&second, &converted, 1..3)).unwrap();
    assert!(largest_difference(&straight, &back) < 1e-12);

    // In the middle of a step: ranks 0 and 1 are one group over mp, 2 and 3 the other.
    let mut middle = saved;
    for (rank, globals) in middle.iter_mut().enumerate() {
        let value = [1.0, 2.0, 10.0, 20.0][rank];
        let share = globals[&sum.global].map(|_| value);
        globals.insert(sum.global.clone(), share);
    }
    let values = |state: &[Globals]| -> Vec<Option<f64>> {
        let one = |globals: &Globals| globals.get(&sum.global).map(|t| t.data[0]);
        state.iter().map(one).collect()
    };
    let converted = after(map, &middle).unwrap();
    assert_eq!(values(&converted), [Some(3.0), None, Some(30.0), None]);
    let back = before(map, &converted).unwrap();
    assert_eq!(values(&back), [3.0, 0.0, 30.0, 0.0].map(Some));
    assert_eq!(after(map, &back).unwrap(), converted);
}

#[test]
fn the_report_counts_bytes() {
    let module = build(&Spec {
        mp: 4,
        ..Spec::default()
    });
    let (_, _, report) = promoted(&module);
    let [first, rest] = &report.classes[..] else {
        panic!("{} classes", report.classes.len());
    };
    assert_eq!((first.rank_count, rest.rank_count), (1, 3));
    assert_eq!(first.bytes.total, 0);
    assert_eq!(rest.before, classes(&module)[0].0);
    let names = |list: &[raddle_compiler::transforms::promote_linear::Removed]| {
        list.iter().map(|r| r.name.clone()).collect::<Vec<_>>()
    };
    let bias = names(&rest.parameters);
    let [bias] = &bias[..] else {
        panic!("{bias:?}");
    };
    assert_eq!(names(&rest.gradients), std::slice::from_ref(bias));
    let states = ["beta1_pow", "beta2_pow", "moment1", "moment2"];
    assert_eq!(names(&rest.states), states.map(|s| format!("{bias}_{s}")));
    // Eight f32: the parameter and its gradient; two moments and two powers.
    let bytes = rest.bytes;
    assert_eq!((bytes.parameters, bytes.gradients), (32, 32));
    assert_eq!(bytes.states, 2 * 32 + 2 * 4);
    assert_eq!((bytes.buffers, bytes.total), (0, 136));
    assert_eq!(report.checkpoint.moved.len(), 5);
    for moved in &report.checkpoint.moved {
        assert_eq!(moved.before, Held::Copies);
        assert_eq!(moved.owner, [("mp".to_owned(), 0)].into());
        assert!(moved.of.as_ref().is_none_or(|of| of == bias));
    }
}

#[test]
fn what_does_not_fit_the_map_is_refused() {
    let (first, _, report) = promoted(&build(&Spec::default()));
    let first = Program::load(&first).unwrap();
    let saved = start(&first);
    let map = &report.checkpoint;
    let name = &map.moved[0].global;
    let message = |state: &[Globals]| after(map, state).unwrap_err().to_string();
    assert!(message(&saved[..1]).contains("1 states for 2 ranks"));
    let mut lacking = saved.clone();
    lacking[1].remove(name);
    let found = message(&lacking);
    assert!(
        found.contains(&format!("rank 1 has no global '@{name}'")),
        "{found}"
    );
    let mut other = saved.clone();
    other[0].insert(name.clone(), Tensor::filled([3], DType::F32, 0.0));
    let found = message(&other);
    assert!(
        found.contains("of type tensor<3xf32>, not tensor<"),
        "{found}"
    );
    let mut later = map.clone();
    later.version += 1;
    assert!(after(&later, &saved).is_err());
    let mut astray = map.clone();
    astray.moved[0].owner = [("xp".to_owned(), 0)].into();
    let found = before(&astray, &saved).unwrap_err().to_string();
    assert!(found.contains("the mesh has no axis 'xp'"), "{found}");
    let mut outside = map.clone();
    outside.moved[0].owner = [("mp".to_owned(), 7)].into();
    let found = before(&outside, &saved).unwrap_err().to_string();
    assert!(found.contains("axis 'mp' has no index 7"), "{found}");
}
