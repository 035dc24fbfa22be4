//! Shows stock `mlir-opt` everything that the lit suite made Raddle print, in generic form.
//!
//! MLIR knows `dist` only through `dialect/dist.irdl.mlir`. The modules go in batches of one process each, separated
//! by the split marker, since starting MLIR costs more than reading a small module. The same modules then go through
//! Raddle's own door to MLIR with no passes, and must come back unchanged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::counts::Counts;
use super::lit;
use crate::workspace::{Workspace, llvm_tool};

const SPLIT: &str = "// -----\n";
const BATCH_BYTES: usize = 4 << 20;

/// Counts one test per module.
///
/// # Errors
/// When there is nothing to show, or `mlir-opt` cannot be run.
pub fn run(workspace: &Workspace) -> Result<Counts> {
    let folder = lit::generic_folder(workspace);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {} (run the lit part first)", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    if files.is_empty() {
        bail!(
            "the lit suite left no module in {} (run the lit part first)",
            folder.display()
        );
    }
    let stock = Stock {
        raddle_opt: workspace.tool("debug", "raddle-opt"),
        irdl: workspace.root.join("dialect/dist.irdl.mlir"),
        input: workspace.target.join("lit-tests/stock-input.mlir"),
    };
    let mut counts = Counts::default();
    let mut batch = Batch::default();
    for file in files {
        let text = fs::read_to_string(&file)?;
        if !batch.text.is_empty() && batch.text.len() + text.len() > BATCH_BYTES {
            counts = counts + stock.judge(&std::mem::take(&mut batch))?;
        }
        batch.push(file, &text);
    }
    Ok(counts + stock.judge(&batch)?)
}

/// Modules for one process.
#[derive(Default)]
struct Batch {
    text: String,
    lines: usize,
    /// The file whose text starts after this many lines.
    starts: BTreeMap<usize, PathBuf>,
}

impl Batch {
    fn push(&mut self, file: PathBuf, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str(SPLIT);
            self.lines += 1;
        }
        self.starts.insert(self.lines, file);
        self.text.push_str(text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
        self.lines += text.lines().count();
    }

    /// The file that line `line` (from 1) of the batch belongs to, and the line within it.
    fn locate(&self, line: usize) -> Option<(&Path, usize)> {
        let (start, file) = self.starts.range(..line).next_back()?;
        Some((file, line - start))
    }
}

/// Stock MLIR with the dialect loaded.
struct Stock {
    raddle_opt: PathBuf,
    irdl: PathBuf,
    input: PathBuf,
}

impl Stock {
    /// Reads the batch and prints it, once as it is and once by way of MLIR; counts one test.
    fn there_and_back(&self) -> Result<Counts> {
        let print = |more: &[&str]| {
            Command::new(&self.raddle_opt)
                .args(["--allow-unregistered-dialect", "--split-input-file"])
                .args(["--mlir-print-op-generic", "--mlir-print-debuginfo"])
                .args(more)
                .arg(&self.input)
                .output()
                .context("cannot run raddle-opt")
        };
        let plain = print(&[])?;
        let back = print(&["--mlir-pass-pipeline=builtin.module()"])?;
        let same = back.status.success() && back.stdout == plain.stdout;
        if !same {
            let text = String::from_utf8_lossy(&back.stdout);
            let expected = String::from_utf8_lossy(&plain.stdout);
            let first = text.lines().zip(expected.lines()).find(|(a, b)| a != b);
            if let Some((found, expected)) = first {
                println!("after the way through MLIR:\n  {found}\nwhere this was:\n  {expected}");
            }
            println!("{}", String::from_utf8_lossy(&back.stderr));
        }
        Ok(Counts {
            passed: same.into(),
            failed: (!same).into(),
            ..Counts::default()
        })
    }

    fn judge(&self, batch: &Batch) -> Result<Counts> {
        fs::write(&self.input, &batch.text)
            .with_context(|| format!("cannot write {}", self.input.display()))?;
        let mut irdl = std::ffi::OsString::from("--irdl-file=");
        irdl.push(&self.irdl);
        let output = Command::new(llvm_tool("mlir-opt"))
            .arg(irdl)
            .args(["--allow-unregistered-dialect", "--split-input-file"])
            .args(["-o", "/dev/null"])
            .arg(&self.input)
            .output()
            .context("cannot run mlir-opt")?;
        let total = batch.starts.len() as u64;
        if output.status.success() {
            return Ok(Counts {
                passed: total,
                ..Counts::default()
            } + self.there_and_back()?);
        }
        let refused = self.refusals(batch, &String::from_utf8_lossy(&output.stderr));
        for (file, message) in &refused {
            println!("mlir-opt refuses {}:{message}", file.display());
        }
        if refused.is_empty() {
            println!("mlir-opt: {}", String::from_utf8_lossy(&output.stderr));
        }
        let failed = (refused.len() as u64).max(1);
        Ok(Counts {
            passed: total - failed,
            failed,
            skipped: 0,
        })
    }

    /// The error lines of each file, with that file's own line numbers.
    fn refusals<'a>(&self, batch: &'a Batch, stderr: &str) -> BTreeMap<&'a Path, String> {
        let prefix = format!("{}:", self.input.display());
        let mut refusals: BTreeMap<&Path, String> = BTreeMap::new();
        for line in stderr.lines() {
            let Some(rest) = line.strip_prefix(&prefix) else {
                continue;
            };
            let Some((number, message)) = rest.split_once(':') else {
                continue;
            };
            if !message.contains(": error: ") {
                continue;
            }
            let Some((file, own)) = number.parse().ok().and_then(|n| batch.locate(n)) else {
                continue;
            };
            // Writing to a string cannot fail.
            let _ = write!(refusals.entry(file).or_default(), "\n  {own}:{message}");
        }
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let mut batch = Batch::default();
        batch.push("a".into(), "1\n2\n");
        batch.push("b".into(), "1");
        batch.push("c".into(), "1\n");
        batch
    }

    #[test]
    fn lines_lead_back_to_their_file() {
        let batch = batch();
        assert_eq!(batch.text, "1\n2\n// -----\n1\n// -----\n1\n");
        let find = |line| batch.locate(line).map(|(f, l)| (f.to_str().unwrap(), l));
        assert_eq!(find(1), Some(("a", 1)));
        assert_eq!(find(2), Some(("a", 2)));
        assert_eq!(find(4), Some(("b", 1)));
        assert_eq!(find(6), Some(("c", 1)));
    }

    #[test]
    fn errors_are_kept_by_file() {
        let stock = Stock {
            raddle_opt: "raddle-opt".into(),
            irdl: "d".into(),
            input: "/in.mlir".into(),
        };
        let batch = batch();
        let stderr =
            "/in.mlir:4:7: error: no\n/in.mlir:4:7: note: see\n/in.mlir:6:1: error: nor this\n";
        let refusals = stock.refusals(&batch, stderr);
        let shown: Vec<_> = refusals
            .iter()
            .map(|(f, m)| format!("{}{m}", f.display()))
            .collect();
        assert_eq!(shown, ["b\n  1:7: error: no", "c\n  1:1: error: nor this"]);
    }
}
