//! Files that are generated and checked in: `docs/dialect.md`, `dialect/dist.irdl.mlir` and `docs/diagnostics.md`.
//!
//! `raddle-opt` prints the first two, since it knows the op definitions; the third is collected from the sources. This
//! module compares or replaces the copies.

mod diagnostics;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Whether to replace the files or only to look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Replace what differs.
    Write,
    /// Say what differs.
    Check,
}

/// A checked-in file and what makes its text.
struct Generated {
    path: &'static str,
    from: From,
}

/// What makes a text.
enum From {
    /// `raddle-opt` with this option.
    Tool(&'static str),
    /// The sources themselves.
    Sources(fn(&Path) -> Result<String>),
}

const GENERATED: &[Generated] = &[
    Generated {
        path: "docs/dialect.md",
        from: From::Tool("--dialect-docs"),
    },
    Generated {
        path: "dialect/dist.irdl.mlir",
        from: From::Tool("--dialect-irdl"),
    },
    Generated {
        path: "docs/diagnostics.md",
        from: From::Sources(diagnostics::page),
    },
];

/// Builds `raddle-opt`, then writes or compares; `Ok(false)` when a compared file is out of date.
///
/// # Errors
/// When `raddle-opt` cannot be built or run, or a file cannot be written.
pub fn run(workspace: &Workspace, mode: Mode) -> Result<bool> {
    process::run(Command::new("cargo").current_dir(&workspace.root).args([
        "build",
        "--quiet",
        "--package",
        "raddle-opt",
    ]))?;
    if mode == Mode::Check {
        return compare(workspace);
    }
    for generated in GENERATED {
        let path = workspace.root.join(generated.path);
        let wanted = generated.wanted(workspace)?;
        if fs::read_to_string(&path).is_ok_and(|text| text == wanted) {
            println!("{} is up to date", generated.path);
        } else {
            replace(&path, &wanted)?;
            println!("{} written", generated.path);
        }
    }
    Ok(true)
}

/// Compares the files with what the `raddle-opt` built last prints; false when one is out of date.
///
/// # Errors
/// When `raddle-opt` cannot be run.
pub fn compare(workspace: &Workspace) -> Result<bool> {
    let mut fresh = true;
    for generated in GENERATED {
        let found = fs::read_to_string(workspace.root.join(generated.path)).unwrap_or_default();
        let wanted = generated.wanted(workspace)?;
        if let Some(line) = first_difference(&found, &wanted) {
            println!(
                "{}:{line}: out of date; run `cargo xtask docs`",
                generated.path
            );
            fresh = false;
        }
    }
    Ok(fresh)
}

impl Generated {
    fn wanted(&self, workspace: &Workspace) -> Result<String> {
        let option = match self.from {
            From::Tool(option) => option,
            From::Sources(read) => return read(&workspace.root),
        };
        let mut command = Command::new(workspace.tool("debug", "raddle-opt"));
        command.arg(option);
        let shown = process::show(&command);
        let output = command
            .output()
            .with_context(|| format!("cannot run `{shown}`"))?;
        if !output.status.success() {
            bail!(
                "`{shown}` failed:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no UTF-8"))
    }
}

fn replace(path: &Path, text: &str) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text)
        .with_context(|| format!("cannot write {}", unfinished.display()))?;
    fs::rename(&unfinished, path).with_context(|| format!("cannot replace {}", path.display()))
}

/// The first line (from 1) where two texts differ.
fn first_difference(a: &str, b: &str) -> Option<usize> {
    if a == b {
        return None;
    }
    let same = a
        .split_inclusive('\n')
        .zip(b.split_inclusive('\n'))
        .take_while(|(a, b)| a == b)
        .count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_at_their_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\nb", "a\nb\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
    }
}
