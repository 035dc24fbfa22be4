//! The private Python environment `target/venv`: lit, NumPy, and NVIDIA's assembler and disassemblers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// What the environment holds, with exact versions.
const REQUIREMENTS: &str = include_str!("../../requirements.txt");

/// Programs of NVIDIA's wheels that get a fixed path in the environment's `bin` folder.
const NVIDIA_PROGRAMS: &[&str] = &["ptxas", "nvdisasm", "cuobjdump"];

/// The first Python on this system that can make environments.
pub fn find_interpreter() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(|interpreter| succeeds(interpreter, "import venv, ensurepip"))
}

/// Makes the environment, or makes it anew when it is broken or holds other versions; true if it did.
///
/// # Errors
/// When no Python can make it, or a package cannot be had.
pub fn install(workspace: &Workspace) -> Result<bool> {
    let venv = workspace.venv();
    let stamp = venv.join("requirements.installed");
    let python = workspace.python();
    let current = fs::read_to_string(&stamp).is_ok_and(|text| text == REQUIREMENTS);
    if current && succeeds(&python, "import lit") {
        return Ok(false);
    }
    let Some(interpreter) = find_interpreter() else {
        bail!("no Python here can make environments; run:\n    apt-get install -y python3-venv");
    };
    println!(
        "set-up: making the Python environment {} with {}",
        workspace.relative(&venv).display(),
        pinned(REQUIREMENTS).collect::<Vec<_>>().join(", ")
    );
    process::run(
        Command::new(interpreter)
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )?;
    process::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-deps"])
            .arg("--disable-pip-version-check")
            .args(pinned(REQUIREMENTS)),
    )?;
    link_nvidia_programs(&venv)?;
    fs::write(&stamp, REQUIREMENTS).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(true)
}

/// The requirement lines without comments.
fn pinned(requirements: &str) -> impl Iterator<Item = &str> {
    requirements
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn link_nvidia_programs(venv: &Path) -> Result<()> {
    let folder = nvidia_folder(venv)?;
    let shown = folder.strip_prefix(venv).unwrap_or(&folder);
    for name in NVIDIA_PROGRAMS {
        if !folder.join(name).is_file() {
            bail!("NVIDIA's wheels brought no {name} in {}", folder.display());
        }
        symlink(
            Path::new("..").join(shown).join(name),
            venv.join("bin").join(name),
        )
        .with_context(|| format!("cannot link {name}"))?;
    }
    Ok(())
}

fn nvidia_folder(venv: &Path) -> Result<PathBuf> {
    let lib = venv.join("lib");
    for entry in fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))? {
        let folder = entry?.path().join("site-packages/nvidia/cu13/bin");
        if folder.is_dir() {
            return Ok(folder);
        }
    }
    bail!(
        "NVIDIA's wheels left no nvidia/cu13/bin below {}",
        lib.display()
    );
}

fn succeeds(python: impl AsRef<Path>, code: &str) -> bool {
    Command::new(python.as_ref())
        .args(["-c", code])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_has_one_exact_version() {
        let lines: Vec<_> = pinned(REQUIREMENTS).collect();
        assert!(lines.iter().any(|line| line.starts_with("lit==")));
        for line in lines {
            assert_eq!(line.split("==").count(), 2, "{line}");
        }
    }
}
