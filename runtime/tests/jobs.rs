//! The reference device on programs that are cut into jobs: values between jobs, sends between ranks, orders, and what is said when
//! they do not go together.

use std::collections::BTreeMap;

use raddle_bundle::{
    Bundle, Class, Function, FunctionKind, Global, GlobalKind, Instr, Kernels, Layout, Mesh, Param,
    Return, Schedule, ScheduledJob, Source, Target, TensorType, VERSION, Value,
};
use raddle_dialect::DType;
use raddle_dialect::reference::Tensor;
use raddle_runtime::RuntimeError;
use raddle_runtime::device::reference::{Machine, Mode, Program, Returned, Wanted};
use raddle_runtime::validate;

const MICROBATCHES: usize = 3;

fn one() -> TensorType {
    TensorType {
        shape: vec![1],
        dtype: "f32".into(),
    }
}

fn instr(op: &str, operands: &[usize], result: Option<usize>, attrs: &[(&str, Value)]) -> Instr {
    Instr {
        op: op.into(),
        operands: operands.to_vec(),
        results: result.map(|reg| (reg, one())).into_iter().collect(),
        attrs: attrs
            .iter()
            .map(|(k, v)| (k.to_string(), v.clone()))
            .collect(),
        location: format!("{op}.mlir:1:1"),
        kernels: None,
    }
}

fn transfer(op: &str, reg: usize, peer: i64, tag: i64) -> Instr {
    let peer = Value::Dict(BTreeMap::from([("pp".to_owned(), Value::Int(peer))]));
    let attrs = [("peer", peer), ("tag", Value::Int(tag))];
    match op {
        "dist.send" => instr(op, &[reg], None, &attrs),
        _ => instr(op, &[], Some(reg), &attrs),
    }
}

fn accumulate(reg: usize) -> Instr {
    let global = Value::Str("sum".into());
    instr("dist.accumulate", &[reg], None, &[("global", global)])
}

fn job(
    kind: FunctionKind,
    stage: usize,
    params: &[Source],
    instrs: Vec<Instr>,
    returns: &[(usize, Target)],
) -> Function {
    let param = |(reg, source): (usize, &Source)| Param {
        reg,
        ty: one(),
        layout: Layout {
            dims: vec![vec![]],
            partial: vec![],
        },
        source: source.clone(),
    };
    Function {
        name: format!("{}_{stage}", kind.name()),
        kind,
        chunk: 0,
        stage,
        params: params.iter().enumerate().map(param).collect(),
        instrs,
        returns: returns
            .iter()
            .map(|(reg, target)| Return {
                reg: *reg,
                target: target.clone(),
            })
            .collect(),
        registers: 8,
    }
}

fn class(stage: usize, functions: Vec<Function>) -> Class {
    Class {
        name: format!("c{stage}"),
        ranks: vec![BTreeMap::from([("pp".to_owned(), vec![stage])])],
        microbatches: MICROBATCHES,
        globals: vec![Global {
            name: "sum".into(),
            ty: one(),
            kind: GlobalKind::Buffer,
            layout: Layout {
                dims: vec![vec![]],
                partial: vec![],
            },
            of: None,
        }],
        functions,
    }
}

/// Two stages: y = x + x, loss = y · y; dy = y + y, and back to x, where y is added up.
fn bundle() -> Bundle {
    let value = |name: &str| Source::Value(name.into());
    let keep = |name: &str| Target::Value(name.into());
    let first = vec![
        job(
            FunctionKind::Forward,
            0,
            &[Source::Input("x".into())],
            vec![
                instr("dist.add", &[0, 0], Some(1), &[]),
                transfer("dist.send", 1, 1, 10),
            ],
            &[(1, keep("y"))],
        ),
        job(
            FunctionKind::BackwardB,
            0,
            &[value("y")],
            vec![transfer("dist.recv", 1, 1, 11)],
            &[(1, keep("dy")), (0, keep("y2"))],
        ),
        job(
            FunctionKind::BackwardW,
            0,
            &[value("dy"), value("y2")],
            vec![instr("dist.mul", &[0, 1], Some(2), &[]), accumulate(2)],
            &[],
        ),
    ];
    let second = vec![
        job(
            FunctionKind::Forward,
            1,
            &[],
            vec![
                transfer("dist.recv", 0, 0, 10),
                instr("dist.mul", &[0, 0], Some(1), &[]),
            ],
            &[(0, keep("y")), (1, Target::Result(0))],
        ),
        job(
            FunctionKind::Backward,
            1,
            &[value("y")],
            vec![
                instr("dist.add", &[0, 0], Some(1), &[]),
                transfer("dist.send", 1, 0, 11),
                accumulate(1),
            ],
            &[],
        ),
    ];
    Bundle {
        version: VERSION,
        mesh: Mesh {
            axes: vec!["pp".into()],
            sizes: vec![2],
        },
        classes: vec![class(0, first), class(1, second)],
        schedule: None,
        kernels: Kernels::default(),
    }
}

