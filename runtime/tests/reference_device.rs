//! The reference device on small bundles: how ranks meet, and what is said when they do not.

use std::collections::BTreeMap;

use raddle_bundle::{
    Bundle, Class, Function, FunctionKind, Global, GlobalKind, Instr, Kernels, Layout, Mesh, Param,
    Return, Source, Target, TensorType, VERSION, Value,
};
use raddle_dialect::DType;
use raddle_dialect::reference::Tensor;
use raddle_runtime::RuntimeError;
use raddle_runtime::device::reference::{Machine, Mode, Program};
use raddle_runtime::validate;

fn f32s(extent: usize) -> TensorType {
    TensorType {
        shape: vec![extent],
        dtype: "f32".into(),
    }
}

fn instr(op: &str, operands: &[usize], result: Option<usize>, attrs: &[(&str, Value)]) -> Instr {
    Instr {
        op: op.into(),
        operands: operands.to_vec(),
        results: result.map(|reg| (reg, f32s(2))).into_iter().collect(),
        attrs: attrs
            .iter()
            .map(|(k, v)| (k.to_string(), v.clone()))
            .collect(),
        location: format!("{op}.mlir:1:1"),
        kernels: None,
    }
}

fn axes(names: &[&str]) -> Value {
    Value::List(names.iter().map(|n| Value::Str(n.to_string())).collect())
}

fn all_reduce(reduction: &str, axis: &str) -> Instr {
    let attrs = [
        ("axes", axes(&[axis])),
        ("reduction", Value::Str(reduction.into())),
    ];
    instr("dist.all_reduce", &[0], Some(1), &attrs)
}

/// One class for each list of instructions: class i holds index i of axis `x`. Each step takes and returns two floats.
fn bundle(programs: Vec<Vec<Instr>>) -> Bundle {
    let size = programs.len();
    let class = |(at, instrs): (usize, Vec<Instr>)| Class {
        name: format!("c{at}"),
        ranks: vec![BTreeMap::from([("x".to_owned(), vec![at])])],
        microbatches: 1,
        globals: vec![],
        functions: vec![Function {
            name: "step".into(),
            kind: FunctionKind::Step,
            chunk: 0,
            stage: 0,
            params: vec![Param {
                reg: 0,
                ty: f32s(2),
                layout: Layout {
                    dims: vec![vec!["x".into()]],
                    partial: vec![],
                },
                source: Source::Input("x".into()),
            }],
            instrs,
            returns: vec![Return {
                reg: 1,
                target: Target::Result(0),
            }],
            registers: 3,
        }],
    };
    Bundle {
        version: VERSION,
        mesh: Mesh {
            axes: vec!["x".into()],
            sizes: vec![size],
        },
        classes: programs.into_iter().enumerate().map(class).collect(),
        schedule: None,
        kernels: Kernels::default(),
    }
}

fn run(bundle: &Bundle, mode: Mode) -> Result<Vec<Vec<Tensor>>, RuntimeError> {
    let program = Program::load(bundle)?;
    let inputs = |rank: usize| {
        let data = vec![rank as f64 + 1.0, 0.1];
        vec![Tensor::new([2], DType::F32, data)]
    };
    let inputs: Vec<_> = (0..program.mesh().ranks()).map(inputs).collect();
    Machine::new(&program, mode).run(FunctionKind::Step, &inputs, &mut ())
}

#[test]
fn a_group_gets_the_sum_in_both_modes() {
    let bundle = bundle(vec![
        vec![all_reduce("sum", "x")],
        vec![all_reduce("sum", "x")],
    ]);
    for returned in run(&bundle, Mode::Exact).unwrap() {
        assert_eq!(*returned[0].data, [3.0, 0.2]);
    }
    for returned in run(&bundle, Mode::Rounded).unwrap() {
        assert_eq!(*returned[0].data, [3.0, f64::from(0.2f32)]);
    }
}

#[test]
fn a_send_meets_its_receive() {
    let peer = |index| {
        (
            "peer",
            Value::Dict(BTreeMap::from([("x".to_owned(), Value::Int(index))])),
        )
    };
    let tag = |tag| ("tag", Value::Int(tag));
    let programs = |received_tag| {
        vec![
            vec![
                instr("dist.send", &[0], None, &[peer(1), tag(7)]),
                instr("dist.identity", &[0], Some(1), &[]),
            ],
            vec![instr(
                "dist.recv",
                &[],
                Some(1),
                &[peer(0), tag(received_tag)],
            )],
        ]
    };
    let returned = run(&bundle(programs(7)), Mode::Exact).unwrap();
    assert_eq!(*returned[1][0].data, [1.0, 0.1]);
    let error = run(&bundle(programs(8)), Mode::Exact)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("dist.send peer={x=1} tag=7 : tensor<2xf32>"),
        "{error}"
    );
    assert!(error.contains("dist.recv peer={x=0} tag=8"), "{error}");
}

