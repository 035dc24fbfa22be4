//! `cargo xtask bench`: the numbers Raddle promises, measured beside stock MLIR in the same run.
//!
//! A generated module goes through parse, verify and print in both tools. What counts is CPU time (user and system,
//! the least of several runs, so that other work on the machine matters little) and peak memory.

mod generate;
mod kernels;
mod measure;
mod partition;
mod program;
mod promotion;
mod schedule;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::measure::Usage;
use crate::process;
use crate::setup;
use crate::workspace::{Workspace, llvm_tool};

/// Raddle may use at most this part of stock MLIR's CPU time.
const CPU_LIMIT: f64 = 0.25;
/// Raddle may use at most this part of stock MLIR's peak memory.
const MEMORY_LIMIT: f64 = 0.5;
/// Time per op of the largest module over that of the smallest; flat means no more than this.
const GROWTH_LIMIT: f64 = 1.3;

/// What to measure.
pub struct BenchOptions {
    /// Ops in the module that is judged; a tenth and ten times as many are measured for growth.
    pub op_count: usize,
    /// Whether to measure ten times as many.
    pub largest: bool,
    /// Which tables to make.
    pub tables: Tables,
}

/// The tables of `cargo xtask bench`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tables {
    /// Parsing and printing, promotion, partitioning, kernels, and schedules.
    All,
    /// Parsing and printing beside mlir-opt.
    Text,
    /// Promotion of deep programs.
    Promotion,
    /// Programs of many stages.
    Partition,
    /// Emission of kernels.
    Kernels,
    /// Schedules beside the results of others.
    Schedule,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            op_count: 200_000,
            largest: true,
            tables: Tables::All,
        }
    }
}

/// One size of module, measured with both tools.
struct Row {
    op_count: usize,
    raddle: Usage,
    /// Not measured for the largest size, which only shows growth.
    stock: Option<Usage>,
}

/// Measures, prints the table and the verdicts; `Ok(false)` when a limit is passed.
///
/// # Errors
/// When set-up or the build fails, or a tool refuses the module or prints something else than the other.
pub fn run(workspace: &Workspace, options: &BenchOptions) -> Result<bool> {
    if options.tables == Tables::Schedule {
        return schedule::run(workspace);
    }
    setup::run(workspace)?;
    if options.tables == Tables::Kernels {
        return kernels::run(workspace);
    }
    let folder = workspace.target.join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if options.tables == Tables::Promotion {
        return promotion::run(workspace, &folder);
    }
    if options.tables == Tables::Partition {
        return partition::run(workspace, &folder);
    }
    let [raddle] = program::build(workspace, ["raddle-opt"])?;
    let tools = Tools {
        raddle,
        stock: llvm_tool("mlir-opt"),
    };
    let mut rows = vec![
        tools.measure(&folder, options.op_count / 10, Judge::Both)?,
        tools.measure(&folder, options.op_count, Judge::Both)?,
    ];
    if options.largest {
        rows.push(tools.measure(&folder, options.op_count * 10, Judge::Raddle)?);
    }
    print_table(&rows);
    let kept = verdicts(&rows);
    if options.tables == Tables::All {
        let promoted = promotion::run(workspace, &folder)?;
        let partitioned = partition::run(workspace, &folder)?;
        let emitted = kernels::run(workspace)?;
        return Ok(schedule::run(workspace)? && emitted && promoted && partitioned && kept);
    }
    Ok(kept)
}

/// Which tools to measure.
#[derive(PartialEq, Eq)]
enum Judge {
    Both,
    Raddle,
}

struct Tools {
    raddle: PathBuf,
    stock: PathBuf,
}

impl Tools {
    fn measure(&self, folder: &Path, op_count: usize, judge: Judge) -> Result<Row> {
        let input = folder.join(format!("generic-{op_count}.mlir"));
        generate::write_module(&input, op_count)?;
        let raddle = || command(&self.raddle, &input);
        let stock = || command(&self.stock, &input);
        let row = if judge == Judge::Both {
            compare_outputs(folder, raddle(), stock())?;
            let (raddle, stock) = measure::least_in_turn(3, raddle, stock)?;
            Row {
                op_count,
                raddle,
                stock: Some(stock),
            }
        } else {
            Row {
                op_count,
                raddle: measure::least(2, raddle)?,
                stock: None,
            }
        };
        fs::remove_file(&input)?;
        Ok(row)
    }
}

