//! `raddle run`: training steps of a program on random inputs from random state.
//!
//! Linear layers (`dist.fused_linear`, `dist.fused_linear_grad`) are computed by kernels if the device has them; everything else, and
//! the layers that no kernel computes, by the reference device, which rounds each result to its type.

mod build;
mod estimate;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use raddle_bundle::Bundle;
use raddle_compiler::codegen::nvptx::{Architecture, PtxVersion};
use raddle_dialect::reference::Tensor;
use raddle_runtime::Training;
use raddle_runtime::device::kernels::{Check, Player};
use raddle_runtime::device::launch::Launcher;
use raddle_runtime::device::reference::{Evaluation, Evaluator, Mode, Program, Returned};

use crate::device::{Device, Simulation};
use crate::kernel;
use crate::kernel::store::Kept;
use show::{Losses, Outcome};

/// What to play, and where.
#[derive(clap::Args)]
pub struct Options {
    /// The program: a module with a mesh and a step, or jobs.
    file: PathBuf,
    /// What computes linear layers.
    #[arg(long, value_enum, default_value_t = Where::Reference)]
    device: Where,
    /// The GPU that kernels are for. Left out, it is sm_80 on the simulator, and on a GPU that GPU.
    #[arg(long, value_parser = kernel::architecture)]
    target: Option<Architecture>,
    /// The PTX version; the oldest that knows the target if left out.
    #[arg(long, value_name = "MAJOR.MINOR", value_parser = kernel::ptx_version)]
    ptx_version: Option<PtxVersion>,
    /// How kernels compute products of f32 elements.
    #[arg(long, value_enum, default_value_t = kernel::Products::Full)]
    math: kernel::Products,
    /// Training steps.
    #[arg(long, default_value_t = 3)]
    steps: usize,
    /// Decides inputs and state, and on the simulator the order in which warps take turns.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    simulation: Simulation,
    #[command(flatten)]
    store: Kept,
    /// Hold what kernels compute against the reference device, number by number; exits with 1 if one is off by more than rounding
    /// allows.
    #[arg(long)]
    check: bool,
    /// How to print what the run showed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// What computes linear layers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Where {
    /// The reference device, as everything else.
    Reference,
    /// Kernels on the simulator; no GPU is needed.
    Ptxsim,
    /// Kernels on the first NVIDIA GPU of this machine.
    Cuda,
}

/// How to print what a run showed.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// A line a step and a line a kernel.
    Table,
    /// One object.
    Json,
}

impl Where {
    fn kernels(self) -> Option<Device> {
        match self {
            Where::Reference => None,
            Where::Ptxsim => Some(Device::Ptxsim),
            Where::Cuda => Some(Device::Cuda),
        }
    }
}

/// Plays the program; fails if a kernel is wrong.
///
/// # Errors
/// Files that cannot be read, programs that cannot be run or would take hours, devices that are not there.
pub fn run(options: &Options) -> Result<ExitCode> {
    let without_kernels = options.device == Where::Reference;
    if without_kernels && (options.check || options.target.is_some()) {
        eprintln!(
            "error: --check and --target are about kernels, which the reference device has none of; choose --device ptxsim or cuda"
        );
        return Ok(ExitCode::from(2));
    }
    let Some(mut loaded) = build::load(options)? else {
        return Ok(ExitCode::FAILURE);
    };
    let mut launcher: Option<Box<dyn Launcher>> = None;
    let mut target = None;
    let work = loaded.kernels.work(&loaded.bundle);
    estimate::refuse_large(&loaded)?;
    estimate::refuse_long(options, loaded.products, work)?;
    if let Some(device) = options.device.kernels() {
        if loaded.kernels.layers() + loaded.kernels.refused() == 0 {
            eprintln!(
                "note: the program has no fused linear layers for kernels; `raddle-opt --fuse-linear` makes them"
            );
        }
        let opened = device.open(options.simulation, options.seed)?;
        let chosen = build::target(options, &*opened)?;
        build::emit(&mut loaded, device, chosen, &options.store.open())?;
        launcher = Some(opened);
        target = Some(chosen);
    }
    let instructions = match target {
        Some(_) => work.instructions.saturating_mul(options.steps as u128),
        None => 0,
    };
    let bundle = loaded.bundle;
    let program = Program::load(&bundle)?;
    let check = if options.check {
        Check::All
    } else {
        Check::None
    };
    let player = launcher.map(|launcher| Player::new(&program, launcher, check));
    let mut evaluator = Watched {
        player,
        bar: bar(instructions, "linear layers"),
    };
    let mut training = Training::new(&program, Mode::Rounded, options.seed);
    let mut losses = Vec::new();
    for step in 0..options.steps {
        evaluator.bar.set_message(format!("step {step}"));
        let returned = training.step(&mut (), &mut evaluator)?;
        losses.push(Losses::of(&returned));
    }
    evaluator.bar.finish_and_clear();
    let outcome = Outcome {
        options,
        target,
        losses,
        layers: loaded.kernels.layers(),
        refused: loaded.kernels.refused(),
        images: &bundle.kernels.images,
        player: evaluator.player.as_ref(),
    };
    let text = match options.format {
        Format::Table => outcome.table(),
        Format::Json => outcome.json(),
    };
    print!("{text}");
    Ok(if outcome.is_right() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Progress on a terminal.
fn bar(length: u128, what: &str) -> ProgressBar {
    let template = format!("{{elapsed:>4}} [{{bar:40}}] {{pos}} of {{len}} {what}  {{msg}}");
    let style = ProgressStyle::with_template(&template);
    let bar = ProgressBar::new(u64::try_from(length).unwrap_or(u64::MAX));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The player of kernels, if there is one, with the progress shown.
struct Watched<'p> {
    player: Option<Player<'p>>,
    bar: ProgressBar,
}

impl Evaluator for Watched<'_> {
    fn evaluate(&mut self, evaluation: &Evaluation) -> Result<Option<Vec<Tensor>>, String> {
        let Some(player) = &mut self.player else {
            return Ok(None);
        };
        let results = player.evaluate(evaluation)?;
        if results.is_some() {
            self.bar.inc(1);
        }
        Ok(results)
    }
}

/// A program, ready to be given kernels.
struct Loaded {
    bundle: Bundle,
    kernels: raddle_compiler::codegen::bundled::BundleKernels,
    /// Multiplications of a step on all ranks, about.
    products: f64,
    /// Elements of the globals of all ranks.
    elements: f64,
}

/// The losses among what the ranks returned.
fn losses(returned: &[Vec<Returned>]) -> impl Iterator<Item = f64> + '_ {
    let values = returned.iter().flatten().filter(|value| value.index == 0);
    values.flat_map(|value| value.value.data.iter().copied())
}
