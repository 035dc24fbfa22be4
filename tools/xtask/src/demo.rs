//! `cargo xtask demo`: the main job on a real program, step by step, with the IR after each step left to look at.
//!
//! The input is a two-layer MLP's training step as four ranks of a 2×2 mesh (data and tensor parallel) run it, written by
//! PaddlePaddle. It is imported, promoted, fused, validated on the reference device, and written back for every rank; its
//! fused layers come out as PTX, which a simulator runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{run, show};
use crate::setup;
use crate::workspace::Workspace;

/// Where the input is, under the repository's root.
const INPUT: &str = "examples/paddle-dp2-mp2";

/// How each rewrite is watched.
const REWRITE: [&str; 4] = [
    "--remarks",
    "--diagnostic-format=plain",
    "--verify-each",
    "--validate-each=1",
];

/// Ranks of the input's mesh.
const RANKS: usize = 4;

/// Runs the demo.
///
/// # Errors
/// If set-up, the build or a step fails.
pub fn demo(workspace: &Workspace) -> Result<()> {
    setup::run(workspace)?;
    let tools = ["raddle", "raddle-opt", "raddle-translate"];
    let mut build = Command::new("cargo");
    build.current_dir(&workspace.root).arg("build");
    build.args(tools.iter().flat_map(|tool| ["-p", tool]));
    run(&mut build)?;
    let demo = Demo {
        workspace,
        out: workspace.target.join("demo"),
        start: Instant::now(),
    };
    std::fs::create_dir_all(&demo.out)
        .with_context(|| format!("cannot create {}", demo.out.display()))?;
    demo.steps()
}

struct Demo<'w> {
    workspace: &'w Workspace,
    out: PathBuf,
    start: Instant,
}

impl Demo<'_> {
    fn steps(&self) -> Result<()> {
        let [imported, promoted, fused] =
            ["1-imported.mlir", "2-promoted.mlir", "3-fused.mlir"].map(|name| self.out.join(name));

        let mut import = self.tool("raddle-translate");
        import
            .arg("--import-paddle")
            .args(self.inputs("main.pdprog"));
        import.arg("--startup").args(self.inputs("startup.pdprog"));
        import.arg("--mesh").args(self.inputs("mesh.json"));
        import.arg("-o").arg(&imported);
        self.step("import every rank, and verify", import)?;

        let mut promote = self.tool("raddle-opt");
        promote.arg("--promote-linear").args(REWRITE);
        promote.arg(&imported).arg("-o").arg(&promoted);
        self.step(
            "promote the bias add in front of its all-reduce, and validate",
            promote,
        )?;

        let mut fuse = self.tool("raddle-opt");
        fuse.arg("--fuse-linear").args(REWRITE);
        fuse.arg(&promoted).arg("-o").arg(&fused);
        self.step("fuse matmul and bias into one kernel, and validate", fuse)?;

        for rank in 0..RANKS {
            let file = |part: &str| self.out.join(format!("rank{rank}.{part}.pdprog"));
            let mut export = self.tool("raddle-translate");
            export
                .arg("--export-paddle")
                .arg(&fused)
                .args(["--rank", &rank.to_string()]);
            export
                .arg("--startup-out")
                .arg(file("startup"))
                .arg("-o")
                .arg(file("main"));
            self.step(&format!("write rank {rank} back"), export)?;
        }

        let mut kernels = self.tool("raddle");
        kernels.arg("kernel").arg("--program").arg(&fused);
        kernels
            .args(["--target", "sm_80", "--ptx-dir"])
            .arg(self.out.join("ptx"));
        self.step("emit the fused layers as PTX, and assemble it", kernels)?;

        let mut play = self.tool("raddle");
        play.arg("run").arg(&fused);
        play.args(["--device", "ptxsim", "--steps", "2", "--check"]);
        self.step(
            "train on the simulator of a GPU, and check every number of every kernel",
            play,
        )?;

        let mut compare = self.tool("raddle");
        compare.arg("compare").arg(&imported).arg(&fused);
        self.step(
            "what went away, and whether the program still computes the same",
            compare,
        )?;
        println!(
            "\nThe program after each step is in {}. Took {:.1} s.",
            self.workspace.relative(&self.out).display(),
            self.start.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.workspace.tool("debug", name));
        command.current_dir(&self.workspace.root);
        command
    }

    fn inputs(&self, part: &str) -> Vec<PathBuf> {
        (0..RANKS)
            .map(|rank| Path::new(INPUT).join(format!("rank{rank}.{part}")))
            .collect()
    }

    fn step(&self, what: &str, mut command: Command) -> Result<()> {
        println!("\n== {what}\n   {}", show(&command));
        run(&mut command)
    }
}
