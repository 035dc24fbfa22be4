//! A kernel on a GPU.

use anyhow::Context;
use raddle_compiler::codegen::nvptx::{Parameter, Ptx, Toolkit};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_compiler::codegen::{CodegenError, ElementType};
use raddle_runtime::device::cuda::{
    Argument, Buffer, Element, Gpu, Grid, Image, Swizzle, TensorMap, Tile,
};

use super::run::{Before, Played};

/// Launches of which the fastest is reported.
const TIMED_LAUNCHES: usize = 5;

/// Runs the kernel on the first GPU, assembled by ptxas where it is at hand, else by the driver.
///
/// # Errors
/// No driver, no GPU, a driver too old for the PTX, and whatever else the driver refuses.
pub fn play(ptx: &Ptx, inputs: &Inputs, toolkit: &Toolkit) -> anyhow::Result<Played> {
    let gpu = Gpu::open(0)?;
    let cubin = match toolkit.assemble(ptx) {
        Ok(cubin) => Some(cubin),
        Err(CodegenError::ToolMissing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let image = match &cubin {
        Some(cubin) => Image::Cubin(&cubin.image),
        None => Image::Ptx(&ptx.text),
    };
    let kernel = gpu.load(image, &ptx.entry)?;
    kernel.allow_shared_bytes(ptx.launch.shared_bytes)?;
    let mut buffers: Vec<(Parameter, Buffer)> = ptx
        .parameters
        .as_slice()
        .iter()
        .map(|&parameter| {
            let buffer = match Before::of(parameter, ptx, inputs) {
                Before::Bytes(bytes) => gpu.upload(&bytes)?,
                Before::Unwritten(size) => gpu.poisoned(size)?,
            };
            anyhow::Ok((parameter, buffer))
        })
        .collect::<anyhow::Result<_>>()?;
    let maps = tensor_maps(&gpu, ptx, &buffers)?;
    let grid = Grid {
        blocks: ptx.launch.blocks,
        threads: ptx.launch.threads,
        shared_bytes: ptx.launch.shared_bytes,
        cluster: 1,
    };
    let stream = gpu.stream()?;
    let launch = |buffers: &[(Parameter, Buffer)]| {
        let arguments: Vec<Argument<'_>> = buffers
            .iter()
            .map(|(_, buffer)| Argument::Buffer(buffer))
            .chain(maps.iter().map(Argument::TensorMap))
            .collect();
        let start = stream.record()?;
        // SAFETY: the kernel was emitted with these parameters for matrices of these sizes, and the stream is waited for
        // before the buffers go.
        unsafe { stream.launch(&kernel, grid, &arguments)? };
        let end = stream.record()?;
        stream.wait()?;
        end.since_us(&start)
    };
    launch(&buffers)?;
    let written = buffers
        .iter()
        .filter(|(parameter, _)| parameter.is_written())
        .map(|(parameter, buffer)| Ok((*parameter, buffer.read()?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut best_us = f64::INFINITY;
    for _ in 0..TIMED_LAUNCHES {
        best_us = best_us.min(launch(&buffers)?);
    }
    buffers.clear();
    let flops = ptx.kernel.flops() as f64;
    Ok(Played {
        written,
        facts: vec![
            (
                "device",
                format!("{gpu:?}, driver for CUDA {}", gpu.driver_version()),
            ),
            (
                "time",
                format!("{best_us:.1} us, {:.1} TFLOP/s", flops / best_us / 1e6),
            ),
        ],
        findings: vec![],
    })
}

/// The kernel's tensor maps, of the buffers that its pointers are set to.
fn tensor_maps(
    gpu: &Gpu,
    ptx: &Ptx,
    buffers: &[(Parameter, Buffer)],
) -> anyhow::Result<Vec<TensorMap>> {
    let maps = ptx.tensor_maps.iter().map(|map| {
        let mut found = buffers.iter();
        let found = found.find(|(parameter, _)| *parameter == map.parameter);
        let (_, buffer) = found.context("a tensor map of no parameter")?;
        let tile = Tile {
            extents: &map.extents[..map.rank],
            strides_bytes: &map.strides_bytes[..map.rank - 1],
            tile: &map.box_extents[..map.rank],
            offset: map.offset_bytes / u64::from(map.element.bytes()),
            element: match map.element {
                ElementType::Bf16 => Element::Bf16,
                ElementType::F16 => Element::F16,
                ElementType::F32 => Element::F32,
            },
            swizzle: Swizzle::Bytes128,
        };
        Ok(gpu.tensor_map(buffer, tile)?)
    });
    maps.collect()
}
