//! Looks for LLVM, for the feature that uses it, and digests the sources of code generation.

mod find_llvm;

use std::path::Path;
use std::{env, fs, io};

use sha2::{Digest, Sha256};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=find_llvm.rs");
    if let Err(error) = digest_codegen() {
        println!("cargo::error=the sources of code generation cannot be read: {error}");
    }
    if env::var_os("CARGO_FEATURE_LLVM").is_some() {
        find_llvm::find("the feature `llvm`", "libLLVM.so");
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
