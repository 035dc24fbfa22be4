//! Runs a function of a lowered module with MLIR's execution engine: the path from `dist` to machine code that shares nothing
//! with ours, and so a judge of it.
//!
//! The functions that `lower-to-linalg` calls for collectives are supplied for a world of one rank, where each group is the rank
//! itself.

use std::ffi::c_void;

use melior::ExecutionEngine;
use melior::utility::register_all_llvm_translations;
use raddle_compiler::interop::mlir::{Options, over};
use raddle_dialect::diag::{Diagnostic, Diagnostics};
use raddle_dialect::ir::Verified;

use crate::exchange::Task;
use crate::in_process;

/// MLIR's passes from the output of `lower-to-linalg` to the `llvm` dialect.
pub const COMPILE_PIPELINE: &str = "builtin.module(canonicalize,cse,\
one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map},\
convert-linalg-to-loops,expand-strided-metadata,lower-affine,convert-scf-to-cf,arith-expand{include-bf16=1},\
convert-math-to-llvm,convert-math-to-libm,\
finalize-memref-to-llvm,convert-func-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,\
reconcile-unrealized-casts)";

/// A dense row-major tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Extents.
    pub shape: Vec<usize>,
    /// Bytes of one element.
    pub element_bytes: usize,
    /// The elements, in the machine's byte order.
    pub bytes: Vec<u8>,
}

/// A call to make.
pub struct Invocation {
    function: String,
    args: Vec<Array>,
    /// Shape and element size of each result.
    results: Vec<(Vec<usize>, usize)>,
}

/// Calls a function of a module that [`COMPILE_PIPELINE`] has compiled. `results` gives shape and bytes of an element of each
/// result.
///
/// Nothing is returned, and `diagnostics` say why, if MLIR refuses the module or has no such function.
pub fn execute(
    module: &Verified,
    function: &str,
    args: Vec<Array>,
    results: &[(Vec<usize>, usize)],
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Array>> {
    let text = over(module, diagnostics)?;
    let task = Task::Execute(Invocation {
        function: function.to_owned(),
        args,
        results: results.to_vec(),
    });
    let bytes = in_process::ask(module.cx(), &text, task, Options::default(), diagnostics)?;
    let mut rest = bytes.as_slice();
    let arrays = results.iter().map(|(shape, element_bytes)| {
        let (own, behind) =
            rest.split_at_checked(shape.iter().product::<usize>() * element_bytes)?;
        rest = behind;
        Some(Array {
            shape: shape.clone(),
            element_bytes: *element_bytes,
            bytes: own.to_vec(),
        })
    });
    let arrays: Option<Vec<_>> = arrays.collect();
    if arrays.is_none() {
        let loc = module.loc(module.root());
        let message = format!("MLIR's execution engine cannot run function '{function}'");
        diagnostics.push(
            Diagnostic::error("E0804", loc, message)
                .help("the module must be in the llvm dialect and call only what the process has"),
        );
    }
    arrays
}

/// A memref descriptor: two pointers, an offset, extents and strides, all of eight bytes.
fn descriptor(array: &mut Array) -> Vec<u64> {
    let pointer = array.bytes.as_mut_ptr() as u64;
    let mut strides = vec![1; array.shape.len()];
    for at in (1..array.shape.len()).rev() {
        strides[at - 1] = strides[at] * array.shape[at] as u64;
    }
    let extents = array.shape.iter().map(|&extent| extent as u64);
    [pointer, pointer, 0]
        .into_iter()
        .chain(extents)
        .chain(strides)
        .collect()
}

/// Compiles and calls; returns the bytes of the results, one behind the other. Empty if there is no such function.
pub fn invoke(
    context: &melior::Context,
    module: &melior::ir::Module,
    mut invocation: Invocation,
) -> Vec<u8> {
    register_all_llvm_translations(context);
    let engine = ExecutionEngine::new(module, 2, &[], false, false);
    register_world(&engine);
    if engine
        .lookup(&format!("_mlir_ciface_{}", invocation.function))
        .is_null()
    {
        return vec![];
    }
    let words = invocation
        .results
        .iter()
        .map(|(shape, _)| 3 + 2 * shape.len())
        .sum();
    let mut returned = vec![0u64; words];
    let mut descriptors: Vec<Vec<u64>> = invocation.args.iter_mut().map(descriptor).collect();
    // Each argument of the C interface is a pointer to a descriptor; the call takes pointers to the arguments.
    let mut pointers: Vec<*mut ()> = Vec::new();
    if words > 0 {
        pointers.push(returned.as_mut_ptr().cast());
    }
    pointers.extend(descriptors.iter_mut().map(|d| d.as_mut_ptr().cast::<()>()));
    let mut slots: Vec<*mut ()> = pointers
        .iter_mut()
        .map(|pointer| (&raw mut *pointer).cast())
        .collect();
    // SAFETY: the slots point to one pointer for the results, if there are any, and one for each argument, as the C
    // interface of the function takes them; descriptors, argument data and the room for results outlive the call.
    let called = unsafe { engine.invoke_packed(&invocation.function, &mut slots) };
    if called.is_err() {
        return vec![];
    }
    let mut bytes = Vec::new();
    let mut rest = returned.as_slice();
    for (shape, element_bytes) in &invocation.results {
        let (own, behind) = rest.split_at(3 + 2 * shape.len());
        rest = behind;
        // SAFETY: the function returned a descriptor of a row-major buffer of this shape.
        unsafe { append(&mut bytes, own, shape, *element_bytes) };
    }
    bytes
}

/// Appends the elements that a descriptor describes, row by row.
///
/// # Safety
/// The descriptor is one of a live buffer with these extents and this element size.
unsafe fn append(bytes: &mut Vec<u8>, descriptor: &[u64], shape: &[usize], element_bytes: usize) {
    let data = descriptor[1] as *const u8;
    let strides = &descriptor[3 + shape.len()..];
    let count: usize = shape.iter().product();
    for position in 0..count {
        let mut rest = position;
        let mut offset = descriptor[2];
        for (extent, stride) in shape.iter().zip(strides).rev() {
            offset += (rest % extent) as u64 * stride;
            rest /= extent;
        }
        // SAFETY: the offset lies in the buffer, as the caller promises.
        let element = unsafe {
            std::slice::from_raw_parts(data.add(offset as usize * element_bytes), element_bytes)
        };
        bytes.extend_from_slice(element);
    }
}

/// A one-dimensional buffer as the C interface passes it.
#[repr(C)]
struct Line {
    allocated: *mut c_void,
    aligned: *mut c_void,
    offset: i64,
    extent: i64,
    stride: i64,
}

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
}

