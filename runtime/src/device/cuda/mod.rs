//! NVIDIA GPUs through the CUDA driver: load a kernel, launch it, wait for it, time it.
//!
//! The driver is looked for when a [`Gpu`] is opened, never at link time, so a program that can use a GPU also starts where
//! there is none. The binding (cudarc) would end the thread where the driver lacks a function; [`Gpu::open`] asks for all of
//! them first, and whatever is missing is an error with a remedy. Everything else is handed to the driver as it is.

mod buffer;
mod driver;
mod error;
mod graph;
mod kernel;
mod launcher;
mod stream;
mod tensor_map;

pub use buffer::Buffer;
pub use driver::Gpu;
pub use error::CudaError;
pub use graph::Graph;
pub use kernel::{Argument, Image, Kernel};
pub use launcher::CudaLauncher;
pub use raddle_bundle::kernel::{Element, Grid, Swizzle};
pub use stream::{Event, Stream};
pub use tensor_map::{TensorMap, Tile};
