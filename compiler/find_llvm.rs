//! Looks for LLVM and MLIR where the cargo configuration says they are. A part of the build scripts of the crates that bind them.
//!
//! Without this check a missing LLVM shows as pages of errors from those crates.

use std::env;
use std::path::{Path, PathBuf};

const PREFIX: &str = "RADDLE_LLVM_PREFIX";

/// The library folder under the prefix that the cargo configuration names, if it holds the library. Says what is missing
/// otherwise; `part` is what needs it.
pub fn find(part: &str, library: &str) -> Option<PathBuf> {
    println!("cargo::rerun-if-env-changed={PREFIX}");
    let Ok(prefix) = env::var(PREFIX) else {
        fail(
            part,
            &format!("{PREFIX} is not set; .cargo/config.toml of this workspace sets it"),
        );
        return None;
    };
    let lib = Path::new(&prefix).join("lib");
    if !lib.is_dir() {
        fail(part, &format!("there is no LLVM in {prefix}"));
        return None;
    }
    let path = lib.join(library);
    if !path.exists() {
        fail(
            part,
            &format!("{prefix} has no lib/{library}: its development files are missing"),
        );
        return None;
    }
    println!("cargo::rerun-if-changed={}", path.display());
    Some(lib)
}

/// Stops the build, and says why and what to do.
pub fn fail(part: &str, reason: &str) {
    println!("cargo::error={part} needs LLVM and MLIR 22: {reason}");
    println!(
        "cargo::error=run `cargo xtask setup`, which installs them; or build without the feature"
    );
}
