//! `raddle tune`: fills the table of tiles, by what kernels take on a GPU, or by the cost model alone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use raddle_compiler::codegen::nvptx::{self, Architecture, Planned, Target};
use raddle_compiler::codegen::oracle::Generated;
use raddle_compiler::codegen::tile_table::TileTable;
use raddle_compiler::codegen::{KernelDescription, tuning};
use raddle_runtime::device::cuda::CudaLauncher;
use raddle_runtime::device::launch::{Launcher, PreparedKernel};

use crate::device::Device;
use crate::kernel::store::Store;
use crate::kernel::write;

/// Launches of which the median counts, after two that warm up.
const LAUNCHES: usize = 9;

/// What `raddle tune` takes.
#[derive(Args)]
pub struct Options {
    /// What says how long a kernel takes.
    #[arg(long, value_enum, default_value_t = Judge::Cuda)]
    device: Judge,
    /// Tokens, out features and in features of the kernels; those that the checked-in table has rows for if left out.
    #[arg(long, value_name = "MxNxK,...", value_delimiter = ',', value_parser = shape)]
    shapes: Vec<[u64; 3]>,
    /// Where to write the table; standard output if left out. Times that a table there has of other kernels stay.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Judge {
    /// The first NVIDIA GPU: every way to cut a kernel that is worth a try is timed.
    Cuda,
    /// The cost model, for every architecture that the table has rows for.
    Model,
}

/// Runs the subcommand.
///
/// # Errors
/// No driver, no GPU, a table that cannot be read, kernels that cannot be made or launched, a file that cannot be written.
pub fn run(options: &Options) -> Result<ExitCode> {
    let shapes = if options.shapes.is_empty() {
        &tuning::SHAPES[..]
    } else {
        &options.shapes[..]
    };
    let table = match options.device {
        Judge::Model => tuning::by_model(&tuning::ARCHITECTURES, shapes)?,
        Judge::Cuda => measured(shapes, options)?,
    };
    write(options.output.as_deref(), table.to_string().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The table there is, with the times of kernels on the first GPU.
fn measured(shapes: &[[u64; 3]], options: &Options) -> Result<TileTable> {
    let mut launcher = CudaLauncher::open(0)?;
    let name = launcher.architecture().unwrap_or_default();
    let mut known = Architecture::ALL.into_iter();
    let Some(architecture) = known.find(|one| one.name().trim_end_matches('a') == name) else {
        let names = Architecture::names();
        bail!("there are no kernels for {name}; there are some for {names}");
    };
    let mut table = match &options.output {
        Some(file) if file.is_file() => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            TileTable::parse(&text).with_context(|| format!("{}", file.display()))?
        }
        _ => TileTable::checked_in()?,
    };
    for kernel in tuning::kernels(shapes) {
        let ways = tuning::ways(&kernel, Target::of(architecture))?;
        let tried = ways.len();
        let mut best: Option<(f64, Planned)> = None;
        for planned in ways {
            let us = time(&mut launcher, &kernel, planned.clone())?;
            if best.as_ref().is_none_or(|(least, _)| us < *least) {
                best = Some((us, planned));
            }
        }
        let row = best.and_then(|(us, planned)| tuning::row(&planned, Some(us)));
        if let Some(row) = row {
            eprintln!(
                "{}: {}x{} in {} shares, {:.1} us, the best of {tried}",
                kernel.entry(),
                row.tile.rows,
                row.tile.columns,
                row.splits,
                row.us.unwrap_or_default()
            );
            table.set(row);
        }
    }
    Ok(table)
}

/// The median of several launches, in microseconds.
fn time(launcher: &mut CudaLauncher, kernel: &KernelDescription, planned: Planned) -> Result<f64> {
    let ptx = nvptx::emit_planned(planned)?;
    let image = Device::Cuda.image(&ptx, &Store::NOTHING)?;
    let inputs = Generated::of(kernel, 0).context("a kernel with gaps")?;
    let parameters = ptx.parameters.as_slice();
    let loaded = PreparedKernel::load(launcher, &image, |index| {
        inputs.bytes(parameters[index].before())
    })?;
    let median = loaded.median_us(launcher, LAUNCHES)?;
    loaded.free(launcher)?;
    median.context("the device has no clock")
}

fn shape(text: &str) -> Result<[u64; 3], String> {
    let extents: Vec<u64> = text
        .split('x')
        .filter_map(|extent| extent.parse().ok().filter(|&extent| extent > 0))
        .collect();
    match <[u64; 3]>::try_from(extents) {
        Ok(extents) if text.split('x').count() == 3 => Ok(extents),
        _ => Err("write a shape as 4096x4096x1024".to_owned()),
    }
}
