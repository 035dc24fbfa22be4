//! Gradient merging: Paddle's way to run several micro-batches and then the optimizer once.
//!
//! ```text
//! startup: g@MERGE = 0; k = m; zero = 0; step = 0; cond = false
//! main:    g@MERGE += g                              (once per micro-batch and gradient)
//!          step = (step + 1) mod k; cond = step == zero
//!          conditional_block(cond) { g@MERGE *= 1/m; …optimizer…; g@MERGE = 0 }
//! ```
//!
//! Recognised exactly, this is `dist.accumulate` in `step`, a function `optimizer`, and `dist.microbatches = m`. The counter goes: when
//! the optimizer runs is then the schedule's business. Any other block within a program is refused.

use std::collections::{BTreeMap, BTreeSet};

use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::Context;

use super::mapping::data_type;
use super::program::{Op, Program, Slot, SubBlock};
use super::tables::tensor_type;
use super::value::{Number, Value};

/// The kind of an op that adds to a global; Paddle has none of this name.
pub(super) const ACCUMULATE: &str = "gradient_merge.accumulate";
/// Its attribute that names the global.
pub(super) const GLOBAL: &str = "global";

/// What a program with gradient merging has besides its step.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    /// Number of micro-batches.
    pub microbatches: i64,
    /// What runs once they are through.
    pub optimizer: Program,
}

/// Takes gradient merging out of a pair of programs.
///
/// # Errors
/// With a diagnostic, if the main program has another block that is anything else.
pub(super) fn take(
    cx: &Context,
    main: &mut Program,
    startup: &mut Program,
    diagnostics: &mut Diagnostics,
) -> Result<Option<Merge>, ()> {
    let Some(block) = main.sub_block.take() else {
        return Ok(None);
    };
    let last = main.ops.len().saturating_sub(1);
    recognise(cx, main, startup, block)
        .map(Some)
        .map_err(|reason| {
            diagnostics.push(
                Diagnostic::error(
                    "E0809",
                    main.loc(cx, last),
                    format!("the block that this op runs is not gradient merging: {reason}"),
                )
                .help(
                    "of control flow only Paddle's gradient merging is imported: a counter, and a block that scales, updates and resets; \
                     docs/paddle.md says how it looks",
                ),
            );
        })
}

