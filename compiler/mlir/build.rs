//! Looks for MLIR, and links its C API.
//!
//! Debian ships MLIR's C API as static archives beside one shared `libMLIR.so`, but no `libMLIR-C.so`, which the bindings ask
//! for. A linker script stands in for it, so that LLVM and MLIR are in the process once each.

#[path = "../find_llvm.rs"]
mod find_llvm;

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const PART: &str = "the feature `mlir`";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../find_llvm.rs");
    if let Some(lib) = find_llvm::find(PART, "libMLIR.so")
        && let Err(error) = link_mlir(&lib)
    {
        find_llvm::fail(
            PART,
            &format!("the linker script for its C API cannot be written: {error}"),
        );
    }
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
