//! Kernels on a GPU: one stream, and a wait after each launch.

use raddle_bundle::KernelImage;
use raddle_bundle::kernel;

use super::buffer::Buffer;
use super::driver::Gpu;
use super::error::CudaError;
use super::kernel::{Argument, Image, Kernel};
use super::stream::Stream;
use super::tensor_map::{TensorMap, Tile};
use crate::device::launch::{
    BufferId, Contents, KernelId, Kernels, LaunchError, Launched, Launcher, Table,
};

/// A GPU with the kernels that were loaded and the buffers that live.
#[derive(Debug)]
pub struct CudaLauncher {
    gpu: Gpu,
    stream: Stream,
    buffers: Table<Buffer>,
    kernels: Kernels<Kernel>,
}

impl CudaLauncher {
    /// Opens a GPU by its number, counted from 0 in the driver's order.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let gpu = Gpu::open(ordinal)?;
        Ok(Self {
            stream: gpu.stream()?,
            gpu,
            buffers: Table::new(),
            kernels: Kernels::new(),
        })
    }

    /// A kernel's tensor map of a buffer.
    fn encoded(&self, map: &kernel::TensorMap, buffer: &Buffer) -> Result<TensorMap, CudaError> {
        let tile = Tile {
            extents: &map.extents,
            strides_bytes: &map.strides_bytes,
            tile: &map.box_extents,
            offset_bytes: map.offset_bytes,
            element: map.element,
            swizzle: map.swizzle,
        };
        self.gpu.tensor_map(buffer, tile)
    }
}

impl Launcher for CudaLauncher {
    fn architecture(&self) -> Option<String> {
        Some(self.gpu.architecture())
    }

    fn allocate(&mut self, contents: Contents<'_>) -> Result<BufferId, LaunchError> {
        let buffer = match contents {
            Contents::Bytes(bytes) => self.gpu.upload(bytes)?,
            Contents::Zeros(size) => self.gpu.upload(&vec![0; size])?,
            Contents::Unwritten(size) => self.gpu.poisoned(size)?,
        };
        Ok(self.buffers.add(buffer))
    }

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, LaunchError> {
        Ok(self.buffers.get(buffer)?.read()?)
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), LaunchError> {
        self.buffers.take(buffer).map(drop)
    }

    fn load(&mut self, image: &KernelImage) -> Result<KernelId, LaunchError> {
        let code = match &image.cubin {
            Some(cubin) => Image::Cubin(cubin),
            None => Image::Ptx(&image.ptx),
        };
        let kernel = self.gpu.load(code, &image.entry)?;
        kernel.allow_shared_bytes(image.grid.shared_bytes)?;
        Ok(self.kernels.add(image, kernel))
    }

    fn launch(
        &mut self,
        kernel: KernelId,
        arguments: &[BufferId],
    ) -> Result<Launched, LaunchError> {
        let loaded = self.kernels.get(kernel)?;
        let buffers = loaded.arguments(&self.buffers, arguments, Buffer::size_bytes)?;
        let maps = loaded.tensor_maps.iter();
        let maps = maps.map(|map| self.encoded(map, buffers[map.parameter]));
        let maps = maps.collect::<Result<Vec<_>, _>>()?;
        let buffers = buffers.iter().map(|buffer| Argument::Buffer(buffer));
        let arguments: Vec<_> = buffers
            .chain(maps.iter().map(Argument::TensorMap))
            .collect();
        let start = self.stream.record()?;
        // SAFETY: the arguments are as many and of the kinds that the image says the kernel takes, the buffers as large as its
        // accesses reach; they live until the stream has been waited for.
        unsafe { self.stream.launch(&loaded.code, loaded.grid, &arguments)? };
        let end = self.stream.record()?;
        self.stream.wait()?;
        let device = format!(
            "{:?}, driver for CUDA {}",
            self.gpu,
            self.gpu.driver_version()
        );
        Ok(Launched {
            facts: vec![("device", device)],
            findings: vec![],
            kernel_us: Some(end.since_us(&start)?),
        })
    }
}
