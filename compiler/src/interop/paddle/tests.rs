//! Optimizers for which there is no program of Paddle's own: those of a real program are replaced by them, in the form in which
//! Paddle's optimizer classes write them.

use std::io::Read;

use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, Module, Verified, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, parse};

use super::program::{Op, Program, Slot};
use super::value::Value;
use super::{File, RankFiles, RankPrograms, export, import};
use crate::pass::{ManagerOptions, PassManager, Pipeline};

/// Replaces the optimizer ops of a main program.
type Change = fn(Vec<Op>) -> Vec<Op>;

fn read(name: &str) -> Vec<u8> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../lit-tests/data/paddle/promotion"
    );
    let path = format!("{folder}/{name}");
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut out = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(&bytes[..]);
    reader.read_to_end(&mut out).unwrap();
    out
}

fn decode(cx: &Context, bytes: &[u8]) -> Program {
    let mut diagnostics = Diagnostics::new();
    Program::decode(cx, "program", bytes, &mut diagnostics).expect("a program")
}

fn encode(program: &Program, ops: &[Op], more: &[&str]) -> Vec<u8> {
    let mut vars: Vec<_> = program.vars.iter().map(|v| v.desc.clone()).collect();
    for name in more {
        let mut var = program.var("opt_learning_rate_0").unwrap().desc.clone();
        var.name = name.as_bytes().to_vec();
        vars.push(var);
    }
    Program::encode(&program.header, vars, ops)
}

/// A rank's files with other optimizer ops; `more` are further globals, which start as the learning rate does.
fn rank(number: usize, optimizer: &str, change: Change, more: &[&str]) -> [Vec<u8>; 3] {
    let name = format!("mp_amp-o0_{optimizer}_clip-none_rank{number}");
    let cx = Context::new();
    let main = decode(&cx, &read(&format!("{name}.main.pdprog.gz")));
    let (updates, mut ops): (Vec<Op>, Vec<Op>) = main
        .ops
        .iter()
        .cloned()
        .partition(|op| op.kind == optimizer);
    assert!(updates.len() > 2, "{} updates", updates.len());
    ops.extend(change(updates));
    let main = encode(&main, &ops, more);
    let startup = decode(&cx, &read(&format!("{name}.startup.pdprog.gz")));
    let mut ops = startup.ops.clone();
    let fill = ops
        .iter()
        .find(|op| op.output("Out") == ["opt_learning_rate_0".to_owned()])
        .expect("the learning rate starts somewhere")
        .clone();
    for name in more {
        let mut fill = fill.clone();
        fill.outputs[0].args = vec![(*name).to_owned()];
        ops.push(fill);
    }
    let startup = encode(&startup, &ops, more);
    [main, startup, read(&format!("{name}.mesh.json"))]
}

fn bring_in(ranks: &[[Vec<u8>; 3]]) -> Result<Verified, String> {
    let file = |bytes| File {
        name: "program",
        bytes,
    };
    let files: Vec<_> = ranks
        .iter()
        .map(|[main, startup, mesh]| RankFiles {
            main: file(main),
            startup: file(startup),
            mesh: file(mesh),
        })
        .collect();
    let mut diagnostics = Diagnostics::new();
    let module = import(&Context::new(), &files, &mut diagnostics);
    let messages = diagnostics
        .iter()
        .map(|d| format!("{} {}", d.code, d.message));
    module.ok_or_else(|| messages.collect::<Vec<_>>().join("\n"))
}

fn send_out(module: &Verified, rank: usize) -> RankPrograms {
    let mut diagnostics = Diagnostics::new();
    let programs = export(module, rank, &mut diagnostics);
    programs.unwrap_or_else(|| panic!("{diagnostics:#?}"))
}

fn count(module: &Module, name: &str) -> usize {
    let ops = module.walk(module.root());
    ops.filter(|&op| module.is(op, name)).count()
}

