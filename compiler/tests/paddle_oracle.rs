//! What `promote-linear` makes of Paddle's programs, exported again, against what Paddle's own pass made of them.
//!
//! Programs are compared as expressions: what each parameter, state and buffer becomes, by op types, slots, attributes and what
//! goes in; names of intermediate variables and the order of independent ops do not matter. The differences listed in
//! [`differences`] are wanted; `docs/passes/promote-linear.md` says why.

mod paddle_files;
mod programs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use paddle_files::{Case, bring_in, cases, complete_groups, rank_of};
use programs::inspect::run;
use prost::Message;
use raddle_compiler::interop::paddle::export;
use raddle_dialect::diag::Diagnostics;
use raddle_dialect::ir::Verified;
use serde_json::Value as Json;

/// As much of ProgramDesc as the comparison needs.
#[derive(Clone, PartialEq, Message)]
struct ProgramDesc {
    #[prost(message, repeated, tag = "1")]
    blocks: Vec<BlockDesc>,
}

#[derive(Clone, PartialEq, Message)]
struct BlockDesc {
    #[prost(message, repeated, tag = "4")]
    ops: Vec<OpDesc>,
}

#[derive(Clone, PartialEq, Message)]
struct OpDesc {
    #[prost(message, repeated, tag = "1")]
    inputs: Vec<SlotDesc>,
    #[prost(message, repeated, tag = "2")]
    outputs: Vec<SlotDesc>,
    #[prost(string, required, tag = "3")]
    kind: String,
    #[prost(message, repeated, tag = "4")]
    attrs: Vec<AttrDesc>,
}

#[derive(Clone, PartialEq, Message)]
struct SlotDesc {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(string, repeated, tag = "2")]
    args: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct AttrDesc {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(int32, optional, tag = "3")]
    i: Option<i32>,
    #[prost(float, optional, tag = "4")]
    f: Option<f32>,
    #[prost(bool, optional, tag = "10")]
    b: Option<bool>,
}

/// An op, from either side.
struct Op {
    kind: String,
    inputs: BTreeMap<String, Vec<String>>,
    outputs: BTreeMap<String, Vec<String>>,
    attrs: BTreeMap<String, String>,
}

/// Attributes that say what an op computes, of those that the expected files hold.
const ATTRS: &[&str] = &[
    "axis", "max", "max_norm", "min", "nranks", "ring_id", "root", "scale", "trans_x", "trans_y",
];

fn exported(bytes: &[u8]) -> Vec<Op> {
    let program = ProgramDesc::decode(bytes).expect("a program");
    let slots = |slots: &[SlotDesc]| {
        let some = slots.iter().filter(|s| !s.args.is_empty());
        some.map(|s| (s.name.clone(), s.args.clone())).collect()
    };
    let attr = |a: &AttrDesc| {
        let number =
            a.i.map(f64::from)
                .or(a.f.map(f64::from))
                .or(a.b.map(|b| f64::from(u8::from(b))));
        Some((a.name.clone(), format!("{:.6}", number?)))
    };
    let ops = program.blocks[0].ops.iter();
    ops.map(|op| Op {
        kind: op.kind.clone(),
        inputs: slots(&op.inputs),
        outputs: slots(&op.outputs),
        attrs: op
            .attrs
            .iter()
            .filter(|a| ATTRS.contains(&&*a.name))
            .filter_map(attr)
            .collect(),
    })
    .collect()
}

fn expected(ops: &Json) -> Vec<Op> {
    let slots = |slots: &Json| -> BTreeMap<String, Vec<String>> {
        let names = |v: &Json| {
            v.as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_str().unwrap().into())
                .collect()
        };
        let slots = slots.as_object().unwrap().iter();
        slots
            .map(|(name, args)| (name.clone(), names(args)))
            .filter(|(_, a): &(_, Vec<_>)| !a.is_empty())
            .collect()
    };
    let attr = |(name, value): (&String, &Json)| {
        let number = value
            .as_f64()
            .or(value.as_bool().map(|b| f64::from(u8::from(b))));
        Some((name.clone(), format!("{:.6}", number?)))
    };
    let ops = ops["ops"].as_array().unwrap().iter();
    ops.map(|op| Op {
        kind: op["type"].as_str().unwrap().into(),
        inputs: slots(&op["inputs"]),
        outputs: slots(&op["outputs"]),
        attrs: op["attrs"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| ATTRS.contains(&name.as_str()))
            .filter_map(attr)
            .collect(),
    })
    .collect()
}

