//! Where ranks meet: collectives.
//!
//! Calls of a group are matched by kind, axes, reduction, root, dimension, dtype and shape. The order in which ranks arrive
//! does not matter; which calls they make, in which order, does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use raddle_bundle::{Instr, Value};
use raddle_dialect::reference::Tensor;

use super::Hands;
use super::program::Program;
use super::rank::RankRun;
use crate::RuntimeError;

/// Who has come and waits.
pub(super) struct Meeting<'p> {
    program: &'p Program,
    /// By the ranks that have to come: those that have.
    waiting: HashMap<Vec<usize>, Vec<usize>>,
}

impl<'p> Meeting<'p> {
    pub fn new(program: &'p Program) -> Self {
        Self {
            program,
            waiting: HashMap::new(),
        }
    }

    /// Notes that a rank has come to its instruction. Returns the group, in group order, if it was the last to come.
    pub fn arrive(
        &mut self,
        rank: usize,
        runs: &[RankRun],
    ) -> Result<Option<Vec<usize>>, RuntimeError> {
        let group = self
            .program
            .group(rank, runs[rank].instr())
            .map_err(|why| runs[rank].failed(runs[rank].instr(), why))?;
        let size = group.len();
        let mut here = match self.waiting.entry(group) {
            Entry::Occupied(here) => here,
            Entry::Vacant(nobody) => nobody.insert_entry(Vec::with_capacity(size)),
        };
        if let Some(&first) = here.get().first() {
            agree(&runs[first], &runs[rank])?;
        }
        here.get_mut().push(rank);
        if here.get().len() < size {
            return Ok(None);
        }
        Ok(Some(here.remove_entry().0))
    }
}

/// Two calls of one group fit together.
fn agree(a: &RankRun, b: &RankRun) -> Result<(), RuntimeError> {
    let (left, right) = (a.instr(), b.instr());
    let types = |run: &RankRun| -> Result<Vec<_>, RuntimeError> {
        let operands = run.operands(run.instr())?;
        Ok(operands.iter().map(Tensor::ty).collect())
    };
    if left.op == right.op && agreeing(left) == agreeing(right) && types(a)? == types(b)? {
        return Ok(());
    }
    Err(RuntimeError::Mismatch {
        sites: vec![a.call_site(), b.call_site()],
    })
}

/// The attributes in which all calls of a group have to agree.
fn agreeing(instr: &Instr) -> Vec<(&str, &Value)> {
    instr
        .attrs
        .iter()
        .filter(|(name, _)| !name.contains('.'))
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

/// A call as messages show it.
pub(super) fn describe(instr: &Instr, operands: Option<&[Tensor]>) -> String {
    let mut text = instr.op.clone();
    for (name, value) in agreeing(instr) {
        text += &format!(" {name}={}", show(value));
    }
    let types: Vec<_> = operands
        .unwrap_or_default()
        .iter()
        .map(|t| t.ty().to_string())
        .collect();
    if !types.is_empty() {
        text += &format!(" : {}", types.join(", "));
    }
    text
}

fn show(value: &Value) -> String {
    match value {
        Value::Unit => "unit".into(),
        Value::Bool(v) => v.to_string(),
        Value::Int(v) => v.to_string(),
        Value::Float(v) => v.to_string(),
        Value::Str(v) => v.clone(),
        Value::Ints(v) => format!("{v:?}"),
        Value::List(v) => format!("[{}]", v.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Dict(v) => {
            let items: Vec<_> = v.iter().map(|(k, v)| format!("{k}={}", show(v))).collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

/// Carries out the call that a whole group has come to.
pub(super) fn complete(
    group: &[usize],
    runs: &mut [RankRun],
    hands: &mut Hands,
) -> Result<(), RuntimeError> {
    let mut inputs = Vec::with_capacity(group.len());
    for &rank in group {
        inputs.push(runs[rank].operands(runs[rank].instr())?);
    }
    let first = &runs[group[0]];
    let results = match first.collective() {
        Some(def) if inputs.iter().any(|i| !i.is_empty()) => {
            Program::combine(def, first.instr(), &inputs)
                .map_err(|why| first.failed(first.instr(), why))?
        }
        // A barrier.
        _ => vec![vec![]; group.len()],
    };
    for (&rank, results) in group.iter().zip(results) {
        let instr = runs[rank].instr();
        runs[rank].finish(instr, results, hands)?;
    }
    Ok(())
}
