//! A kernel on the simulator.

use anyhow::Context;
use raddle_compiler::codegen::nvptx::{Parameter, Ptx};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_ptxsim::{Argument, Launch, Memory, Module, Pointer};

use super::run::{Before, Delivery, Played};

/// Runs the kernel with every check there is.
///
/// # Errors
/// PTX that the simulator does not know.
pub fn play(ptx: &Ptx, inputs: &Inputs, delivery: Delivery) -> anyhow::Result<Played> {
    let module = Module::parse(&ptx.text).context("the emitted PTX")?;
    let entry = module
        .kernel(&ptx.entry)
        .context("the emitted PTX has no entry point")?;
    let mut memory = Memory::new();
    let pointers: Vec<(Parameter, Pointer)> = ptx
        .parameters
        .as_slice()
        .iter()
        .map(|&parameter| {
            let pointer = match Before::of(parameter, ptx, inputs) {
                Before::Bytes(bytes) => memory.allocate(bytes),
                Before::Unwritten(size) => memory.allocate_uninitialised(size),
            };
            (parameter, pointer)
        })
        .collect();
    let launch = Launch {
        blocks: ptx.launch.blocks,
        threads: ptx.launch.threads,
        shared_bytes: ptx.launch.shared_bytes,
        arguments: pointers
            .iter()
            .map(|&(_, pointer)| Argument::Pointer(pointer))
            .collect(),
        delivery: match delivery {
            Delivery::Eager => raddle_ptxsim::Delivery::Eager,
            Delivery::Adversarial => raddle_ptxsim::Delivery::Late,
        },
    };
    let outcome = entry.run(&mut memory, &launch)?;
    let counters = outcome.counters;
    Ok(Played {
        written: pointers
            .iter()
            .filter(|(parameter, _)| parameter.is_written())
            .map(|&(parameter, pointer)| (parameter, memory.bytes(pointer).to_vec()))
            .collect(),
        facts: vec![
            (
                "instructions",
                format!(
                    "{} of warps, {} of them mma.sync",
                    counters.warp_instructions, counters.matrix_products
                ),
            ),
            (
                "ldmatrix",
                format!(
                    "{} passes over the banks for {} matrices",
                    counters.matrix_read_passes, counters.matrix_reads
                ),
            ),
        ],
        findings: outcome.findings.iter().map(ToString::to_string).collect(),
    })
}
