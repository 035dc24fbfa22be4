//! `gpu-check` where there is no driver, no GPU or no cuBLASLt: one clear message each. Stubs stand in for both libraries; they
//! compute nothing, so every number is wrong, and the check must say so.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Compiles a stub into a folder, under a library's name.
fn stub(folder: &Path, (source, library): (&str, &str), variant: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join(library))
        .arg(format!("-D{variant}"))
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(status.success());
}

const CUDA: (&str, &str) = ("../raddle/tests/stub_libcuda.c", "libcuda.so");
const CUBLASLT: (&str, &str) = ("tests/stub_libcublaslt.c", "libcublasLt.so.13");

fn check(libraries: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpu-check"))
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries)
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("gpu-check runs")
}

/// What is said of a run that fails with an error.
fn refusal(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("error: ") && said.lines().count() == 1,
        "{said}"
    );
    said
}

#[test]
fn no_driver_and_no_gpu() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libcuda.so"), "no library").expect("a file");
    fs::write(folder.path().join("libcuda.so.1"), "no library").expect("a file");
    let said = refusal(&check(folder.path(), &[]));
    assert!(said.contains("there is no NVIDIA driver"), "{said}");
    for fault in ["NO_DEVICE", "NONE"] {
        let folder = tempfile::tempdir().expect("a folder");
        stub(folder.path(), CUDA, fault);
        let said = refusal(&check(folder.path(), &[]));
        assert!(said.contains("finds no GPU"), "{said}");
    }
}

#[test]
fn no_cublaslt() {
    let folder = tempfile::tempdir().expect("a folder");
    stub(folder.path(), CUDA, "WHOLE");
    let file = folder.path().join("libcublasLt.so.13");
    fs::write(&file, "no library").expect("a file");
    let file = file.display().to_string();
    let said = refusal(&check(folder.path(), &["--cublaslt", &file]));
    assert!(said.contains("cuBLASLt cannot be loaded"), "{said}");
    assert!(said.contains("--without-cublaslt"), "{said}");
}

#[test]
fn kernels_that_write_nothing_are_wrong_and_those_of_cublaslt_are_timed() {
    let folder = tempfile::tempdir().expect("a folder");
    stub(folder.path(), CUDA, "WHOLE");
    stub(folder.path(), CUBLASLT, "WHOLE");
    let json = folder.path().join("figures.json");
    let figures = json.display().to_string();
    let arguments = ["--only", "bf16 tiny", "--json", &figures];
    let output = check(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    assert!(
        said.contains("Stub (sm_80)") && said.contains("cuBLASLt 13.4.0"),
        "{said}"
    );
    assert!(said.contains("0 of 5 kernels are right"), "{said}");

    let arguments = [
        "--only",
        ", bf16",
        "--shrink",
        "64",
        "--seed",
        "3",
        "--json",
        &figures,
        "--minutes",
        "30",
    ];
    let output = check(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = fs::read_to_string(&json).expect("the figures");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let large = figures["large"].as_array().expect("a list");
    assert!(large.len() >= 10, "{said}");
    for kernel in large {
        // The stub's clock says one millisecond, for both.
        assert_eq!(kernel["us"], 1000.0, "{kernel}");
        assert!(kernel["wrong"].as_u64() > Some(0), "{kernel}");
        let name = kernel["name"].as_str().expect("a name");
        let has_peer = !name.starts_with("dBias");
        assert_eq!(kernel["peer_us"].is_number(), has_peer, "{kernel}");
    }
}

#[test]
fn what_cublaslt_cannot_do_is_noted() {
    for (variant, note) in [
        ("NO_ALGORITHM", "cuBLASLt has no such kernel"),
        ("NO_MULTIPLY", "cuBLASLt has no `cublasLtMatmul`"),
        (
            "FAILING",
            "cublasLtMatmul fails with status 13 said the stub",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        stub(folder.path(), CUDA, "WHOLE");
        stub(folder.path(), CUBLASLT, variant);
        let json = folder.path().join("figures.json");
        let figures = json.display().to_string();
        let arguments = [
            "--only",
            "plain, few",
            "--shrink",
            "128",
            "--json",
            &figures,
        ];
        let output = check(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = fs::read_to_string(&json).expect("the figures");
        let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let said = figures["large"][0]["peer_note"].as_str();
        assert!(said.is_some_and(|said| said.contains(note)), "{text}");
        assert!(text.contains("\"peer_us\": null"), "{text}");
    }
}

#[test]
fn a_prepared_folder_needs_no_emitter() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernels = folder.path().join("kernels");
    let kernels = kernels.display().to_string();
    let only = ["--only", "dbias bf16 tiny"];
    let missing = refusal(&check(
        folder.path(),
        &["--prepared", &kernels, "--without-cublaslt"],
    ));
    assert!(
        missing.contains("there is no NVIDIA driver") || missing.contains("--prepare"),
        "{missing}"
    );
    let made = check(
        folder.path(),
        &[&["--prepare", &kernels][..], &only].concat(),
    );
    assert!(made.status.success(), "{made:?}");
    stub(folder.path(), CUDA, "WHOLE");
    let arguments = [&["--prepared", &kernels, "--without-cublaslt"][..], &only].concat();
    let output = check(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("0 of 1 kernels are right"), "{output:?}");
    assert!(said.contains("WRONG: 3"), "{said}");
    // A kernel that is not in the folder is named as such.
    let arguments = [
        "--prepared",
        &kernels,
        "--without-cublaslt",
        "--only",
        "dbias f16 tiny",
    ];
    let output = check(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("holds no such kernel for sm_80"), "{said}");
}

#[test]
fn time_that_does_not_suffice_is_no_success() {
    let folder = tempfile::tempdir().expect("a folder");
    stub(folder.path(), CUDA, "WHOLE");
    let arguments = [
        "--minutes",
        "0",
        "--without-cublaslt",
        "--only",
        "bf16 tiny",
    ];
    let output = check(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("not run: 0 minutes are over"), "{said}");
}
