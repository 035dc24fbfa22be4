//! Kernels on the simulator: no GPU is needed, every access is checked, and what is wrong is a finding.

use std::time::Instant;

use raddle_bundle::KernelImage;
use raddle_bundle::kernel::{Swizzle, TensorMap};
use raddle_ptxsim::{Argument, Launch, Memory, Module, Outcome, Pointer};

use super::launch::{
    BufferId, Contents, KernelId, Kernels, LaunchError, Launched, Launcher, Table,
};

pub use raddle_ptxsim::Delivery;

/// How the simulator goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// When asynchronous copies arrive.
    pub delivery: Delivery,
    /// Decides the order in which blocks start and warps take turns.
    pub seed: u64,
    /// Multiprocessors of the device; `None` for what a usual one of the kernel's target has.
    pub multiprocessors: Option<u32>,
}

/// The simulator with its memory and the kernels that it has read.
#[derive(Debug)]
pub struct PtxsimLauncher {
    options: Options,
    memory: Memory,
    buffers: Table<(Pointer, usize)>,
    kernels: Kernels<Module>,
}

impl PtxsimLauncher {
    /// A simulator with nothing in its memory.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            memory: Memory::new(),
            buffers: Table::new(),
            kernels: Kernels::new(),
        }
    }
}

impl Launcher for PtxsimLauncher {
    fn architecture(&self) -> Option<String> {
        None
    }

    fn allocate(&mut self, contents: Contents<'_>) -> Result<BufferId, LaunchError> {
        let (pointer, size) = match contents {
            Contents::Bytes(bytes) => (self.memory.allocate(bytes.to_vec()), bytes.len()),
            Contents::Zeros(size) => (self.memory.allocate(vec![0; size]), size),
            Contents::Unwritten(size) => (self.memory.allocate_uninitialised(size), size),
        };
        Ok(self.buffers.add((pointer, size)))
    }

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, LaunchError> {
        let &(pointer, _) = self.buffers.get(buffer)?;
        Ok(self.memory.bytes(pointer).to_vec())
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), LaunchError> {
        let (pointer, _) = self.buffers.take(buffer)?;
        self.memory.free(pointer);
        Ok(())
    }

    fn load(&mut self, image: &KernelImage) -> Result<KernelId, LaunchError> {
        let entry = image.entry.clone();
        let module = Module::parse(&image.ptx).map_err(|source| LaunchError::Simulator {
            entry: entry.clone(),
            source,
        })?;
        if module.kernel(&entry).is_none() {
            return Err(LaunchError::NoEntry(entry));
        }
        Ok(self.kernels.add(image, module))
    }

    fn launch(
        &mut self,
        kernel: KernelId,
        arguments: &[BufferId],
    ) -> Result<Launched, LaunchError> {
        let loaded = self.kernels.get(kernel)?;
        let buffers = loaded.arguments(&self.buffers, arguments, |&(_, size)| size)?;
        let pointers = buffers.iter().map(|buffer| Argument::Pointer(buffer.0));
        let maps = loaded.tensor_maps.iter();
        let maps = maps.map(|map| Argument::TensorMap(encoded(map, buffers[map.parameter].0)));
        let launch = Launch {
            blocks: loaded.grid.blocks,
            threads: loaded.grid.threads,
            shared_bytes: loaded.grid.shared_bytes,
            arguments: pointers.chain(maps).collect(),
            delivery: self.options.delivery,
            seed: self.options.seed,
            multiprocessors: self.options.multiprocessors,
            cluster: loaded.grid.cluster,
            ..Launch::default()
        };
        let entry = loaded.code.kernel(&loaded.entry);
        let entry = entry.ok_or_else(|| LaunchError::NoEntry(loaded.entry.clone()))?;
        let start = Instant::now();
        let outcome =
            entry
                .run(&mut self.memory, &launch)
                .map_err(|source| LaunchError::Simulator {
                    entry: loaded.entry.clone(),
                    source,
                })?;
        Ok(said(&outcome, start.elapsed().as_secs_f64()))
    }
}

/// A tensor map of a buffer.
fn encoded(map: &TensorMap, pointer: Pointer) -> raddle_ptxsim::TensorMap {
    raddle_ptxsim::TensorMap {
        pointer,
        offset_bytes: map.offset_bytes,
        element_bytes: map.element.bytes(),
        extents: map.extents.clone(),
        strides_bytes: map.strides_bytes.clone(),
        box_extents: map.box_extents.clone(),
        swizzle: match map.swizzle {
            Swizzle::None => raddle_ptxsim::Swizzle::None,
            Swizzle::Bytes32 => raddle_ptxsim::Swizzle::Bytes32,
            Swizzle::Bytes64 => raddle_ptxsim::Swizzle::Bytes64,
            Swizzle::Bytes128 => raddle_ptxsim::Swizzle::Bytes128,
        },
    }
}

/// What a run showed, in words.
fn said(outcome: &Outcome, seconds: f64) -> Launched {
    let counters = outcome.counters;
    Launched {
        facts: vec![
            (
                "instructions",
                format!(
                    "{} of warps, {} of them mma.sync, {} wgmma, {} tcgen05.mma",
                    counters.warp_instructions,
                    counters.matrix_products,
                    counters.group_products,
                    counters.tensor_memory_products
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
            (
                "resident",
                format!(
                    "{} blocks on each of {} multiprocessors, by their {}",
                    outcome.residency.blocks,
                    outcome.residency.multiprocessors,
                    outcome.residency.limit
                ),
            ),
            ("simulated in", format!("{seconds:.3} s")),
        ],
        findings: outcome.findings.iter().map(ToString::to_string).collect(),
        kernel_us: None,
    }
}
