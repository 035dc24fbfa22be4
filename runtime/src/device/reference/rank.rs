//! One rank at work: a program counter, registers, and the globals it owns.

use raddle_bundle::{Instr, TensorType, Value};
use raddle_dialect::ops::OpDef;
use raddle_dialect::reference::{self, Tensor};

use super::program::{LoadedFunction, Program, Role};
use super::{Globals, Mode, Observer};
use crate::error::{CallSite, RuntimeError};

/// Why a rank stopped.
pub(super) enum Outcome {
    /// It has returned.
    Finished,
    /// It has come to an instruction that others have to join.
    Waits,
}

/// A rank running one function.
pub(super) struct RankRun<'r> {
    pub rank: usize,
    program: &'r Program,
    function: Option<&'r LoadedFunction>,
    globals: &'r mut Globals,
    registers: Vec<Option<Tensor>>,
    pc: usize,
}

impl<'r> RankRun<'r> {
    pub fn new(
        program: &'r Program,
        rank: usize,
        function: Option<&'r LoadedFunction>,
        globals: &'r mut Globals,
        inputs: &[Tensor],
    ) -> Result<Self, RuntimeError> {
        let mut registers = vec![None; function.map_or(0, |f| f.plain.registers)];
        if let Some(function) = function {
            let params = &function.plain.params;
            let right = params.len() == inputs.len()
                && params.iter().zip(inputs).all(|(p, t)| fits(&p.ty, t));
            if !right {
                let list = |items: Vec<String>| format!("({})", items.join(", "));
                return Err(RuntimeError::Inputs {
                    rank,
                    function: function.plain.name.clone(),
                    expected: list(params.iter().map(|p| p.ty.to_string()).collect()),
                    found: list(inputs.iter().map(|t| t.ty().to_string()).collect()),
                });
            }
            for (param, input) in params.iter().zip(inputs) {
                registers[param.reg] = Some(input.clone());
            }
        }
        Ok(Self {
            rank,
            program,
            function,
            globals,
            registers,
            pc: 0,
        })
    }

    /// Runs until the function returns or others are needed.
    pub fn advance(
        &mut self,
        mode: Mode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RuntimeError> {
        let Some(function) = self.function else {
            return Ok(Outcome::Finished);
        };
        while let Some(instr) = function.plain.instrs.get(self.pc) {
            match function.roles[self.pc] {
                Role::Meets(_) => return Ok(Outcome::Waits),
                Role::Loads => self.load(instr, observer)?,
                Role::Stores => self.store(instr, observer)?,
                Role::Accumulates => self.accumulate(instr, mode, observer)?,
                Role::Computes(def) => {
                    let operands = self.operands(instr)?;
                    let result = self
                        .program
                        .eval(def, instr, &operands, self.rank, self.pc)
                        .map_err(|why| self.failed(instr, why))?;
                    self.finish(instr, result, mode, observer)?;
                }
            }
        }
        Ok(Outcome::Finished)
    }

    fn load(&mut self, instr: &Instr, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        let name = global_name(instr);
        let value = self.globals.get(name).cloned();
        let value = value.ok_or_else(|| self.unwritten(format!("global '@{name}'")))?;
        // A load changes nothing, so it is not rounded again.
        self.finish(instr, vec![value], Mode::Exact, observer)
    }

    fn store(&mut self, instr: &Instr, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        let value = self.operands(instr)?.swap_remove(0);
        self.globals.insert(global_name(instr).to_owned(), value);
        self.finish(instr, vec![], Mode::Exact, observer)
    }

    fn accumulate(
        &mut self,
        instr: &Instr,
        mode: Mode,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        let name = global_name(instr);
        let value = self.operands(instr)?.swap_remove(0);
        let Some(global) = self.globals.get(name) else {
            return Err(self.unwritten(format!("global '@{name}'")));
        };
        let round = |t: Tensor| match mode {
            Mode::Exact => t,
            Mode::Rounded => t.rounded(),
        };
        let sum = reference::accumulate(global, &value, round)
            .map_err(|e| self.failed(instr, e.to_string()))?;
        self.globals.insert(name.to_owned(), sum);
        self.finish(instr, vec![], Mode::Exact, observer)
    }

    /// The instruction that the rank is at.
    pub fn instr(&self) -> &'r Instr {
        let function = self.function.expect("a waiting rank runs a function");
        &function.plain.instrs[self.pc]
    }

    /// The definition of the collective that the rank is at.
    pub fn collective(&self) -> Option<&'static OpDef> {
        match self.function?.roles[self.pc] {
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

    /// Writes the instruction's results and goes on to the next.
    pub fn finish(
        &mut self,
        instr: &Instr,
        results: Vec<Tensor>,
        mode: Mode,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        if results.len() != instr.results.len() {
            let why = format!(
                "{} results where {} are declared",
                results.len(),
                instr.results.len()
            );
            return Err(self.failed(instr, why));
        }
        let results = results
            .into_iter()
            .zip(&instr.results)
            .map(|(value, (_, ty))| {
                if !fits(ty, &value) {
                    let why = format!("a result is {} where {ty} is declared", value.ty());
                    return Err(self.failed(instr, why));
                }
                Ok(match mode {
                    Mode::Exact => value,
                    Mode::Rounded => value.rounded(),
                })
            });
        let results = results.collect::<Result<Vec<_>, _>>()?;
        observer.ran(self.rank, instr, &self.operands(instr)?, &results);
        for (value, &(reg, _)) in results.into_iter().zip(&instr.results) {
            self.registers[reg] = Some(value);
        }
        self.pc += 1;
        Ok(())
    }

    /// What the function returned.
    pub fn into_returns(self) -> Result<Vec<Tensor>, RuntimeError> {
        let returns = self.function.map_or(&[][..], |f| &f.plain.returns);
        returns
            .iter()
            .map(|&reg| {
                self.registers[reg]
                    .clone()
                    .ok_or_else(|| self.unwritten(format!("returned register {reg}")))
            })
            .collect()
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

fn fits(ty: &TensorType, value: &Tensor) -> bool {
    value.shape == ty.shape && value.dtype.name() == ty.dtype
}

fn global_name(instr: &Instr) -> &str {
    match instr.attrs.get("global") {
        Some(Value::Str(name)) => name,
        _ => "",
    }
}
