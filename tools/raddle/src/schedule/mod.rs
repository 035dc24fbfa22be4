//! `raddle schedule`: makes, searches, checks and draws pipeline schedules.

mod check;
mod costs;
mod file;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use raddle_compiler::schedule::cost_text::read_numbers;
use raddle_compiler::schedule::kinds::Kind;
use raddle_compiler::schedule::optimizer::{Optimizer, with_optimizer};
use raddle_compiler::schedule::svg::{Drawing, write_svg};
use raddle_compiler::schedule::torch_csv::{Contents, write_csv};
use raddle_compiler::schedule::transfers::{StageSteps, place_best};
use raddle_compiler::schedule::{
    Backward, CommModel, Made, Placement, Request, Schedule, ScheduleError, evaluate, job_list,
    json, make, mlir_text, table, time_limit, trace,
};

/// What `raddle schedule` takes.
#[derive(Args)]
pub struct Options {
    /// Kind of schedule; `file` takes the order from --file, `list` names all kinds.
    #[arg(
        long,
        value_name = "KIND",
        default_value = "1f1b",
        conflicts_with = "check"
    )]
    kind: String,
    /// Ranks of the pipeline axis.
    #[arg(long, value_name = "P", default_value_t = 4)]
    stages: u32,
    /// Micro-batches of a step.
    #[arg(long, value_name = "M", default_value_t = 8)]
    microbatches: u32,
    /// Model chunks on each rank, where the kind leaves a choice.
    #[arg(long, value_name = "V")]
    chunks: Option<u32>,
    /// Times, for example `f=3/4/4/5,b=4,w=3,comm=0.2`: one number, or one per stage (comm: per edge, mb: a factor per
    /// micro-batch). Keys: f, b (input gradient), w (weight gradient), comm, recompute, mb, overlap; step (the optimizer's
    /// update, per stage), state (its state to the next rank, or over all for a barrier), validate, rollback.
    #[arg(long, value_name = "COSTS")]
    costs: Option<String>,
    /// The same keys as a JSON object.
    #[arg(long, value_name = "FILE", conflicts_with = "costs")]
    costs_file: Option<PathBuf>,
    /// Most activations a rank may hold, in whole activations of one rank and micro-batch: one number, or one per rank
    /// (`4/4/3/3`).
    #[arg(long, value_name = "L")]
    memory_limit: Option<String>,
    /// The part of an activation that the weight gradient still holds.
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    w_memory: f64,
    /// How ranks agree before they update: decides which time is to be short first.
    #[arg(long, value_enum, default_value = "postvalidate")]
    optimizer: OptimizerName,
    /// Backwards as two steps, as one, or whole where splitting gains nothing; `none` schedules forwards only.
    #[arg(long, value_enum)]
    backward: Option<BackwardName>,
    /// Where the chunks of a rank stand in the pipeline.
    #[arg(long, value_enum)]
    placement: Option<PlacementName>,
    /// Micro-batches in a round of interleaved-1f1b.
    #[arg(long, value_name = "G")]
    round: Option<u32>,
    /// Seconds after which a search stops; more time finds better schedules.
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<f64>,
    /// A given order: PyTorch CSV, Paddle job lists, JSON, or a module with a `dist.schedule`.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Prove a given schedule file complete, ordered, within memory and free of deadlock under every model; with --format svg
    /// draw the ring of waits, or the timeline where there is none.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// How compute and communication share a machine: for --check one model instead of all, for svg, trace and csv-comms
    /// the one to place transfers for.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The PyTorch release that is to read csv-comms: before 2.15 there are no words for waits.
    #[arg(long, value_name = "RELEASE", default_value = "2.15", value_parser = release)]
    torch: (u32, u32),
    /// What to write.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Where to, instead of the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Numbers and lists for people.
    Table,
    /// PyTorch's file of computes alone.
    Csv,
    /// PyTorch's file with transfers.
    CsvComms,
    /// Paddle's job lists.
    Jobs,
    /// Everything, for programs.
    Json,
    /// A `dist.schedule` op.
    Mlir,
    /// A picture.
    Svg,
    /// Chrome and Perfetto trace.
    Trace,
}

#[derive(Clone, Copy, ValueEnum)]
enum OptimizerName {
    Postvalidate,
    Barrier,
}

