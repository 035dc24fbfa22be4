//! The reference device: slow, obvious, all in `f64`.
//!
//! All ranks of a mesh run in one thread as coroutines: each runs until it needs others, and goes on when the whole group has
//! come to the same collective, or what it receives has been sent. So a run is deterministic, and ranks that would hang on real
//! machines are found and shown.

mod environment;
mod jobs;
mod mail;
mod meet;
mod program;
mod rank;

use std::collections::HashMap;

use raddle_bundle::{FunctionKind, Instr, Value};
use raddle_dialect::reference::Tensor;

pub(super) use program::PlainAttrs;
pub use program::{LoadedClass, LoadedFunction, Program};

use crate::RuntimeError;
use jobs::Job;
use mail::{Channel, Letter, Mail};
use rank::{Outcome, RankRun, Shared};

/// How results are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Everything in `f64`; casts between float types change nothing.
    #[default]
    Exact,
    /// Each result is rounded to its dtype; sums inside an op are in `f64`.
    Rounded,
}

/// An instruction that was run.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    /// On which rank.
    pub rank: usize,
    /// In which function.
    pub function: &'a LoadedFunction,
    /// For which micro-batch of the step.
    pub microbatch: usize,
    /// The instruction.
    pub instr: &'a Instr,
}

/// Sees every instruction that was run.
pub trait Observer {
    /// Called after an instruction ran.
    fn ran(&mut self, ran: &Ran, operands: &[Tensor], results: &[Tensor]);
}

impl Observer for () {
    fn ran(&mut self, _: &Ran, _: &[Tensor], _: &[Tensor]) {}
}

/// An instruction that needs no other rank and is about to be evaluated.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// On which rank.
    pub rank: usize,
    /// The instruction.
    pub instr: &'a Instr,
    /// Its operands.
    pub operands: &'a [Tensor],
}

/// Evaluates instructions in the place of the reference semantics.
pub trait Evaluator {
    /// The results of an instruction; `None` where the reference semantics are to give them.
    ///
    /// # Errors
    /// The reason why an instruction that is this evaluator's cannot be evaluated.
    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Option<Vec<Tensor>>, String>;
}

impl Evaluator for () {
    fn evaluate(&mut self, _: &Evaluation) -> Result<Option<Vec<Tensor>>, String> {
        Ok(None)
    }
}

/// Who watches a run and who takes part in it.
pub(super) struct Hands<'h> {
    pub mode: Mode,
    pub observer: &'h mut dyn Observer,
    pub evaluator: &'h mut dyn Evaluator,
}

/// Data that a function takes.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// On which rank.
    pub rank: usize,
    /// By which function.
    pub function: &'a LoadedFunction,
    /// Which of its parameters.
    pub param: usize,
    /// For which micro-batch of the step.
    pub microbatch: usize,
}

/// Gives data; `None` where there is none.
pub type Feed<'f> = dyn Fn(&Wanted) -> Option<Tensor> + 'f;

/// A result of a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Returned {
    /// The micro-batch.
    pub microbatch: usize,
    /// Which of the step's results; 0 is the loss.
    pub index: usize,
    /// The value.
    pub value: Tensor,
}

/// The globals of one rank.
pub type Globals = HashMap<String, Tensor>;

/// A program and the state of every rank.
pub struct Machine<'p> {
    program: &'p Program,
    mode: Mode,
    globals: Vec<Globals>,
    /// Micro-batches so far.
    microbatches: u64,
}

