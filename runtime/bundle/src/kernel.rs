//! Kernels as plain data: what a compiler hands to whatever launches them, a GPU or a simulator of one.

use serde::{Deserialize, Serialize};

/// A kernel: its code and all that a launch must know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelImage {
    /// The entry point's name.
    pub entry: String,
    /// The architecture that it is for, in ptxas's words: `sm_90a`.
    pub target: String,
    /// The PTX module.
    pub ptx: String,
    /// Its machine code, if an assembler was at hand. Whoever launches without it assembles the PTX.
    pub cubin: Option<Vec<u8>>,
    /// How many threads a launch starts.
    pub grid: Grid,
    /// What its pointers point to, in the order of the parameters.
    pub parameters: Vec<KernelParameter>,
    /// Its tensor maps: parameters of 128 bytes each, after the pointers.
    pub tensor_maps: Vec<TensorMap>,
}

/// The kernels of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kernels {
    /// Each kernel once, whatever instructions need it.
    pub images: Vec<KernelImage>,
    /// How kernels compute instructions; instructions of the same types and attributes share one.
    pub plans: Vec<InstrPlan>,
}

/// How kernels compute an instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstrPlan {
    /// Memory for operands, results and what passes from kernel to kernel.
    pub buffers: Vec<InstrBuffer>,
    /// The kernels in the order in which they run.
    pub launches: Vec<InstrLaunch>,
    /// What the kernels take the elements of their inputs for.
    pub inputs: Inputs,
}

/// What kernels take the elements of their inputs for: of a product's factors, and of what is summed on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Inputs {
    /// What they are.
    Whole,
    /// The nearest tf32 number; of two, the one further from zero.
    Tf32,
}

/// Memory of an instruction: a row of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstrBuffer {
    /// What the elements are, whatever the operand's or result's are.
    pub element: Element,
    /// How large it is.
    pub bytes: u64,
    /// What it holds before the first kernel.
    pub start: Start,
    /// The result whose elements it holds after the last kernel, row-major.
    pub result: Option<usize>,
}

/// What a buffer holds before an instruction's first kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Start {
    /// Nothing that was written.
    Nothing,
    /// Zeros.
    Zeros,
    /// The elements of this operand, row-major, and nothing behind them.
    Operand(usize),
}

/// A kernel of an instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstrLaunch {
    /// Which of the program's kernels.
    pub kernel: usize,
    /// For each of its pointers, which of the instruction's buffers.
    pub arguments: Vec<usize>,
}

/// How many threads a launch starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grid {
    /// Blocks; the grid has one dimension.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory that each block gets beside what the kernel declares.
    pub shared_bytes: u32,
    /// Blocks that share a cluster; 1 where there are none. It divides `blocks`.
    pub cluster: u32,
}

/// A pointer of a kernel, into global memory, aligned to 16 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelParameter {
    /// Its name in the kernel.
    pub name: String,
    /// Bytes from the pointer on that the kernel may reach.
    pub bytes: u64,
    /// What the kernel does there.
    pub access: Access,
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Reads it.
    Reads,
    /// Writes it, whatever was there.
    Writes,
    /// Reads what was there and writes it.
    Updates,
    /// Writes and reads it again; neither before nor after the launch does it mean anything.
    Scratch,
    /// As scratch, but every byte is zero when the kernel starts, and again when it has ended.
    ZeroedScratch,
}

/// A matrix in a buffer, or a batch of them, as boxes that the tensor memory accelerator copies. What lies outside the extents reads
/// as zero and is not written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TensorMap {
    /// Which of the kernel's pointers.
    pub parameter: usize,
    /// What the elements are.
    pub element: Element,
    /// Bytes from the pointer to the first element.
    pub offset_bytes: u64,
    /// Elements along each dimension, the contiguous one first.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the first.
    pub strides_bytes: Vec<u64>,
    /// Elements of a box along each dimension.
    pub box_extents: Vec<u32>,
    /// How boxes lie in shared memory.
    pub swizzle: Swizzle,
}

/// The type of elements in a GPU's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Element {
    /// bfloat16.
    Bf16,
    /// IEEE half.
    F16,
    /// IEEE single.
    F32,
}

impl Element {
    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Element::Bf16 | Element::F16 => 2,
            Element::F32 => 4,
        }
    }
}

/// How the 16-byte pieces of a box's lines are permuted in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within 32 bytes.
    Bytes32,
    /// Within 64 bytes.
    Bytes64,
    /// Within 128 bytes.
    Bytes128,
}
