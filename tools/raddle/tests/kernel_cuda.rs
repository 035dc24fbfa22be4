//! `raddle kernel --run cuda` and `raddle run --device cuda` where there is no driver, no GPU, or a driver that cannot do it: one clear message each, and
//! never a panic. A stub stands in for libcuda.

use std::path::Path;
use std::process::{Command, Output};

/// Compiles the stub with a fault into a folder, under the driver's name.
fn stub(folder: &Path, fault: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub_libcuda.c");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libcuda.so"))
        .arg(format!("-D{fault}"))
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(status.success());
}

fn run(libraries: &Path) -> Output {
    raddle(
        libraries,
        &[
            "kernel", "--m", "16", "--n", "16", "--k", "16", "--run", "cuda",
        ],
    )
}

fn raddle(libraries: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_raddle"))
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries)
        .env("XDG_CACHE_HOME", libraries)
        // Without ptxas the PTX goes to the driver, which the stub stands for.
        .env("PATH", "")
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("raddle runs")
}

/// What is said of a run that fails with an error.
fn refusal(libraries: &Path) -> String {
    let output = run(libraries);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn refusal_of(fault: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    stub(folder.path(), fault);
    refusal(folder.path())
}

#[test]
fn no_driver() {
    // A file that is no library hides a driver that the machine may have.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("libcuda.so"), "no library").expect("a file");
    std::fs::write(folder.path().join("libcuda.so.1"), "no library").expect("a file");
    let said = refusal(folder.path());
    assert!(said.contains("there is no NVIDIA driver"), "{said}");
}

#[test]
fn no_device() {
    for fault in ["NO_DEVICE", "NONE"] {
        let said = refusal_of(fault);
        assert!(
            said.contains("the NVIDIA driver finds no GPU"),
            "{fault}: {said}"
        );
    }
}

#[test]
fn a_function_is_missing() {
    let said = refusal_of("NO_LAUNCH");
    assert!(
        said.contains("has no `cuLaunchKernelEx`; a driver for CUDA 11.8"),
        "{said}"
    );
}

#[test]
fn the_driver_is_older_than_the_ptx() {
    let said = refusal_of("OLD");
    assert!(
        said.contains("the NVIDIA driver (CUDA 11.8) is older than this PTX"),
        "{said}"
    );
}

#[test]
fn the_gpu_is_another() {
    let said = refusal_of("OTHER");
    assert!(
        said.contains("does not run on Stub, which is sm_80"),
        "{said}"
    );
}

#[test]
fn the_driver_refuses_the_ptx() {
    let said = refusal_of("REFUSED");
    assert!(said.contains("line 7; error : it is a stub"), "{said}");
}

#[test]
fn the_kernel_fails() {
    let said = refusal_of("CRASHED");
    assert!(said.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{said}");
}

/// The list of functions that are looked for beforehand is whole: nothing else is called, or the binding would panic. The
/// stub computes nothing, so the numbers are wrong, which the comparison finds.
#[test]
fn a_kernel_that_writes_nothing_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    stub(folder.path(), "WHOLE");
    let output = run(folder.path());
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said.contains("device:") && said.contains("Stub (sm_80), driver for CUDA 11.8"),
        "{said}"
    );
    assert!(said.contains("256 compared, 256 wrong"), "{said}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// A program on the stub: it is for the stub's architecture, its kernels are launched, and what they should have written is missed.
#[test]
fn a_program_whose_kernels_write_nothing_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    stub(folder.path(), "WHOLE");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layer.mlir");
    let arguments = [
        "run", program, "--device", "cuda", "--steps", "1", "--check",
    ];
    let output = raddle(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("target:      sm_80"), "{said}");
    assert!(said.contains("128 compared, 128 wrong"), "{said}");
    assert!(said.contains("first wrong: out[0] at "), "{said}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_program_without_a_driver() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("libcuda.so"), "no library").expect("a file");
    std::fs::write(folder.path().join("libcuda.so.1"), "no library").expect("a file");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layer.mlir");
    let output = raddle(folder.path(), &["run", program, "--device", "cuda"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("there is no NVIDIA driver"), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// A GPU's times go into the table, beside what the cost model expects; other rows stay.
#[test]
fn tuning_writes_the_times_of_a_gpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("tiles.txt").display().to_string();
    let arguments = ["tune", "--shapes", "8x8x8", "-o", &table];
    stub(folder.path(), "NO_DEVICE");
    let output = raddle(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the NVIDIA driver finds no GPU"), "{said}");
    assert!(!Path::new(&table).exists());

    std::fs::write(
        &table,
        "version 1\nsm_80 bf16 depth outer yes 8 8 8 64x64 1 10 2.5\n",
    )
    .expect("a file");
    stub(folder.path(), "WHOLE");
    let output = raddle(folder.path(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&table).expect("a table");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    // The stub's clock says one millisecond for each way, so the first one stays.
    assert_eq!(rows.len(), 1 + 8, "{text}");
    assert_eq!(rows[0][11], "2.5");
    for row in &rows[1..] {
        assert_eq!(
            (row[0], row[7], row[11]),
            ("sm_80", "8", "1000.0"),
            "{text}"
        );
    }
}
