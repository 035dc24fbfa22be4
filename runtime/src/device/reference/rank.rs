//! One rank at work: the list of its jobs, a program counter and registers in the one that runs, and the globals it owns.

use raddle_bundle::{Instr, Source, Target, TensorType, Value};
use raddle_dialect::ops::OpDef;
use raddle_dialect::reference::{self, Tensor};

use super::environment::Environment;
use super::jobs::Job;
use super::program::{Moment, Program, Role};
use super::{Evaluation, Feed, Globals, Hands, Mode, Ran, Returned, Wanted};
use crate::error::{CallSite, RuntimeError};

/// Why a rank stopped.
pub(super) enum Outcome {
    /// It has done all its jobs.
    Finished,
    /// It has come to an instruction that others have to join.
    Waits,
}

/// What all ranks of a run share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'r> {
    pub program: &'r Program,
    pub feed: &'r Feed<'r>,
    /// Micro-batches before this run.
    pub microbatches_before: u64,
}

/// A rank running its jobs one after another.
pub(super) struct RankRun<'r> {
    pub rank: usize,
    shared: Shared<'r>,
    jobs: Vec<Job<'r>>,
    /// The job that runs.
    at: usize,
    environment: Environment<'r>,
    globals: &'r mut Globals,
    registers: Vec<Option<Tensor>>,
    pc: usize,
    returned: Vec<Returned>,
}

impl<'r> RankRun<'r> {
    pub fn new(
        shared: Shared<'r>,
        rank: usize,
        jobs: Vec<Job<'r>>,
        globals: &'r mut Globals,
    ) -> Result<Self, RuntimeError> {
        let mut run = Self {
            rank,
            shared,
            environment: Environment::new(&jobs),
            jobs,
            at: 0,
            globals,
            registers: Vec::new(),
            pc: 0,
            returned: Vec::new(),
        };
        run.enter()?;
        Ok(run)
    }

    /// Puts the arguments of the job that is about to run in place.
    fn enter(&mut self) -> Result<(), RuntimeError> {
        self.pc = 0;
        self.registers.clear();
        let Some(&Job {
            function,
            microbatch,
        }) = self.jobs.get(self.at)
        else {
            return Ok(());
        };
        self.registers.resize(function.plain.registers, None);
        for (index, param) in function.plain.params.iter().enumerate() {
            let value = match &param.source {
                Source::Input(_) => (self.shared.feed)(&Wanted {
                    rank: self.rank,
                    function,
                    param: index,
                    microbatch,
                }),
                Source::Value(name) => self.environment.take(microbatch, name),
            };
            let value = value.ok_or_else(|| {
                let what = match &param.source {
                    Source::Input(name) => format!("input '{name}' of '{}'", function.plain.name),
                    Source::Value(name) => format!("value '{name}' of '{}'", function.plain.name),
                };
                self.unwritten(what)
            })?;
            if !fits(&param.ty, &value) {
                return Err(RuntimeError::Inputs {
                    rank: self.rank,
                    function: function.plain.name.clone(),
                    expected: param.ty.to_string(),
                    found: value.ty().to_string(),
                });
            }
            self.registers[param.reg] = Some(value);
        }
        Ok(())
    }

