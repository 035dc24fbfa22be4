//! Launching kernels, the same way on a GPU and on the simulator of one.
//!
//! ```text
//! allocate ──▶ buffers ─┐
//! load     ──▶ kernel ──┴─▶ launch ──▶ read, free
//! ```
//!
//! A [`Launcher`] keeps buffers and kernels under numbers, so that whoever launches need not know what they are. What is the same for
//! every launcher is checked here: a kernel gets as many buffers as it has pointers, each as large as the kernel's accesses reach.

mod prepared;
mod table;

use raddle_bundle::KernelImage;

pub use prepared::PreparedKernel;
pub(super) use table::{Kernels, Table};

/// A buffer of a launcher.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferId(usize);

/// A kernel that a launcher has loaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelId(usize);

/// What a new buffer holds.
#[derive(Clone, Copy, Debug)]
pub enum Contents<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This many zeros.
    Zeros(usize),
    /// This many bytes that nobody has written: as numbers, NaN. The simulator reports whoever reads them.
    Unwritten(usize),
}

/// What there is to say of a launch that has ended.
#[derive(Clone, Debug, Default)]
pub struct Launched {
    /// Facts for the user, each with its name.
    pub facts: Vec<(&'static str, String)>,
    /// What the run found wrong with the kernel, at most one of a kind a line.
    pub findings: Vec<String>,
    /// Microseconds that the kernel took, where the device has a clock.
    pub kernel_us: Option<f64>,
}

/// Why a kernel cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The driver, or the GPU.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] super::cuda::CudaError),
    /// PTX that the simulator does not know, or a launch that no GPU takes.
    #[cfg(feature = "ptxsim")]
    #[error("{entry}: {source}")]
    Simulator {
        /// The kernel.
        entry: String,
        /// What the simulator says.
        source: raddle_ptxsim::Error,
    },
    /// Code without the kernel.
    #[error("the module has no entry point `{0}`")]
    NoEntry(String),
    /// Buffers that do not fit the kernel's pointers.
    #[error("{entry}: {what}")]
    Arguments {
        /// The kernel.
        entry: String,
        /// What does not fit.
        what: String,
    },
    /// A number of something that was freed before, or that another launcher gave.
    #[error("the launcher holds no such {0}")]
    NotHeld(&'static str),
}

/// Runs kernels.
pub trait Launcher {
    /// The architecture that kernels must be for, in ptxas's words and without the suffix of its own features (`sm_90`); `None` if any
    /// will do.
    fn architecture(&self) -> Option<String>;

    /// Makes a buffer, aligned to 256 bytes.
    ///
    /// # Errors
    /// If the device has no room.
    fn allocate(&mut self, contents: Contents<'_>) -> Result<BufferId, LaunchError>;

    /// What a buffer holds.
    ///
    /// # Errors
    /// [`LaunchError::NotHeld`], or if the device fails.
    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, LaunchError>;

    /// Gives a buffer back.
    ///
    /// # Errors
    /// [`LaunchError::NotHeld`].
    fn free(&mut self, buffer: BufferId) -> Result<(), LaunchError>;

    /// Loads a kernel.
    ///
    /// # Errors
    /// If the device does not take its code.
    fn load(&mut self, image: &KernelImage) -> Result<KernelId, LaunchError>;

    /// Runs a kernel on buffers, one for each of its pointers in order, and waits for it.
    ///
    /// # Errors
    /// [`LaunchError::Arguments`], [`LaunchError::NotHeld`], or if the device fails. What a simulator finds wrong is no error but in the result.
    fn launch(&mut self, kernel: KernelId, arguments: &[BufferId])
    -> Result<Launched, LaunchError>;
}