fn recognise(
    cx: &Context,
    main: &mut Program,
    startup: &mut Program,
    block: SubBlock,
) -> Result<Merge, String> {
    let counter = Counter::find(main)?;
    let microbatches = counter.check(main, startup)?;
    let sums = reset(&block.ops)?;
    starts_at_zero(startup, &sums)?;
    let mut adds = BTreeMap::new();
    let counted = main.ops.len() - 4;
    for (at, op) in main.ops[..counted].iter().enumerate() {
        for sum in sums_of(op, &sums) {
            let added = added(op, sum).ok_or_else(|| {
                format!("`{}` uses the sum `{sum}` other than to add to it", op.kind)
            })?;
            if adds.insert(at, (sum.clone(), added)).is_some() {
                return Err(format!("`{sum}` and another sum are added by one op"));
            }
        }
    }
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (sum, _) in adds.values() {
        *times.entry(sum).or_default() += 1;
    }
    for sum in &sums {
        match times.get(sum.as_str()) {
            Some(1) => {}
            n => {
                let n = n.copied().unwrap_or(0);
                return Err(format!("`{sum}` is added to {n} times in a micro-batch"));
            }
        }
    }
    reads_globals_only(main, startup, &block.ops)?;
    let ops = block
        .ops
        .iter()
        .map(|op| match op.kind.as_str() {
            "set_value" => zeros(cx, main, op),
            _ => Ok(op.clone()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let first = main.ops.len();
    main.ops.truncate(counted);
    for (at, (sum, added)) in adds {
        let op = &mut main.ops[at];
        op.attrs.retain(|(name, _)| name == "op_role");
        op.attrs.push((GLOBAL.into(), Value::Str(sum.into_bytes())));
        op.kind = ACCUMULATE.into();
        op.inputs = vec![Slot {
            name: "X".into(),
            args: vec![added],
        }];
        op.outputs = Vec::new();
    }
    startup
        .ops
        .retain(|op| !counter.names().iter().any(|name| mentions(op, name)));
    Ok(Merge {
        microbatches,
        optimizer: main.inner(
            SubBlock {
                vars: block.vars,
                ops,
            },
            first,
        ),
    })
}

/// The variables that count micro-batches.
struct Counter {
    step: String,
    every: String,
    zero: String,
    due: String,
}

impl Counter {
    /// The last four ops of the program.
    fn find(main: &Program) -> Result<Self, String> {
        let wrong =
            || "it is not preceded by `increment`, `elementwise_mod` and `equal`".to_owned();
        let tail = main
            .ops
            .len()
            .checked_sub(4)
            .map(|at| &main.ops[at..])
            .ok_or_else(wrong)?;
        let [increment, modulo, equal, conditional] = tail else {
            return Err(wrong());
        };
        let kinds = [increment, modulo, equal, conditional].map(|op| op.kind.as_str());
        if kinds != ["increment", "elementwise_mod", "equal", "conditional_block"] {
            return Err(wrong());
        }
        let one = |names: &[String]| match names {
            [name] => Ok(name.clone()),
            _ => Err("its counter is not one variable".to_owned()),
        };
        let counter = Self {
            step: one(increment.input("X"))?,
            every: one(modulo.input("Y"))?,
            zero: one(equal.input("Y"))?,
            due: one(conditional.input("Cond"))?,
        };
        let step = std::slice::from_ref(&counter.step);
        let chained = increment.output("Out") == step
            && modulo.input("X") == step
            && modulo.output("Out") == step
            && equal.input("X") == step
            && equal.output("Out") == std::slice::from_ref(&counter.due);
        let by_one = increment.attr("step").and_then(Value::as_f64) == Some(1.0);
        let scalar = conditional
            .attr("is_scalar_condition")
            .and_then(Value::as_bool)
            == Some(true);
        match chained && by_one && scalar {
            true => Ok(counter),
            false => Err("its condition is not `(step + 1) mod k == 0`".to_owned()),
        }
    }

    fn names(&self) -> [&str; 4] {
        [&self.step, &self.every, &self.zero, &self.due]
    }

    /// The number of micro-batches. Nothing else uses the counter, and it starts at 0.
    fn check(&self, main: &Program, startup: &Program) -> Result<i64, String> {
        let counted = main.ops.len() - 4;
        let user = main.ops[..counted]
            .iter()
            .find(|op| self.names().iter().any(|name| mentions(op, name)));
        if let Some(op) = user {
            return Err(format!("`{}` uses its counter, too", op.kind));
        }
        let [step, every, zero] =
            [&self.step, &self.every, &self.zero].map(|name| constant(startup, name));
        match (step, every, zero) {
            (Some(0.0), Some(every), Some(0.0)) if every >= 1.0 && every.fract() == 0.0 => {
                Ok(every as i64)
            }
            _ => Err("its counter does not start at 0, or does not count to a constant".to_owned()),
        }
    }
}

fn mentions(op: &Op, name: &str) -> bool {
    let mut slots = op.inputs.iter().chain(&op.outputs);
    slots.any(|slot| slot.args.iter().any(|arg| arg == name))
}

/// The constant that the startup program sets a variable to, if that is all it does with it.
fn constant(startup: &Program, name: &str) -> Option<f64> {
    let mut users = startup.ops.iter().filter(|op| mentions(op, name));
    let (op, None) = (users.next()?, users.next()) else {
        return None;
    };
    filled_with(op)
}

/// What a `fill_constant` writes.
fn filled_with(op: &Op) -> Option<f64> {
    if op.kind != "fill_constant" {
        return None;
    }
    match op.attr("str_value").and_then(Value::as_str) {
        None | Some("") => op.attr("value")?.as_f64(),
        Some(text) => text.parse().ok(),
    }
}

/// The startup program sets each sum to zero and does nothing else with it.
fn starts_at_zero(startup: &Program, sums: &BTreeSet<String>) -> Result<(), String> {
    let mut zero: BTreeMap<&str, bool> = BTreeMap::new();
    for op in &startup.ops {
        for sum in sums_of(op, sums) {
            let first = !zero.contains_key(sum.as_str());
            zero.insert(sum, first && filled_with(op) == Some(0.0));
        }
    }
    match sums
        .iter()
        .find(|sum| zero.get(sum.as_str()) != Some(&true))
    {
        None => Ok(()),
        Some(sum) => Err(format!("`{sum}` does not start at zero")),
    }
}

/// The sums that an op uses, each once.
fn sums_of<'a>(op: &Op, sums: &'a BTreeSet<String>) -> BTreeSet<&'a String> {
    let slots = op.inputs.iter().chain(&op.outputs);
    slots
        .flat_map(|slot| &slot.args)
        .filter_map(|arg| sums.get(arg))
        .collect()
}

/// What an op adds to a sum, if that is all it does.
fn added(op: &Op, sum: &str) -> Option<String> {
    let ([x], [y], [out]) = (op.input("X"), op.input("Y"), op.output("Out")) else {
        return None;
    };
    let plain = op.kind == "elementwise_add"
        && op.attr("axis").and_then(Value::as_i64) == Some(-1)
        && x == sum
        && out == sum
        && y != sum;
    plain.then(|| y.clone())
}

/// The variables that a block sets to zero at its end.
fn reset(block: &[Op]) -> Result<BTreeSet<String>, String> {
    let mut sums: BTreeSet<String> = BTreeSet::new();
    for op in block {
        if let Some(sum) = sums_of(op, &sums).first() {
            return Err(format!("`{}` uses `{sum}` after it was reset", op.kind));
        }
        if op.kind == "set_value" {
            let ([input], [output]) = (op.input("Input"), op.output("Out")) else {
                return Err("a `set_value` does not set one variable".into());
            };
            let whole = [
                "axes",
                "starts",
                "ends",
                "steps",
                "decrease_axes",
                "none_axes",
            ]
            .iter()
            .all(|name| {
                op.attr(name)
                    .and_then(Value::as_i64s)
                    .is_none_or(|v| v.is_empty())
            });
            let more = op
                .inputs
                .iter()
                .any(|slot| slot.name != "Input" && !slot.args.is_empty());
            let zero = match op.attr("values") {
                Some(Value::Scalars(values)) => {
                    !values.is_empty()
                        && values.iter().all(|v| {
                            matches!(v, Number::Float64(x) if *x == 0.0)
                                || matches!(v, Number::Long(0) | Number::Bool(false))
                        })
                }
                _ => false,
            };
            if input != output || !whole || more || !zero {
                return Err(format!("`{output}` is not set to zero as a whole"));
            }
            sums.insert(output.clone());
        }
    }
    match sums.is_empty() {
        true => Err("it resets no sum".into()),
        false => Ok(sums),
    }
}

/// What the block reads before it writes it persists.
fn reads_globals_only(main: &Program, startup: &Program, block: &[Op]) -> Result<(), String> {
    let persists = |name: &str| {
        [main, startup].iter().any(|p| {
            p.var(name)
                .is_some_and(|v| v.desc.persistable == Some(true))
        })
    };
    let mut written: BTreeSet<&str> = BTreeSet::new();
    for op in block {
        for name in op.inputs.iter().flat_map(|slot| &slot.args) {
            if !written.contains(name.as_str()) && !persists(name) {
                return Err(format!(
                    "`{}` reads `{name}`, which belongs to one micro-batch",
                    op.kind
                ));
            }
        }
        written.extend(
            op.outputs
                .iter()
                .flat_map(|slot| &slot.args)
                .map(String::as_str),
        );
    }
    Ok(())
}

/// `fill_constant` in place of a `set_value` to zero.
fn zeros(cx: &Context, main: &Program, op: &Op) -> Result<Op, String> {
    let name = &op.output("Out")[0];
    let ty = main.var(name).and_then(|var| tensor_type(cx, &var.desc));
    let tensor = ty.and_then(|ty| cx.as_tensor(ty));
    let code = tensor.and_then(|(_, element)| data_type(cx, element));
    let (Some((shape, _)), Some(code)) = (tensor, code) else {
        return Err(format!("`{name}` is not a dense tensor"));
    };
    let mut attrs = vec![
        ("shape".to_owned(), Value::Longs(shape.to_vec())),
        ("dtype".to_owned(), Value::Int(code)),
        ("value".to_owned(), Value::Float(0.0)),
        ("str_value".to_owned(), Value::Str(Vec::new())),
    ];
    attrs.extend(
        op.attr("op_role")
            .map(|role| ("op_role".to_owned(), role.clone())),
    );
    Ok(Op {
        kind: "fill_constant".into(),
        inputs: Vec::new(),
        outputs: vec![Slot {
            name: "Out".into(),
            args: vec![name.clone()],
        }],
        attrs,
        is_target: op.is_target,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::program::Var;
    use super::*;

    fn decode(cx: &Context, kind: &str) -> Program {
        let path = format!(
            "{}/../lit-tests/data/paddle/pipeline/ZBH1_pp2_mp1_dp1_L2_m4_vpp1_rank1.{kind}.pdprog.gz",
            env!("CARGO_MANIFEST_DIR")
        );
        let bytes = std::fs::read(path).unwrap();
        let mut out = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&bytes[..]);
        reader.read_to_end(&mut out).unwrap();
        Program::decode(cx, kind, &out, &mut Diagnostics::new()).expect("a program")
    }

    /// Takes the merging out of a changed pair of programs; else says why not.
    fn taken(change: impl FnOnce(&mut Program, &mut Program)) -> Result<(Program, Merge), String> {
        let cx = Context::new();
        let (mut main, mut startup) = (decode(&cx, "main"), decode(&cx, "startup"));
        change(&mut main, &mut startup);
        let mut diagnostics = Diagnostics::new();
        match take(&cx, &mut main, &mut startup, &mut diagnostics) {
            Ok(merge) => Ok((main, merge.expect("a block"))),
            Err(()) => Err(diagnostics.iter().map(|d| d.message.clone()).collect()),
        }
    }

    fn block(program: &mut Program) -> &mut Vec<Op> {
        &mut program.sub_block.as_mut().expect("a block").ops
    }

    #[test]
    fn a_real_program_has_it() {
        let (main, merge) = taken(|_, _| {}).unwrap();
        assert_eq!(merge.microbatches, 4);
        let kind = |ops: &[Op], kind| ops.iter().filter(|op| op.kind == kind).count();
        assert_eq!(kind(&main.ops, ACCUMULATE), 9);
        assert_eq!(kind(&merge.optimizer.ops, "fill_constant"), 9);
        assert_eq!(kind(&merge.optimizer.ops, "set_value"), 0);
        assert!(main.ops.iter().all(|op| op.kind != "increment"));
    }

    #[test]
    fn variables_of_the_block_are_its_own() {
        let (main, merge) = taken(|main, _| {
            let mut desc = main.var("linear_2.b_0").unwrap().desc.clone();
            desc.persistable = None;
            let block = main.sub_block.as_mut().unwrap();
            let name = "scaled".to_owned();
            block.vars.push(Var { name, desc });
            let mut scale = block.ops[0].clone();
            scale.outputs[0].args = vec!["scaled".into()];
            block.ops.insert(1, scale);
        })
        .unwrap();
        assert!(merge.optimizer.var("scaled").is_some() && main.var("scaled").is_none());
    }

    #[test]
    fn anything_else_is_refused() {
        let refused = |what: &str, change: fn(&mut Program, &mut Program)| {
            let why = taken(change).expect_err(what);
            assert!(why.contains(what), "{why}");
        };
        refused("uses its counter, too", |main, _| {
            let increment = main.ops[main.ops.len() - 4].clone();
            main.ops.insert(0, increment);
        });
        refused("its counter does not start at 0", |_, startup| {
            for op in &mut startup.ops {
                if mentions(op, "gradient_merge_step") {
                    for (name, value) in &mut op.attrs {
                        if name == "str_value" {
                            *value = Value::Str(b"1.0".to_vec());
                        }
                    }
                }
            }
        });
        refused("is added to 2 times in a micro-batch", |main, _| {
            let add = main
                .ops
                .iter()
                .find(|op| op.output("Out") == ["linear_2.b_0@GRAD@MERGE"]);
            let add = add.unwrap().clone();
            main.ops.insert(29, add);
        });
        refused("other than to add to it", |main, _| {
            let gelu = main.ops.iter_mut().find(|op| op.kind == "gelu").unwrap();
            gelu.inputs[0].args = vec!["linear_2.b_0@GRAD@MERGE".into()];
        });
        refused("after it was reset", |main, _| {
            let scale = block(main)[0].clone();
            block(main).push(scale);
        });
        refused("is not set to zero as a whole", |main, _| {
            let last = block(main).last_mut().unwrap();
            for (name, value) in &mut last.attrs {
                if name == "values" {
                    *value = Value::Scalars(vec![Number::Float64(1.0)]);
                }
            }
        });
        refused("which belongs to one micro-batch", |main, _| {
            block(main)[0].inputs.last_mut().unwrap().args = vec!["tmp_0".into()];
        });
        refused("its condition is not", |main, _| {
            let at = main.ops.len() - 2;
            main.ops[at].inputs[0].args = vec!["gradient_merge_k".into()];
        });
    }
}
