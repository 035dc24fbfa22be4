//! Ops of MLIR's own dialects that occur around `dist` programs: modules, functions, branches and plain arithmetic.
//!
//! They verify with MLIR's messages and print as MLIR prints them. Their attributes are properties in the generic form.

/// MLIR's dialects that passes lower to or that other compilers mix in. Their ops mean nothing here; MLIR's own tools verify
/// them.
pub const FOREIGN_DIALECTS: &[&str] = &[
    "affine",
    "bufferization",
    "complex",
    "gpu",
    "index",
    "linalg",
    "llvm",
    "math",
    "memref",
    "nvgpu",
    "nvvm",
    "scf",
    "shape",
    "sparse_tensor",
    "tensor",
    "ub",
    "vector",
];

pub mod arith;
pub mod builtin;
pub mod cf;
pub mod func;
mod operands;

/// Ops of the dialects here that MLIR has and this crate has no definition of. They are read in generic form.
const OTHERS: [(&str, &[&str]); 3] = [
    ("func", &["call_indirect", "constant"]),
    ("cf", &["assert", "switch"]),
    (
        "arith",
        &[
            "addui_extended",
            "bitcast",
            "convertf",
            "extf",
            "extsi",
            "extui",
            "fptosi",
            "fptoui",
            "index_cast",
            "index_castui",
            "mulsi_extended",
            "mului_extended",
            "negf",
            "scaling_extf",
            "scaling_truncf",
            "select",
            "sitofp",
            "truncf",
            "trunci",
            "uitofp",
        ],
    ),
];

/// Whether MLIR has an op of this name in one of the dialects here, though it has no definition in this crate.
pub fn exists(name: &str) -> bool {
    let Some((dialect, op)) = name.split_once('.') else {
        return false;
    };
    OTHERS
        .iter()
        .any(|(d, ops)| *d == dialect && ops.contains(&op))
}

/// The dialects of MLIR 22, without those of its own tests.
pub(crate) const MLIR_DIALECTS: &[&str] = &[
    "acc",
    "affine",
    "amdgpu",
    "amx",
    "arith",
    "arm_neon",
    "arm_sme",
    "arm_sve",
    "async",
    "bufferization",
    "builtin",
    "cf",
    "complex",
    "dlti",
    "emitc",
    "func",
    "gpu",
    "index",
    "irdl",
    "linalg",
    "llvm",
    "math",
    "memref",
    "ml_program",
    "mpi",
    "nvgpu",
    "nvvm",
    "omp",
    "pdl",
    "pdl_interp",
    "ptr",
    "quant",
    "rocdl",
    "scf",
    "shape",
    "shard",
    "smt",
    "sparse_tensor",
    "spirv",
    "tensor",
    "tosa",
    "transform",
    "ub",
    "vector",
    "wasmssa",
    "x86vector",
    "xegpu",
    "xevm",
];