/// A copy of `x` with elements of type `T`: what every collective gives where a group is one rank.
///
/// # Safety
/// Both point to descriptors; x's is of a live buffer of `T`.
unsafe fn copy<T: Copy>(result: *mut Line, x: *const Line) {
    // SAFETY: as the caller promises; malloc's buffer is as long as x.
    unsafe {
        let x = &*x;
        let count = x.extent.max(0) as usize;
        let data = malloc(count.max(1) * size_of::<T>()).cast::<T>();
        for at in 0..count {
            let from = x
                .aligned
                .cast::<T>()
                .offset((x.offset + at as i64 * x.stride) as isize);
            data.add(at).write(from.read());
        }
        *result = Line {
            allocated: data.cast(),
            aligned: data.cast(),
            offset: 0,
            extent: x.extent,
            stride: 1,
        };
    }
}

/// `(result, x, reduction, axes)`, `(result, x, root, axes)` and the like: only the first two matter.
///
/// # Safety
/// As for [`copy`].
unsafe extern "C" fn copy_of<T: Copy>(result: *mut Line, x: *const Line, _: i64, _: i64) {
    // SAFETY: MLIR's C interface passes descriptors of live buffers.
    unsafe { copy::<T>(result, x) }
}

/// `(result, x, axes)`
///
/// # Safety
/// As for [`copy`].
unsafe extern "C" fn copy_within<T: Copy>(result: *mut Line, x: *const Line, _: i64) {
    // SAFETY: MLIR's C interface passes descriptors of live buffers.
    unsafe { copy::<T>(result, x) }
}

