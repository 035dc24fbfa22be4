//! `--mlir-print-ir-…`: the module before and after passes, on standard error.

use std::io::{self, Write};

use raddle_compiler::pass::{Instrumentation, State, Step};
use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::Module;
use raddle_dialect::syntax::{PrintOptions, print};

use crate::options::Watching;

/// Prints modules around passes.
pub struct Dump<'o> {
    watching: &'o Watching,
    print: PrintOptions,
    /// The module before the running pass, as text, where changes are looked for.
    before: Option<String>,
}

impl<'o> Dump<'o> {
    /// A dump of what `watching` asks for; `None` if it asks for nothing.
    pub fn new(watching: &'o Watching, print: PrintOptions) -> Option<Self> {
        let wanted = watching.mlir_print_ir_before_all
            || watching.mlir_print_ir_after_all
            || watching.mlir_print_ir_after_change
            || watching.mlir_print_ir_after_failure
            || !watching.mlir_print_ir_before.is_empty()
            || !watching.mlir_print_ir_after.is_empty();
        wanted.then_some(Self {
            watching,
            print,
            before: None,
        })
    }

    fn show(&self, when: &str, step: &Step, text: &str) {
        let mut out = io::stderr().lock();
        // Nothing more can be said where standard error is closed.
        let _ = writeln!(
            out,
            "// -----// IR Dump {when} {} ({}) //----- //\n{}\n",
            pascal_case(step.def.name),
            step.def.name,
            text.trim_end()
        );
    }
}

impl Instrumentation for Dump<'_> {
    fn before_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        let named = self
            .watching
            .mlir_print_ir_before
            .iter()
            .any(|n| n == step.def.name);
        let wanted = self.watching.mlir_print_ir_before_all || named;
        if wanted || self.watching.mlir_print_ir_after_change {
            let text = print(state.module(), self.print);
            if wanted {
                self.show("Before", step, &text);
            }
            self.before = Some(text);
        }
        Ok(())
    }

    fn after_pass(&mut self, step: &Step, state: State) -> Result<(), Vec<Diagnostic>> {
        let named = self
            .watching
            .mlir_print_ir_after
            .iter()
            .any(|n| n == step.def.name);
        let all = self.watching.mlir_print_ir_after_all || self.watching.mlir_print_ir_after_change;
        if named || all {
            let text = print(state.module(), self.print);
            let same = self.before.as_ref() == Some(&text);
            if !(self.watching.mlir_print_ir_after_change && same) {
                self.show("After", step, &text);
            }
        }
        Ok(())
    }

    fn after_failure(&mut self, step: &Step, module: &Module) {
        let asked = self.watching.mlir_print_ir_after_failure
            || self.watching.mlir_print_ir_after_all
            || self.watching.mlir_print_ir_after_change;
        if asked {
            let generic = PrintOptions {
                generic: true,
                ..self.print
            };
            self.show("After", step, &print(module, generic));
        }
    }
}

/// `promote-linear` as `PromoteLinear`.
fn pascal_case(kebab: &str) -> String {
    kebab
        .split('-')
        .map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars).collect::<String>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_names_become_type_names() {
        assert_eq!(pascal_case("promote-linear"), "PromoteLinear");
        assert_eq!(pascal_case("cse"), "Cse");
    }
}
