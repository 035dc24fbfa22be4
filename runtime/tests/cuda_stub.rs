//! Launches, clusters, streams, events and graphs through the driver's interface, on a stub of libcuda that says what it was
//! asked for. The library is found by the name that the system gives it, so a process of its own loads it.
#![cfg(feature = "cuda")]

use std::path::Path;
use std::process::Command;

use raddle_bundle::kernel::Grid;
use raddle_runtime::device::cuda::{Argument, CudaError, Gpu, Image};

/// Says to the second process that the library it finds is the stub.
const WITH_STUB: &str = "RADDLE_TEST_WITH_STUB";

const GRID: Grid = Grid {
    blocks: 8,
    threads: 128,
    shared_bytes: 1000,
    cluster: 1,
};

/// What the second process does with the driver.
fn drive() -> Result<(), CudaError> {
    let gpu = Gpu::open(0)?;
    assert_eq!(gpu.architecture(), "sm_80");
    let kernel = gpu.load(Image::Ptx(".version 7.0"), "kernel")?;
    kernel.allow_shared_bytes(GRID.shared_bytes)?;
    let buffer = gpu.upload(&[1, 2, 3])?;
    let (first, second) = (gpu.stream()?, gpu.stream()?);
    let pair = Grid { cluster: 2, ..GRID };
    for grid in [GRID, pair] {
        // SAFETY: the stub reads no argument.
        unsafe {
            first.launch(
                &kernel,
                grid,
                &[Argument::Buffer(&buffer), Argument::U32(7)],
            )?
        };
    }
    let start = first.record()?;
    second.wait_for(&start)?;
    let graph = second.capture(|stream| {
        // SAFETY: as above.
        unsafe { stream.launch(&kernel, pair, &[Argument::Buffer(&buffer)]) }
    })?;
    second.play(&graph)?;
    let end = second.record()?;
    second.wait()?;
    assert_eq!(end.since_us(&start)?, 1000.0);
    assert_eq!(buffer.read()?, [1, 2, 3]);
    Ok(())
}

#[test]
fn what_is_launched_reaches_the_driver() {
    if std::env::var_os(WITH_STUB).is_some() {
        drive().unwrap();
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/raddle/tests/stub_libcuda.c");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-DTALKING", "-o"])
        .arg(folder.path().join("libcuda.so"))
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(status.success());
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "what_is_launched_reaches_the_driver",
            "--nocapture",
        ])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(WITH_STUB, "1")
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let told: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("stub: "))
        .collect();
    let expected = [
        "stub: launch 8x1x1 blocks of 128x1x1 threads, 1000 bytes, no cluster",
        "stub: launch 8x1x1 blocks of 128x1x1 threads, 1000 bytes, clusters of 2x1x1",
        "stub: wait for an event",
        "stub: capture",
        "stub: launch 8x1x1 blocks of 128x1x1 threads, 1000 bytes, clusters of 2x1x1",
        "stub: graph launch",
    ];
    assert_eq!(told, expected, "{said}");
}