fn command(tool: &Path, input: &Path) -> Command {
    let mut command = Command::new(tool);
    command
        .args(["--allow-unregistered-dialect", "--mlir-print-op-generic"])
        .arg(input);
    command
}

/// Both tools must print the same text, or their times say nothing about each other.
fn compare_outputs(folder: &Path, raddle: Command, stock: Command) -> Result<()> {
    let [ours, theirs] = [("raddle.out", raddle), ("mlir-opt.out", stock)].map(
        |(name, mut command)| -> Result<(PathBuf, Vec<u8>)> {
            let path = folder.join(name);
            command.stdout(fs::File::create(&path)?);
            process::run(&mut command)?;
            let text = fs::read(&path)?;
            Ok((path, text))
        },
    );
    let ((our_path, ours), (their_path, theirs)) = (ours?, theirs?);
    // `mlir-opt` prints an empty line after the module.
    if ours.trim_ascii_end() != theirs.trim_ascii_end() {
        bail!(
            "raddle-opt and mlir-opt print different text: compare {} and {}",
            our_path.display(),
            their_path.display()
        );
    }
    fs::remove_file(our_path)?;
    fs::remove_file(their_path)?;
    Ok(())
}

fn print_table(rows: &[Row]) {
    println!("\nparse, verify and print a generic module (CPU time, peak memory)");
    println!(
        "{:>9}  {:>10} {:>10} {:>6}  {:>10} {:>10} {:>6}  {:>9}",
        "ops", "raddle-opt", "mlir-opt", "ratio", "raddle-opt", "mlir-opt", "ratio", "µs per op"
    );
    for row in rows {
        let raddle = &row.raddle;
        let (stock_cpu, cpu_ratio, stock_memory, memory_ratio) = match &row.stock {
            Some(stock) => (
                format!("{:.3} s", stock.cpu_s),
                format!("{:.3}", raddle.cpu_s / stock.cpu_s),
                format!("{:.1} MB", stock.peak_mb()),
                format!("{:.3}", raddle.peak_mb() / stock.peak_mb()),
            ),
            None => Default::default(),
        };
        println!(
            "{:>9}  {:>10} {:>10} {:>6}  {:>10} {:>10} {:>6}  {:>9.3}",
            row.op_count,
            format!("{:.3} s", raddle.cpu_s),
            stock_cpu,
            cpu_ratio,
            format!("{:.1} MB", raddle.peak_mb()),
            stock_memory,
            memory_ratio,
            row.us_per_op()
        );
    }
}

impl Row {
    fn us_per_op(&self) -> f64 {
        self.raddle.cpu_s * 1e6 / self.op_count as f64
    }
}

/// One line per promise.
struct Verdicts {
    kept: bool,
}

impl Default for Verdicts {
    fn default() -> Self {
        Self { kept: true }
    }
}

impl Verdicts {
    /// Prints whether a promise is kept.
    fn judge(&mut self, what: &str, value: f64, limit: f64) {
        let holds = value <= limit;
        let verdict = if holds { "kept" } else { "NOT KEPT" };
        println!("{what}: {value:.3}, promised at most {limit:.3}: {verdict}");
        self.kept &= holds;
    }

    /// Whether all are.
    fn kept(&self) -> bool {
        self.kept
    }
}

/// Prints one line per promise; true when all are kept.
fn verdicts(rows: &[Row]) -> bool {
    let mut verdicts = Verdicts::default();
    println!();
    // The smallest module is mostly the start of the process, so the promise is about the second size.
    if let Some((raddle, stock)) = rows.get(1).and_then(|row| Some((row.raddle, row.stock?))) {
        verdicts.judge(
            "CPU time over mlir-opt's",
            raddle.cpu_s / stock.cpu_s,
            CPU_LIMIT,
        );
        verdicts.judge(
            "peak memory over mlir-opt's",
            raddle.peak_mb() / stock.peak_mb(),
            MEMORY_LIMIT,
        );
    }
    if let [first, .., last] = rows {
        verdicts.judge(
            "time per op, largest over smallest",
            last.us_per_op() / first.us_per_op(),
            GROWTH_LIMIT,
        );
    }
    verdicts.kept()
}
