//! A kernel on the simulator.

use std::time::Instant;

use anyhow::Context;
use raddle_compiler::codegen::nvptx::{Parameter, Ptx, TensorMap};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_ptxsim::{Argument, Launch, Memory, Module, Pointer, Swizzle};

use super::run::{Before, Delivery, Played};

/// Runs the kernel with every check there is. The seed decides the order in which warps take turns.
///
/// # Errors
/// PTX that the simulator does not know.
pub fn play(
    ptx: &Ptx,
    inputs: &Inputs,
    (delivery, seed): (Delivery, u64),
) -> anyhow::Result<Played> {
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
        arguments: arguments(ptx, &pointers)?,
        delivery: match delivery {
            Delivery::Eager => raddle_ptxsim::Delivery::Eager,
            Delivery::Adversarial => raddle_ptxsim::Delivery::Late,
        },
        seed,
    };
    let start = Instant::now();
    let outcome = entry.run(&mut memory, &launch)?;
    let seconds = start.elapsed().as_secs_f64();
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
                    "{} of warps, {} of them mma.sync, {} wgmma",
                    counters.warp_instructions, counters.matrix_products, counters.group_products
                ),
            ),
            (
                "ldmatrix",
                format!(
                    "{} passes over the banks for {} matrices",
                    counters.matrix_read_passes, counters.matrix_reads
                ),
            ),
            ("TMA copies", counters.tensor_copies.to_string()),
            ("simulated in", format!("{seconds:.3} s")),
        ],
        findings: outcome.findings.iter().map(ToString::to_string).collect(),
    })
}

/// What the kernel is launched with: its pointers, then its tensor maps.
fn arguments(ptx: &Ptx, pointers: &[(Parameter, Pointer)]) -> anyhow::Result<Vec<Argument>> {
    let map = |map: &TensorMap| -> anyhow::Result<Argument> {
        let mut found = pointers.iter();
        let found = found.find(|(parameter, _)| *parameter == map.parameter);
        let (_, pointer) = found.context("a tensor map of no parameter")?;
        Ok(Argument::TensorMap(raddle_ptxsim::TensorMap {
            pointer: *pointer,
            offset_bytes: map.offset_bytes,
            element_bytes: map.element.bytes(),
            extents: map.extents[..map.rank].to_vec(),
            strides_bytes: map.strides_bytes[..map.rank - 1].to_vec(),
            box_extents: map.box_extents[..map.rank].to_vec(),
            swizzle: Swizzle::Bytes128,
        }))
    };
    let pointers = pointers
        .iter()
        .map(|&(_, pointer)| Ok(Argument::Pointer(pointer)));
    pointers.chain(ptx.tensor_maps.iter().map(map)).collect()
}