/// Imports, exports, promotes and exports again; the main programs of both ranks after that.
fn there_and_back(optimizer: &str, change: Change, more: &[&str], dist: &str) -> [Program; 2] {
    let ranks = [0, 1].map(|number| rank(number, optimizer, change, more));
    let module = bring_in(&ranks).unwrap_or_else(|e| panic!("{e}"));
    let before = count(&module, dist);
    assert!(before > 2, "{before} updates");
    for (number, [main, startup, _]) in ranks.iter().enumerate() {
        let programs = send_out(&module, number);
        assert!(
            programs.main == *main,
            "{dist}: rank {number}'s main program"
        );
        assert!(
            programs.startup == *startup,
            "{dist}: rank {number}'s startup program"
        );
    }
    let cx = module.cx().clone();
    let promoted = promote(module);
    // A class for each of the two ranks, one without the row-parallel layer's bias.
    assert_eq!(count(&promoted, dist), 2 * before - 1, "{dist}");
    let programs = [0, 1].map(|number| send_out(&promoted, number));
    let again: Vec<_> = ranks
        .iter()
        .zip(&programs)
        .map(|([_, _, mesh], p)| [p.main.clone(), p.startup.clone(), mesh.clone()])
        .collect();
    for (number, files) in again.iter().enumerate() {
        let file = |bytes| File {
            name: "program",
            bytes,
        };
        let mut diagnostics = Diagnostics::new();
        let files = RankFiles {
            main: file(&files[0]),
            startup: file(&files[1]),
            mesh: file(&files[2]),
        };
        let back = import(&Context::new(), &[files], &mut diagnostics);
        let back = back.unwrap_or_else(|| panic!("{diagnostics:#?}"));
        assert_eq!(count(&back, dist), before - number, "{dist}");
    }
    programs.map(|p| decode(&cx, &p.main))
}

fn promote(module: Verified) -> Verified {
    let mut diagnostics = Diagnostics::new();
    let text = "builtin.module(promote-linear)";
    let pipeline = Pipeline::parse(text, &mut diagnostics).expect("a pipeline");
    let done = PassManager::new(pipeline, ManagerOptions::default()).run(module, &mut diagnostics);
    done.unwrap_or_else(|_| panic!("{diagnostics:#?}"))
}

fn slot(name: &str, args: &[String]) -> Slot {
    Slot {
        name: name.to_owned(),
        args: args.to_vec(),
    }
}

fn set(op: &mut Op, name: &str, value: Value) {
    op.attrs.retain(|(n, _)| n != name);
    op.attrs.push((name.to_owned(), value));
    op.attrs.sort_by(|a, b| a.0.cmp(&b.0));
}

fn drop_attrs(op: &mut Op, names: &[&str]) {
    op.attrs.retain(|(n, _)| !names.contains(&n.as_str()));
}

fn rename(op: &mut Op, from: &str, to: &str) {
    let slots = op.inputs.iter_mut().chain(&mut op.outputs);
    for slot in slots.filter(|s| s.name == from) {
        slot.name = to.to_owned();
    }
}

/// One op with the lists of all.
fn merged(updates: Vec<Op>, kind: &str, rates: usize) -> Op {
    let mut one = updates[0].clone();
    one.kind = kind.to_owned();
    for op in &updates[1..] {
        let slots = one.inputs.iter_mut().chain(&mut one.outputs);
        let more = op.inputs.iter().chain(&op.outputs);
        slots
            .zip(more)
            .for_each(|(slot, more)| slot.args.extend_from_slice(&more.args));
    }
    let rate = one.inputs.iter_mut().find(|s| s.name == "LearningRate");
    rate.unwrap().args.truncate(rates);
    one
}

const REGULARIZATION: [&str; 2] = ["regularization_method", "regularization_coeff"];

#[test]
fn merged_momentum_without_decay() {
    let change: Change = |updates| {
        let mut op = merged(updates, "merged_momentum", 1);
        set(&mut op, REGULARIZATION[0], Value::Strings(vec![]));
        set(&mut op, REGULARIZATION[1], Value::Floats(vec![]));
        vec![op]
    };
    let [first, rest] = there_and_back("momentum", change, &[], "dist.merged_momentum");
    let lists = |p: &Program| {
        let op = p
            .ops
            .iter()
            .find(|op| op.kind == "merged_momentum")
            .unwrap();
        let slots = ["Param", "Grad", "Velocity", "LearningRate"].map(|s| op.input(s).len());
        (slots, op.output("ParamOut").len())
    };
    let ([n, ..], _) = lists(&first);
    assert_eq!(lists(&first), ([n, n, n, 1], n));
    assert_eq!(lists(&rest), ([n - 1, n - 1, n - 1, 1], n - 1));
}

