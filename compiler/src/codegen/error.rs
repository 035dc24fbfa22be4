//! What can go wrong between a kernel's description and its code.

use std::path::PathBuf;

use thiserror::Error;

/// A reason why no kernel came out.
#[derive(Debug, Error)]
pub enum CodegenError {
    /// A description that means nothing, such as an extent of zero or a leading dimension shorter than a line.
    #[error("{0}")]
    InvalidDescription(String),
    /// A kernel that Raddle does not emit.
    #[error("{what} is not supported: {hint}")]
    Unsupported {
        /// The part of the description that cannot be had.
        what: String,
        /// What to use instead.
        hint: String,
    },
    /// A name that is no target.
    #[error("unknown target `{0}`; known targets are {known}", known = crate::codegen::nvptx::Architecture::names())]
    UnknownTarget(String),
    /// A PTX version that the architecture, or LLVM, does not know.
    #[error("{architecture} cannot be written in PTX {requested}; it takes {lowest} to {highest}")]
    PtxVersion {
        /// The architecture's name.
        architecture: &'static str,
        /// What was asked for.
        requested: crate::codegen::nvptx::PtxVersion,
        /// The first version that knows the architecture.
        lowest: crate::codegen::nvptx::PtxVersion,
        /// The last version that LLVM writes.
        highest: crate::codegen::nvptx::PtxVersion,
    },
    /// A table of tiles that cannot be read.
    #[error("the table of tiles, line {line}: {reason}")]
    TileTable {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// LLVM refused the module: a fault of Raddle, never of the description.
    #[error("LLVM refused the kernel ({stage}): {message}")]
    Llvm {
        /// Which step failed.
        stage: &'static str,
        /// LLVM's own words.
        message: String,
    },
    /// PTX that calls functions which do not exist: a misspelt intrinsic that LLVM took for an external function.
    #[error("the emitted PTX still calls {}", .0.join(", "))]
    LeftoverExternals(Vec<String>),
    /// One of NVIDIA's programs is not installed.
    #[error("cannot find `{program}`; looked in {}\nrun `cargo xtask setup`, which installs it, or put it on PATH", folder_list(.searched))]
    ToolMissing {
        /// The program's name.
        program: &'static str,
        /// The folders that were searched.
        searched: Vec<PathBuf>,
    },
    /// One of NVIDIA's programs failed.
    #[error("`{program}` failed:\n{output}")]
    ToolFailed {
        /// The program's name.
        program: &'static str,
        /// What it printed.
        output: String,
    },
    /// What one of NVIDIA's programs printed cannot be read.
    #[error("cannot read what `{program}` printed: {reason}")]
    ToolOutput {
        /// The program's name.
        program: &'static str,
        /// What was missing.
        reason: String,
    },
    /// A file or a process could not be used.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl CodegenError {
    /// Whether something else must be asked for, rather than something be mended.
    pub const fn concerns_options(&self) -> bool {
        matches!(
            self,
            CodegenError::InvalidDescription(_)
                | CodegenError::Unsupported { .. }
                | CodegenError::UnknownTarget(_)
                | CodegenError::PtxVersion { .. }
        )
    }
}

fn folder_list(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "no folder at all".to_owned();
    }
    let names: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    names.join(", ")
}
