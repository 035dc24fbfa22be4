//! Memory of a GPU.

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{DriverError, result};

use super::driver::Gpu;
use super::error::CudaError;

/// Bytes in a GPU's memory, aligned to 256, freed when dropped. Freeing waits for the work that may use them.
#[derive(Debug)]
pub struct Buffer {
    gpu: Gpu,
    address: sys::CUdeviceptr,
    size_bytes: usize,
}

impl Gpu {
    /// Memory with these bytes in it.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] or [`CudaError::Call`].
    pub fn upload(&self, bytes: &[u8]) -> Result<Buffer, CudaError> {
        let mut buffer = self.allocate(bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// Memory with every byte 0xff: as a number of any float type, NaN, so that what a kernel does not write shows.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] or [`CudaError::Call`].
    pub fn poisoned(&self, size_bytes: usize) -> Result<Buffer, CudaError> {
        let buffer = self.allocate(size_bytes)?;
        // SAFETY: the buffer has `size_bytes` bytes.
        self.call("cuMemsetD8", || unsafe {
            result::memset_d8_sync(buffer.address, 0xff, size_bytes)
        })?;
        Ok(buffer)
    }

    fn allocate(&self, size_bytes: usize) -> Result<Buffer, CudaError> {
        // The driver has no empty buffers.
        let room = size_bytes.max(1);
        // SAFETY: the memory is owned by the buffer made of it.
        let allocated = self.call("cuMemAlloc", || {
            match unsafe { result::malloc_sync(room) } {
                Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
                other => other.map(Some),
            }
        })?;
        match allocated {
            Some(address) => Ok(Buffer {
                gpu: self.clone(),
                address,
                size_bytes,
            }),
            None => Err(CudaError::OutOfMemory { bytes: size_bytes }),
        }
    }
}

impl Buffer {
    /// How many bytes it holds.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Where it is in the GPU's memory.
    pub(super) fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// Where it is in the GPU's memory, for libraries beside this one. It must not be used once the buffer is gone.
    pub fn device_address(&self) -> u64 {
        self.address
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    /// [`CudaError::Length`] if the lengths differ, or [`CudaError::Call`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CudaError> {
        self.fits(bytes.len())?;
        // SAFETY: the buffer has as many bytes as are copied.
        self.gpu.call("cuMemcpyHtoD", || unsafe {
            result::memcpy_htod_sync(self.address, bytes)
        })
    }

    /// What it holds. Work on streams must have been waited for.
    ///
    /// # Errors
    /// [`CudaError::Call`]; a kernel that failed shows here at the latest.
    pub fn read(&self) -> Result<Vec<u8>, CudaError> {
        let mut bytes = vec![0u8; self.size_bytes];
        // SAFETY: the buffer has as many bytes as are copied.
        self.gpu.call("cuMemcpyDtoH", || unsafe {
            result::memcpy_dtoh_sync(&mut bytes, self.address)
        })?;
        Ok(bytes)
    }

    fn fits(&self, given: usize) -> Result<(), CudaError> {
        if given == self.size_bytes {
            return Ok(());
        }
        Err(CudaError::Length {
            given,
            size: self.size_bytes,
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with the buffer, freed once. There is nothing to be done about a failure.
        let _ = self
            .gpu
            .call("cuMemFree", || unsafe { result::free_sync(self.address) });
    }
}
