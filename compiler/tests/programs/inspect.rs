//! Running passes on programs, and looking at what came out.

use raddle_compiler::pass::{ManagerOptions, PassManager, Pipeline, Remarks};
use raddle_dialect::diag::{Diagnostic, Diagnostics, Severity};
use raddle_dialect::ir::{Module, OpId, Verified};

/// Runs a pipeline; gives the module and what the passes said.
pub fn run(module: Verified, pipeline: &str) -> (Verified, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::new();
    let pipeline = Pipeline::parse(pipeline, &mut diagnostics).expect("a pipeline");
    let options = ManagerOptions {
        remarks: Remarks::Kept,
        ..ManagerOptions::default()
    };
    match PassManager::new(pipeline, options).run(module, &mut diagnostics) {
        Ok(module) => (module, diagnostics.take()),
        Err(error) => {
            let messages: Vec<_> = diagnostics.iter().map(|d| &d.message).collect();
            panic!("{error}: {messages:#?}")
        }
    }
}

pub fn messages(diagnostics: &[Diagnostic], severity: Severity) -> Vec<&str> {
    let of_severity = diagnostics.iter().filter(|d| d.severity == severity);
    of_severity.map(|d| d.message.as_str()).collect()
}

/// Names and ops of the classes.
pub fn classes(module: &Module) -> Vec<(&str, OpId)> {
    let top = module.block_ops(module.body(module.root()));
    top.filter(|&op| module.is(op, "builtin.module"))
        .map(|op| (module.symbol_name(op).unwrap_or_default(), op))
        .collect()
}

pub fn function(module: &Module, class: OpId, name: &str) -> OpId {
    module.find_symbol(class, name).expect("the function")
}

/// How many ops of a function have this name.
pub fn count(module: &Module, class: OpId, function_name: &str, op: &str) -> usize {
    let function = function(module, class, function_name);
    module.walk(function).filter(|&o| module.is(o, op)).count()
}

/// Ops of a function that compute: everything but loads, stores and the return.
pub fn computing(module: &Module, class: OpId, function_name: &str) -> usize {
    let function = function(module, class, function_name);
    let structure = ["func.func", "func.return", "dist.load", "dist.store"];
    let ops = module.walk(function);
    ops.filter(|&o| !structure.contains(&module.name_str(o)))
        .count()
}
