//! The schedule of a pipeline: one ordered list of actions per pipeline rank.

use super::parts::attr;
use super::{
    AttrKind, Attributes, Attrs, Effects, OpAttributes, OpDef, OpVerifier, Pretty, TypeShape,
    Uniform,
};
use crate::action::{Action, Compute, Op};
use crate::error::Error;
use crate::ir::{Attr, Context};

/// `dist.schedule`
pub const SCHEDULE: OpDef = OpDef {
    name: "dist.schedule",
    summary: "orders the jobs of every pipeline rank",
    description: "\
One string of actions per rank of the pipeline axis, separated by blanks, in the words of PyTorch's schedule files: \
`<stage><TYPE><microbatch>`, counted from zero, with F a forward, B a whole backward, I and W its two parts (gradient of the \
input, gradient of the weights), `SEND_F`, `RECV_F`, `SEND_B`, `RECV_B`, `WAIT_SEND_F` and `WAIT_SEND_B` transfers, \
`(0F4;7B1)OVERLAP_F_B` steps that run together, and for a whole stage UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD, and the \
optimizer's SYNC_STATE, RECV_STATE, STEP, SEND_STATE, VALIDATE and ROLLBACK. `placement[s]` is the rank of stage s; chunk c of a \
rank is the c-th of its stages, counted from the first layers. Every stage runs F once for every micro-batch, and B, or I and then \
W, once, unless the whole schedule is forwards only. The op stands in the top module, once; where a rank class says \
`dist.microbatches`, it says the same number. Whether the lists can deadlock is for `raddle schedule --check` to say.",
    attrs: &[
        attr(
            "kind",
            AttrKind::Str,
            "what made the order: `1f1b`, `zb-v`, `auto`, …",
        ),
        attr(
            "microbatches",
            AttrKind::I64,
            "micro-batches of a step, at least 1",
        ),
        attr("stages", AttrKind::I64, "stages of the whole pipeline"),
        attr(
            "chunks",
            AttrKind::I64,
            "stages of the rank that has the most",
        ),
        attr("placement", AttrKind::I64Array, "the rank of every stage"),
        attr("actions", AttrKind::Array, "a string for every rank"),
    ],
    effects: Effects::Opaque,
    pretty: Pretty::Uniform(Uniform::new(TypeShape::Nothing)),
    verify: Some(verify_schedule),
    ..OpDef::NONE
};

/// What a `dist.schedule` says. [`Plan::read`] takes nothing that is not well-formed and complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What made the order.
    pub kind: String,
    /// Micro-batches of a step.
    pub microbatches: usize,
    /// The rank of every stage.
    pub placement: Vec<usize>,
    /// The actions of every rank, in order.
    pub actions: Vec<Vec<Action>>,
}

impl Plan {
    /// Reads the op's attributes.
    ///
    /// # Errors
    /// `E0301` for a missing attribute, `E0552` for numbers that do not fit each other, `E0553` for a word that is no action or
    /// not one of its rank, `E0554` for a step that is missing or done twice.
    pub fn read(attributes: &dyn Attributes) -> Result<Self, Error> {
        let attrs = Attrs(attributes);
        let microbatches = count(attrs, "microbatches")?;
        let (stages, chunks) = (count(attrs, "stages")?, count(attrs, "chunks")?);
        let texts = attrs.strings("actions")?;
        let placement = placement(&attrs.ints("placement")?, stages, texts.len())?;
        let mut held = vec![0; texts.len()];
        for rank in &placement {
            held[*rank] += 1;
        }
        let most = held.iter().copied().max().unwrap_or(0);
        if most != chunks {
            return Err(misfit(format!(
                "has chunks = {chunks}, but 'placement' puts {most} stages on one rank"
            )));
        }
        if let Some(rank) = held.iter().position(|n| *n == 0) {
            return Err(misfit(format!(
                "has a list for rank {rank}, on which 'placement' puts no stage"
            )));
        }
        let mut plan = Self {
            kind: attrs.string("kind")?,
            microbatches,
            placement,
            actions: Vec::with_capacity(texts.len()),
        };
        for (rank, text) in texts.iter().enumerate() {
            let list = plan.list(rank, text)?;
            plan.actions.push(list);
        }
        plan.complete()?;
        Ok(plan)
    }

