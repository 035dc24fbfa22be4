//! Records the gradient that reaches each optimizer op, under the name of the parameter it updates.

use std::collections::{BTreeMap, HashMap};

use raddle_bundle::{FunctionKind, Instr, Reg, Value};
use raddle_dialect::reference::Tensor;

use crate::device::reference::{LoadedFunction, Observer, Program};

/// Optimizer instructions of one function, by the register of their first result: the parameter's global, and which operand
/// is the gradient.
type Updates = HashMap<Reg, (String, usize)>;

/// Watches a step.
pub(super) struct GradientTrace<'p> {
    program: &'p Program,
    /// By class name.
    updates: HashMap<&'p str, Updates>,
    gradients: BTreeMap<(usize, String), Tensor>,
}

impl<'p> GradientTrace<'p> {
    pub fn new(program: &'p Program) -> Self {
        Self {
            program,
            updates: HashMap::new(),
            gradients: BTreeMap::new(),
        }
    }

    /// Gets ready for a run of the functions of a kind.
    pub fn enter(&mut self, kind: FunctionKind) {
        let of = |function: Option<&LoadedFunction>| function.map(updates).unwrap_or_default();
        self.updates = self
            .program
            .classes()
            .iter()
            .map(|class| (class.name.as_str(), of(class.function(kind))))
            .collect();
    }

    /// What was seen, by rank and parameter.
    pub fn into_gradients(self) -> BTreeMap<(usize, String), Tensor> {
        self.gradients
    }
}

impl Observer for GradientTrace<'_> {
    fn ran(&mut self, rank: usize, instr: &Instr, operands: &[Tensor], _: &[Tensor]) {
        let class = self.program.class_of(rank).name.as_str();
        let updates = &self.updates[class];
        let found = instr.results.first().and_then(|(reg, _)| updates.get(reg));
        if let Some((parameter, gradient)) = found {
            let key = (rank, parameter.clone());
            self.gradients.insert(key, operands[*gradient].clone());
        }
    }
}

fn updates(function: &LoadedFunction) -> Updates {
    let mut loaded: HashMap<Reg, &str> = HashMap::new();
    let mut updates = Updates::new();
    for (instr, groups) in function.instrs() {
        if let ("dist.load", Some(Value::Str(global))) = (&*instr.op, instr.attrs.get("global")) {
            loaded.insert(instr.results[0].0, global);
            continue;
        }
        let at = |name| groups.iter().position(|&n| n == name);
        let (Some(param), Some(gradient)) = (at("param"), at("grad")) else {
            continue;
        };
        let Some(&global) = loaded.get(&instr.operands[param]) else {
            continue;
        };
        updates.insert(instr.results[0].0, (global.to_owned(), gradient));
    }
    updates
}
