//! Streams, launches on them, and events.

use cudarc::driver::result;
use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::{
    CUevent, CUevent_flags, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchConfig, CUstream, cuLaunchKernelEx,
};

use raddle_bundle::kernel::Grid;

use super::driver::{Gpu, STREAM_WAIT, require};
use super::error::CudaError;
use super::kernel::{Argument, Held, Kernel};

/// Work that a GPU does in order.
#[derive(Debug)]
pub struct Stream {
    pub(super) gpu: Gpu,
    pub(super) handle: CUstream,
}

/// A moment in a stream.
#[derive(Debug)]
pub struct Event {
    gpu: Gpu,
    handle: CUevent,
}

// SAFETY: streams and events of the driver may be used from any thread whose current context is theirs.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Send for Event {}

impl Gpu {
    /// A new stream, which does not wait for others.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn stream(&self) -> Result<Stream, CudaError> {
        let handle = self.call("cuStreamCreate", || {
            result::stream::create(StreamKind::NonBlocking)
        })?;
        Ok(Stream {
            gpu: self.clone(),
            handle,
        })
    }
}

impl Stream {
    /// Starts a kernel and does not wait for it. A launch that asks for more shared memory than the driver's default needs
    /// [`Kernel::allow_shared_bytes`] first.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// The arguments must be what the kernel's parameters are, as many and of their kinds. The buffers must be as large as
    /// the kernel's accesses reach, and must live until the stream has been waited for.
    pub unsafe fn launch(
        &self,
        kernel: &Kernel,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<(), CudaError> {
        let mut held: Vec<Held<'_>> = arguments.iter().map(Held::of).collect();
        let mut parameters: Vec<_> = held.iter_mut().map(Held::pointer).collect();
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        value.clusterDim.x = grid.cluster;
        value.clusterDim.y = 1;
        value.clusterDim.z = 1;
        let mut attribute = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value,
        };
        let config = CUlaunchConfig {
            gridDimX: grid.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared_bytes,
            hStream: self.handle,
            attrs: &mut attribute,
            numAttrs: u32::from(grid.cluster > 1),
        };
        self.gpu.call("cuLaunchKernelEx", || {
            // SAFETY: the parameters point to values that live through the call, which copies them; the rest is the
            // caller's promise.
            let launched = unsafe {
                cuLaunchKernelEx(
                    &config,
                    kernel.function,
                    parameters.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            launched.result()
        })
    }

    /// The driver's handle, for libraries beside this one. It must not be used once the stream is gone.
    pub fn handle(&self) -> *mut std::ffi::c_void {
        self.handle.cast()
    }

    /// Waits until everything started so far is done.
    ///
    /// # Errors
    /// [`CudaError::Call`]; a kernel that failed shows here.
    pub fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        self.gpu.call("cuStreamSynchronize", || unsafe {
            result::stream::synchronize(self.handle)
        })
    }

    /// Marks the moment when everything started so far is done.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn record(&self) -> Result<Event, CudaError> {
        let handle = self.gpu.call("cuEventCreate", || {
            result::event::create(CUevent_flags::CU_EVENT_DEFAULT)
        })?;
        let event = Event {
            gpu: self.gpu.clone(),
            handle,
        };
        // SAFETY: the stream and the event are alive.
        self.gpu.call("cuEventRecord", || unsafe {
            result::event::record(handle, self.handle)
        })?;
        Ok(event)
    }

    /// Lets what is started from now on wait for a moment in another stream.
    ///
    /// # Errors
    /// [`CudaError::MissingSymbol`] or [`CudaError::Call`].
    pub fn wait_for(&self, event: &Event) -> Result<(), CudaError> {
        require(STREAM_WAIT)?;
        let flags = cudarc::driver::sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream and the event are alive.
        self.gpu.call("cuStreamWaitEvent", || unsafe {
            result::stream::wait_event(self.handle, event.handle, flags)
        })
    }
}

impl Event {
    /// Microseconds of the GPU's clock from an earlier event to this one, once both have come.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn since_us(&self, earlier: &Event) -> Result<f64, CudaError> {
        // SAFETY: both events are alive and recorded.
        self.gpu.call("cuEventSynchronize", || unsafe {
            result::event::synchronize(self.handle)
        })?;
        // SAFETY: as above.
        let milliseconds = self.gpu.call("cuEventElapsedTime", || unsafe {
            result::event::elapsed(earlier.handle, self.handle)
        })?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made with this, destroyed once. There is nothing to be done about a failure.
        let _ = self.gpu.call("cuStreamDestroy", || unsafe {
            result::stream::destroy(self.handle)
        });
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = self.gpu.call("cuEventDestroy", || unsafe {
            result::event::destroy(self.handle)
        });
    }
}
