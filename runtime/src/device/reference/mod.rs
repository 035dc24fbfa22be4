//! The reference device: slow, obvious, all in `f64`.
//!
//! All ranks of a mesh run in one thread as coroutines: each runs until it needs others, and goes on when the whole group has
//! come to the same collective. So a run is deterministic, and ranks that would hang on real machines are found and shown.

mod meet;
mod program;
mod rank;

use std::collections::HashMap;

use raddle_bundle::{FunctionKind, Instr};
use raddle_dialect::reference::Tensor;

pub use program::{LoadedClass, LoadedFunction, Program};

use crate::RuntimeError;
use rank::{Outcome, RankRun};

/// How results are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Everything in `f64`; casts between float types change nothing.
    #[default]
    Exact,
    /// Each result is rounded to its dtype; sums inside an op are in `f64`.
    Rounded,
}

/// Sees every instruction that was run.
pub trait Observer {
    /// Called after `instr` ran on `rank`.
    fn ran(&mut self, rank: usize, instr: &Instr, operands: &[Tensor], results: &[Tensor]);
}

impl Observer for () {
    fn ran(&mut self, _: usize, _: &Instr, _: &[Tensor], _: &[Tensor]) {}
}

/// The globals of one rank.
pub type Globals = HashMap<String, Tensor>;

/// A program and the state of every rank.
pub struct Machine<'p> {
    program: &'p Program,
    mode: Mode,
    globals: Vec<Globals>,
}

impl<'p> Machine<'p> {
    /// A machine whose globals are not written yet.
    pub fn new(program: &'p Program, mode: Mode) -> Self {
        Self {
            program,
            mode,
            globals: vec![Globals::new(); program.mesh().ranks()],
        }
    }

    /// The globals of a rank.
    pub fn globals(&self, rank: usize) -> &Globals {
        &self.globals[rank]
    }

    /// Writes a global of a rank.
    pub fn set_global(&mut self, rank: usize, name: &str, value: Tensor) {
        self.globals[rank].insert(name.to_owned(), value);
    }

    /// Runs the function of a kind on every rank that has one, and returns what it returned, by rank.
    ///
    /// # Errors
    /// If an instruction cannot be evaluated, inputs do not fit, or the ranks do not meet as they should.
    pub fn run(
        &mut self,
        kind: FunctionKind,
        inputs: &[Vec<Tensor>],
        observer: &mut dyn Observer,
    ) -> Result<Vec<Vec<Tensor>>, RuntimeError> {
        let program = self.program;
        let mut runs = Vec::with_capacity(program.mesh().ranks());
        for (rank, globals) in self.globals.iter_mut().enumerate() {
            let inputs = inputs.get(rank).map_or(&[][..], Vec::as_slice);
            let function = program.class_of(rank).function(kind);
            runs.push(RankRun::new(program, rank, function, globals, inputs)?);
        }
        let mut ready: Vec<usize> = (0..runs.len()).collect();
        let mut meeting = meet::Meeting::new(program);
        let mut finished = Vec::new();
        while let Some(rank) = ready.pop() {
            match runs[rank].advance(self.mode, observer)? {
                Outcome::Finished => finished.push(rank),
                Outcome::Waits => {
                    if let Some(group) = meeting.arrive(rank, &runs)? {
                        meet::complete(&group, &mut runs, self.mode, observer)?;
                        ready.extend(group.iter().rev());
                    }
                }
            }
        }
        if finished.len() < runs.len() {
            finished.sort_unstable();
            let sites = (0..runs.len())
                .filter(|rank| finished.binary_search(rank).is_err())
                .map(|rank| runs[rank].call_site())
                .collect();
            return Err(RuntimeError::Deadlock { sites, finished });
        }
        runs.into_iter().map(RankRun::into_returns).collect()
    }
}
