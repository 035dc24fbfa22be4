//! `raddle kernel --run`: runs a kernel and compares what it wrote with sums in double precision.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use raddle_compiler::codegen::nvptx::{Parameter, Ptx, Toolkit};
use raddle_compiler::codegen::oracle::{self, Inputs, Matrix, Results};

use super::{cuda, simulate};

/// The most products that a run takes on: beyond, the sums in double precision alone would take hours.
const MOST_TERMS: u128 = 1 << 36;

/// The most elements of a matrix that a run takes on: it keeps several copies of each, some in double precision.
const MOST_ELEMENTS: u128 = 1 << 26;

/// Where and how to run the kernel.
#[derive(Args)]
pub struct Run {
    /// Run the kernel on random inputs and compare what it writes with sums in double precision. Exits with 1 if a number
    /// is off by more than rounding allows, or if the run shows a fault.
    #[arg(long, value_enum, value_name = "DEVICE")]
    pub run: Option<Device>,
    /// When asynchronous copies arrive, on the simulator.
    #[arg(long, value_enum, default_value_t = Delivery::Adversarial, requires = "run")]
    pub delivery: Delivery,
    /// Decides the inputs, and on the simulator the order in which warps take turns.
    #[arg(long, default_value_t = 0, requires = "run")]
    seed: u64,
    /// Write the inputs and results there, one file each: little-endian f32, row after row.
    #[arg(long, value_name = "DIR", requires = "run")]
    dump_io: Option<PathBuf>,
}

/// What runs the kernel.
#[derive(Clone, Copy, ValueEnum)]
pub enum Device {
    /// The simulator; no GPU is needed.
    Ptxsim,
    /// The first NVIDIA GPU of this machine.
    Cuda,
}

/// When asynchronous copies arrive.
#[derive(Clone, Copy, ValueEnum)]
pub enum Delivery {
    /// At once.
    Eager,
    /// As late as the waits allow.
    Adversarial,
}

/// What a kernel wrote, and what there is to say of the run.
pub struct Played {
    /// The bytes behind each parameter that the kernel writes.
    pub written: Vec<(Parameter, Vec<u8>)>,
    /// Facts for the user, each with its name.
    pub facts: Vec<(&'static str, String)>,
    /// What the run found wrong with the kernel.
    pub findings: Vec<String>,
}

/// What a parameter points to before a launch.
pub enum Before {
    /// These bytes.
    Bytes(Vec<u8>),
    /// This many bytes that nothing has written.
    Unwritten(usize),
}

impl Before {
    /// What the kernel's parameter points to, given these inputs.
    pub fn of(parameter: Parameter, ptx: &Ptx, inputs: &Inputs) -> Before {
        match parameter {
            Parameter::A => Before::Bytes(inputs.first.bytes()),
            Parameter::B => Before::Bytes(inputs.second.bytes()),
            Parameter::Bias => Before::Bytes(inputs.bias.bytes()),
            Parameter::AuxiliaryInput => Before::Bytes(inputs.auxiliary.bytes()),
            Parameter::Output if ptx.kernel.accumulate => Before::Bytes(inputs.existing.bytes()),
            Parameter::Output | Parameter::AuxiliaryOutput => {
                Before::Unwritten(inputs.existing.size())
            }
            Parameter::BiasGradient => Before::Unwritten(ptx.kernel.n as usize * 4),
        }
    }
}

/// Runs a kernel and prints how it did.
///
/// # Errors
/// Kernels that are too large, a GPU that is not there or fails, files that cannot be written.
pub fn run(ptx: &Ptx, device: Device, options: &Run) -> anyhow::Result<ExitCode> {
    let kernel = &ptx.kernel;
    let largest = kernel
        .matrices()
        .map(|matrix| u128::from(matrix.batch_stride()) * u128::from(kernel.batch))
        .into_iter()
        .fold(0, u128::max);
    let starts = [kernel.a, kernel.b, kernel.c].map(|layout| u128::from(layout.offset));
    let largest = starts.into_iter().fold(largest, u128::max);
    if kernel.flops() / 2 > MOST_TERMS || largest > MOST_ELEMENTS {
        bail!("this kernel is too large to run and compare; choose smaller extents");
    }
    let inputs = Inputs::random(kernel, options.seed);
    let played = match device {
        Device::Ptxsim => simulate::play(ptx, &inputs, (options.delivery, options.seed))?,
        Device::Cuda => cuda::play(ptx, &inputs, &Toolkit::discover())?,
    };
    let bytes = |wanted: Parameter| {
        let found = played
            .written
            .iter()
            .find(|(parameter, _)| *parameter == wanted);
        found.map(|(_, bytes)| bytes.as_slice())
    };
    let results = Results {
        output: bytes(Parameter::Output),
        auxiliary: bytes(Parameter::AuxiliaryOutput),
        bias_gradient: bytes(Parameter::BiasGradient),
    };
    let comparison = oracle::compare(kernel, &inputs, &results);
    if let Some(folder) = &options.dump_io {
        dump(folder, ptx, &inputs, &results)?;
    }

    let fact = |name: &str, what: &str| println!("{:<15}{what}", format!("{name}:"));
    fact("kernel", &ptx.entry);
    fact(
        "blocks",
        &format!("{} of {} threads", ptx.launch.blocks, ptx.launch.threads),
    );
    for (name, what) in &played.facts {
        fact(name, what);
    }
    fact(
        "numbers",
        &format!(
            "{} compared, {} wrong, largest error {:.3} of what is allowed",
            comparison.compared, comparison.wrong, comparison.worst
        ),
    );
    if let Some(first) = &comparison.first_wrong {
        fact("first wrong", first);
    }
    fact("findings", &played.findings.len().to_string());
    for finding in &played.findings {
        println!("  {finding}");
    }
    Ok(if comparison.is_right() && played.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes what went in and what came out.
fn dump(folder: &Path, ptx: &Ptx, inputs: &Inputs, results: &Results<'_>) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let numbers = |matrix: &Matrix| -> Vec<f64> { matrix.taken().to_vec() };
    let found = |bytes: &[u8]| -> Vec<f64> {
        let result = &inputs.existing;
        result
            .places()
            .map(|place| result.found(bytes, place))
            .collect()
    };
    let mut files: Vec<(&str, Vec<f64>)> = Vec::new();
    for &parameter in ptx.parameters.as_slice() {
        match parameter {
            Parameter::A => files.push(("a", numbers(&inputs.first))),
            Parameter::B => files.push(("b", numbers(&inputs.second))),
            Parameter::Bias => files.push(("bias", numbers(&inputs.bias))),
            Parameter::AuxiliaryInput => files.push(("aux", numbers(&inputs.auxiliary))),
            Parameter::Output if ptx.kernel.accumulate => {
                files.push(("c_in", numbers(&inputs.existing)));
            }
            Parameter::Output | Parameter::AuxiliaryOutput | Parameter::BiasGradient => {}
        }
    }
    if let Some(bytes) = results.output {
        files.push(("out", found(bytes)));
    }
    if let Some(bytes) = results.auxiliary {
        files.push(("aux", found(bytes)));
    }
    if let Some(bytes) = results.bias_gradient {
        let sums = bytes.chunks_exact(4);
        let sums = sums.map(|sum| f64::from(f32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]])));
        files.push(("dbias", sums.collect()));
    }
    for (name, numbers) in files {
        let path = folder.join(format!("{name}.f32"));
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|&number| (number as f32).to_le_bytes())
            .collect();
        super::write(Some(&path), &bytes)?;
    }
    Ok(())
}
