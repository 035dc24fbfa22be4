//! Looks for LLVM where the cargo configuration says it is, if the feature `llvm` is on.
//!
//! Without this check a missing LLVM shows as pages of errors from the crates that bind it.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_LLVM").is_none() {
        return;
    }
    const PREFIX: &str = "LLVM_SYS_221_PREFIX";
    println!("cargo::rerun-if-env-changed={PREFIX}");
    let prefix = match env::var(PREFIX) {
        Ok(prefix) => prefix,
        Err(_) => {
            return fail(&format!(
                "{PREFIX} is not set; .cargo/config.toml of this workspace sets it"
            ));
        }
    };
    if !Path::new(&prefix).join("lib").is_dir() {
        return fail(&format!("there is no LLVM in {prefix}"));
    }
    let library = Path::new(&prefix).join("lib").join("libLLVM.so");
    if !library.exists() {
        return fail(&format!(
            "{prefix} has no lib/libLLVM.so: its development files are missing"
        ));
    }
    println!("cargo::rerun-if-changed={}", library.display());
}

fn fail(reason: &str) {
    println!("cargo::error=the feature `llvm` needs LLVM 22: {reason}");
    println!(
        "cargo::error=run `cargo xtask setup`, which installs it; or build without the feature"
    );
}