    /// Hands the results of the job that has run to whom they belong.
    fn leave(&mut self) -> Result<(), RuntimeError> {
        let Job {
            function,
            microbatch,
        } = self.jobs[self.at];
        for returned in &function.plain.returns {
            let reg = returned.reg;
            let value = self.registers[reg].clone();
            let value = value.ok_or_else(|| self.unwritten(format!("returned register {reg}")))?;
            match &returned.target {
                Target::Value(name) => self.environment.put(microbatch, name, value),
                Target::Result(index) => self.returned.push(Returned {
                    microbatch,
                    index: *index,
                    value,
                }),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Runs until all jobs are done or others are needed.
    pub fn advance(&mut self, hands: &mut Hands) -> Result<Outcome, RuntimeError> {
        while let Some(job) = self.jobs.get(self.at) {
            let function = job.function;
            while let Some(instr) = function.plain.instrs.get(self.pc) {
                match function.roles[self.pc] {
                    Role::Meets(_) => return Ok(Outcome::Waits),
                    Role::Loads => self.load(instr, hands)?,
                    Role::Stores => self.store(instr, hands)?,
                    Role::Accumulates => self.accumulate(instr, hands)?,
                    Role::Computes(def) => self.compute(def, instr, hands)?,
                }
            }
            self.leave()?;
            self.enter()?;
        }
        Ok(Outcome::Finished)
    }

    fn compute(
        &mut self,
        def: &'static OpDef,
        instr: &Instr,
        hands: &mut Hands,
    ) -> Result<(), RuntimeError> {
        let operands = self.operands(instr)?;
        let elsewhere = hands.evaluator.evaluate(&Evaluation {
            rank: self.rank,
            instr,
            operands: &operands,
        });
        if let Some(results) = elsewhere.map_err(|why| self.failed(instr, why))? {
            return self.finish(instr, results, hands);
        }
        let moment = Moment {
            rank: self.rank,
            position: self.pc,
            microbatch: self.shared.microbatches_before + self.jobs[self.at].microbatch as u64,
        };
        let result = self.shared.program.eval(def, instr, &operands, moment);
        let result = result.map_err(|why| self.failed(instr, why))?;
        self.finish(instr, result, hands)
    }

    fn load(&mut self, instr: &Instr, hands: &mut Hands) -> Result<(), RuntimeError> {
        let name = global_name(instr);
        let value = self.globals.get(name).cloned();
        let value = value.ok_or_else(|| self.unwritten(format!("global '@{name}'")))?;
        // A load changes nothing, so it is not rounded again.
        self.keep(instr, vec![value], hands)
    }

    fn store(&mut self, instr: &Instr, hands: &mut Hands) -> Result<(), RuntimeError> {
        let value = self.operands(instr)?.swap_remove(0);
        self.globals.insert(global_name(instr).to_owned(), value);
        self.keep(instr, vec![], hands)
    }

    fn accumulate(&mut self, instr: &Instr, hands: &mut Hands) -> Result<(), RuntimeError> {
        let name = global_name(instr);
        let value = self.operands(instr)?.swap_remove(0);
        let Some(global) = self.globals.get(name) else {
            return Err(self.unwritten(format!("global '@{name}'")));
        };
        let round = |t: Tensor| match hands.mode {
            Mode::Exact => t,
            Mode::Rounded => t.rounded(),
        };
        let sum = reference::accumulate(global, &value, round)
            .map_err(|e| self.failed(instr, e.to_string()))?;
        self.globals.insert(name.to_owned(), sum);
        self.keep(instr, vec![], hands)
    }

    /// The instruction that the rank is at; it waits there.
    pub fn instr(&self) -> &'r Instr {
        &self.jobs[self.at].function.plain.instrs[self.pc]
    }

    /// The micro-batch of the job that runs.
    pub fn microbatch(&self) -> usize {
        self.jobs.get(self.at).map_or(0, |job| job.microbatch)
    }

    /// The definition of the collective that the rank is at.
    pub fn collective(&self) -> Option<&'static OpDef> {
        match self.jobs.get(self.at)?.function.roles[self.pc] {
            Role::Meets(def) => Some(def),
            _ => None,
        }
    }

    /// The values of the instruction's operands.
    pub fn operands(&self, instr: &Instr) -> Result<Vec<Tensor>, RuntimeError> {
        instr
            .operands
            .iter()
            .map(|&reg| {
                self.registers[reg]
                    .clone()
                    .ok_or_else(|| self.unwritten(format!("register {reg} of '{}'", instr.op)))
            })
            .collect()
    }

    /// Writes the instruction's results, rounded as the mode says, and goes on to the next.
    pub fn finish(
        &mut self,
        instr: &Instr,
        results: Vec<Tensor>,
        hands: &mut Hands,
    ) -> Result<(), RuntimeError> {
        let results = match hands.mode {
            Mode::Exact => results,
            Mode::Rounded => results.iter().map(Tensor::rounded).collect(),
        };
        self.keep(instr, results, hands)
    }

    /// Writes the instruction's results as they are, and goes on to the next.
    fn keep(
        &mut self,
        instr: &Instr,
        results: Vec<Tensor>,
        hands: &mut Hands,
    ) -> Result<(), RuntimeError> {
        if results.len() != instr.results.len() {
            let why = format!(
                "{} results where {} are declared",
                results.len(),
                instr.results.len()
            );
            return Err(self.failed(instr, why));
        }
        for (value, (_, ty)) in results.iter().zip(&instr.results) {
            if !fits(ty, value) {
                let why = format!("a result is {} where {ty} is declared", value.ty());
                return Err(self.failed(instr, why));
            }
        }
        let job = self.jobs[self.at];
        let ran = Ran {
            rank: self.rank,
            function: job.function,
            microbatch: job.microbatch,
            instr,
        };
        hands.observer.ran(&ran, &self.operands(instr)?, &results);
        for (value, &(reg, _)) in results.into_iter().zip(&instr.results) {
            self.registers[reg] = Some(value);
        }
        self.pc += 1;
        Ok(())
    }

    /// What the jobs returned for the step.
    pub fn into_returned(self) -> Vec<Returned> {
        self.returned
    }

    pub fn failed(&self, instr: &Instr, why: String) -> RuntimeError {
        RuntimeError::Instr {
            rank: self.rank,
            op: instr.op.clone(),
            location: instr.location.clone(),
            why,
        }
    }

    fn unwritten(&self, what: String) -> RuntimeError {
        RuntimeError::Unwritten {
            rank: self.rank,
            what,
        }
    }

    /// Where the rank waits.
    pub fn call_site(&self) -> CallSite {
        let instr = self.instr();
        CallSite {
            rank: self.rank,
            call: super::meet::describe(instr, self.operands(instr).ok().as_deref()),
            location: instr.location.clone(),
        }
    }
}

/// Whether a value is of a type.
pub(super) fn fits(ty: &TensorType, value: &Tensor) -> bool {
    value.shape == ty.shape && value.dtype.name() == ty.dtype
}

fn global_name(instr: &Instr) -> &str {
    match instr.attrs.get("global") {
        Some(Value::Str(name)) => name,
        _ => "",
    }
}
