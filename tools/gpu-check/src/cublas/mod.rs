//! cuBLASLt, the peer that Raddle's kernels are timed beside.
//!
//! cuBLASLt's matrices are column major. A row-major `C[m, n] = A[m, k] · B[k, n]` in its words is `Cᵀ = Bᵀ · Aᵀ`: a product of an
//! n × k and a k × m matrix, whose bias runs along the rows.

mod library;

use std::path::Path;

use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, Math, MatrixOrder,
};
use raddle_runtime::device::cuda::{Buffer, CudaError, Gpu, Stream};

use self::library::{Call, Functions, Object};

/// Bytes of workspace that products may take; what NVIDIA recommends for Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;

/// Algorithms that are tried; the fastest counts.
const ALGORITHMS: usize = 4;

/// Why there is no peer.
#[derive(Debug, thiserror::Error)]
pub enum CublasError {
    /// The library is not there.
    #[error(
        "cuBLASLt cannot be loaded ({reason}); install it (the pip package nvidia-cublas has it) and name its file with \
         --cublaslt, or leave the comparison out with --without-cublaslt"
    )]
    NotFound {
        /// What the system says.
        reason: String,
    },
    /// The library lacks a function.
    #[error("cuBLASLt has no `{symbol}`; the library of CUDA 11 and later has it")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// A call failed.
    #[error("{call} fails with status {status} {text}")]
    Call {
        /// The function.
        call: &'static str,
        /// The library's number for what is wrong.
        status: i32,
        /// What the library says of it.
        text: String,
    },
    /// No algorithm, or a kernel that the library has no like of.
    #[error("cuBLASLt has no such kernel")]
    NoAlgorithm,
    /// The driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

/// cuBLASLt on a GPU.
pub struct Cublas {
    functions: Functions,
    handle: Object,
    gpu: Gpu,
    stream: Stream,
    workspace: Buffer,
}

/// What a product reads and writes.
pub struct Buffers<'a> {
    /// The op's first input.
    pub first: &'a Buffer,
    /// The op's second input.
    pub second: &'a Buffer,
    /// The result.
    pub output: &'a Buffer,
    /// The bias, or its gradient.
    pub bias: Option<&'a Buffer>,
    /// The pre-activation, written or read.
    pub auxiliary: Option<&'a Buffer>,
}

impl Cublas {
    /// Loads the library, from a file if one is named, for use on a GPU.
    ///
    /// # Errors
    /// [`CublasError::NotFound`], [`CublasError::MissingSymbol`], and what the library or the driver refuse.
    pub fn open(gpu: &Gpu, file: Option<&Path>) -> Result<Cublas, CublasError> {
        let functions = Functions::load(file)?;
        gpu.make_current()?;
        Ok(Cublas {
            handle: functions.create_handle()?,
            functions,
            stream: gpu.stream()?,
            workspace: gpu.poisoned(WORKSPACE_BYTES)?,
            gpu: gpu.clone(),
        })
    }

    /// The library's version, such as `13.4.0`.
    ///
    /// # Errors
    /// [`CublasError::MissingSymbol`].
    pub fn version(&self) -> Result<String, CublasError> {
        let number = self.functions.version()?;
        let (major, rest) = (number / 10_000, number % 10_000);
        Ok(format!("{major}.{}.{}", rest / 100, rest % 100))
    }

