//! Training steps on random inputs from random state: what validation compares, and what a run without data plays.

use std::collections::HashMap;

use raddle_dialect::DType;
use raddle_dialect::reference::Tensor;

use crate::RuntimeError;
use crate::device::reference::{Evaluator, Machine, Mode, Observer, Program, Returned, Wanted};
use crate::validate::places::Places;
use crate::validate::state::{self, Draw};

/// A program that trains on random data.
pub struct Training<'p> {
    program: &'p Program,
    /// Inputs by name: how many rows the tables have that they count through.
    vocabularies: HashMap<&'p str, usize>,
    machine: Machine<'p>,
    mode: Mode,
    seed: u64,
    steps: usize,
}

impl<'p> Training<'p> {
    /// A program before its first step; the seed decides its state and its inputs.
    pub fn new(program: &'p Program, mode: Mode, seed: u64) -> Self {
        Self::from(program, program, &state::draws(program), (mode, seed))
    }

    /// A program with the random state and inputs that belong to `origin`, of which it is a rewrite.
    pub(crate) fn from(
        program: &'p Program,
        origin: &'p Program,
        draws: &HashMap<&str, Draw>,
        (mode, seed): (Mode, u64),
    ) -> Self {
        let mut machine = Machine::new(program, mode);
        let places = Places::new(program.mesh(), origin.mesh());
        for rank in 0..program.mesh().ranks() {
            let before = places.nearest(rank);
            for global in &program.class_of(rank).globals {
                let draw = draws.get(global.name.as_str()).copied().unwrap_or_default();
                // A rewrite may change who holds a global, not what it holds.
                let value = match origin.class_of(before).global(&global.name) {
                    Some(known) => state::global(origin.mesh(), before, known, draw, seed),
                    None => state::global(program.mesh(), rank, global, draw, seed),
                };
                // Nor does a narrower type change what it means.
                let dtype = DType::parse(&global.ty.dtype).unwrap_or(value.dtype);
                let value = value.with_dtype(dtype);
                machine.set_global(rank, &global.name, keep(value, mode));
            }
        }
        Self {
            program,
            vocabularies: state::vocabularies(origin),
            machine,
            mode,
            seed,
            steps: 0,
        }
    }

    /// The globals of every rank.
    pub fn machine(&self) -> &Machine<'p> {
        &self.machine
    }

    /// Runs a step; gives its results by rank.
    ///
    /// # Errors
    /// As [`Machine::step_with`].
    pub fn step(
        &mut self,
        observer: &mut dyn Observer,
        evaluator: &mut dyn Evaluator,
    ) -> Result<Vec<Vec<Returned>>, RuntimeError> {
        let Self {
            program,
            vocabularies,
            mode,
            seed,
            ..
        } = self;
        let microbatches = program.classes().iter().map(|c| c.microbatches).max();
        let before = self.steps * microbatches.unwrap_or(1);
        self.steps += 1;
        let feed = |wanted: &Wanted| {
            let numbers = (*seed, (before + wanted.microbatch) as u64);
            let input = state::input(program, vocabularies, wanted, numbers);
            input.map(|t| keep(t, *mode))
        };
        self.machine.step_with(&feed, observer, evaluator)
    }
}

fn keep(value: Tensor, mode: Mode) -> Tensor {
    match mode {
        Mode::Exact => value,
        Mode::Rounded => value.rounded(),
    }
}