extern "C" fn barrier(_: i64) {}

extern "C" fn coordinate(_: i64) -> i64 {
    0
}

/// A memref of any rank: the rank, and a descriptor of two pointers, an offset, extents and strides.
#[repr(C)]
struct Unranked {
    rank: i64,
    descriptor: *const u64,
}

impl Unranked {
    /// Address of the first element, extents, and strides in elements.
    ///
    /// # Safety
    /// The descriptor has the rank's extents and strides.
    unsafe fn parts(&self, element_bytes: usize) -> (*mut u8, &[u64], &[i64]) {
        let rank = self.rank as usize;
        // SAFETY: as the caller promises.
        unsafe {
            let first = (*self.descriptor.add(1) as *mut u8)
                .offset(*self.descriptor.add(2) as isize * element_bytes as isize);
            let extents = std::slice::from_raw_parts(self.descriptor.add(3), rank);
            let strides = self.descriptor.add(3 + rank).cast::<i64>();
            (first, extents, std::slice::from_raw_parts(strides, rank))
        }
    }
}

/// MLIR's own `memrefCopy`, which compiled code calls to copy between buffers that are not both in one piece.
///
/// # Safety
/// Both point to memrefs of live buffers of one shape, with elements of this size, that do not overlap.
unsafe extern "C" fn memref_copy(element_bytes: i64, from: *const Unranked, to: *const Unranked) {
    let bytes = element_bytes as usize;
    // SAFETY: as the caller promises, every offset that the extents and strides give lies in its buffer.
    unsafe {
        let (from, extents, from_strides) = (*from).parts(bytes);
        let (to, _, to_strides) = (*to).parts(bytes);
        let count: u64 = extents.iter().product();
        for position in 0..count {
            let mut rest = position;
            let (mut source, mut target) = (0, 0);
            for (at, &extent) in extents.iter().enumerate().rev() {
                let index = (rest % extent) as i64;
                rest /= extent;
                source += index * from_strides[at];
                target += index * to_strides[at];
            }
            let source = from.offset(source as isize * bytes as isize);
            let target = to.offset(target as isize * bytes as isize);
            std::ptr::copy_nonoverlapping(source, target, bytes);
        }
    }
}

/// Supplies the collectives of a world of one rank.
fn register_world(engine: &ExecutionEngine) {
    // SAFETY: the function has the signature of MLIR's runtime function of that name.
    unsafe { engine.register_symbol("memrefCopy", memref_copy as *mut ()) };
    let register = |name: String, function: *mut ()| {
        // SAFETY: the functions have the signatures that `lower-to-linalg` documents and live as long as the process.
        unsafe { engine.register_symbol(&format!("_mlir_ciface_raddle_{name}"), function) };
    };
    let tensors: [(&str, *mut (), *mut ()); 8] = [
        (
            "f64",
            copy_of::<f64> as *mut (),
            copy_within::<f64> as *mut (),
        ),
        (
            "f32",
            copy_of::<f32> as *mut (),
            copy_within::<f32> as *mut (),
        ),
        (
            "f16",
            copy_of::<u16> as *mut (),
            copy_within::<u16> as *mut (),
        ),
        (
            "bf16",
            copy_of::<u16> as *mut (),
            copy_within::<u16> as *mut (),
        ),
        (
            "i64",
            copy_of::<u64> as *mut (),
            copy_within::<u64> as *mut (),
        ),
        (
            "i32",
            copy_of::<u32> as *mut (),
            copy_within::<u32> as *mut (),
        ),
        ("i8", copy_of::<u8> as *mut (), copy_within::<u8> as *mut ()),
        ("i1", copy_of::<u8> as *mut (), copy_within::<u8> as *mut ()),
    ];
    for (element, with_parameter, without) in tensors {
        for function in ["all_reduce", "reduce_scatter", "broadcast"] {
            register(format!("{function}_{element}"), with_parameter);
        }
        for function in ["all_gather", "all_to_all"] {
            register(format!("{function}_{element}"), without);
        }
    }
    register("barrier".into(), barrier as *mut ());
    register("coordinate".into(), coordinate as *mut ());
}