impl<'p> Machine<'p> {
    /// A machine whose globals are not written yet.
    pub fn new(program: &'p Program, mode: Mode) -> Self {
        Self {
            program,
            mode,
            globals: vec![Globals::new(); program.mesh().ranks()],
            microbatches: 0,
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

    /// Runs the function of a kind on every rank that has one, and returns what it returned for the step, by rank.
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
        let jobs = (0..program.mesh().ranks()).map(|rank| {
            let Some(function) = program.class_of(rank).function(kind) else {
                return Ok(vec![]);
            };
            let (params, inputs) = (
                function.plain.params.len(),
                inputs.get(rank).map_or(0, Vec::len),
            );
            if params != inputs {
                return Err(RuntimeError::Inputs {
                    rank,
                    function: function.plain.name.clone(),
                    expected: format!("{params} inputs"),
                    found: format!("{inputs}"),
                });
            }
            Ok(vec![Job {
                function,
                microbatch: 0,
            }])
        });
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let feed = |wanted: &Wanted| inputs.get(wanted.rank)?.get(wanted.param).cloned();
        let mut hands = Hands {
            mode: self.mode,
            observer,
            evaluator: &mut (),
        };
        let returned = self.play(jobs, &feed, &mut hands)?;
        let values = |r: Vec<Returned>| r.into_iter().map(|r| r.value).collect();
        Ok(returned.into_iter().map(values).collect())
    }

    /// Runs a training step on all ranks: the functions of each micro-batch, then the optimizer's; gives the step's results by rank.
    ///
    /// # Errors
    /// As [`Machine::run`], and if functions and schedule do not make up a step.
    pub fn step(
        &mut self,
        feed: &Feed,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Vec<Returned>>, RuntimeError> {
        self.step_with(feed, observer, &mut ())
    }

    /// As [`Machine::step`], with some instructions evaluated by someone else.
    ///
    /// # Errors
    /// As [`Machine::step`], and those of the evaluator.
    pub fn step_with(
        &mut self,
        feed: &Feed,
        observer: &mut dyn Observer,
        evaluator: &mut dyn Evaluator,
    ) -> Result<Vec<Vec<Returned>>, RuntimeError> {
        let program = self.program;
        let mut hands = Hands {
            mode: self.mode,
            observer,
            evaluator,
        };
        let returned = self.play(jobs::of_step(program)?, feed, &mut hands)?;
        let microbatches = program.classes().iter().map(|c| c.microbatches).max();
        self.microbatches += microbatches.unwrap_or(1) as u64;
        Ok(returned)
    }

    fn play(
        &mut self,
        jobs: Vec<Vec<Job>>,
        feed: &Feed,
        hands: &mut Hands,
    ) -> Result<Vec<Vec<Returned>>, RuntimeError> {
        let program = self.program;
        let shared = Shared {
            program,
            feed,
            microbatches_before: self.microbatches,
        };
        let ranks = self.globals.iter_mut().zip(jobs).enumerate();
        let runs = ranks.map(|(rank, (globals, jobs))| RankRun::new(shared, rank, jobs, globals));
        let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
        let mut ready: Vec<usize> = (0..runs.len()).collect();
        let mut meeting = meet::Meeting::new(program);
        let mut mail = Mail::default();
        let mut finished = Vec::new();
        while let Some(rank) = ready.pop() {
            if let Outcome::Finished = runs[rank].advance(hands)? {
                finished.push(rank);
                continue;
            }
            match &*runs[rank].instr().op {
                "dist.send" => {
                    let channel = channel(program, &runs[rank])?;
                    let run = &mut runs[rank];
                    let instr = run.instr();
                    let value = run.operands(instr)?.swap_remove(0);
                    run.finish(instr, vec![], hands)?;
                    let letter = Letter {
                        instr,
                        microbatch: run.microbatch(),
                        value,
                    };
                    ready.extend(mail.post(channel, letter));
                    ready.push(rank);
                }
                "dist.recv" => {
                    let channel = channel(program, &runs[rank])?;
                    let run = &mut runs[rank];
                    let instr = run.instr();
                    let (_, ty) = &instr.results[0];
                    if let Some(value) =
                        mail.take(channel, ty, run.microbatch(), || run.call_site())?
                    {
                        run.finish(instr, vec![value], hands)?;
                        ready.push(rank);
                    }
                }
                _ => {
                    if let Some(group) = meeting.arrive(rank, &runs)? {
                        meet::complete(&group, &mut runs, hands)?;
                        ready.extend(group.iter().rev());
                    }
                }
            }
        }
        if finished.len() < runs.len() {
            finished.sort_unstable();
            return Err(stuck(program, &runs, &mail, finished));
        }
        if let Some(site) = mail.undelivered(None) {
            return Err(RuntimeError::Undelivered { site });
        }
        Ok(runs.into_iter().map(RankRun::into_returned).collect())
    }
}

/// The channel of the send or receive that a rank is at.
fn channel(program: &Program, run: &RankRun) -> Result<Channel, RuntimeError> {
    let (instr, rank) = (run.instr(), run.rank);
    let peer = program.peer(rank, instr);
    let peer = peer.map_err(|why| run.failed(instr, why))?;
    let Some(&Value::Int(tag)) = instr.attrs.get("tag") else {
        return Err(run.failed(instr, "it has no tag".into()));
    };
    let (from, to) = match &*instr.op {
        "dist.send" => (rank, peer),
        _ => (peer, rank),
    };
    Ok(Channel { from, to, tag })
}

/// Why nobody can go on: a send and a receive of two ranks that do not fit together, or else a ring of waits.
fn stuck(program: &Program, runs: &[RankRun], mail: &Mail, finished: Vec<usize>) -> RuntimeError {
    let waiting = || (0..runs.len()).filter(|rank| finished.binary_search(rank).is_err());
    for rank in waiting() {
        if runs[rank].instr().op != "dist.recv" {
            continue;
        }
        let Ok(channel) = channel(program, &runs[rank]) else {
            continue;
        };
        if let Some(sent) = mail.undelivered(Some((channel.from, channel.to))) {
            let sites = vec![sent, runs[rank].call_site()];
            return RuntimeError::Mismatch { sites };
        }
    }
    let sites = waiting().map(|rank| runs[rank].call_site()).collect();
    RuntimeError::Deadlock { sites, finished }
}