/// In place of the type of an op: it only passes its operand on.
const SKIPPED: &str = "(skipped)";

/// Numbers expressions, equal ones alike.
#[derive(Default)]
struct Expressions(HashMap<String, usize>);

impl Expressions {
    fn number(&mut self, text: String) -> usize {
        let next = self.0.len();
        *self.0.entry(text).or_insert(next)
    }

    /// What each variable holds in the end. The attributes that count are those that both sides of the comparison have.
    fn run(
        &mut self,
        ops: &[Op],
        common: &BTreeMap<String, BTreeSet<String>>,
    ) -> BTreeMap<String, usize> {
        let mut held: BTreeMap<String, usize> = BTreeMap::new();
        for op in ops {
            if op.kind == SKIPPED {
                let (from, to) = (&op.inputs["X"][0], &op.outputs["Out"][0]);
                held.insert(to.clone(), held[from]);
                continue;
            }
            let mut text = op.kind.clone();
            for (name, value) in &op.attrs {
                if common
                    .get(&op.kind)
                    .is_some_and(|names| names.contains(name))
                {
                    text.push_str(&format!(" {name}={value}"));
                }
            }
            for (slot, args) in &op.inputs {
                // The gradient of an add reads only the shapes of its operands.
                if op.kind == "elementwise_add_grad" && (slot == "X" || slot == "Y") {
                    continue;
                }
                let args: Vec<_> = args
                    .iter()
                    .map(|name| match held.get(name) {
                        Some(&known) => known,
                        None => self.number(format!("initial {name}")),
                    })
                    .collect();
                text.push_str(&format!(" {slot}{args:?}"));
            }
            for (slot, args) in &op.outputs {
                for (index, name) in args.iter().enumerate() {
                    let number = self.number(format!("{text} -> {slot} {index}"));
                    held.insert(name.clone(), number);
                }
            }
        }
        held
    }
}

/// Attributes by op type that both programs write.
fn common_attrs(a: &[Op], b: &[Op]) -> BTreeMap<String, BTreeSet<String>> {
    let names = |ops: &[Op]| {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for op in ops {
            let of_kind = names
                .entry(op.kind.clone())
                .or_insert_with(|| op.attrs.keys().cloned().collect());
            of_kind.retain(|n| op.attrs.contains_key(n));
        }
        names
    };
    let (mut a, b) = (names(a), names(b));
    for (kind, names) in &mut a {
        if let Some(others) = b.get(kind) {
            names.retain(|n| others.contains(n));
        }
    }
    a
}

/// Variables of the program before promotion that outlive it: read before they are written, and written.
fn lasting(before: &[Op]) -> BTreeSet<String> {
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    for op in before {
        let fresh = op
            .inputs
            .values()
            .flatten()
            .filter(|n| !written.contains(*n))
            .cloned();
        read.extend(fresh.collect::<Vec<_>>());
        written.extend(op.outputs.values().flatten().cloned());
    }
    read.intersection(&written).cloned().collect()
}

/// Names of variables that end up different.
fn compare(ours: &[Op], theirs: &[Op], of: &BTreeSet<String>) -> BTreeSet<String> {
    let common = common_attrs(ours, theirs);
    let mut expressions = Expressions::default();
    let ours = expressions.run(ours, &common);
    let theirs = expressions.run(theirs, &common);
    of.iter()
        .filter(|n| ours.get(*n) != theirs.get(*n))
        .cloned()
        .collect()
}

fn counts(ops: &[Op]) -> BTreeMap<&str, i64> {
    let mut counts = BTreeMap::new();
    ops.iter()
        .for_each(|op| *counts.entry(op.kind.as_str()).or_default() += 1);
    counts
}

#[test]
fn promoted_programs_equal_paddles() {
    let mut modules: HashMap<String, Verified> = HashMap::new();
    for group in complete_groups() {
        let module = bring_in(&group.iter().collect::<Vec<_>>());
        let (module, _) = run(module, "builtin.module(promote-linear)");
        for case in group {
            modules.insert(case.name.clone(), module.clone());
        }
    }
    for case in cases() {
        let module = modules.remove(&case.name).unwrap_or_else(|| {
            // The other ranks' files are not there: every rank runs this one's, which says of another rank's piece of the sequence that it
            // is this one's.
            let pipeline = "builtin.module(promote-linear{verify=false})";
            run(bring_in(&[&case]), pipeline).0
        });
        let mut diagnostics = Diagnostics::new();
        let ours = export(&module, rank_of(&case), &mut diagnostics);
        let ours = ours.unwrap_or_else(|| {
            panic!(
                "{}: {:?}",
                case.name,
                diagnostics.iter().collect::<Vec<_>>()
            )
        });
        check(&case, exported(&ours.main), &exported(&ours.startup));
    }
}