#[test]
fn different_calls_of_one_group_show_both_sides() {
    let bundle = bundle(vec![
        vec![all_reduce("sum", "x")],
        vec![all_reduce("max", "x")],
    ]);
    let error = run(&bundle, Mode::Exact).unwrap_err().to_string();
    assert!(
        error.contains("rank 0: dist.all_reduce axes=[x] reduction=sum : tensor<2xf32> at"),
        "{error}"
    );
    assert!(
        error.contains("rank 1: dist.all_reduce axes=[x] reduction=max : tensor<2xf32> at"),
        "{error}"
    );
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let lonely = vec![instr("dist.identity", &[0], Some(1), &[])];
    let bundle = bundle(vec![vec![all_reduce("sum", "x")], lonely]);
    let error = run(&bundle, Mode::Exact).unwrap_err().to_string();
    assert!(
        error.contains("no rank can go on; these wait while [1] have finished"),
        "{error}"
    );
    assert!(error.contains("rank 0: dist.all_reduce"), "{error}");
}

#[test]
fn unknown_ops_axes_and_registers_are_refused() {
    let error = |instr| {
        run(&bundle(vec![vec![instr]]), Mode::Exact)
            .unwrap_err()
            .to_string()
    };
    let unknown = error(instr("dist.nonsense", &[0], Some(1), &[]));
    assert!(
        unknown.contains("'dist.nonsense' at dist.nonsense.mlir:1:1"),
        "{unknown}"
    );
    let axis = error(all_reduce("sum", "y"));
    assert!(
        axis.contains("dist.all_reduce") && axis.contains('y'),
        "{axis}"
    );
    let register = error(instr("dist.identity", &[9], Some(1), &[]));
    assert!(register.contains("has no register 9"), "{register}");
    let unwritten = error(instr("dist.identity", &[2], Some(1), &[]));
    assert!(
        unwritten.contains("register 2 of 'dist.identity' is read before it is written"),
        "{unwritten}"
    );
}

#[test]
fn an_accumulator_adds_in_its_own_type() {
    let add = instr(
        "dist.accumulate",
        &[0],
        None,
        &[("global", Value::Str("sum".into()))],
    );
    let mut bundle = bundle(vec![vec![
        add.clone(),
        add,
        instr("dist.identity", &[0], Some(1), &[]),
    ]]);
    let sum = TensorType {
        shape: vec![2],
        dtype: "bf16".into(),
    };
    bundle.classes[0].globals.push(Global {
        name: "sum".into(),
        ty: sum,
        kind: GlobalKind::Buffer,
        layout: Layout::default(),
        of: None,
    });
    let program = Program::load(&bundle).unwrap();
    let inputs = [vec![Tensor::new(
        [2],
        DType::F32,
        vec![1.0, 1.0 + 1.0 / 256.0],
    )]];
    let held = |mode, start: f64| {
        let mut machine = Machine::new(&program, mode);
        machine.set_global(0, "sum", Tensor::filled([2], DType::BF16, start));
        machine
            .run(FunctionKind::Step, &inputs, &mut ())
            .expect("it runs");
        machine.globals(0)["sum"].clone()
    };
    assert_eq!(*held(Mode::Exact, 256.0).data, [258.0, 258.0 + 1.0 / 128.0]);
    // 257 lies between two numbers of bf16, and ties go to the even one; 1 + 1/256 becomes 1 before it is added.
    assert_eq!(*held(Mode::Rounded, 256.0).data, [256.0, 256.0]);
    assert_eq!(*held(Mode::Rounded, 0.0).data, [2.0, 2.0]);
    let error = Machine::new(&program, Mode::Exact).run(FunctionKind::Step, &inputs, &mut ());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("global '@sum' is read before"), "{error}");
}

#[test]
fn validation_sees_a_changed_loss() {
    let before = bundle(vec![vec![instr("dist.identity", &[0], Some(1), &[])]]);
    let scale = [("scale", 1.001), ("bias", 0.0)].map(|(k, v)| (k, Value::Float(v)));
    let attrs: Vec<_> = scale
        .into_iter()
        .chain([("bias_after_scale", Value::Bool(true))])
        .collect();
    let after = bundle(vec![vec![instr("dist.scale", &[0], Some(1), &attrs)]]);
    let options = validate::Options::new(1);
    assert!(
        validate::compare(&before, &before, options)
            .unwrap()
            .passed()
    );
    let report = validate::compare(&before, &after, options).unwrap();
    assert_eq!(report.failures.len(), 3, "one loss a step");
    assert!((report.failures[0].relative - 0.001).abs() < 1e-9);
}

#[test]
fn init_must_write_each_global_once() {
    let mut bundle = bundle(vec![vec![]]);
    let class = &mut bundle.classes[0];
    class.globals.push(Global {
        name: "w".into(),
        ty: f32s(2),
        kind: GlobalKind::Parameter,
        layout: Layout::default(),
        of: None,
    });
    class.functions[0].kind = FunctionKind::Init;
    class.functions[0].params.clear();
    class.functions[0].returns.clear();
    let findings = validate::check_init(&bundle).unwrap();
    assert_eq!(
        findings,
        ["init writes global '@w' 0 times on rank 0, not once"]
    );
    let fill = instr("dist.fill", &[], Some(1), &[("value", Value::Float(1.0))]);
    let store = instr(
        "dist.store",
        &[1],
        None,
        &[("global", Value::Str("w".into()))],
    );
    bundle.classes[0].functions[0].instrs = vec![fill, store];
    assert_eq!(validate::check_init(&bundle).unwrap(), [""; 0]);
}
