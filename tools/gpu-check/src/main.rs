//! `gpu-check`: on a machine with an NVIDIA GPU, runs every kind of kernel against sums in double precision, and times the
//! large ones beside cuBLASLt's in the same run. README.md says how.

mod cases;
mod check;
mod cublas;
mod kernels;
mod report;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use raddle_compiler::codegen::nvptx::{Architecture, Target};
use raddle_runtime::device::cuda::{CudaLauncher, Gpu};
use rayon::prelude::*;

use crate::cases::Case;
use crate::check::{Checker, Outcome};
use crate::cublas::Cublas;
use crate::kernels::Kernels;
use crate::report::Report;

/// Runs Raddle's kernels on a GPU, compares what they write, and times them beside cuBLASLt.
///
/// Exits with 1 if a number is wrong, if a kernel does not run, or if the time did not suffice.
#[derive(Parser)]
#[command(name = "gpu-check", version)]
struct Options {
    /// How long it may take; kernels that are left then count as failed.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Also write the figures there, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Which GPU, counted from 0.
    #[arg(long, default_value_t = 0)]
    device: u32,
    /// The file of cuBLASLt, if it is not where the system looks.
    #[arg(long, value_name = "FILE", conflicts_with = "without_cublaslt")]
    cublaslt: Option<PathBuf>,
    /// Time Raddle's kernels alone.
    #[arg(long)]
    without_cublaslt: bool,
    /// Check only kernels whose name has this in it.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Divide the extents of the kernels that are timed by this, to try the program out.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    shrink: u64,
    /// Decides the inputs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Take the kernels from a folder that --prepare filled, which needs neither LLVM nor NVIDIA's assembler.
    #[arg(long, value_name = "DIR", conflicts_with = "prepare")]
    prepared: Option<PathBuf>,
    /// Fill a folder with the kernels for every GPU, and do nothing else; no GPU is needed.
    #[arg(long, value_name = "DIR")]
    prepare: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.prepare {
        Some(folder) => prepare(folder, &options).map(|()| true),
        None => run(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "emit")]
fn prepare(folder: &Path, options: &Options) -> Result<()> {
    let kernels: Vec<_> = Architecture::ALL
        .into_iter()
        .map(Target::of)
        .flat_map(|target| {
            let cases = cases::small(target)
                .into_iter()
                .chain(cases::large(options.shrink));
            let cases = cases.filter(|case| options.wants(case));
            cases.map(move |case| (case.kernel, target))
        })
        .collect();
    kernels::prepare(folder, &kernels)?;
    println!("{} kernels are in {}", kernels.len(), folder.display());
    Ok(())
}

#[cfg(not(feature = "emit"))]
fn prepare(_: &Path, _: &Options) -> Result<()> {
    bail!("this program was built without LLVM, so it makes no kernels")
}

fn run(options: &Options) -> Result<bool> {
    let start = Instant::now();
    let budget = Duration::try_from_secs_f64(options.minutes * 60.0)
        .context("--minutes takes a number of minutes")?;
    let gpu = without_panic(|| Gpu::open(options.device))??;
    let target = target_of(&gpu)?;
    let cublas = if options.without_cublaslt {
        None
    } else {
        Some(Cublas::open(&gpu, options.cublaslt.as_deref())?)
    };
    let kernels = match &options.prepared {
        Some(folder) => Kernels::prepared(folder)?,
        None => Kernels::emitted()?,
    };
    let mut report = Report {
        device: format!("{gpu:?}"),
        driver: gpu.driver_version(),
        target: target.architecture().name().to_owned(),
        cublaslt: cublas.as_ref().map(Cublas::version).transpose()?,
        small: Vec::new(),
        large: Vec::new(),
        seconds: 0.0,
    };
    println!("{}", report.heading());
    let launcher = CudaLauncher::open(options.device)?;
    let mut checker = Checker::new(launcher, &gpu, cublas);
    // The large ones come first: their figures are what the run is for.
    let groups = [
        (cases::large(options.shrink), true),
        (cases::small(target), false),
    ];
    for (cases, is_large) in groups {
        let cases: Vec<Case> = cases
            .into_iter()
            .filter(|case| options.wants(case))
            .collect();
        println!("{}", report::columns(is_large));
        let made: Vec<_> = cases
            .par_iter()
            .map(|case| {
                if start.elapsed() >= budget {
                    bail!("not run: {} minutes are over", options.minutes);
                }
                kernels.get(&case.kernel, target)
            })
            .collect();
        for (case, made) in cases.iter().zip(made) {
            let checked = made.and_then(|(ptx, cubin)| {
                if start.elapsed() >= budget {
                    bail!("not run: {} minutes are over", options.minutes);
                }
                if is_large {
                    checker.large(&ptx, cubin, options.seed)
                } else {
                    checker.small(&ptx, cubin, options.seed)
                }
            });
            let mut outcome = checked.unwrap_or_else(|error| Outcome {
                note: Some(format!("{error:#}")),
                ..Outcome::default()
            });
            outcome.name.clone_from(&case.name);
            if is_large || !outcome.is_right {
                println!("{}", report::row(&outcome));
            }
            let group = if is_large {
                &mut report.large
            } else {
                &mut report.small
            };
            group.push(outcome);
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    println!("{}", report.verdict());
    if let Some(file) = &options.json {
        write(file, &report)?;
    }
    Ok(report.is_right())
}

impl Options {
    fn wants(&self, case: &Case) -> bool {
        self.only
            .as_ref()
            .is_none_or(|part| case.name.contains(part.as_str()))
    }
}

/// Does something by the driver's binding, which panics about what it does not find.
fn without_panic<T>(work: impl FnOnce() -> T + std::panic::UnwindSafe) -> Result<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = std::panic::catch_unwind(work);
    std::panic::set_hook(hook);
    done.map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
        anyhow::anyhow!(
            "the NVIDIA driver cannot be used: {}",
            text.unwrap_or("no reason given")
        )
    })
}

/// What kernels for a GPU are emitted for.
fn target_of(gpu: &Gpu) -> Result<Target> {
    let name = gpu.architecture();
    let found = Architecture::ALL
        .into_iter()
        .find(|architecture| architecture.name().trim_end_matches('a') == name);
    match found {
        Some(architecture) => Ok(Target::of(architecture)),
        None => bail!(
            "there are no kernels for {name}; there are some for {}",
            Architecture::names()
        ),
    }
}

/// Replaces a file as a whole.
fn write(file: &Path, report: &Report) -> Result<()> {
    let attempt = || -> Result<()> {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut new = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        serde_json::to_writer_pretty(&mut new, report)?;
        new.write_all(b"\n")?;
        new.persist(file)?;
        Ok(())
    };
    if file.exists() && !file.is_file() {
        return fs::write(file, serde_json::to_string_pretty(report)?)
            .with_context(|| format!("cannot write {}", file.display()));
    }
    attempt().with_context(|| format!("cannot write {}", file.display()))
}
