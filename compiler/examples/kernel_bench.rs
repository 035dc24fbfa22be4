//! How long emission takes, kernel by kernel: from a description to PTX, and from a cache on disk. `cargo xtask bench` runs
//! it; by hand, an argument chooses how often each is measured.
//!
//! Exit code 1 if the median of a kernel is above what is promised.

use std::process::ExitCode;

use raddle_compiler::codegen::nvptx::{self, Architecture, KernelCache, Planned, Target};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, Wish,
};

/// Milliseconds from a description to PTX that are promised.
const LIMIT_MS: f64 = 40.0;
/// How often each kernel is emitted unless an argument says otherwise.
const RUNS: usize = 15;

/// What one way of getting a kernel took, in milliseconds.
struct Times {
    median: f64,
    least: f64,
}

fn main() -> ExitCode {
    let runs = std::env::args()
        .nth(1)
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(RUNS)
        .max(1);
    match table(runs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kernel_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn table(runs: usize) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let cache = KernelCache::new(folder.path());
    let clock = Clock;
    println!(
        "CPU time from a description to PTX, in ms, and from the cache on disk ({runs} runs each)"
    );
    println!(
        "{:<44} {:<7} {:>7} {:>7} {:>7} {:>7}  {:>7} {:>7}",
        "kernel", "target", "lines", "first", "median", "least", "cached", "least"
    );
    let mut worst: (f64, String) = (0.0, String::new());
    for (name, kernel, architecture) in kernels() {
        let target = Target::of(architecture);
        // The first one of a process also pays for LLVM's start.
        let (ptx, first) = clock.time(|| nvptx::emit(&kernel, target))?;
        let emitted = clock.times(runs, || nvptx::emit(&kernel, target))?;
        cache.emit(Planned::of(&kernel, target, Wish::default())?)?;
        let cached = clock.times(runs, || {
            cache.emit(Planned::of(&kernel, target, Wish::default())?)
        })?;
        println!(
            "{name:<44} {:<7} {:>7} {first:>7.1} {:>7.1} {:>7.1}  {:>7.2} {:>7.2}",
            architecture.name(),
            ptx.text.lines().count(),
            emitted.median,
            emitted.least,
            cached.median,
            cached.least,
        );
        if emitted.median > worst.0 {
            worst = (emitted.median, format!("{name} on {architecture}"));
        }
    }
    let (median, name) = worst;
    let kept = median <= LIMIT_MS;
    println!(
        "\nms for the slowest kernel, {name}: {median:.1}, promised at most {LIMIT_MS:.1}: {}",
        if kept { "kept" } else { "NOT KEPT" }
    );
    Ok(kept)
}

/// One kernel of each class: the tiles with the most code, every op, every epilogue that is long.
fn kernels() -> Vec<(String, KernelDescription, Architecture)> {
    let product = |element| KernelDescription::product(element, 8192, 8192, 8192);
    let forward = |element, activation| KernelDescription {
        bias: Some(element),
        activation,
        auxiliary: true,
        ..product(element)
    };
    let bf16 = ElementType::Bf16;
    let input_gradient = KernelDescription {
        op: KernelOp::InputGradient,
        activation: Activation::GeluErf,
        ..product(bf16)
    };
    let weight_gradient = KernelDescription {
        op: KernelOp::WeightGradient,
        output: ElementType::F32,
        bias: Some(ElementType::F32),
        accumulate: true,
        ..product(bf16)
    };
    let bias_gradient = KernelDescription {
        op: KernelOp::BiasGradient,
        bias: Some(ElementType::F32),
        ..product(bf16)
    };
    let ragged = KernelDescription {
        m: 1023,
        n: 1021,
        k: 1019,
        a: MatrixLayout::COLUMN_MAJOR,
        b: MatrixLayout::COLUMN_MAJOR,
        ..forward(bf16, Activation::Silu)
    };
    let classes = [
        ("fused-linear bf16", product(bf16)),
        (
            "fused-linear bf16 gelu aux",
            forward(bf16, Activation::GeluTanh),
        ),
        (
            "fused-linear bf16 gelu-erf aux",
            forward(bf16, Activation::GeluErf),
        ),
        ("fused-linear bf16 silu aux, 1023 x 1021 x 1019", ragged),
        (
            "fused-linear f32 gelu aux",
            forward(ElementType::F32, Activation::GeluTanh),
        ),
        ("dx bf16 gelu-erf", input_gradient),
        ("dw bf16 with dbias", weight_gradient),
        ("dbias bf16", bias_gradient),
    ];
    let architectures = [Architecture::Sm80, Architecture::Sm90a];
    classes
        .iter()
        .flat_map(|(name, kernel)| {
            architectures.map(|architecture| ((*name).to_owned(), *kernel, architecture))
        })
        .collect()
}

/// What this thread's processor counts, so that other work on the machine matters little.
struct Clock;

impl Clock {
    /// What some work gives, and the milliseconds of CPU time that it took.
    fn time<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<(T, f64), E> {
        let start = self.now();
        let done = work()?;
        Ok((done, self.now() - start))
    }

    /// The same for several runs.
    fn times<T, E>(&self, runs: usize, work: impl Fn() -> Result<T, E>) -> Result<Times, E> {
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            times.push(self.time(&work)?.1);
        }
        times.sort_by(f64::total_cmp);
        Ok(Times {
            median: times[times.len() / 2],
            least: times[0],
        })
    }

    /// Milliseconds of CPU time so far.
    fn now(&self) -> f64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    }
}
