//! What a user reads where LLVM is missing or of another version: the advice of `.cargo/llvm/bin/llvm-config`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the crates that bind LLVM and MLIR get when they ask for the version.
fn version(prefix: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cargo/llvm/bin/llvm-config");
    let output = Command::new(script)
        .args(["--link-shared", "--version"])
        .env("RADDLE_LLVM_PREFIX", prefix)
        .output()
        .expect("the script runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A prefix whose llvm-config says that it is of `version`, with these files below it.
fn prefix(dir: &Path, version: &str, files: &[&str]) -> PathBuf {
    let root = dir.join("llvm");
    for file in files.iter().chain(&["bin/llvm-config"]) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, format!("#!/bin/sh\necho {version}\n")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    root
}

const WHOLE: [&str; 3] = ["lib/libLLVM.so", "lib/libMLIR.so", "include/mlir-c/IR.h"];

#[test]
fn a_whole_llvm_is_passed_on() {
    let dir = tempfile::tempdir().expect("a folder");
    assert_eq!(version(&prefix(dir.path(), "22.1.8", &WHOLE)), "22.1.8\n");
}

#[test]
fn what_is_missing_is_named_with_the_command_that_brings_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let nowhere = version(&dir.path().join("nowhere"));
    assert!(
        nowhere.contains("there is no bin/llvm-config in"),
        "{nowhere}"
    );
    assert!(nowhere.contains("run `cargo xtask setup`"), "{nowhere}");

    for (at, file) in WHOLE.iter().enumerate() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut files = WHOLE.to_vec();
        files.remove(at);
        let advice = version(&prefix(dir.path(), "22.1.8", &files));
        assert!(advice.starts_with("none that will do"), "{file}: {advice}");
    }
}

#[test]
fn another_version_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let advice = version(&prefix(dir.path(), "21.1.0", &WHOLE));
    assert!(
        advice.contains("holds LLVM 21.1.0; run `cargo xtask setup`"),
        "{advice}"
    );
}