#[test]
fn merged_momentum_with_decay() {
    let change: Change = |updates| {
        let count = updates.len();
        let mut op = merged(updates, "merged_momentum", 1);
        let methods = (0..count).map(|i| if i % 2 == 0 { "l2_decay" } else { "" }.into());
        set(
            &mut op,
            REGULARIZATION[0],
            Value::Strings(methods.collect()),
        );
        let decays = (0..count).map(|i| if i % 2 == 0 { 0.5 + i as f32 } else { 0.0 });
        set(&mut op, REGULARIZATION[1], Value::Floats(decays.collect()));
        vec![op]
    };
    let [first, rest] = there_and_back("momentum", change, &[], "dist.merged_momentum");
    // Each parameter keeps its own decay where another is gone.
    let decays = |p: &Program| -> Vec<(String, f64, String)> {
        let op = p
            .ops
            .iter()
            .find(|op| op.kind == "merged_momentum")
            .unwrap();
        let values = op.attr(REGULARIZATION[1]).unwrap().as_f64s().unwrap();
        let methods = op.attr(REGULARIZATION[0]).unwrap().as_strs().unwrap();
        let entries = op.input("Param").iter().zip(values).zip(methods);
        entries
            .map(|((param, value), method)| (param.clone(), value, method.to_owned()))
            .collect()
    };
    let (first, rest) = (decays(&first), decays(&rest));
    assert_eq!(rest.len() + 1, first.len());
    assert!(
        rest.iter().all(|entry| first.contains(entry)),
        "{first:?} {rest:?}"
    );
}

#[test]
fn lars_momentum() {
    let change: Change = |updates| {
        let count = updates.len();
        let mut op = merged(updates, "lars_momentum", count);
        drop_attrs(
            &mut op,
            &["use_nesterov", REGULARIZATION[0], REGULARIZATION[1]],
        );
        set(&mut op, "lars_coeff", Value::Float(0.001));
        set(&mut op, "epsilon", Value::Float(0.25));
        let decays = (0..count).map(|i| i as f32 * 0.125).collect();
        set(&mut op, "lars_weight_decay", Value::Floats(decays));
        vec![op]
    };
    let [first, rest] = there_and_back("momentum", change, &[], "dist.lars_momentum");
    let op = |p: &Program| {
        p.ops
            .iter()
            .find(|op| op.kind == "lars_momentum")
            .unwrap()
            .clone()
    };
    let (first, rest) = (op(&first), op(&rest));
    assert_eq!(rest.input("LearningRate").len(), rest.input("Param").len());
    let decay = |op: &Op, at: usize| op.attr("lars_weight_decay").unwrap().as_f64s().unwrap()[at];
    for (at, param) in rest.input("Param").iter().enumerate() {
        let there = first
            .input("Param")
            .iter()
            .position(|p| p == param)
            .unwrap();
        assert_eq!(decay(&rest, at), decay(&first, there));
    }
}

#[test]
fn dgc_momentum() {
    let change: Change = |updates| {
        let change = |mut op: Op| {
            op.kind = "dgc_momentum".into();
            for name in ["current_step", "nranks"] {
                op.inputs.push(slot(name, &[format!("dgc_{name}")]));
            }
            let grad = op.input("Grad").to_vec();
            op.outputs.push(slot("Grad_out", &grad));
            set(&mut op, "rampup_begin_step", Value::Float(3.0));
            op
        };
        updates.into_iter().map(change).collect()
    };
    let more = ["dgc_current_step", "dgc_nranks"];
    there_and_back("momentum", change, &more, "dist.dgc_momentum");
}

#[test]
fn decayed_adagrad() {
    let change: Change = |updates| {
        let change = |mut op: Op| {
            op.kind = "decayed_adagrad".into();
            rename(&mut op, "Velocity", "Moment");
            rename(&mut op, "VelocityOut", "MomentOut");
            op.inputs.retain(|s| s.name != "MasterParam");
            op.outputs.retain(|s| s.name != "MasterParamOut");
            let momentum = ["mu", "use_nesterov", "rescale_grad", "multi_precision"];
            drop_attrs(&mut op, &momentum);
            drop_attrs(&mut op, &REGULARIZATION);
            set(&mut op, "decay", Value::Float(0.9375));
            set(&mut op, "epsilon", Value::Float(0.5));
            op
        };
        updates.into_iter().map(change).collect()
    };
    there_and_back("momentum", change, &[], "dist.decayed_adagrad");
}

