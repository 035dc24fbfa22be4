//! One kernel on the GPU: what it writes is compared, and the large ones are timed, beside cuBLASLt's where it has the like.

use anyhow::{Context, Result};
use raddle_compiler::codegen::nvptx::{Parameter, Ptx};
use raddle_compiler::codegen::oracle::{
    self, Comparison, Generated, Inputs, Results, Sample, Which,
};
use raddle_compiler::codegen::{ElementType, KernelDescription};
use raddle_runtime::device::cuda::{Buffer, CudaLauncher, Gpu};
use raddle_runtime::device::launch::{LaunchError, PreparedKernel};
use serde::Serialize;

use crate::cublas::{Buffers, Cublas, CublasError};

/// Launches of which the median counts, after two that warm up.
const LAUNCHES: usize = 15;

/// How a kernel did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// What it is called in the table.
    pub name: String,
    /// The entry point.
    pub entry: String,
    /// Numbers that were compared.
    pub compared: u64,
    /// Those that are off by more than rounding allows, and those that are none.
    pub wrong: u64,
    /// The largest error as a share of what is allowed.
    pub worst: f64,
    /// Microseconds of a launch, the median of several.
    pub us: Option<f64>,
    /// 10¹² operations a second.
    pub tflops: Option<f64>,
    /// The same for cuBLASLt.
    pub peer_us: Option<f64>,
    /// The same for cuBLASLt.
    pub peer_tflops: Option<f64>,
    /// The first number that is wrong, or why the kernel did not run.
    pub note: Option<String>,
    /// Why cuBLASLt was not timed, if it is there.
    pub peer_note: Option<String>,
    /// Whether it ran and every number is right.
    pub is_right: bool,
}

/// What a kernel wrote, by its parameters.
type Written = Vec<(Parameter, Vec<u8>)>;

/// Runs small and large kernels on one GPU.
pub struct Checker<'g> {
    launcher: CudaLauncher,
    gpu: &'g Gpu,
    cublas: Option<Cublas>,
}

impl<'g> Checker<'g> {
    /// Checks on a GPU.
    pub fn new(launcher: CudaLauncher, gpu: &'g Gpu, cublas: Option<Cublas>) -> Checker<'g> {
        Checker {
            launcher,
            gpu,
            cublas,
        }
    }

    /// Compares all that a small kernel writes.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn small(&mut self, ptx: &Ptx, cubin: Option<Vec<u8>>, seed: u64) -> Result<Outcome> {
        let kernel = ptx.kernel;
        let inputs = Inputs::random(&kernel, seed);
        let loaded = self.load(ptx, cubin, |which| inputs.matrix(which).bytes())?;
        loaded.launch(&mut self.launcher)?;
        let written = self.read(ptx, &loaded)?;
        loaded.free(&mut self.launcher)?;
        let comparison = oracle::compare(&kernel, &inputs, &results(&written));
        Ok(outcome(ptx, &comparison, 0))
    }

    /// Compares a sample of what a large kernel writes, and times it.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn large(&mut self, ptx: &Ptx, cubin: Option<Vec<u8>>, seed: u64) -> Result<Outcome> {
        let kernel = ptx.kernel;
        let generated = Generated::of(&kernel, seed).context("a large kernel has gaps")?;
        let loaded = self.load(ptx, cubin, |which| generated.bytes(which))?;
        // What accumulates is compared after the first launch.
        loaded.launch(&mut self.launcher)?;
        let written = self.read(ptx, &loaded)?;
        let sample = Sample::of(&kernel, seed);
        let gathered = sample.gather(&results(&written));
        let inputs = sample.inputs(&generated);
        let comparison = oracle::compare(&sample.part(), &inputs, &gathered.results());
        let nans = written.iter().map(|(parameter, bytes)| {
            let element = match parameter {
                Parameter::BiasGradient => kernel.bias.unwrap_or(ElementType::F32),
                _ => kernel.output,
            };
            oracle::nans(element, bytes)
        });
        let mut outcome = outcome(ptx, &comparison, nans.sum());
        let us = loaded.median_us(&mut self.launcher, LAUNCHES)?;
        loaded.free(&mut self.launcher)?;
        let tflops = |us: f64| kernel.flops() as f64 / us / 1e6;
        outcome.us = us;
        outcome.tflops = us.map(tflops);
        match self.peer_us(&kernel, &generated) {
            Ok(us) => {
                outcome.peer_us = us;
                outcome.peer_tflops = us.map(tflops);
            }
            Err(error) => outcome.peer_note = Some(error.to_string()),
        }
        Ok(outcome)
    }

    fn load(
        &mut self,
        ptx: &Ptx,
        cubin: Option<Vec<u8>>,
        bytes: impl Fn(Which) -> Vec<u8>,
    ) -> Result<PreparedKernel, LaunchError> {
        let mut image = ptx.image();
        image.cubin = cubin;
        let parameters = ptx.parameters.as_slice();
        PreparedKernel::load(&mut self.launcher, &image, |index| {
            bytes(parameters[index].before())
        })
    }

    fn read(&mut self, ptx: &Ptx, loaded: &PreparedKernel) -> Result<Written, LaunchError> {
        let parameters = ptx.parameters.as_slice().iter().enumerate();
        let written = parameters.filter(|(_, parameter)| parameter.is_written());
        written
            .map(|(index, &parameter)| Ok((parameter, loaded.read(&mut self.launcher, index)?)))
            .collect()
    }

    /// The time of cuBLASLt's kernel with the same inputs; `None` without the library.
    fn peer_us(
        &self,
        kernel: &KernelDescription,
        generated: &Generated,
    ) -> Result<Option<f64>, CublasError> {
        let Some(cublas) = &self.cublas else {
            return Ok(None);
        };
        let upload = |which| self.gpu.upload(&generated.bytes(which));
        let poisoned = |elements: u64, element: ElementType| {
            self.gpu
                .poisoned(elements as usize * element.bytes() as usize)
        };
        let [.., result] = kernel.matrices();
        let elements = result.rows * result.columns;
        let first = upload(Which::First)?;
        let second = upload(Which::Second)?;
        let output = if kernel.accumulate {
            upload(Which::Existing)?
        } else {
            poisoned(elements, kernel.output)?
        };
        let bias: Option<Buffer> = kernel.bias.map(|_| upload(Which::Bias)).transpose()?;
        let auxiliary = upload(Which::Auxiliary)?;
        let buffers = Buffers {
            first: &first,
            second: &second,
            output: &output,
            bias: bias.as_ref(),
            auxiliary: Some(&auxiliary),
        };
        cublas.time(kernel, &buffers, LAUNCHES).map(Some)
    }
}

fn results(written: &Written) -> Results<'_> {
    Results::behind(|wanted| {
        let found = written.iter().find(|(parameter, _)| *parameter == wanted);
        found.map(|(_, bytes)| bytes.as_slice())
    })
}

fn outcome(ptx: &Ptx, comparison: &Comparison, nans: u64) -> Outcome {
    let wrong = comparison.wrong.max(nans);
    let unwritten = (nans > 0).then(|| format!("{nans} numbers are not written, or none"));
    Outcome {
        entry: ptx.entry.clone(),
        compared: comparison.compared,
        wrong,
        worst: comparison.worst,
        note: comparison.first_wrong.clone().or(unwritten),
        is_right: wrong == 0 && comparison.compared > 0,
        ..Outcome::default()
    }
}