/// The losses of rank 1, and the sums of both ranks, after a step on 1, 2, 3.
fn run(bundle: &Bundle) -> Result<(Vec<Returned>, [f64; 2]), RuntimeError> {
    let program = Program::load(bundle)?;
    let mut machine = Machine::new(&program, Mode::Exact);
    for rank in 0..2 {
        machine.set_global(rank, "sum", Tensor::filled([1], DType::F32, 0.0));
    }
    let feed = |wanted: &Wanted| {
        let x = wanted.microbatch as f64 + 1.0;
        Some(Tensor::new([1], DType::F32, vec![x]))
    };
    let mut returned = machine.step(&feed, &mut ())?;
    assert!(returned[0].is_empty());
    let sums = [0, 1].map(|rank| machine.globals(rank)["sum"].data[0]);
    Ok((returned.swap_remove(1), sums))
}

fn jobs(list: &str) -> Vec<ScheduledJob> {
    list.split_whitespace()
        .map(|word| {
            let digit = |at: usize| word.as_bytes()[at] as usize - 48;
            ScheduledJob {
                kind: match word.as_bytes()[1] {
                    b'F' => FunctionKind::Forward,
                    b'B' => FunctionKind::Backward,
                    b'I' => FunctionKind::BackwardB,
                    _ => FunctionKind::BackwardW,
                },
                stage: digit(0),
                microbatch: digit(2),
            }
        })
        .collect()
}

fn scheduled(first: &str, second: &str) -> Bundle {
    Bundle {
        schedule: Some(Schedule {
            axis: "pp".into(),
            jobs: vec![jobs(first), jobs(second)],
        }),
        ..bundle()
    }
}

const SPLIT: &str = "0F0 0F1 0I0 0F2 0I1 0W1 0W0 0I2 0W2";
const WHOLE: &str = "1F0 1B0 1F1 1B1 1F2 1B2";

#[test]
fn every_order_gives_the_same() {
    let whole = scheduled("0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2");
    for bundle in [bundle(), scheduled(SPLIT, WHOLE), whole] {
        let (mut losses, sums) = run(&bundle).unwrap_or_else(|e| panic!("{e}"));
        losses.sort_by_key(|l| l.microbatch);
        let losses: Vec<_> = losses.iter().map(|l| (l.index, l.value.data[0])).collect();
        assert_eq!(losses, [(0, 4.0), (0, 16.0), (0, 36.0)]);
        // dy = 4, 8, 12 and y = 2, 4, 6.
        assert_eq!(sums, [4.0 * 2.0 + 8.0 * 4.0 + 12.0 * 6.0, 24.0]);
    }
}

#[test]
fn micro_batches_overtake_no_other_on_a_channel() {
    let error = run(&scheduled(
        "0F0 0F1 0F2 0B0 0B2 0B1",
        "1F0 1F1 1F2 1B0 1B1 1B2",
    ));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("dist.send peer={pp=0} tag=11 : tensor<1xf32> of micro-batch 1"),
        "{error}"
    );
    assert!(
        error.contains("dist.recv peer={pp=1} tag=11 of micro-batch 2"),
        "{error}"
    );
}

#[test]
fn a_ring_of_waits_is_shown() {
    let error = run(&scheduled(
        "0F0 0I0 0W0 0F1 0I1 0W1 0F2 0I2 0W2",
        "1F0 1F1 1F2 1B0 1B1 1B2",
    ));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no rank can go on"), "{error}");
    assert!(
        error.contains("rank 0: dist.recv peer={pp=1} tag=11 at"),
        "{error}"
    );
    assert!(
        error.contains("rank 1: dist.recv peer={pp=0} tag=10 at"),
        "{error}"
    );
}

