//! Instructions computed by kernels: what the bundle says kernels compute goes to a launcher, everything else stays with the reference
//! device.
//!
//! ```text
//! Machine::step_with ──▶ Player ──▶ operands, each rounded to its buffer's elements ──▶ launches ──▶ results
//! ```
//!
//! Every rank launches its own kernels; all share the loaded images.

mod check;
mod elements;

use raddle_bundle::Instr;
use raddle_bundle::kernel::{InstrBuffer, InstrPlan, Start};
use raddle_dialect::DType;
use raddle_dialect::reference::Tensor;

use super::launch::{BufferId, Contents, KernelId, LaunchError, Launcher};
use super::reference::{Evaluation, Evaluator, Program};

pub use check::Comparison;

/// Whether what kernels compute is held against the reference semantics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// Every result of every instruction.
    All,
    /// Nothing.
    None,
}

/// What one kernel did in a run.
#[derive(Clone, Debug, Default)]
pub struct KernelTally {
    /// How often it ran, over all ranks.
    pub launches: u64,
    /// Microseconds that it took, where the device has a clock.
    pub kernel_us: f64,
    /// What was found wrong with it, each thing once.
    pub findings: Vec<String>,
}

/// Computes instructions by kernels.
pub struct Player<'p> {
    program: &'p Program,
    launcher: Box<dyn Launcher>,
    loaded: Vec<Option<KernelId>>,
    check: Check,
    tallies: Vec<KernelTally>,
    comparison: Comparison,
}

/// The most findings of a kernel that are kept.
const MOST_FINDINGS: usize = 20;

impl<'p> Player<'p> {
    /// A player of a program's kernels.
    pub fn new(program: &'p Program, launcher: Box<dyn Launcher>, check: Check) -> Self {
        let images = program.kernels().images.len();
        Self {
            program,
            launcher,
            loaded: vec![None; images],
            check,
            tallies: vec![KernelTally::default(); images],
            comparison: Comparison::default(),
        }
    }

    /// What each of the program's kernels did so far, in the order of their images.
    pub fn tallies(&self) -> &[KernelTally] {
        &self.tallies
    }

    /// What the results so far, held against the reference semantics, showed.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    fn play(
        &mut self,
        plan: &InstrPlan,
        evaluation: &Evaluation,
    ) -> Result<Vec<Tensor>, LaunchError> {
        let mut buffers = Vec::with_capacity(plan.buffers.len());
        for buffer in &plan.buffers {
            buffers.push(self.allocate(buffer, evaluation.operands)?);
        }
        for launch in &plan.launches {
            let kernel = self.load(launch.kernel)?;
            let arguments: Vec<_> = launch.arguments.iter().map(|&at| buffers[at]).collect();
            let launched = self.launcher.launch(kernel, &arguments)?;
            let tally = &mut self.tallies[launch.kernel];
            tally.launches += 1;
            tally.kernel_us += launched.kernel_us.unwrap_or(0.0);
            for finding in launched.findings {
                if tally.findings.len() < MOST_FINDINGS && !tally.findings.contains(&finding) {
                    tally.findings.push(finding);
                }
            }
        }
        let mut results = vec![None; evaluation.instr.results.len()];
        for (buffer, &id) in plan.buffers.iter().zip(&buffers) {
            if let Some(index) = buffer.result {
                let bytes = self.launcher.read(id)?;
                results[index] = result(evaluation.instr, index, buffer, &bytes);
            }
            self.launcher.free(id)?;
        }
        Ok(results.into_iter().flatten().collect())
    }

    fn allocate(
        &mut self,
        buffer: &InstrBuffer,
        operands: &[Tensor],
    ) -> Result<BufferId, LaunchError> {
        let size = buffer.bytes as usize;
        let operand = match buffer.start {
            Start::Nothing => None,
            Start::Zeros => return self.launcher.allocate(Contents::Zeros(size)),
            Start::Operand(index) => operands.get(index),
        };
        let Some(operand) = operand else {
            return self.launcher.allocate(Contents::Unwritten(size));
        };
        let mut bytes = elements::encode(buffer.element, &operand.data);
        // NaN: whoever reads it shows.
        bytes.resize(size, 0xff);
        self.launcher.allocate(Contents::Bytes(&bytes))
    }

    fn load(&mut self, kernel: usize) -> Result<KernelId, LaunchError> {
        if let Some(loaded) = self.loaded[kernel] {
            return Ok(loaded);
        }
        let loaded = self.launcher.load(&self.program.kernels().images[kernel])?;
        self.loaded[kernel] = Some(loaded);
        Ok(loaded)
    }
}

impl Evaluator for Player<'_> {
    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Option<Vec<Tensor>>, String> {
        let program = self.program;
        let plan = evaluation.instr.kernels;
        let Some(plan) = plan.and_then(|plan| program.kernels().plans.get(plan)) else {
            return Ok(None);
        };
        let results = self.play(plan, evaluation).map_err(|e| e.to_string())?;
        if self.check == Check::All {
            let found = check::compare(program, plan.inputs, evaluation, &results)?;
            self.comparison.add(found);
        }
        Ok(Some(results))
    }
}

/// A result from the memory that a kernel left it in, rounded to its type.
fn result(instr: &Instr, index: usize, buffer: &InstrBuffer, bytes: &[u8]) -> Option<Tensor> {
    let (_, ty) = &instr.results[index];
    let dtype = DType::parse(&ty.dtype)?;
    let count = ty.shape.iter().product::<usize>();
    let mut values = elements::decode(buffer.element, bytes);
    values.truncate(count);
    (values.len() == count).then(|| Tensor::new(ty.shape.clone(), dtype, values).rounded())
}
