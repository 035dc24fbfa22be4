//! cuBLASLt as a library that is looked for while running (cuBLAS documentation, "Using the cuBLASLt API"): the functions
//! that are called, by the names and with the types of `cublasLt.h` of CUDA 11 to 13.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use libloading::{Library, Symbol};

use super::CublasError;

/// Names under which the library is installed, the newest first.
const NAMES: [&str; 4] = [
    "libcublasLt.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.11",
    "libcublasLt.so",
];

/// An object of the library: a handle, a description, a layout or a preference.
pub(super) type Object = *mut c_void;

/// An algorithm, as the library chose it (`cublasLtMatmulAlgo_t`).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Algorithm {
    data: [u64; 8],
}

/// What the library thinks of an algorithm (`cublasLtMatmulHeuristicResult_t`).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Heuristic {
    pub algorithm: Algorithm,
    pub workspace_bytes: usize,
    pub state: c_int,
    pub waves: f32,
    reserved: [c_int; 4],
}

/// What `cublasLtMatmul` takes.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub description: Object,
    pub alpha: f32,
    pub beta: f32,
    pub a: (u64, Object),
    pub b: (u64, Object),
    pub d: (u64, Object),
    pub algorithm: Algorithm,
    pub workspace: (u64, usize),
    pub stream: *mut c_void,
}

/// The functions.
pub(super) struct Functions {
    library: Library,
}

