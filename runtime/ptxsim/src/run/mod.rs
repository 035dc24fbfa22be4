//! Running a launch: blocks side by side on the host's threads, each for itself.

mod access;
mod arithmetic;
mod atomic;
mod barrier;
mod block;
mod cluster;
mod matrix;
mod occupancy;
mod order;
mod registers;
mod report;
mod rounds;
mod step;
mod tensor;
mod tensor_memory;
mod tensor_move;
mod tensor_product;
mod tf32;
mod tile;
mod warp;
mod warpgroup;

use std::collections::HashMap;
use std::ops::AddAssign;

use crate::error::Error;
use crate::finding::Finding;
use crate::instruction::Operation;
use crate::memory::{Memory, Pointer};
use crate::parse::Kernel;
use crate::tensor_map::TensorMap;
use block::Shape;

/// Where the generic address space shows a kernel's parameters.
const PARAMETER_WINDOW: u64 = 0x6000_0000_0000;

/// Bytes of a tensor map among the parameters.
const TENSOR_MAP_BYTES: u32 = 128;

/// A kernel's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// An address in global memory.
    Pointer(Pointer),
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
    /// A tensor map: a parameter of 128 bytes.
    TensorMap(TensorMap),
}

/// When asynchronous copies arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// At once.
    #[default]
    Eager,
    /// As late as the waits allow: when the thread waits for them, or, where a barrier in shared memory says that they
    /// have arrived, when nobody can go on without them.
    Late,
}

/// How a kernel is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks, in one dimension.
    pub blocks: u32,
    /// Threads of a block, in one dimension: a multiple of 32, at most 1024.
    pub threads: u32,
    /// Bytes of shared memory that the launch adds to those that the kernel declares.
    pub shared_bytes: u32,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
    /// When asynchronous copies arrive.
    pub delivery: Delivery,
    /// Blocks of a cluster: neighbours that use each other's shared memory.
    pub cluster: u32,
    /// Multiprocessors of the device; `None` for what an A100, H100 or B200 has, by the module's target. Blocks beyond those
    /// that they hold start when others have ended.
    pub multiprocessors: Option<u32>,
    /// Registers of a thread, as far as they are known and the kernel does not say itself: they decide how many blocks a
    /// multiprocessor holds.
    pub registers: Option<u32>,
    /// Decides the order in which blocks start, the warps of a block take turns, and blocks that hear of each other are
    /// heard; 0 keeps all in the order of their numbers.
    pub seed: u64,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            blocks: 1,
            threads: 32,
            shared_bytes: 0,
            arguments: Vec::new(),
            delivery: Delivery::default(),
            cluster: 1,
            multiprocessors: None,
            registers: None,
            seed: 0,
        }
    }
}

/// What a run showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Faults, each line of the PTX at most once for each kind. None means that the run is clean.
    pub findings: Vec<Finding>,
    /// What was counted.
    pub counters: Counters,
    /// How many blocks were resident at a time.
    pub residency: Residency,
}

/// How many blocks are resident at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// Blocks that a multiprocessor holds at a time.
    pub blocks: u32,
    /// What a multiprocessor has no more of for another block.
    pub limit: &'static str,
    /// Clusters that the device holds at a time.
    pub clusters: u32,
}

impl Outcome {
    /// Adds what one block showed.
    fn add(&mut self, other: Outcome) {
        self.counters += other.counters;
        for finding in other.findings {
            let known =
                |one: &Finding| one.kind == finding.kind && one.place.line == finding.place.line;
            if !self.findings.iter().any(known) {
                self.findings.push(finding);
            }
        }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions, counted once for a warp.
    pub warp_instructions: u64,
    /// `mma.sync`
    pub matrix_products: u64,
    /// Rows of eight matrices' rows that `ldmatrix` read, and the passes over the banks that they took: equal without bank
    /// conflicts.
    pub matrix_reads: u64,
    /// See [`Counters::matrix_reads`].
    pub matrix_read_passes: u64,
    /// `cp.async` instructions of a thread that brought at least a byte.
    pub copies: u64,
    /// `wgmma`, counted once for a warp.
    pub group_products: u64,
    /// `tcgen05.mma`
    pub tensor_memory_products: u64,
    /// Copies of boxes of a tensor map, either way.
    pub tensor_copies: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.warp_instructions += other.warp_instructions;
        self.matrix_products += other.matrix_products;
        self.matrix_reads += other.matrix_reads;
        self.matrix_read_passes += other.matrix_read_passes;
        self.copies += other.copies;
        self.group_products += other.group_products;
        self.tensor_memory_products += other.tensor_memory_products;
        self.tensor_copies += other.tensor_copies;
    }
}

/// The most threads of a block.
const MOST_THREADS: u32 = 1024;

impl Kernel {
    /// Runs the kernel. Results are in `memory` afterwards; what was wrong is in the outcome.
    ///
    /// # Errors
    /// [`Error::Launch`] if the launch does not fit the kernel.
    pub fn run(&self, memory: &mut Memory, launch: &Launch) -> Result<Outcome, Error> {
        let threads = launch.threads;
        if threads == 0 || threads > MOST_THREADS || !threads.is_multiple_of(32) {
            return Err(Error::Launch(format!(
                "{threads} threads in a block; it takes a multiple of 32 up to {MOST_THREADS}"
            )));
        }
        if let Some(required) = self
            .required_threads
            .filter(|&required| required != threads)
        {
            return Err(Error::Launch(format!(
                "{threads} threads in a block; the kernel requires {required}"
            )));
        }
        let residency = occupancy::residency(self, launch)?;
        let mut uses_tensor_memory = self.instructions.iter().map(|one| one.operation);
        if launch.cluster > 1
            && uses_tensor_memory.any(|one| matches!(one, Operation::TensorMemory(_)))
        {
            return Err(Error::Launch(
                "tensor memory in clusters of several blocks is not modelled".to_owned(),
            ));
        }
        let (parameters, maps) = self.lay_out(&launch.arguments)?;
        let shape = Shape {
            kernel: self,
            residency,
            launch,
            parameters: &parameters,
            maps: &maps,
        };
        Ok(rounds::run(&shape, memory))
    }

    /// The bytes of all parameters, and the tensor maps among them by their places.
    fn lay_out(&self, arguments: &[Argument]) -> Result<(Vec<u8>, HashMap<u32, TensorMap>), Error> {
        if arguments.len() != self.parameters.len() {
            return Err(Error::Launch(format!(
                "{} arguments for {} parameters",
                arguments.len(),
                self.parameters.len()
            )));
        }
        let mut bytes = Vec::new();
        let mut maps = HashMap::new();
        for (parameter, argument) in self.parameters.iter().zip(arguments) {
            let (value, size) = match argument {
                Argument::Pointer(pointer) => (pointer.address(), 8),
                Argument::U64(value) => (*value, 8),
                Argument::U32(value) => (u64::from(*value), 4),
                Argument::TensorMap(map) => {
                    map.validate()?;
                    maps.insert(parameter.offset, map.clone());
                    (0, TENSOR_MAP_BYTES)
                }
            };
            if size != parameter.bytes {
                return Err(Error::Launch(format!(
                    "an argument of {size} bytes for `{}`, which has {}",
                    parameter.name, parameter.bytes
                )));
            }
            bytes.resize(parameter.offset as usize, 0);
            bytes.extend(&value.to_le_bytes()[..size.min(8) as usize]);
            bytes.resize((parameter.offset + size) as usize, 0);
        }
        Ok((bytes, maps))
    }
}
