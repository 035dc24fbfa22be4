//! Looks for LLVM and MLIR where the cargo configuration says they are, for the features that use them.
//!
//! Without this check a missing LLVM shows as pages of errors from the crates that bind it. For MLIR there is one thing more
//! to do: Debian ships MLIR's C API as static archives beside one shared `libMLIR.so`, but no `libMLIR-C.so`, which the
//! bindings ask for. A linker script stands in for it, so that LLVM and MLIR are in the process once each.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

const PREFIX: &str = "RADDLE_LLVM_PREFIX";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(error) = digest_codegen() {
        println!("cargo::error=the sources of code generation cannot be read: {error}");
    }
    if enabled("LLVM") {
        find("llvm", "libLLVM.so");
    }
    if enabled("MLIR")
        && let Some(lib) = find("mlir", "libMLIR.so")
        && let Err(error) = link_mlir(&lib)
    {
        fail(
            "mlir",
            &format!("the linker script for its C API cannot be written: {error}"),
        );
    }
}

/// Gives the crate a digest of the sources that decide what a kernel's code is, for the names of kernels that are kept on disk.
fn digest_codegen() -> io::Result<()> {
    let root = Path::new("src/codegen");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let text = fs::read(&file)?;
        digest.update(file.to_string_lossy().as_bytes());
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    let digest: String = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=RADDLE_CODEGEN_DIGEST={digest}");
    Ok(())
}

fn enabled(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
}

/// The library folder under the prefix that the cargo configuration names, if it holds the library.
fn find(feature: &str, library: &str) -> Option<PathBuf> {
    println!("cargo::rerun-if-env-changed={PREFIX}");
    let Ok(prefix) = env::var(PREFIX) else {
        fail(
            feature,
            &format!("{PREFIX} is not set; .cargo/config.toml of this workspace sets it"),
        );
        return None;
    };
    let lib = Path::new(&prefix).join("lib");
    if !lib.is_dir() {
        fail(feature, &format!("there is no LLVM in {prefix}"));
        return None;
    }
    let path = lib.join(library);
    if !path.exists() {
        fail(
            feature,
            &format!("{prefix} has no lib/{library}: its development files are missing"),
        );
        return None;
    }
    println!("cargo::rerun-if-changed={}", path.display());
    Some(lib)
}

fn fail(feature: &str, reason: &str) {
    println!("cargo::error=the feature `{feature}` needs LLVM and MLIR 22: {reason}");
    println!(
        "cargo::error=run `cargo xtask setup`, which installs them; or build without the feature"
    );
}

/// Writes the linker script, and lets this crate's tests find `libMLIR.so`, which is not in the system's search path.
fn link_mlir(lib: &Path) -> io::Result<()> {
    let mut archives = Vec::new();
    for entry in fs::read_dir(lib)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if name.starts_with("libMLIRCAPI") && name.ends_with(".a") {
            archives.push(path.display().to_string());
        }
    }
    archives.sort();
    let script = format!(
        "INPUT( {} {}/libMLIR.so )\n",
        archives.join(" "),
        lib.display()
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("libMLIR-C.so"), script)?;
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
    Ok(())
}