    /// The op's attributes.
    pub fn attrs(&self, cx: &Context) -> Vec<(&'static str, Attr)> {
        let texts: Vec<String> = self.actions.iter().map(|list| words(list)).collect();
        let placement: Vec<i64> = self.placement.iter().map(|r| *r as i64).collect();
        vec![
            ("kind", cx.string(&self.kind)),
            ("microbatches", cx.i64_attr(self.microbatches as i64)),
            ("stages", cx.i64_attr(self.placement.len() as i64)),
            ("chunks", cx.i64_attr(self.chunks() as i64)),
            ("placement", cx.i64_array(&placement)),
            ("actions", cx.string_array(&texts)),
        ]
    }

    /// Stages of the rank that has the most.
    pub fn chunks(&self) -> usize {
        let mut held = vec![0; self.actions.len()];
        for rank in &self.placement {
            held[*rank] += 1;
        }
        held.into_iter().max().unwrap_or(0)
    }

    fn list(&self, rank: usize, text: &str) -> Result<Vec<Action>, Error> {
        let mut list = Vec::new();
        for (position, word) in text.split_ascii_whitespace().enumerate() {
            let fail = |what: String| {
                let message = format!("rank {rank}, action {position}: `{word}` {what}");
                Error::op("E0553", message)
            };
            let action = match Action::parse(word) {
                Ok(Some(action)) => action,
                Ok(None) => continue,
                Err(problem) => return Err(fail(format!("is no action: {problem}"))),
            };
            for (stage, microbatch) in concerns(&action) {
                match self.placement.get(stage) {
                    Some(owner) if *owner == rank => {}
                    Some(owner) => return Err(fail(format!("is of a stage of rank {owner}"))),
                    None => {
                        return Err(fail(format!(
                            "is of a stage beyond the {}",
                            self.placement.len()
                        )));
                    }
                }
                if microbatch.is_some_and(|j| j >= self.microbatches) {
                    let most = self.microbatches;
                    return Err(fail(format!("is of a micro-batch beyond the {most}")));
                }
            }
            list.push(action);
        }
        Ok(list)
    }

    /// Every stage runs F once for every micro-batch, and B, or I and W, once, unless no backward runs at all.
    fn complete(&self) -> Result<(), Error> {
        let fail = |what: String| Err(Error::op("E0554", what));
        let ops = || self.actions.iter().flatten().flat_map(Action::ops);
        // A number that no list could reach does not overflow here.
        let want = self.placement.len().saturating_mul(self.microbatches);
        let have = ops().count();
        if have < want {
            return fail(format!(
                "has {have} compute steps, but {want} forwards are wanted"
            ));
        }
        let mut done = vec![0u8; want];
        for op in ops() {
            let done = &mut done[op.stage.index() * self.microbatches + op.microbatch.index()];
            let bit = op.kind.bit();
            if *done & bit != 0 {
                return fail(format!("does {op} twice"));
            }
            *done |= bit;
        }
        let forward_only = ops().all(|op| op.kind == Compute::Forward);
        for (at, done) in done.into_iter().enumerate() {
            let (stage, microbatch) = (at / self.microbatches, at % self.microbatches);
            let step = |kind| Op::new(kind, stage as u32, microbatch as u32);
            let split = done & (INPUT | WEIGHT);
            if done & FORWARD == 0 {
                return fail(format!("never does {}", step(Compute::Forward)));
            }
            if done & WHOLE != 0 && split != 0 {
                let whole = step(Compute::Backward);
                return fail(format!("does {whole} whole and in parts"));
            }
            if !forward_only && done & WHOLE == 0 && split != INPUT | WEIGHT {
                let missing = match split {
                    0 => Compute::Backward,
                    INPUT => Compute::WeightGrad,
                    _ => Compute::InputGrad,
                };
                return fail(format!("never does {}", step(missing)));
            }
        }
        Ok(())
    }
}

/// A rank's list as one string.
pub fn words(list: &[Action]) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    for (i, action) in list.iter().enumerate() {
        let blank = if i > 0 { " " } else { "" };
        let _ = write!(text, "{blank}{action}");
    }
    text
}

const FORWARD: u8 = Compute::Forward.bit();
const INPUT: u8 = Compute::InputGrad.bit();
const WEIGHT: u8 = Compute::WeightGrad.bit();
const WHOLE: u8 = Compute::Backward.bit();

fn misfit(what: String) -> Error {
    Error::op("E0552", what)
}

fn count(attrs: Attrs, name: &str) -> Result<usize, Error> {
    let value = attrs.int(name)?;
    usize::try_from(value)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| misfit(format!("has {name} = {value}, but must have at least 1")))
}

