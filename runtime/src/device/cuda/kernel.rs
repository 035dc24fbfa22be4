//! Kernels: loading machine code or PTX, and what a launch hands over.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction_attribute, CUjit_option, CUresult};

use super::buffer::Buffer;
use super::driver::Gpu;
use super::error::{CudaError, failed};
use super::tensor_map::TensorMap;

/// The size of the text that the driver's assembler may write about PTX.
const LOG_BYTES: usize = 8192;

/// A kernel in a form that the driver loads.
#[derive(Clone, Copy, Debug)]
pub enum Image<'a> {
    /// Machine code: what ptxas writes.
    Cubin(&'a [u8]),
    /// PTX, which the driver assembles.
    Ptx(&'a str),
}

/// A kernel, loaded.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) function: sys::CUfunction,
    module: Arc<Module>,
}

#[derive(Debug)]
struct Module {
    gpu: Gpu,
    handle: sys::CUmodule,
}

// SAFETY: a module of the driver may be used and unloaded from any thread whose current context is the module's.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}
// SAFETY: a function belongs to its module, which is kept alive beside it.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// What a kernel's parameter is set to.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// Where a buffer is.
    Buffer(&'a Buffer),
    /// A 32-bit number.
    U32(u32),
    /// A description of a matrix for the tensor memory accelerator, passed by value.
    TensorMap(&'a TensorMap),
}

impl Gpu {
    /// Loads a kernel and finds its entry point.
    ///
    /// # Errors
    /// [`CudaError::DriverTooOld`], [`CudaError::WrongArchitecture`], [`CudaError::Refused`] with what the driver says against
    /// the PTX, [`CudaError::ZeroByte`], or [`CudaError::Call`] if the entry point is not there.
    pub fn load(&self, image: Image<'_>, entry: &str) -> Result<Kernel, CudaError> {
        let entry = CString::new(entry).map_err(|_| CudaError::ZeroByte {
            what: "the kernel's name",
        })?;
        let text;
        let start: *const c_void = match image {
            Image::Cubin(bytes) => bytes.as_ptr().cast(),
            Image::Ptx(ptx) => {
                text = CString::new(ptx).map_err(|_| CudaError::ZeroByte { what: "the PTX" })?;
                text.as_ptr().cast()
            }
        };
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The driver takes integers as pointers here.
        let mut values: [*mut c_void; 2] = [
            log.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
        ];
        let mut handle: sys::CUmodule = std::ptr::null_mut();
        // SAFETY: the image is a whole ELF file or text that ends in a zero byte; the options are as many as said and the
        // log is as long as said.
        let loaded = self.call("cuModuleLoadDataEx", || unsafe {
            let count = options.len() as u32;
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            Ok(sys::cuModuleLoadDataEx(
                &mut handle,
                start,
                count,
                options,
                values,
            ))
        })?;
        match loaded {
            CUresult::CUDA_SUCCESS => {}
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
                return Err(CudaError::DriverTooOld {
                    driver: self.driver_version(),
                });
            }
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => {
                return Err(CudaError::WrongArchitecture {
                    device: self.name().to_owned(),
                    architecture: self.architecture(),
                });
            }
            CUresult::CUDA_ERROR_INVALID_PTX => {
                return Err(CudaError::Refused { log: said(&log) });
            }
            other => other.result().map_err(failed("cuModuleLoadDataEx"))?,
        }
        let module = Arc::new(Module {
            gpu: self.clone(),
            handle,
        });
        // SAFETY: the module was just loaded.
        let function = self.call("cuModuleGetFunction", || unsafe {
            result::module::get_function(handle, entry)
        })?;
        Ok(Kernel { function, module })
    }
}

impl Kernel {
    /// Lets launches ask for this much shared memory, which the driver otherwise limits to 48 KiB.
    ///
    /// # Errors
    /// [`CudaError::Call`] if the GPU has less.
    pub fn allow_shared_bytes(&self, bytes: u32) -> Result<(), CudaError> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's module is alive.
        self.module.gpu.call("cuFuncSetAttribute", || unsafe {
            result::function::set_function_attribute(self.function, attribute, bytes)
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded with this, unloaded once; no kernel of it is left. There is nothing to be done about a failure.
        let _ = self.gpu.call("cuModuleUnload", || unsafe {
            result::module::unload(self.handle)
        });
    }
}

/// The text in a buffer that a zero byte ends.
fn said(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim_end().to_owned()
}

/// An argument's bytes, where the driver can read them during the launch.
pub(super) enum Held<'a> {
    Address(sys::CUdeviceptr),
    Number(u32),
    Map(&'a TensorMap),
}

impl<'a> Held<'a> {
    pub(super) fn of(argument: &Argument<'a>) -> Held<'a> {
        match *argument {
            Argument::Buffer(buffer) => Held::Address(buffer.address()),
            Argument::U32(number) => Held::Number(number),
            Argument::TensorMap(map) => Held::Map(map),
        }
    }

    pub(super) fn pointer(&mut self) -> *mut c_void {
        match self {
            Held::Address(address) => std::ptr::from_mut(address).cast(),
            Held::Number(number) => std::ptr::from_mut(number).cast(),
            // The driver copies from there and does not write.
            Held::Map(map) => map.bytes().cast_mut().cast::<c_char>().cast(),
        }
    }
}
