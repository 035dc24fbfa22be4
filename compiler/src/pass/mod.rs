//! Passes and what runs them.
//!
//! A pass is one file with a [`PassDef`] that states its name, help and options, and a [`Pass`] that edits a module. The
//! [`registry`] lists them; a [`Pipeline`] is read from text against it; the [`PassManager`] takes a verified module
//! through a pipeline and gives a verified module back.

mod manager;
mod options;
mod pattern;
mod pipeline;
pub mod registry;

pub use manager::{Instrumentation, ManagerOptions, PassManager, State};
pub use options::{OptionDef, OptionKind, OptionValue, PassOptions};
pub use pattern::{Outcome, Pattern, PatternSet, rewrite_greedily};
pub use pipeline::{Pipeline, Step};

use raddle_dialect::diag::{At, Diagnostic, Diagnostics, Severity};
use raddle_dialect::ir::{Module, OpId};

/// What a pass says about itself: the only source of its flag, its place in pipeline text and its help.
#[derive(Debug)]
pub struct PassDef {
    /// Kebab-case name, as in pipeline text.
    pub name: &'static str,
    /// One line, for lists.
    pub summary: &'static str,
    /// Preconditions, what changes and what does not.
    pub description: &'static str,
    /// Which ops it runs on.
    pub anchor: Anchor,
    /// Options it takes.
    pub options: &'static [OptionDef],
    /// Makes the pass from its options.
    pub build: fn(&PassOptions) -> Box<dyn Pass>,
}

/// Which ops a pass runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// The top `builtin.module` only: it looks at rank classes.
    Top,
    /// Any op with a body, such as a module or a function.
    Any,
}

/// A rewrite of a module.
pub trait Pass {
    /// Changes `target` and what it holds. For [`Anchor::Top`] that is the root.
    ///
    /// # Errors
    /// After pushing at least one error diagnostic. The module may then be half changed; it is thrown away.
    fn run(&self, module: &mut Module, target: OpId, cx: &mut PassCx) -> Result<(), Failed>;
}

/// A pass gave up; its reasons are in the diagnostics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

/// What a pass reports to.
pub struct PassCx<'a> {
    diagnostics: &'a mut Diagnostics,
    remarks: bool,
}

impl<'a> PassCx<'a> {
    /// Reports go to `diagnostics`; remarks only if they are wanted.
    pub fn new(diagnostics: &'a mut Diagnostics, remarks: Remarks) -> Self {
        Self {
            diagnostics,
            remarks: remarks == Remarks::Kept,
        }
    }

    /// Reports an error or a warning. A pass that pushes an error has failed.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        if self.remarks || diagnostic.severity != Severity::Remark {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Says what the pass did, or why it did not. The message is made only if remarks are wanted.
    pub fn remark(
        &mut self,
        code: &'static str,
        at: impl Into<At>,
        message: impl FnOnce() -> String,
    ) {
        if self.remarks {
            self.diagnostics
                .push(Diagnostic::remark(code, at, message()));
        }
    }
}

/// Whether anyone reads remarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Remarks {
    /// Passes keep quiet about what they did.
    #[default]
    Dropped,
    /// Passes say what they did and why not more.
    Kept,
}
