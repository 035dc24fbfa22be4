//! Records the gradient that reaches each optimizer op, under the name of the parameter it updates.

use std::collections::{BTreeMap, HashMap};

use raddle_bundle::{Reg, Value};
use raddle_dialect::reference::Tensor;

use crate::device::reference::{LoadedFunction, Observer, Program, Ran};

/// Optimizer instructions of one function, by the register of their first result: the parameter's global, and which operand
/// is the gradient.
type Updates = HashMap<Reg, (String, usize)>;

/// Watches a step.
pub(super) struct GradientTrace<'p> {
    program: &'p Program,
    /// By class and function.
    updates: HashMap<(&'p str, &'p str), Updates>,
    gradients: BTreeMap<(usize, String), Tensor>,
}

impl<'p> GradientTrace<'p> {
    pub fn new(program: &'p Program) -> Self {
        let classes = program.classes().iter();
        let functions = classes.flat_map(|class| {
            let functions = class.functions.iter();
            functions.map(|f| ((class.name.as_str(), f.plain.name.as_str()), updates(f)))
        });
        Self {
            program,
            updates: functions.collect(),
            gradients: BTreeMap::new(),
        }
    }

    /// What was seen since the last call, by rank and parameter.
    pub fn take(&mut self) -> BTreeMap<(usize, String), Tensor> {
        std::mem::take(&mut self.gradients)
    }
}

impl Observer for GradientTrace<'_> {
    fn ran(&mut self, ran: &Ran, operands: &[Tensor], _: &[Tensor]) {
        let class = self.program.class_of(ran.rank).name.as_str();
        let function = ran.function.plain.name.as_str();
        let updates = self.updates.get(&(class, function));
        let result = ran.instr.results.first();
        let found = updates.zip(result).and_then(|(u, (reg, _))| u.get(reg));
        if let Some((parameter, gradient)) = found {
            let key = (ran.rank, parameter.clone());
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
