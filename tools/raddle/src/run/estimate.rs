//! How long a run would take and how much memory, said before it starts.

use anyhow::{Result, bail};
use raddle_compiler::codegen::bundled::KernelWork;

use super::{Loaded, Options, Where};

/// Multiplications that the reference device does in a second.
const REFERENCE_RATE: f64 = 1e8;

/// Multiplications by matrix instructions that the simulator does in a second; docs/performance.md has the measurements.
const MATRIX_RATE: f64 = 5e8;

/// Multiplications in single precision that the simulator does in a second.
const SCALAR_RATE: f64 = 4e7;

/// Runs beyond this are refused.
const LONGEST_HOURS: f64 = 2.0;

/// Runs beyond this are announced.
const LONG_MINUTES: f64 = 2.0;

/// The most elements that the globals of all ranks may have: the reference device keeps each in eight bytes.
const MOST_ELEMENTS: f64 = (1u64 << 31) as f64;

/// Refuses a program whose state fits no memory.
pub(super) fn refuse_large(loaded: &Loaded) -> Result<()> {
    if loaded.elements > MOST_ELEMENTS {
        let gibibytes = loaded.elements * 8.0 / 2f64.powi(30);
        bail!(
            "the program's state would take about {gibibytes:.0} GiB on the reference device, which holds all ranks; choose a smaller program"
        );
    }
    Ok(())
}

/// Refuses a run that would take hours, and announces one that takes minutes, given what a step asks of the reference device and of
/// kernels.
pub(super) fn refuse_long(options: &Options, products: f64, work: KernelWork) -> Result<()> {
    let (matrix, scalar) = (work.matrix_products as f64, work.scalar_products as f64);
    let by_kernels = matrix + scalar;
    let simulated = matrix / MATRIX_RATE + scalar / SCALAR_RATE;
    let by_reference = match (options.device, options.check) {
        (Where::Reference, _) => products,
        (_, false) => products - by_kernels,
        // Results, sums and magnitudes.
        (_, true) => products + 2.0 * by_kernels,
    };
    let seconds = by_reference.max(0.0) / REFERENCE_RATE
        + if options.device == Where::Ptxsim {
            simulated
        } else {
            0.0
        };
    let minutes = seconds * options.steps as f64 / 60.0;
    let hours = minutes / 60.0;
    if hours > LONGEST_HOURS {
        bail!(
            "this run would take about {hours:.0} hours; run fewer --steps, or a smaller program"
        );
    }
    if minutes > LONG_MINUTES {
        eprintln!("note: this run takes about {minutes:.0} minutes");
    }
    Ok(())
}