/// What is wanted to differ from Paddle's result.
#[derive(Default, Debug, PartialEq)]
struct Differences {
    /// By op type of the main program: how many more we have.
    ops: BTreeMap<&'static str, i64>,
    /// Lasting variables that the main program leaves different.
    main: BTreeSet<String>,
    /// Variables that the startup program leaves different.
    startup: BTreeSet<String>,
}

/// Each line is one entry of the list of faults in `docs/passes/promote-linear.md`.
fn differences(name: &str, first: bool, bias: &str) -> Differences {
    let mut d = Differences::default();
    if first && name.contains("+sp") {
        // The bias gradient keeps the factor that the input program gave it.
        d.ops.insert("scale", 1);
    }
    if first && name.contains("dpmp+sp") {
        // Paddle keeps the broadcast over the tensor axis, which the other ranks no longer join, not the one over the data axis.
        d.startup.insert(bias.into());
    }
    if name.contains("gnorm") {
        // The square of the bias gradient's norm stays part of the global norm on every rank.
        d.ops.insert("c_broadcast", 1);
        if !first {
            d.ops.insert("fill_constant", 1);
        }
    }
    if !first && name.contains("clip-norm") {
        // Paddle leaves an op that clips a gradient that is not there.
        d.ops.insert("clip_by_norm", -1);
    }
    if !first && name.contains("clip-value") {
        d.ops.insert("clip", -1);
    }
    if !first && name.contains("adamax") {
        // Paddle leaves the op that advances the power of beta.
        d.ops.insert("scale", -1);
        d.main.insert(format!("opt_{bias}_beta1_pow_acc_0"));
    }
    d
}

fn check(case: &Case, mut main: Vec<Op>, startup: &[Op]) {
    let name = &case.name;
    let json = oracle(name);
    let (before, after) = (&json["before"], &json["after"]);
    let first = json["first_rank"] == true;
    let bias = json["deleted_bias_names"][0].as_str().unwrap();
    let theirs = expected(&after["main"]);
    let wanted = differences(name, first, bias);

    let mut found = Differences::default();
    let (a, b) = (counts(&main), counts(&theirs));
    for kind in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
        let more = a.get(*kind).unwrap_or(&0) - b.get(*kind).unwrap_or(&0);
        let known = [
            "c_broadcast",
            "clip",
            "clip_by_norm",
            "fill_constant",
            "scale",
        ];
        if more != 0 {
            let kind = known.into_iter().find(|k| k == kind);
            found.ops.insert(kind.unwrap_or("another op"), more);
        }
    }
    let state = lasting(&expected(&before["main"]));
    if wanted.ops.get("scale") == Some(&1) {
        // Without one of our scales, and no other, the programs are the same.
        let scales: Vec<_> = (0..main.len())
            .filter(|&i| main[i].kind == "scale")
            .collect();
        let equal = scales.into_iter().filter(|&i| {
            let kind = std::mem::replace(&mut main[i].kind, SKIPPED.into());
            let differ = compare(&main, &theirs, &state);
            main[i].kind = kind;
            differ.is_empty()
        });
        // In the data-parallel window the factors of both axes are 1/2, so leaving either out gives the same expression.
        let equal = equal.count();
        assert!(
            equal == 1 || equal == 2 && name.contains("dpmp"),
            "{name}: {equal}"
        );
    } else {
        if name.contains("gnorm") && !first {
            // Without the term that came by broadcast, too.
            let at = main.iter().position(|op| op.kind == "c_broadcast").unwrap();
            let term = main.remove(at).outputs["Out"][0].clone();
            let stack = main.iter_mut().find(|op| op.kind == "stack").unwrap();
            stack.inputs.get_mut("X").unwrap().retain(|n| *n != term);
        }
        found.main = compare(&main, &theirs, &state);
    }
    let theirs = expected(&after["startup"]);
    let set = expected(&before["startup"]);
    let set = set
        .iter()
        .flat_map(|op| op.outputs.values().flatten().cloned());
    found.startup = compare(startup, &theirs, &set.collect());
    assert_eq!(found, wanted, "{name}");
}

fn oracle(name: &str) -> Json {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!(
        "../lit-tests/data/paddle/promotion/{name}.expected.json.gz"
    ));
    let mut text = String::new();
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    serde_json::from_str(&text).unwrap()
}
