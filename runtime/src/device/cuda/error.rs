//! What can go wrong on the way to a GPU, each with what to do about it.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Why something could not be done on a GPU.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// No driver library can be loaded.
    #[error(
        "there is no NVIDIA driver: libcuda.so.1 cannot be loaded; install the driver, or run on the simulator"
    )]
    NoDriver,
    /// The driver finds no GPU.
    #[error("the NVIDIA driver finds no GPU; check `nvidia-smi` and CUDA_VISIBLE_DEVICES")]
    NoDevice,
    /// There are fewer GPUs than the one asked for needs.
    #[error("there is no GPU {ordinal}; the driver counts {count}, from 0")]
    NoSuchDevice {
        /// The one asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The driver library lacks a function.
    #[error("the NVIDIA driver has no `{symbol}`; a driver for CUDA {needs} or later has it")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// The first CUDA version whose driver has all that is used here.
        needs: &'static str,
    },
    /// The driver does not know the PTX version.
    #[error(
        "the NVIDIA driver (CUDA {driver}) is older than this PTX; choose an older --ptx-version, assemble with ptxas, or \
         update the driver"
    )]
    DriverTooOld {
        /// The CUDA version that the driver knows.
        driver: String,
    },
    /// The image is for another architecture.
    #[error("this kernel does not run on {device}, which is {architecture}")]
    WrongArchitecture {
        /// The GPU's name.
        device: String,
        /// Its architecture: `sm_90`.
        architecture: String,
    },
    /// The driver's assembler refuses the PTX.
    #[error("the NVIDIA driver refuses the PTX:\n{log}")]
    Refused {
        /// What it says.
        log: String,
    },
    /// The GPU's memory is not enough.
    #[error("the GPU has no room for {bytes} bytes more")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// A length does not fit a buffer.
    #[error("{given} bytes do not fit a buffer of {size}")]
    Length {
        /// What was given.
        given: usize,
        /// What the buffer holds.
        size: usize,
    },
    /// Text for the driver has a zero byte in it.
    #[error("{what} holds a zero byte")]
    ZeroByte {
        /// What text.
        what: &'static str,
    },
    /// Another call failed.
    #[error("{call}: {name} ({code}): {text}")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The error's name.
        name: String,
        /// The error's number.
        code: u32,
        /// What the driver says of it.
        text: String,
    },
}

/// The error of a call, in words.
pub(super) fn failed(call: &'static str) -> impl FnOnce(DriverError) -> CudaError {
    move |error| {
        let words = |text: Result<&std::ffi::CStr, DriverError>| {
            text.map_or_else(
                |_| "unknown error".to_owned(),
                |t| t.to_string_lossy().into_owned(),
            )
        };
        match error.0 {
            CUresult::CUDA_ERROR_NO_DEVICE => CudaError::NoDevice,
            code => CudaError::Call {
                call,
                name: words(error.error_name()),
                code: code as u32,
                text: words(error.error_string()),
            },
        }
    }
}