fn placement(ranks: &[i64], stages: usize, lists: usize) -> Result<Vec<usize>, Error> {
    if ranks.len() != stages {
        let message = format!(
            "has stages = {stages}, but 'placement' has {} entries",
            ranks.len()
        );
        return Err(misfit(message).with_help("`placement` has the rank of every stage"));
    }
    let rank = |(stage, rank): (usize, &i64)| {
        usize::try_from(*rank)
            .ok()
            .filter(|r| *r < lists)
            .ok_or_else(|| {
                misfit(format!(
                    "puts stage {stage} on rank {rank}, but there are lists for {lists} ranks"
                ))
            })
    };
    ranks.iter().enumerate().map(rank).collect()
}

/// Stages and micro-batches that an action names.
fn concerns(action: &Action) -> Vec<(usize, Option<usize>)> {
    match action {
        Action::Compute(_) | Action::Overlap(_) => action
            .ops()
            .iter()
            .map(|op| (op.stage.index(), Some(op.microbatch.index())))
            .collect(),
        Action::Send(t) | Action::Recv(t) | Action::WaitSend(t) => {
            vec![(t.stage.index(), Some(t.microbatch.index()))]
        }
        Action::Stage(_, stage) => vec![(stage.index(), None)],
    }
}

fn verify_schedule(v: &mut OpVerifier) {
    let module = v.module;
    if module.parent_op(v.op) != Some(module.root()) {
        v.error("E0551", "must stand in the top module");
        return;
    }
    // Back to the schedule before this one, so that many of them cost no more than the module is long.
    let mut before = module.prev_op(v.op);
    while let Some(op) = before {
        if module.is(op, "dist.schedule") {
            let d = v
                .diagnostic("E0551", "is a second schedule")
                .note(Some(module.loc(op).into()), "the first");
            v.diagnostics.push(d);
            return;
        }
        before = module.prev_op(op);
    }
    let attributes = OpAttributes { module, op: v.op };
    let plan = match Plan::read(&attributes) {
        Ok(plan) => plan,
        Err(error) => return v.report(&error),
    };
    for class in module.block_ops(module.body(module.root())) {
        let Some(own) = module.i64_attr(class, "dist.microbatches") else {
            continue;
        };
        if own != plan.microbatches as i64 {
            let d = v
                .diagnostic(
                    "E0555",
                    format!(
                        "has {} micro-batches, but a rank class runs {own}",
                        plan.microbatches
                    ),
                )
                .note(Some(module.loc(class).into()), "the class");
            v.diagnostics.push(d);
            return;
        }
    }
}

/// The family.
pub static OPS: &[OpDef] = &[SCHEDULE];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Value;

    fn attributes(actions: &[&str]) -> Vec<(&'static str, Value)> {
        let texts = actions.iter().map(|a| Value::Str((*a).to_owned()));
        vec![
            ("kind", Value::Str("1f1b".to_owned())),
            ("microbatches", Value::Int(1)),
            ("stages", Value::Int(2)),
            ("chunks", Value::Int(1)),
            ("placement", Value::Ints(vec![0, 1])),
            ("actions", Value::List(texts.collect())),
        ]
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let lists = [
            "0F0 0SEND_F0 0RECV_B0 0B0 0STEP",
            "1RECV_F0 1F0 1I0 1SEND_B0 1W0",
        ];
        let plan = Plan::read(&attributes(&lists)).expect("complete");
        assert_eq!(
            plan.actions.iter().map(|l| words(l)).collect::<Vec<_>>(),
            lists
        );
        assert_eq!((plan.chunks(), plan.microbatches), (1, 1));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (lists, message) in [
            (["0F0 0B0", "1F0"], "never does 1B0"),
            (["0F0 0B0", "1F0 1I0"], "never does 1W0"),
            (["0F0 0B0", "1F0 1W0"], "never does 1I0"),
            (["0B0", "1F0 1B0"], "never does 0F0"),
            (["0F0 0B0 0I0", "1F0 1B0"], "does 0B0 whole and in parts"),
            (["0F0 0F0 0B0", "1F0 1B0"], "does 0F0 twice"),
        ] {
            let error = Plan::read(&attributes(&lists)).expect_err(message);
            assert_eq!(
                (error.code(), error.to_string().as_str()),
                ("E0554", message)
            );
        }
        assert!(
            Plan::read(&attributes(&["0F0", "1F0"])).is_ok(),
            "forwards only"
        );
    }
}
