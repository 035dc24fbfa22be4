//! Finding the driver and opening a GPU.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{DriverError, result};

use super::error::{CudaError, failed};

/// Every function of the driver that this room calls, by the name under which the library exports it.
const SYMBOLS: [&str; 35] = [
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8_v2",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
];

/// Functions that only some uses need, looked for then.
pub(super) const STREAM_WAIT: &str = "cuStreamWaitEvent";
pub(super) const TENSOR_MAP: &str = "cuTensorMapEncodeTiled";

/// The first CUDA version whose driver has them all (`cuLaunchKernelEx`).
const NEEDS: &str = "11.8";

/// A GPU with its primary context. Clones share it; it is given back with the last of them and of what was made with it.
#[derive(Clone)]
pub struct Gpu(Arc<Open>);

struct Open {
    device: sys::CUdevice,
    context: sys::CUcontext,
    name: String,
    /// Major and minor compute capability.
    capability: (u32, u32),
    /// As the driver gives it: 12080 is CUDA 12.8.
    driver: u32,
}

// SAFETY: a context of the driver may be used from any thread that makes it current, and every call here does so first.
unsafe impl Send for Open {}
// SAFETY: as above; the driver's functions lock what they share.
unsafe impl Sync for Open {}

impl Gpu {
    /// Opens a GPU by its number, counted from 0 in the driver's order.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`], [`CudaError::MissingSymbol`], [`CudaError::NoDevice`], [`CudaError::NoSuchDevice`], or
    /// [`CudaError::Call`].
    pub fn open(ordinal: u32) -> Result<Gpu, CudaError> {
        // SAFETY: loading the driver's library runs its initialisers, which is what it is for.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        for symbol in SYMBOLS {
            require(symbol)?;
        }
        result::init().map_err(failed("cuInit"))?;
        let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
        let count = u32::try_from(count).unwrap_or_default();
        if count == 0 {
            return Err(CudaError::NoDevice);
        }
        let Some(number) = i32::try_from(ordinal).ok().filter(|_| ordinal < count) else {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        };
        let device = result::device::get(number).map_err(failed("cuDeviceGet"))?;
        let name = result::device::get_name(device).map_err(failed("cuDeviceGetName"))?;
        let mut version = 0;
        // SAFETY: the pointer is to a live integer.
        let got = unsafe { sys::cuDriverGetVersion(&mut version) };
        got.result().map_err(failed("cuDriverGetVersion"))?;
        let capability = (
            attribute(
                device,
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            )?,
            attribute(
                device,
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )?,
        );
        // SAFETY: the device comes from the driver.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(failed("cuDevicePrimaryCtxRetain"))?;
        Ok(Gpu(Arc::new(Open {
            device,
            context,
            name,
            capability,
            driver: u32::try_from(version).unwrap_or_default(),
        })))
    }

    /// The GPU's name, as the driver gives it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its architecture in ptxas's words, without the suffix of the architecture-specific features: `sm_90`.
    pub fn architecture(&self) -> String {
        let (major, minor) = self.0.capability;
        format!("sm_{major}{minor}")
    }

    /// The CUDA version that the driver knows: `12.8`.
    pub fn driver_version(&self) -> String {
        format!("{}.{}", self.0.driver / 1000, self.0.driver % 1000 / 10)
    }

    /// How many multiprocessors it has.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn multiprocessors(&self) -> Result<u32, CudaError> {
        attribute(
            self.0.device,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    }

    /// Makes the GPU's context current in this thread, for libraries beside this one.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn make_current(&self) -> Result<(), CudaError> {
        self.call("cuCtxSetCurrent", || Ok(()))
    }

    /// Makes the context current in this thread and calls the driver.
    pub(super) fn call<T>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, CudaError> {
        // SAFETY: the context lives as long as this.
        unsafe { result::ctx::set_current(self.0.context) }.map_err(failed("cuCtxSetCurrent"))?;
        work().map_err(failed(name))
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.architecture())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the context was retained when this was made. There is nothing to be done about a failure.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Makes sure that the driver has a function, which the binding would otherwise panic about.
pub(super) fn require(symbol: &'static str) -> Result<(), CudaError> {
    // SAFETY: called only where the library is known to be there; the symbol is looked up, not used.
    let found = unsafe { sys::culib().get::<*const ()>(symbol.as_bytes()) };
    match found {
        Ok(_) => Ok(()),
        Err(_) => Err(CudaError::MissingSymbol {
            symbol,
            needs: if symbol == TENSOR_MAP { "12.0" } else { NEEDS },
        }),
    }
}

fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<u32, CudaError> {
    // SAFETY: the device comes from the driver.
    let value = unsafe { result::device::get_attribute(device, which) };
    let value = value.map_err(failed("cuDeviceGetAttribute"))?;
    Ok(u32::try_from(value).unwrap_or_default())
}
