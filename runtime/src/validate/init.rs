//! Runs `init` by itself: every global is written once, every broadcast is joined by its whole group, and what the layout
//! calls replicated is the same on all ranks afterwards.

use std::collections::HashMap;

use raddle_bundle::{Bundle, FunctionKind, Value};
use raddle_dialect::reference::Tensor;

use crate::RuntimeError;
use crate::device::reference::{Machine, Mode, Observer, Program, Ran};

/// Runs the `init` functions and returns what is wrong with them.
///
/// # Errors
/// If they cannot be run, or ranks do not meet at the same collectives.
pub fn check_init(bundle: &Bundle) -> Result<Vec<String>, RuntimeError> {
    let program = Program::load(bundle)?;
    let mut writes = Writes::default();
    let mut machine = Machine::new(&program, Mode::Exact);
    machine.run(FunctionKind::Init, &[], &mut writes)?;
    let mut findings = Vec::new();
    for rank in 0..program.mesh().ranks() {
        let class = program.class_of(rank);
        if class.function(FunctionKind::Init).is_none() {
            continue;
        }
        for global in &class.globals {
            let times = writes
                .0
                .get(&(rank, global.name.clone()))
                .copied()
                .unwrap_or(0);
            if times != 1 {
                findings.push(format!(
                    "init writes global '@{}' {times} times on rank {rank}, not once",
                    global.name
                ));
            }
        }
    }
    findings.extend(unequal_replicas(&program, &machine));
    Ok(findings)
}

#[derive(Default)]
struct Writes(HashMap<(usize, String), usize>);

impl Observer for Writes {
    fn ran(&mut self, ran: &Ran, _: &[Tensor], _: &[Tensor]) {
        let instr = ran.instr;
        if let ("dist.store", Some(Value::Str(global))) = (&*instr.op, instr.attrs.get("global")) {
            *self.0.entry((ran.rank, global.clone())).or_default() += 1;
        }
    }
}

/// Globals that differ between ranks across which their layout replicates them.
fn unequal_replicas(program: &Program, machine: &Machine) -> Vec<String> {
    let mut findings = Vec::new();
    let mut first: HashMap<(String, Vec<usize>), (usize, &Tensor)> = HashMap::new();
    for rank in 0..program.mesh().ranks() {
        let coords = program.mesh().coordinate(rank);
        for global in &program.class_of(rank).globals {
            let Some(value) = machine.globals(rank).get(&global.name) else {
                continue;
            };
            let differ = |axis: &String| {
                global.layout.dims.iter().flatten().any(|a| a == axis)
                    || global.layout.partial.contains(axis)
            };
            let axes = program.mesh().axes().iter().zip(&coords);
            let place = axes
                .filter(|(axis, _)| differ(axis))
                .map(|(_, &c)| c)
                .collect();
            let key = (global.name.clone(), place);
            let &mut (other, expected) = first.entry(key).or_insert((rank, value));
            if expected != value {
                findings.push(format!(
                    "after init, global '@{}' differs between ranks {other} and {rank}, across which its layout replicates it",
                    global.name
                ));
            }
        }
    }
    findings
}
