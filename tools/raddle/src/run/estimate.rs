//! How long a run would take, said before it starts.

use anyhow::{Result, bail};
use raddle_compiler::codegen::bundled::KernelWork;

use super::{Options, Where};

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

/// Refuses a run that would take hours, and announces one that takes minutes, given what a step asks of the reference device and of
/// kernels.
pub(super) fn refuse_long(options: &Options, products: u128, work: KernelWork) -> Result<()> {
    let by_kernels = (work.matrix_products + work.scalar_products) as f64;
    let simulated =
        work.matrix_products as f64 / MATRIX_RATE + work.scalar_products as f64 / SCALAR_RATE;
    let by_reference = match (options.device, options.check) {
        (Where::Reference, _) => products as f64,
        (_, false) => products as f64 - by_kernels,
        // Results, sums and magnitudes.
        (_, true) => products as f64 + 2.0 * by_kernels,
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