    /// The median of several launches in microseconds, by the fastest algorithm of those that the library prefers.
    ///
    /// # Errors
    /// [`CublasError::NoAlgorithm`] if the library cannot compute this in one kernel, and what it or the driver refuse.
    pub fn time(
        &self,
        kernel: &KernelDescription,
        buffers: &Buffers<'_>,
        launches: usize,
    ) -> Result<f64, CublasError> {
        let product = Product::of(kernel).ok_or(CublasError::NoAlgorithm)?;
        self.gpu.make_current()?;
        let objects = Objects::of(self, &product, buffers)?;
        let layouts = [objects.a, objects.b, objects.d];
        let found = self.functions.heuristics(
            self.handle,
            (objects.description, objects.preference),
            layouts,
            ALGORITHMS,
        )?;
        let [left, right] = product.operands(buffers);
        let mut best: Option<f64> = None;
        for heuristic in found {
            let call = Call {
                description: objects.description,
                alpha: 1.0,
                beta: product.beta,
                a: (left.device_address(), objects.a),
                b: (right.device_address(), objects.b),
                d: (buffers.output.device_address(), objects.d),
                algorithm: heuristic.algorithm,
                workspace: (self.workspace.device_address(), WORKSPACE_BYTES),
                stream: self.stream.handle(),
            };
            let mut times = Vec::with_capacity(launches);
            // The first two warm up.
            for _ in 0..launches + 2 {
                let start = self.stream.record()?;
                // SAFETY: the buffers are those of the kernel that the layouts were made from, and the stream is waited for.
                unsafe { self.functions.multiply(self.handle, &call)? };
                let end = self.stream.record()?;
                self.stream.wait()?;
                times.push(end.since_us(&start)?);
            }
            times.drain(..2);
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            best = Some(best.map_or(median, |best| best.min(median)));
        }
        best.ok_or(CublasError::NoAlgorithm)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        self.functions.destroy("cublasLtDestroy", self.handle);
    }
}

/// A kernel in cuBLASLt's words.
struct Product {
    /// Rows and columns of the column-major result, and terms of its sums.
    extents: [u64; 3],
    /// Whether the left operand, which is the op's second input, and the right one lie transposed.
    transposed: [bool; 2],
    element: ElementType,
    output: ElementType,
    compute: i32,
    epilogue: i32,
    bias: Option<ElementType>,
    beta: f32,
    has_auxiliary: bool,
}

const TRANSPOSE: i32 = 1;
const DESCRIPTION: &str = "cublasLtMatmulDescSetAttribute";
/// Attributes of `cublasLtMatmulDescAttributes_t`.
const TRANSPOSE_A: i32 = 3;
const TRANSPOSE_B: i32 = 4;
const EPILOGUE: i32 = 7;
const BIAS_POINTER: i32 = 8;
const AUXILIARY_POINTER: i32 = 11;
const AUXILIARY_LEADING: i32 = 12;
const BIAS_TYPE: i32 = 26;

impl Product {
    /// `None` if the library has no kernel that computes all of it.
    fn of(kernel: &KernelDescription) -> Option<Product> {
        let (m, n, k) = (kernel.m, kernel.n, kernel.k);
        let is_column = |order| order == MatrixOrder::ColumnMajor;
        let (a, b) = (is_column(kernel.a.order), is_column(kernel.b.order));
        // The left operand is the op's second input, read as its columns lie; transposed turns that round.
        let (extents, transposed) = match kernel.op {
            KernelOp::FusedLinear => ([n, m, k], [b, a]),
            KernelOp::InputGradient => ([k, m, n], [!b, a]),
            KernelOp::WeightGradient => ([n, k, m], [b, !a]),
            KernelOp::BiasGradient | KernelOp::ActivationGradient => return None,
        };
        let epilogue = match (
            kernel.op,
            kernel.activation,
            kernel.bias.is_some(),
            kernel.auxiliary,
        ) {
            (_, Activation::None, false, false) => 1,
            (KernelOp::FusedLinear, Activation::Relu, false, false) => 2,
            (KernelOp::FusedLinear, Activation::None, true, false) => 4,
            (KernelOp::FusedLinear, Activation::Relu, true, false) => 6,
            (KernelOp::FusedLinear, Activation::GeluTanh, false, false) => 32,
            (KernelOp::FusedLinear, Activation::GeluTanh, true, false) => 36,
            (KernelOp::FusedLinear, Activation::GeluTanh, false, true) => 160,
            (KernelOp::FusedLinear, Activation::GeluTanh, true, true) => 164,
            (KernelOp::InputGradient, Activation::GeluTanh, false, _) => 192,
            (KernelOp::InputGradient, Activation::GeluTanh, true, _) => 208,
            // dOut is the left operand, whose sums over the terms this is.
            (KernelOp::WeightGradient, Activation::None, true, _) => 256,
            _ => return None,
        };
        Some(Product {
            extents,
            transposed,
            element: kernel.element,
            output: kernel.output,
            compute: match (kernel.element, kernel.math) {
                (ElementType::F32, Math::Tf32) => 77,
                _ => 68,
            },
            epilogue,
            bias: kernel.bias,
            beta: f32::from(u8::from(kernel.accumulate)),
            has_auxiliary: kernel.auxiliary || epilogue & 128 != 0,
        })
    }