#[test]
fn lamb() {
    let change: Change = |updates| {
        let change = |mut op: Op| {
            op.kind = "lamb".into();
            drop_attrs(
                &mut op,
                &[
                    "lazy_mode",
                    "min_row_size_to_use_multithread",
                    "use_global_beta_pow",
                ],
            );
            set(&mut op, "weight_decay", Value::Float(0.0625));
            set(&mut op, "always_adapt", Value::Bool(true));
            op
        };
        updates.into_iter().map(change).collect()
    };
    there_and_back("adam", change, &[], "dist.lamb");
}

#[test]
fn lists_of_unlike_lengths_are_refused() {
    let cases: [(Change, &str); 4] = [
        (
            |updates| {
                let mut op = merged(updates, "merged_momentum", 1);
                set(
                    &mut op,
                    REGULARIZATION[0],
                    Value::Strings(vec!["l2_decay".into()]),
                );
                set(&mut op, REGULARIZATION[1], Value::Floats(vec![0.5]));
                vec![op]
            },
            "E0812 `regularization_method` of `merged_momentum` has 1 entries for",
        ),
        (
            |updates| {
                let mut op = merged(updates, "merged_momentum", 1);
                let methods = vec![b"l1_decay".to_vec(); op.input("Param").len()];
                let decays = vec![0.5; methods.len()];
                set(&mut op, REGULARIZATION[0], Value::Strings(methods));
                set(&mut op, REGULARIZATION[1], Value::Floats(decays));
                vec![op]
            },
            "E0812 `merged_momentum` with an unknown regularisation",
        ),
        (
            |updates| {
                let mut op = merged(updates, "merged_momentum", 2);
                drop_attrs(&mut op, &REGULARIZATION);
                vec![op]
            },
            "E0813 slot `LearningRate` of `merged_momentum` holds 2 variables for",
        ),
        (
            |updates| {
                let mut op = merged(updates, "lars_momentum", 1);
                let decays = vec![0.5; op.input("Param").len()];
                set(&mut op, "lars_coeff", Value::Float(0.001));
                set(&mut op, "epsilon", Value::Float(0.25));
                set(&mut op, "lars_weight_decay", Value::Floats(decays));
                vec![op]
            },
            "E0813 slot `LearningRate` of `lars_momentum` holds 1 variables for",
        ),
    ];
    for (change, expected) in cases {
        let ranks = [0, 1].map(|number| rank(number, "momentum", change, &[]));
        let found = bring_in(&ranks).map(|_| ()).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
}

/// Paddle's gradient of silu reads the activation, which `fused_linear_grad` does not have: it is computed again.
#[test]
fn fused_layers_with_silu() {
    let text = "
        dist.mesh @mesh [\"x\" = 1]
        module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
          func.func @init() attributes {dist.kind = \"init\"} { return }
          func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<f32> attributes {dist.kind = \"step\"} {
            %y, %aux = dist.fused_linear silu %x, %w, %b : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
            %g:3 = dist.fused_linear_grad silu %y, %w, %x, %aux {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>)
            %s = dist.sum %g#0, %g#1 : tensor<4x4xf32>
            %loss = dist.reduce_sum %s {dims = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32>
            return %loss : tensor<f32>
          }
        }";
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("silu.mlir", text.as_bytes());
    let module = parse(&cx, &source, ParseOptions::default(), &mut diagnostics);
    let module = module.unwrap_or_else(|| panic!("{diagnostics:#?}"));
    let module = verify(module, VerifyOptions::default(), &mut diagnostics);
    let module = module.unwrap_or_else(|_| panic!("{diagnostics:#?}"));
    let main = decode(&cx, &send_out(&module, 0).main);
    let kinds: Vec<_> = main.ops.iter().map(|op| op.kind.as_str()).collect();
    let expected = [
        "fused_gemm_epilogue",
        "silu",
        "fused_gemm_epilogue_grad",
        "silu",
        "silu_grad",
    ];
    assert_eq!(kinds[..5], expected);
    let [linear, _, product, again, gradient] = &main.ops[..5] else {
        unreachable!()
    };
    assert_eq!(again.input("X"), linear.output("Out"));
    assert_eq!(gradient.input("X"), linear.output("Out"));
    assert_eq!(gradient.input("Out"), again.output("Out"));
    assert_eq!(gradient.input("Out@GRAD"), product.output("DX"));
}
