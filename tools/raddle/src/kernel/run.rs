//! `raddle kernel --run`: runs a kernel and compares what it wrote with sums in double precision.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use raddle_bundle::KernelImage;
use raddle_compiler::codegen::nvptx::{Parameter, Ptx};
use raddle_compiler::codegen::oracle::{self, Inputs, Matrix, Results};
use raddle_runtime::device::launch::{LaunchError, Launched, Launcher, PreparedKernel};

use super::refusal::BadOptions;
use crate::device::{Delivery, Device, Simulation};

/// Launches of which the fastest is reported, on a device with a clock.
const TIMED_LAUNCHES: usize = 5;

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
    /// Multiprocessors of the simulated device: blocks that they do not hold at a time start when others have ended. Left
    /// out, as many as an A100, H100 or B200 has.
    #[arg(long, value_name = "N", requires = "run", value_parser = clap::value_parser!(u32).range(1..))]
    sms: Option<u32>,
    /// Decides the inputs, and on the simulator the order in which warps take turns.
    #[arg(long, default_value_t = 0, requires = "run")]
    seed: u64,
    /// Write the inputs and results there, one file each: little-endian f32, row after row.
    #[arg(long, value_name = "DIR", requires = "run")]
    dump_io: Option<PathBuf>,
}

/// Runs a kernel and prints how it did.
///
/// # Errors
/// Kernels that are too large, a GPU that is not there or fails, files that cannot be written.
pub fn run(
    ptx: &Ptx,
    image: &KernelImage,
    device: Device,
    options: &Run,
) -> anyhow::Result<ExitCode> {
    let kernel = &ptx.kernel;
    let largest = kernel
        .matrices()
        .map(|matrix| u128::from(matrix.batch_stride()) * u128::from(kernel.batch))
        .into_iter()
        .fold(0, u128::max);
    let starts = [kernel.a, kernel.b, kernel.c].map(|layout| u128::from(layout.offset));
    let largest = starts.into_iter().fold(largest, u128::max);
    let workspace = u128::from(ptx.scratch.workspace_bytes / 4);
    if kernel.flops() / 2 > MOST_TERMS || largest.max(workspace) > MOST_ELEMENTS {
        let reason = "this kernel is too large to run and compare; choose smaller extents";
        return Err(BadOptions(reason.to_owned()).into());
    }
    let inputs = Inputs::random(kernel, options.seed);
    let simulation = Simulation {
        delivery: options.delivery,
        sms: options.sms,
    };
    let mut launcher = device.open(simulation, options.seed)?;
    let played = play(&mut *launcher, ptx, image, &inputs)?;
    let results = Results::behind(|wanted| {
        let mut written = played.written.iter();
        let found = written.find(|(parameter, _)| *parameter == wanted);
        found.map(|(_, bytes)| bytes.as_slice())
    });
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
    for (name, what) in &played.launched.facts {
        fact(name, what);
    }
    if let Some(us) = played.launched.kernel_us {
        let rate = kernel.flops() as f64 / us / 1e6;
        fact("time", &format!("{us:.1} us, {rate:.1} TFLOP/s"));
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
    let findings = &played.launched.findings;
    fact("findings", &findings.len().to_string());
    for finding in findings {
        println!("  {finding}");
    }
    Ok(if comparison.is_right() && findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What a kernel wrote, and what there is to say of the run.
struct Played {
    /// The bytes behind each parameter that the kernel writes.
    written: Vec<(Parameter, Vec<u8>)>,
    launched: Launched,
}

/// Launches the kernel, and again a few times where the device has a clock, which then tells the fastest.
fn play(
    launcher: &mut dyn Launcher,
    ptx: &Ptx,
    image: &KernelImage,
    inputs: &Inputs,
) -> Result<Played, LaunchError> {
    let parameters = ptx.parameters.as_slice();
    let kernel = PreparedKernel::load(launcher, image, |index| {
        inputs.matrix(parameters[index].before()).bytes()
    })?;
    let mut launched = kernel.launch(launcher)?;
    let mut written = Vec::new();
    for (index, &parameter) in parameters.iter().enumerate() {
        if parameter.is_written() {
            written.push((parameter, kernel.read(launcher, index)?));
        }
    }
    if let Some(best) = &mut launched.kernel_us {
        for _ in 0..TIMED_LAUNCHES {
            let again = kernel.launch(launcher)?.kernel_us;
            *best = again.map_or(*best, |again| best.min(again));
        }
    }
    Ok(Played { written, launched })
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
            Parameter::Output
            | Parameter::AuxiliaryOutput
            | Parameter::BiasGradient
            | Parameter::Workspace
            | Parameter::Counters => {}
        }
    }
    if let Some(bytes) = results.output {
        files.push(("out", found(bytes)));
    }
    if let Some(bytes) = results.auxiliary {
        files.push(("aux", found(bytes)));
    }
    if let Some(bytes) = results.bias_gradient {
        files.push(("dbias", oracle::bias_gradient(&ptx.kernel, bytes)));
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