    fn operands<'a>(&self, buffers: &Buffers<'a>) -> [&'a Buffer; 2] {
        [buffers.second, buffers.first]
    }
}

/// The library's objects of one product.
struct Objects<'c> {
    functions: &'c Functions,
    description: Object,
    preference: Object,
    a: Object,
    b: Object,
    d: Object,
}

impl<'c> Objects<'c> {
    fn of(
        cublas: &'c Cublas,
        product: &Product,
        buffers: &Buffers<'_>,
    ) -> Result<Objects<'c>, CublasError> {
        let functions = &cublas.functions;
        let [rows, columns, depth] = product.extents;
        let single = data_type(ElementType::F32);
        let mut objects = Objects {
            functions,
            description: functions.create_description(product.compute, single)?,
            preference: std::ptr::null_mut(),
            a: std::ptr::null_mut(),
            b: std::ptr::null_mut(),
            d: std::ptr::null_mut(),
        };
        let element = data_type(product.element);
        let layout = |transposed: bool, rows, columns| {
            let (rows, columns) = if transposed {
                (columns, rows)
            } else {
                (rows, columns)
            };
            functions.create_layout(element, [rows, columns, rows])
        };
        objects.a = layout(product.transposed[0], rows, depth)?;
        objects.b = layout(product.transposed[1], depth, columns)?;
        objects.d = functions.create_layout(data_type(product.output), [rows, columns, rows])?;
        objects.preference = functions.create_preference()?;
        functions.set(
            "cublasLtMatmulPreferenceSetAttribute",
            (objects.preference, 1),
            WORKSPACE_BYTES,
        )?;
        let description = objects.description;
        for (attribute, transposed) in [TRANSPOSE_A, TRANSPOSE_B]
            .into_iter()
            .zip(product.transposed)
        {
            let value = if transposed { TRANSPOSE } else { 0 };
            functions.set(DESCRIPTION, (description, attribute), value)?;
        }
        functions.set(DESCRIPTION, (description, EPILOGUE), product.epilogue)?;
        if let (Some(element), Some(buffer)) = (product.bias, buffers.bias) {
            let address = buffer.device_address();
            functions.set(DESCRIPTION, (description, BIAS_POINTER), address)?;
            functions.set(DESCRIPTION, (description, BIAS_TYPE), data_type(element))?;
        }
        if let (true, Some(buffer)) = (product.has_auxiliary, buffers.auxiliary) {
            let address = buffer.device_address();
            functions.set(DESCRIPTION, (description, AUXILIARY_POINTER), address)?;
            functions.set(DESCRIPTION, (description, AUXILIARY_LEADING), rows as i64)?;
        }
        Ok(objects)
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        for (function, object) in [
            ("cublasLtMatmulPreferenceDestroy", self.preference),
            ("cublasLtMatrixLayoutDestroy", self.a),
            ("cublasLtMatrixLayoutDestroy", self.b),
            ("cublasLtMatrixLayoutDestroy", self.d),
            ("cublasLtMatmulDescDestroy", self.description),
        ] {
            if !object.is_null() {
                self.functions.destroy(function, object);
            }
        }
    }
}

/// `cudaDataType_t` of an element.
const fn data_type(element: ElementType) -> i32 {
    match element {
        ElementType::F32 => 0,
        ElementType::F16 => 2,
        ElementType::Bf16 => 14,
    }
}
