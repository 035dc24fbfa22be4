//! Debian packages: LLVM and MLIR 22 with their tools, and what the Rust bindings need to find and link them.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::process;

/// Packages every build or test needs, each with the reason.
const PACKAGES: &[(&str, &str)] = &[
    ("llvm-22-dev", "code generation"),
    ("libmlir-22-dev", "stock MLIR passes"),
    ("libpolly-22-dev", "named by llvm-config's link line"),
    ("libclang1-22", "bindings to MLIR's C interface"),
    ("libclang-common-22-dev", "headers libclang reads"),
    ("libzstd-dev", "linking LLVM"),
    ("mlir-22-tools", "mlir-opt-22, the oracle for syntax"),
    ("llvm-22-tools", "FileCheck and not"),
];

/// Installs the packages that are missing; true if there were any.
///
/// # Errors
/// When packages are missing and this process may not install them, or installing fails.
pub fn install_missing(python_found: bool) -> Result<bool> {
    let missing = missing_packages(python_found);
    if missing.is_empty() {
        return Ok(false);
    }
    let by_hand = format!(
        "apt-get update && apt-get install -y --no-install-recommends {}",
        missing.join(" ")
    );
    if !has_program("apt-get") {
        bail!(
            "these Debian packages are missing, and this system has no apt-get: {}\n\
             install what they hold (LLVM and MLIR 22 below /usr/lib/llvm-22), or on Debian run:\n    {by_hand}",
            missing.join(" ")
        );
    }
    if !is_root() {
        bail!(
            "these Debian packages are missing, and only root may install them; run:\n    sudo sh -c '{by_hand}'"
        );
    }
    println!("set-up: installing Debian packages: {}", missing.join(" "));
    let known = missing.iter().all(|package| has_candidate(package));
    if known && install(&missing).is_ok() {
        return Ok(true);
    }
    println!("set-up: reading the package lists anew");
    process::run(apt_get().arg("update"))?;
    let unknown: Vec<_> = missing
        .iter()
        .filter(|p| !has_candidate(p))
        .copied()
        .collect();
    if !unknown.is_empty() {
        bail!(
            "apt knows no package {}\n\
             Debian 12 has LLVM 22 in its security archive: add the suite bookworm-security to apt's sources, then run:\n    {by_hand}",
            unknown.join(", ")
        );
    }
    if let Err(error) = install(&missing) {
        bail!("{error}\nto try by hand, run:\n    {by_hand}");
    }
    Ok(true)
}

fn missing_packages(python_found: bool) -> Vec<&'static str> {
    let mut missing: Vec<_> = PACKAGES
        .iter()
        .map(|&(package, _)| package)
        .filter(|package| !is_installed(package))
        .collect();
    // Any C++ compiler and any Python that can make environments will do.
    if !has_program("c++") {
        missing.push("g++");
    }
    if !python_found {
        missing.push("python3-venv");
    }
    missing
}

fn install(packages: &[&str]) -> Result<()> {
    process::run(
        apt_get()
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages),
    )
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
        .stdin(Stdio::null());
    command
}

fn is_installed(package: &str) -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}\n", package])
        .output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .any(|status| status == "installed")
    })
}

fn has_candidate(package: &str) -> bool {
    let output = Command::new("apt-cache").args(["policy", package]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Candidate:"))
            .any(|version| version.trim() != "(none)")
    })
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn has_program(name: &str) -> bool {
    Command::new(name)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_nobody_has_is_missing() {
        assert!(!is_installed("raddle-no-such-package"));
        assert!(!has_candidate("raddle-no-such-package"));
        assert!(!has_program("raddle-no-such-program"));
    }

    #[test]
    fn python_is_asked_for_only_where_none_is_found() {
        assert!(missing_packages(false).contains(&"python3-venv"));
        assert!(!missing_packages(true).contains(&"python3-venv"));
    }
}
