//! `split-backward`, `partition-stages` and `plan-memory` on a deep GPT with many stages: parse, the passes, verify and print.
//!
//! The program is made by the tools themselves (`raddle gen gpt`, `raddle-opt --append-backward --infer-stages`): 400 blocks of some
//! 130 ops on 64 stages. A tenth of the blocks shows growth; a mesh of 16,384 ranks instead of 256, that classes are compiled and not
//! ranks. Reading and printing are in the time, and shown apart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::measure::{self, Usage};
use super::{GROWTH_LIMIT, Verdicts, program};
use crate::process;
use crate::workspace::Workspace;

/// Blocks of the program that the promise is about, and of the one that it is held against.
const BLOCKS: [usize; 2] = [400, 40];
/// Its stages.
const STAGES: usize = 64;
/// CPU time that the passes may take, reading and printing left out.
const CPU_LIMIT_S: f64 = 1.0;
/// Time on 16,384 ranks over that on 256.
const RANKS_LIMIT: f64 = 1.1;
/// How often each is measured.
const RUNS: usize = 5;

/// One program.
struct Row {
    blocks: usize,
    mesh: &'static str,
    ops: usize,
    /// With the passes.
    whole: Usage,
    /// Read and printed only.
    text: Usage,
}

impl Row {
    fn passes_s(&self) -> f64 {
        (self.whole.cpu_s - self.text.cpu_s).max(0.0)
    }

    fn us_per_op(&self) -> f64 {
        self.whole.cpu_s * 1e6 / self.ops as f64
    }
}

/// Measures, prints the table and the verdicts; `Ok(false)` when a limit is passed. Builds what it needs.
///
/// # Errors
/// When the build fails, a tool refuses a program, or partitioning does not make a class for each stage.
pub fn run(workspace: &Workspace, folder: &Path) -> Result<bool> {
    let tools = program::build(workspace, ["raddle", "raddle-opt"])?;
    let rows = [
        measure(&tools, folder, BLOCKS[0], "dp=2,mp=2")?,
        measure(&tools, folder, BLOCKS[0], "dp=128,mp=2")?,
        measure(&tools, folder, BLOCKS[1], "dp=2,mp=2")?,
    ];
    println!(
        "\nparse, split-backward, partition-stages for {STAGES} stages, plan-memory, and print (CPU time, peak memory)"
    );
    println!(
        "{:>9} {:>12} {:>9}  {:>10} {:>10} {:>10}  {:>9}",
        "blocks", "mesh", "ops", "CPU", "passes", "memory", "µs per op"
    );
    for row in &rows {
        println!(
            "{:>9} {:>12} {:>9}  {:>10} {:>10} {:>10}  {:>9.3}",
            row.blocks,
            row.mesh,
            row.ops,
            format!("{:.3} s", row.whole.cpu_s),
            format!("{:.3} s", row.passes_s()),
            format!("{:.1} MB", row.whole.peak_mb()),
            row.us_per_op()
        );
    }
    println!();
    let [deep, wide, small] = &rows;
    let mut verdicts = Verdicts::default();
    let what = format!("CPU seconds of the passes for {} ops", deep.ops);
    verdicts.judge(&what, deep.passes_s(), CPU_LIMIT_S);
    verdicts.judge(
        "time on 16,384 ranks over that on 256",
        wide.whole.cpu_s / deep.whole.cpu_s,
        RANKS_LIMIT,
    );
    verdicts.judge(
        &format!("time per op, {} blocks over {}", BLOCKS[0], BLOCKS[1]),
        deep.us_per_op() / small.us_per_op(),
        GROWTH_LIMIT,
    );
    Ok(verdicts.kept())
}

fn measure(tools: &[PathBuf; 2], folder: &Path, blocks: usize, mesh: &'static str) -> Result<Row> {
    let [raddle, raddle_opt] = tools;
    let name = mesh.replace(['=', ','], "");
    let [forward, labelled, cut] = ["forward", "labelled", "cut"]
        .map(|state| folder.join(format!("gpt-{blocks}-{name}-{state}.mlir")));
    let stages = if blocks < STAGES { blocks } else { STAGES };
    let mut generate = Command::new(raddle);
    generate
        .args(["gen", "gpt", "--tied", "--no-bias", "--microbatches", "4"])
        .args(["--batch", "512", "--mesh", mesh, "--layers"])
        .arg(blocks.to_string())
        .arg("-o")
        .arg(&forward);
    process::run(&mut generate)?;
    let mut label = Command::new(raddle_opt);
    label
        .arg(&forward)
        .args(["--append-backward=optimizer=sgd clip=global-norm"])
        .arg(format!("--infer-stages=stages={stages}"))
        .arg("-o")
        .arg(&labelled);
    process::run(&mut label)?;
    let text = || {
        let mut command = Command::new(raddle_opt);
        command.arg(&labelled);
        command
    };
    let whole = || {
        let mut command = text();
        command.args(["--split-backward", "--partition-stages", "--plan-memory"]);
        command
    };
    process::run(whole().arg("-o").arg(&cut))?;
    let classes = program::read(&cut)?.matches("module @").count();
    if classes != stages {
        bail!("partitioning made {classes} classes, not {stages}");
    }
    let (whole, text) = measure::least_in_turn(RUNS, whole, text)?;
    let ops = program::op_count(&program::read(&labelled)?);
    for file in [forward, labelled, cut] {
        fs::remove_file(file)?;
    }
    Ok(Row {
        blocks,
        mesh,
        ops,
        whole,
        text,
    })
}
