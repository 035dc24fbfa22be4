//! Where things are: the repository, cargo's target folder, the Python environment, LLVM's tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder Debian's LLVM 22 packages put their tools in.
pub const LLVM_BIN: &str = "/usr/lib/llvm-22/bin";

/// The places every task starts from.
pub struct Workspace {
    /// The repository root.
    pub root: PathBuf,
    /// Cargo's target folder, wherever the person's settings put it.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo where the workspace and its target folder are.
    ///
    /// # Errors
    /// When cargo cannot be run or its answer lacks one of the two.
    pub fn locate() -> Result<Self> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!(
                "cargo metadata failed:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let path = |key: &str| -> Result<PathBuf> {
            let text = metadata[key]
                .as_str()
                .with_context(|| format!("cargo metadata says nothing of {key}"))?;
            Ok(PathBuf::from(text))
        };
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
        })
    }

    /// The private Python environment.
    pub fn venv(&self) -> PathBuf {
        self.target.join("venv")
    }

    /// The Python interpreter of the private environment.
    pub fn python(&self) -> PathBuf {
        self.venv().join("bin/python")
    }

    /// A tool of this workspace built for the given cargo profile folder (`debug` or `release`).
    pub fn tool(&self, profile: &str, name: &str) -> PathBuf {
        self.target.join(profile).join(name)
    }

    /// A path relative to the repository, for messages.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// A tool of LLVM or MLIR 22.
pub fn llvm_tool(name: &str) -> PathBuf {
    Path::new(LLVM_BIN).join(name)
}
