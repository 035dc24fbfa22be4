//! Where kernels run: the options that say so, and what they open.

use anyhow::Result;
use clap::{Args, ValueEnum};
use raddle_bundle::KernelImage;
use raddle_compiler::codegen::CodegenError;
use raddle_compiler::codegen::nvptx::{Ptx, Toolkit};
use raddle_runtime::device::cuda::CudaLauncher;
use raddle_runtime::device::launch::Launcher;
use raddle_runtime::device::ptxsim::{self, PtxsimLauncher};

use crate::kernel::store::Store;

/// What runs kernels.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The simulator; no GPU is needed.
    Ptxsim,
    /// The first NVIDIA GPU of this machine.
    Cuda,
}

/// When asynchronous copies arrive.
#[derive(Clone, Copy, ValueEnum)]
pub enum Delivery {
    /// At once.
    Eager,
    /// As late as the waits allow.
    Adversarial,
}

/// How the simulator runs kernels.
#[derive(Clone, Copy, Args)]
pub struct Simulation {
    /// When asynchronous copies arrive, on the simulator.
    #[arg(long, value_enum, default_value_t = Delivery::Adversarial)]
    pub delivery: Delivery,
    /// Multiprocessors of the simulated device: blocks that they do not hold at a time start when others have ended. Left
    /// out, as many as an A100, H100 or B200 has.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sms: Option<u32>,
}

impl Device {
    /// Opens the device. The seed decides the order in which warps take turns on the simulator.
    ///
    /// # Errors
    /// No driver, no GPU.
    pub fn open(self, simulation: Simulation, seed: u64) -> Result<Box<dyn Launcher>> {
        Ok(match self {
            Device::Ptxsim => Box::new(PtxsimLauncher::new(ptxsim::Options {
                delivery: match simulation.delivery {
                    Delivery::Eager => ptxsim::Delivery::Eager,
                    Delivery::Adversarial => ptxsim::Delivery::Late,
                },
                seed,
                multiprocessors: simulation.sms,
            })),
            Device::Cuda => Box::new(CudaLauncher::open(0)?),
        })
    }

    /// A kernel as the device takes it: a GPU gets machine code where ptxas is at hand, else its driver assembles.
    ///
    /// # Errors
    /// What ptxas refuses.
    pub fn image(self, ptx: &Ptx, store: &Store) -> Result<KernelImage, CodegenError> {
        let mut image = ptx.image();
        if self == Device::Cuda {
            image.cubin = match store.assemble(ptx, &Toolkit::discover()) {
                Ok(cubin) => Some(cubin.image),
                Err(CodegenError::ToolMissing { .. }) => None,
                Err(error) => return Err(error),
            };
        }
        Ok(image)
    }
}