impl Functions {
    /// Loads the library from a file, or from where the system looks.
    pub(super) fn load(file: Option<&Path>) -> Result<Functions, CublasError> {
        let mut reasons = Vec::new();
        let names: Vec<&Path> = match file {
            Some(file) => vec![file],
            None => NAMES.iter().map(Path::new).collect(),
        };
        for name in names {
            // SAFETY: loading the library runs its initialisers, which is what it is for.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(Functions { library }),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(CublasError::NotFound {
            reason: reasons.swap_remove(0),
        })
    }

    /// The version: 130400 is 13.4.0.
    pub(super) fn version(&self) -> Result<usize, CublasError> {
        type Version = unsafe extern "C" fn() -> usize;
        let version: Symbol<'_, Version> = self.find("cublasLtGetVersion")?;
        // SAFETY: the function takes nothing.
        Ok(unsafe { version() })
    }

    /// Makes an object by a function that takes where to put it and two numbers.
    pub(super) fn create_handle(&self) -> Result<Object, CublasError> {
        type Create = unsafe extern "C" fn(*mut Object) -> c_int;
        let create: Symbol<'_, Create> = self.find("cublasLtCreate")?;
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is to a live object.
        self.check("cublasLtCreate", unsafe { create(&mut object) })?;
        Ok(object)
    }

    pub(super) fn create_description(
        &self,
        compute: c_int,
        scale: c_int,
    ) -> Result<Object, CublasError> {
        type Create = unsafe extern "C" fn(*mut Object, c_int, c_int) -> c_int;
        let name = "cublasLtMatmulDescCreate";
        let create: Symbol<'_, Create> = self.find(name)?;
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is to a live object.
        self.check(name, unsafe { create(&mut object, compute, scale) })?;
        Ok(object)
    }

    pub(super) fn create_layout(
        &self,
        element: c_int,
        [rows, columns, leading]: [u64; 3],
    ) -> Result<Object, CublasError> {
        type Create = unsafe extern "C" fn(*mut Object, c_int, u64, u64, i64) -> c_int;
        let name = "cublasLtMatrixLayoutCreate";
        let create: Symbol<'_, Create> = self.find(name)?;
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is to a live object.
        let made = unsafe { create(&mut object, element, rows, columns, leading as i64) };
        self.check(name, made)?;
        Ok(object)
    }

    pub(super) fn create_preference(&self) -> Result<Object, CublasError> {
        type Create = unsafe extern "C" fn(*mut Object) -> c_int;
        let name = "cublasLtMatmulPreferenceCreate";
        let create: Symbol<'_, Create> = self.find(name)?;
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is to a live object.
        self.check(name, unsafe { create(&mut object) })?;
        Ok(object)
    }

    /// Destroys an object by the function of its kind; there is nothing to be done about a failure.
    pub(super) fn destroy(&self, function: &'static str, object: Object) {
        type Destroy = unsafe extern "C" fn(Object) -> c_int;
        let found: Result<Symbol<'_, Destroy>, _> = self.find(function);
        if let Ok(destroy) = found {
            // SAFETY: the object was made by the same library and is not used again.
            let _ = unsafe { destroy(object) };
        }
    }

    /// Sets an attribute of a description or a preference, whichever the function is for.
    pub(super) fn set<T>(
        &self,
        function: &'static str,
        (object, attribute): (Object, c_int),
        value: T,
    ) -> Result<(), CublasError> {
        type Set = unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> c_int;
        let set: Symbol<'_, Set> = self.find(function)?;
        // SAFETY: the value lives through the call, which copies as many bytes as it is told.
        let done = unsafe {
            set(
                object,
                attribute,
                std::ptr::from_ref(&value).cast(),
                size_of::<T>(),
            )
        };
        self.check(function, done)
    }

    /// The algorithms that the library prefers, the best first.
    pub(super) fn heuristics(
        &self,
        handle: Object,
        (description, preference): (Object, Object),
        [a, b, d]: [Object; 3],
        most: usize,
    ) -> Result<Vec<Heuristic>, CublasError> {
        type Get = unsafe extern "C" fn(
            Object,
            Object,
            Object,
            Object,
            Object,
            Object,
            Object,
            c_int,
            *mut Heuristic,
            *mut c_int,
        ) -> c_int;
        let name = "cublasLtMatmulAlgoGetHeuristic";
        let get: Symbol<'_, Get> = self.find(name)?;
        let mut found = vec![Heuristic::default(); most];
        let mut count = 0;
        // SAFETY: the objects are alive, and the list is as long as said.
        let done = unsafe {
            get(
                handle,
                description,
                a,
                b,
                d,
                d,
                preference,
                most as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        self.check(name, done)?;
        found.truncate(usize::try_from(count).unwrap_or_default());
        found.retain(|heuristic| heuristic.state == 0);
        Ok(found)
    }

    /// Starts a product.
    ///
    /// # Safety
    /// The addresses are of buffers as large as the layouts say, alive until the stream has been waited for.
    pub(super) unsafe fn multiply(&self, handle: Object, call: &Call) -> Result<(), CublasError> {
        type Multiply = unsafe extern "C" fn(
            Object,
            Object,
            *const f32,
            u64,
            Object,
            u64,
            Object,
            *const f32,
            u64,
            Object,
            u64,
            Object,
            *const Algorithm,
            u64,
            usize,
            *mut c_void,
        ) -> c_int;
        let name = "cublasLtMatmul";
        let multiply: Symbol<'_, Multiply> = self.find(name)?;
        // SAFETY: the scalars and the algorithm live through the call; the rest is the caller's promise.
        let done = unsafe {
            multiply(
                handle,
                call.description,
                &call.alpha,
                call.a.0,
                call.a.1,
                call.b.0,
                call.b.1,
                &call.beta,
                call.d.0,
                call.d.1,
                call.d.0,
                call.d.1,
                &call.algorithm,
                call.workspace.0,
                call.workspace.1,
                call.stream,
            )
        };
        self.check(name, done)
    }

    fn find<T>(&self, name: &'static str) -> Result<Symbol<'_, T>, CublasError> {
        // SAFETY: every caller states the type that the library's header gives the function.
        unsafe { self.library.get(name.as_bytes()) }
            .map_err(|_| CublasError::MissingSymbol { symbol: name })
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), CublasError> {
        if status == 0 {
            return Ok(());
        }
        type Text = unsafe extern "C" fn(c_int) -> *const c_char;
        let text: Result<Symbol<'_, Text>, _> = self.find("cublasLtGetStatusString");
        let said = text.ok().map(|text| {
            // SAFETY: the function gives a text that stays.
            let said = unsafe { text(status) };
            if said.is_null() {
                return String::new();
            }
            // SAFETY: it is not null and ends in a zero byte.
            unsafe { CStr::from_ptr(said) }
                .to_string_lossy()
                .into_owned()
        });
        Err(CublasError::Call {
            call,
            status,
            text: said.unwrap_or_default(),
        })
    }
}