#[test]
fn a_schedule_must_fit_the_program() {
    for (first, second, expected) in [
        (
            "0F0 0F1 0F2 0I0 0I1 0I2 0W0 0W1",
            WHOLE,
            "'backward_w_0' of micro-batch 2 0 times",
        ),
        (
            "0F3",
            WHOLE,
            "forward of stage 0 and micro-batch 3, which the step does not have",
        ),
        (
            "2F0",
            WHOLE,
            "forward of stage 2 and micro-batch 0, but the class has no such function",
        ),
        (
            SPLIT,
            "1F0 1F0",
            "'forward_1' of micro-batch 0 2 times, not once",
        ),
        ("0F0 0W0 0I0", WHOLE, "0 times"),
    ] {
        let error = run(&scheduled(first, second)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut short = scheduled(SPLIT, WHOLE);
    short.schedule.as_mut().unwrap().jobs.pop();
    let error = run(&short).unwrap_err().to_string();
    assert!(
        error.contains("it has 1 lists, but axis 'pp' has 2 ranks"),
        "{error}"
    );
}

#[test]
fn a_value_nobody_wrote_is_named() {
    let mut bundle = bundle();
    bundle.classes[0].functions[1].returns.pop();
    let error = run(&bundle).unwrap_err().to_string();
    assert!(
        error.contains("rank 0: value 'y2' of 'backward_w_0' is read before it is written"),
        "{error}"
    );
}

#[test]
fn what_is_sent_must_be_received() {
    let mut lost = bundle();
    lost.classes[1].functions[0].instrs[0] =
        instr("dist.fill", &[], Some(0), &[("value", Value::Float(1.0))]);
    let error = run(&lost).unwrap_err().to_string();
    assert!(
        error.contains("never received") && error.contains("tag=10"),
        "{error}"
    );
    let mut other = bundle();
    other.classes[1].functions[0].instrs[0].results[0].1.shape = vec![2];
    let error = run(&other).unwrap_err().to_string();
    assert!(
        error.contains("dist.send") && error.contains("dist.recv"),
        "{error}"
    );
}

#[test]
fn two_functions_cannot_be_one_job() {
    let mut bundle = bundle();
    let mut again = bundle.classes[0].functions[0].clone();
    again.name = "again".into();
    bundle.classes[0].functions.push(again);
    let error = run(&bundle).unwrap_err().to_string();
    assert!(
        error.contains("'forward_0' and 'again' are both forward of chunk 0"),
        "{error}"
    );
}

/// The same program without a pipeline: on one rank, as a step.
fn unpartitioned() -> Bundle {
    let instrs = vec![
        instr("dist.add", &[0, 0], Some(1), &[]),
        instr("dist.mul", &[1, 1], Some(2), &[]),
        instr("dist.add", &[1, 1], Some(3), &[]),
        accumulate(3),
    ];
    let mut step = job(
        FunctionKind::Step,
        0,
        &[Source::Input("x".into())],
        instrs,
        &[(2, Target::Result(0))],
    );
    step.name = "step".into();
    let mut class = class(0, vec![step]);
    class.ranks = vec![BTreeMap::new()];
    Bundle {
        mesh: Mesh {
            axes: vec!["dp".into()],
            sizes: vec![1],
        },
        classes: vec![class],
        ..bundle()
    }
}

#[test]
fn a_pipeline_is_held_against_a_whole_program() {
    let options = validate::Options::new(5);
    let after = scheduled(SPLIT, WHOLE);
    let report = validate::compare(&unpartitioned(), &after, options).unwrap();
    // Rank 1 adds up what the whole program does, rank 0 something else: all ranks at a place have to agree.
    assert_eq!(report.compared[&validate::Kind::Loss], 9);
    let wrong: Vec<_> = report.failures.iter().map(|f| f.kind).collect();
    assert_eq!(wrong, [validate::Kind::Global; 3], "{:?}", report.failures);
    let mut same = after;
    same.classes[0].functions[2].instrs[0] = instr("dist.identity", &[0], Some(2), &[]);
    let report = validate::compare(&unpartitioned(), &same, options).unwrap();
    assert!(report.passed(), "{:?}", report.failures);
    // Without its loss.
    same.classes[1].functions[0].returns.pop();
    let report = validate::compare(&unpartitioned(), &same, options).unwrap();
    assert_eq!(report.failures.len(), 9);
    assert!(
        report.failures[0]
            .to_string()
            .contains("is gone from every rank")
    );
}