#[derive(Clone, Copy, ValueEnum)]
enum BackwardName {
    Split,
    Whole,
    Auto,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum PlacementName {
    Loop,
    V,
}

/// Runs the subcommand.
///
/// # Errors
/// Files that cannot be read or written; what is wrong with a schedule is printed as a diagnostic instead.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.kind == "list" {
        for kind in Kind::ALL {
            println!("{:18}{}", kind.name(), kind.summary());
        }
        println!("{:18}the order given with --file", "file");
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &options.check {
        return check::run(options, path);
    }
    match produce(options) {
        Ok(Ok(text)) => {
            write(options.output.as_deref(), &text)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(Err(shown)) => {
            report_error(&shown.error, shown.place.as_deref());
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

/// Prints a diagnostic: code, message, and help.
fn report_error(error: &ScheduleError, place: Option<&str>) {
    eprintln!("error[{}]: {error}", error.code());
    if let Some(place) = place {
        eprintln!("{place}");
    }
    if let ScheduleError::Deadlock { cycle } = error {
        eprint!("{}", table::draw_ring(cycle));
    }
    if let Some(help) = error.help() {
        eprintln!("  help: {help}");
    }
}

fn optimizer(options: &Options) -> Optimizer {
    match options.optimizer {
        OptimizerName::Postvalidate => Optimizer::PostValidate,
        OptimizerName::Barrier => Optimizer::Barrier,
    }
}

/// A failure, with the lines that show its place in a file.
struct Shown {
    error: ScheduleError,
    place: Option<String>,
}

impl From<ScheduleError> for Shown {
    fn from(error: ScheduleError) -> Shown {
        Shown { error, place: None }
    }
}

fn produce(options: &Options) -> anyhow::Result<Result<String, Shown>> {
    let costs = match costs::read(options.costs.as_deref(), options.costs_file.as_deref())? {
        Ok(costs) => costs,
        Err(error) => return Ok(Err(error.into())),
    };
    let limit = match options
        .memory_limit
        .as_deref()
        .map(|text| read_numbers("memory-limit", text))
        .transpose()
    {
        Ok(limit) => limit,
        Err(error) => return Ok(Err(error.into())),
    };
    let made = if options.kind == "file" {
        let path = options
            .file
            .as_deref()
            .context("--kind file needs --file")?;
        match file::read(path)? {
            Ok(schedule) => file::as_made(
                schedule,
                costs.clone(),
                options.w_memory,
                limit,
                optimizer(options),
            ),
            Err((error, place)) => return Ok(Err(Shown { error, place })),
        }
    } else {
        Kind::parse(&options.kind).and_then(|kind| {
            let request = Request {
                kind,
                ranks: options.stages,
                microbatches: options.microbatches,
                chunks: options.chunks,
                costs: costs.clone(),
                held_for_weights: options.w_memory,
                limit,
                optimizer: optimizer(options),
                backward: options.backward.map(|b| match b {
                    BackwardName::Split => Backward::Split,
                    BackwardName::Whole => Backward::Whole,
                    BackwardName::Auto => Backward::Auto,
                    BackwardName::None => Backward::None,
                }),
                placement: options.placement.map(|p| match p {
                    PlacementName::Loop => Placement::Loop,
                    PlacementName::V => Placement::V,
                }),
                round: options.round,
                time_limit: options.time_limit.map(time_limit).transpose()?,
            };
            search_with_bar(&request)
        })
    };
    Ok(made
        .and_then(|made| render(options, &made))
        .map_err(Shown::from))
}

/// A search shows a bar on a terminal once it lasts.
fn search_with_bar(request: &Request) -> Result<Made, ScheduleError> {
    if !request.kind.is_searched() || !std::io::stderr().is_terminal() {
        return make(request, &mut |_, _| {});
    }
    let bar = indicatif::ProgressBar::new(100);
    if let Ok(style) =
        indicatif::ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {percent:>3}%  {msg}")
    {
        bar.set_style(style);
    }
    let made = make(request, &mut |done, score| {
        bar.set_position((done * 100.0) as u64);
        bar.set_message(format!("best {}", table::short(score.first)));
    });
    bar.finish_and_clear();
    made
}

fn title(options: &Options, made: &Made) -> String {
    let schedule = &made.schedule;
    let (ranks, stages) = (schedule.ranks().len(), schedule.stages());
    let chunks = if stages > ranks {
        format!(", {} chunks per rank", stages / ranks)
    } else {
        String::new()
    };
    let name = if options.kind == "file" {
        options
            .file
            .as_deref()
            .map_or(String::new(), |f| f.display().to_string())
    } else {
        options.kind.clone()
    };
    format!(
        "{name}: {ranks} ranks{chunks}, {} micro-batches",
        schedule.microbatches()
    )
}

fn render(options: &Options, made: &Made) -> Result<String, ScheduleError> {
    for note in &made.notes {
        eprintln!("note: {note}");
    }
    let title = title(options, made);
    let model = match options.model.as_deref() {
        None => CommModel::Dep,
        Some(name) => check::model(name)?,
    };
    let place = |steps| place_best(&made.schedule, &made.setting.costs, pick(model), steps);
    // With a model, pictures show transfers; where the optimizer's steps take time, they show those too.
    let seen = || -> Result<(Schedule, _), ScheduleError> {
        let times_optimizer = made.setting.costs.times_optimizer();
        if model == CommModel::Dep && !times_optimizer {
            return Ok((made.schedule.clone(), made.report.clone()));
        }
        let mut shown = if model == CommModel::Dep {
            made.schedule.clone()
        } else {
            place(StageSteps::AsGiven)?
        };
        if times_optimizer {
            shown = with_optimizer(&shown, optimizer(options))?;
        }
        let report = evaluate(&shown, &made.setting, model)?;
        Ok((shown, report))
    };
    Ok(match options.format {
        Format::Table => {
            let (schedule, report) = seen()?;
            let mut text = table::write_table(&title, &schedule, &report);
            if made.optimal {
                text.push_str(
                    "optimal: no schedule of this placement within this memory is shorter\n",
                );
            }
            text
        }
        Format::Csv => write_csv(&made.schedule, Contents::ComputeOnly),
        Format::CsvComms => write_csv(&place(StageSteps::Placed)?, contents(options.torch)),
        Format::Jobs => job_list::write_job_list(&made.schedule)?,
        Format::Json => {
            let mut extra = serde_json::Map::new();
            extra.insert("kind".to_owned(), options.kind.clone().into());
            extra.insert("optimal".to_owned(), made.optimal.into());
            extra.insert("notes".to_owned(), made.notes.clone().into());
            let (schedule, report) = seen()?;
            json::write_json(
                &with_optimizer(&schedule, optimizer(options))?,
                &report,
                extra,
            )
        }
        Format::Mlir => {
            let placed = place(StageSteps::Placed)?;
            mlir_text::write_mlir(&options.kind, &with_optimizer(&placed, optimizer(options))?)
        }
        Format::Svg => {
            let (schedule, report) = seen()?;
            let drawing = Drawing {
                title: &title,
                memory: &made.setting.memory,
                limit: made.setting.limit.as_ref(),
            };
            write_svg(&schedule, &report, &drawing)
        }
        Format::Trace => {
            let (schedule, report) = seen()?;
            trace::write_trace(&schedule, &report.timeline, &made.setting.memory)
        }
    })
}

/// The words for waits came with PyTorch 2.15.
fn contents((major, minor): (u32, u32)) -> Contents {
    if (major, minor) < (2, 15) {
        Contents::ComputeAndTransfersWithoutWaits
    } else {
        Contents::ComputeAndTransfers
    }
}

/// A release as `2.15`; what follows the second number does not matter.
fn release(text: &str) -> Result<(u32, u32), String> {
    let mut parts = text.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err("a release is two numbers, as in 2.15".to_owned()),
    }
}

/// Transfers are placed for one communication stream unless a model says otherwise.
fn pick(model: CommModel) -> CommModel {
    if model == CommModel::Dep {
        CommModel::Stream1
    } else {
        model
    }
}

/// Writes to a file as a whole or not at all.
fn write(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    let Some(path) = path else {
        let mut out = std::io::stdout().lock();
        // A reader that has seen enough closes the pipe; that is no failure.
        return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
            _ => Ok(()),
        };
    };
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut file = builder
        .tempfile_in(folder)
        .with_context(|| folder.display().to_string())?;
    file.write_all(text.as_bytes())?;
    file.persist(path)
        .with_context(|| path.display().to_string())?;
    Ok(())
}
