//! `promote-linear` on a deep perceptron: parse, promote for both rank classes, verify and print.
//!
//! The program is made by the tools themselves: `raddle gen mlp --layers N`, then `raddle-opt --append-backward`. A layer is a pair
//! of linear layers with its norm and residual connection, forward, backward and optimizer, some 55 ops. PaddlePaddle's pass takes
//! 232 s for 400 layers of its own kind (about 21,000 ops) on the first rank alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::measure::{self, Usage};
use super::{GROWTH_LIMIT, Verdicts, program};
use crate::process;
use crate::workspace::Workspace;

/// Layers of the program that the promise is about, and of the one that shows growth.
const LAYERS: [usize; 2] = [400, 4_000];
/// CPU time for the smaller one.
const CPU_LIMIT_S: f64 = 0.3;
/// How often each is measured.
const RUNS: [usize; 2] = [5, 3];

/// One program.
struct Row {
    layers: usize,
    ops: usize,
    used: Usage,
}

/// Measures, prints the table and the verdicts; `Ok(false)` when a limit is passed. Builds what it needs.
///
/// # Errors
/// When the build fails, a tool refuses a program, or promotion does not make two classes of it.
pub fn run(workspace: &Workspace, folder: &Path) -> Result<bool> {
    let tools = program::build(workspace, ["raddle", "raddle-opt"])?;
    let mut rows = Vec::new();
    for (layers, runs) in LAYERS.into_iter().zip(RUNS) {
        rows.push(measure(&tools, folder, layers, runs)?);
    }
    println!("\nparse, promote-linear for both rank classes, and print (CPU time, peak memory)");
    println!(
        "{:>9} {:>9}  {:>10} {:>10}  {:>9}",
        "layers", "ops", "CPU", "memory", "µs per op"
    );
    for row in &rows {
        println!(
            "{:>9} {:>9}  {:>10} {:>10}  {:>9.3}",
            row.layers,
            row.ops,
            format!("{:.3} s", row.used.cpu_s),
            format!("{:.1} MB", row.used.peak_mb()),
            row.us_per_op()
        );
    }
    println!();
    let mut verdicts = Verdicts::default();
    verdicts.judge(
        &format!("CPU seconds for {} layers", rows[0].layers),
        rows[0].used.cpu_s,
        CPU_LIMIT_S,
    );
    verdicts.judge(
        &format!("time per op, {} layers over {}", LAYERS[1], LAYERS[0]),
        rows[1].us_per_op() / rows[0].us_per_op(),
        GROWTH_LIMIT,
    );
    Ok(verdicts.kept())
}

fn measure(tools: &[PathBuf; 2], folder: &Path, layers: usize, runs: usize) -> Result<Row> {
    let [raddle, raddle_opt] = tools;
    let [forward, training, promoted] = ["forward", "training", "promoted"]
        .map(|name| folder.join(format!("mlp-{layers}-{name}.mlir")));
    let mut generate = Command::new(raddle);
    generate
        .args(["gen", "mlp", "--mesh", "mp=2", "--layers"])
        .arg(layers.to_string())
        .arg("-o")
        .arg(&forward);
    process::run(&mut generate)?;
    let mut complete = Command::new(raddle_opt);
    complete
        .arg(&forward)
        .args(["--append-backward=optimizer=sgd", "-o"])
        .arg(&training);
    process::run(&mut complete)?;
    let promote = || {
        let mut command = Command::new(raddle_opt);
        command.arg(&training).arg("--promote-linear");
        command
    };
    let mut once = promote();
    process::run(once.arg("-o").arg(&promoted))?;
    check(&promoted, layers)?;
    let used = measure::least(runs, promote)?;
    let ops = program::op_count(&program::read(&training)?);
    for file in [forward, training, promoted] {
        fs::remove_file(file)?;
    }
    Ok(Row { layers, ops, used })
}

/// Every layer is promoted, or the time says nothing: the first class adds each row-parallel bias, the other does not have it.
fn check(promoted: &Path, layers: usize) -> Result<()> {
    let text = program::read(promoted)?;
    let mut classes = text.split("module @").skip(1);
    let adds = |class: &str| class.matches(" = dist.add ").count();
    let (Some(first), Some(rest), None) = (classes.next(), classes.next(), classes.next()) else {
        bail!("promotion did not make two classes of the program");
    };
    let gone = adds(first) - adds(rest);
    if gone != layers {
        bail!("promotion removed {gone} biases from the other ranks, not {layers}");
    }
    Ok(())
}

impl Row {
    fn us_per_op(&self) -> f64 {
        self.used.cpu_s * 1e6 / self.ops as f64
    }
}
