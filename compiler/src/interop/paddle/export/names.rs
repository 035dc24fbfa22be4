//! Names for the values of an exported function.
//!
//! Each value gets the name it was imported with, unless the variable of that name still holds a value that is read later:
//! then it gets a fresh one. So an op stays in place only where nothing reads the old value afterwards. A global's variable
//! is written only by a value that is on its way into the global.

use std::collections::{HashMap, HashSet};

use rustc_hash::FxBuildHasher;

use super::super::program::{Op, Slot};
use super::super::value::Value as AttrValue;
use super::values::{Event, Unit, Value, Values};

/// An exported program's ops, and the type-giving value of each of its variables.
pub(super) struct Named {
    pub ops: Vec<Op>,
    /// Variables in order of first appearance, with a value that they hold.
    pub variables: Vec<(String, Value)>,
    /// The variables that hold the returned values at the end.
    pub returned: Vec<String>,
}

/// What the naming starts from.
pub(super) struct Naming<'a> {
    pub values: &'a Values,
    pub events: &'a [Event],
    /// Values that are read at the end.
    pub returned: &'a [Value],
    /// Names that no fresh name may take.
    pub reserved: &'a HashSet<String, FxBuildHasher>,
    /// Attributes of the copies into globals.
    pub copy_attrs: &'a [(String, AttrValue)],
}

struct State<'a> {
    input: &'a Naming<'a>,
    names: Vec<Option<String>>,
    holds: HashMap<String, Vec<Value>, FxBuildHasher>,
    last_use: Vec<usize>,
    accesses: HashMap<&'a str, Vec<(usize, bool)>, FxBuildHasher>,
    taken: HashSet<String, FxBuildHasher>,
    counters: HashMap<String, usize, FxBuildHasher>,
    out: Named,
    listed: HashSet<String, FxBuildHasher>,
}

impl Naming<'_> {
    /// Names everything. `arguments` hold their values before the first op.
    pub(super) fn run(&self, arguments: &[Value]) -> Named {
        let mut state = State {
            input: self,
            names: vec![None; self.values.len()],
            holds: HashMap::default(),
            last_use: vec![0; self.values.len()],
            accesses: HashMap::default(),
            taken: self.values.names().map(str::to_owned).collect(),
            counters: HashMap::default(),
            out: Named {
                ops: Vec::new(),
                variables: Vec::new(),
                returned: Vec::new(),
            },
            listed: HashSet::default(),
        };
        state.find_uses();
        for &argument in arguments {
            state.define(argument, None, &[]);
        }
        for (at, event) in self.events.iter().enumerate() {
            match event {
                Event::Unit(unit) => state.unit(at, unit),
                Event::Load { value, global } => {
                    state.names[value.index()] = Some(global.clone());
                    state.holds.entry(global.clone()).or_default().push(*value);
                    state.list(global, *value);
                }
                Event::Store { value, global } => state.store(at, *value, global),
            }
        }
        state.out.returned = self.returned.iter().map(|&v| state.name(v)).collect();
        state.out
    }
}

impl<'a> State<'a> {
    fn find_uses(&mut self) {
        for (at, event) in self.input.events.iter().enumerate() {
            match event {
                Event::Unit(unit) => {
                    for &value in unit.inputs.iter().flat_map(|(_, values)| values) {
                        self.last_use[value.index()] = at;
                    }
                }
                Event::Load { global, .. } => {
                    self.accesses.entry(global).or_default().push((at, false));
                }
                Event::Store { value, global } => {
                    self.last_use[value.index()] = at;
                    self.accesses.entry(global).or_default().push((at, true));
                }
            }
        }
        for value in self.input.returned {
            self.last_use[value.index()] = usize::MAX;
        }
    }

    fn unit(&mut self, at: usize, unit: &Unit) {
        let inputs = unit.inputs.iter().map(|(slot, values)| Slot {
            name: slot.clone(),
            args: values.iter().map(|&v| self.name(v)).collect(),
        });
        let inputs = inputs.collect();
        let mut written = Vec::new();
        let mut outputs = Vec::with_capacity(unit.outputs.len());
        for (slot, values) in &unit.outputs {
            let mut args = Vec::with_capacity(values.len());
            for &value in values {
                let name = match self.names[value.index()].clone() {
                    Some(name) => name,
                    None => self.define(value, Some((at, &unit.kind)), &written),
                };
                written.push(name.clone());
                args.push(name);
            }
            outputs.push(Slot {
                name: slot.clone(),
                args,
            });
        }
        self.out.ops.push(Op {
            kind: unit.kind.clone(),
            inputs,
            outputs,
            attrs: unit.attrs.clone(),
            is_target: unit.is_target,
        });
    }

    /// The name of a value that has been computed; values of a verified module are before they are used.
    fn name(&self, value: Value) -> String {
        self.names[value.index()].clone().unwrap_or_default()
    }

    /// Names a value that is computed now, at an event, next to what the same op has `written` already.
    fn define(&mut self, value: Value, at: Option<(usize, &str)>, written: &[String]) -> String {
        let wanted = self.input.values.wanted(value);
        let name = match wanted {
            Some(name) if !written.iter().any(|w| w == name) && self.free(name, at) => {
                name.to_owned()
            }
            _ => {
                let base = wanted.or(at.map(|(_, kind)| kind)).unwrap_or("input");
                self.fresh(base)
            }
        };
        self.names[value.index()] = Some(name.clone());
        self.holds.insert(name.clone(), vec![value]);
        self.list(&name, value);
        name
    }

    /// Whether the variable may be overwritten.
    fn free(&self, name: &str, at: Option<(usize, &str)>) -> bool {
        let at = at.map_or(0, |(at, _)| at);
        let held = self.holds.get(name).map_or(&[][..], |h| h);
        if held.iter().any(|v| self.last_use[v.index()] > at) {
            return false;
        }
        match self.accesses.get(name) {
            None => true,
            Some(accesses) => {
                let next = accesses.partition_point(|(i, _)| *i <= at);
                accesses.get(next).is_some_and(|(_, stores)| *stores)
            }
        }
    }

    fn fresh(&mut self, base: &str) -> String {
        let counter = self.counters.entry(base.to_owned()).or_default();
        loop {
            let name = format!("{base}@{counter}");
            *counter += 1;
            if !self.input.reserved.contains(&name) && self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn store(&mut self, at: usize, value: Value, global: &str) {
        let name = self.name(value);
        let held = self.holds.get(global).cloned().unwrap_or_default();
        if name == global && held.contains(&value) {
            return;
        }
        for old in held {
            if self.last_use[old.index()] > at {
                let copy = self.fresh(global);
                self.copy(global.to_owned(), copy.clone());
                self.names[old.index()] = Some(copy.clone());
                self.holds.insert(copy.clone(), vec![old]);
                self.list(&copy, old);
            }
        }
        self.copy(name, global.to_owned());
        self.holds.insert(global.to_owned(), Vec::new());
        self.list(global, value);
    }

    fn copy(&mut self, from: String, to: String) {
        let slot = |name: &str, arg| Slot {
            name: name.to_owned(),
            args: vec![arg],
        };
        self.out.ops.push(Op {
            kind: "assign".to_owned(),
            inputs: vec![slot("X", from)],
            outputs: vec![slot("Out", to)],
            attrs: self.input.copy_attrs.to_vec(),
            is_target: None,
        });
    }

    fn list(&mut self, name: &str, value: Value) {
        if self.listed.insert(name.to_owned()) {
            self.out.variables.push((name.to_owned(), value));
        }
    }
}
