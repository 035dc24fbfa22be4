//! What a kernel computes, as plain data: the same for every target.
//!
//! `m`, `n` and `k` are always those of the forward product, tokens, out features and in features:
//! `C[m, n] = act(A[m, k] · B[k, n] + bias[n])`. The kernels of the backward pass say what they do with the same letters.

use std::fmt;

use super::{CodegenError, Math};

/// The largest extent of a matrix, in elements. It keeps every index within 32 bits.
pub const LARGEST_EXTENT: u64 = 1 << 30;

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// Brain floating point, 16 bits.
    Bf16,
    /// IEEE half precision, 16 bits.
    F16,
    /// IEEE single precision, 32 bits.
    F32,
}

impl ElementType {
    /// Every type, in the order of their names in help texts.
    pub const ALL: [ElementType; 3] = [ElementType::Bf16, ElementType::F16, ElementType::F32];

    /// The name that the command line and entry points use.
    pub const fn name(self) -> &'static str {
        match self {
            ElementType::Bf16 => "bf16",
            ElementType::F16 => "f16",
            ElementType::F32 => "f32",
        }
    }

    /// How many bytes one element takes.
    pub const fn bytes(self) -> u32 {
        match self {
            ElementType::Bf16 | ElementType::F16 => 2,
            ElementType::F32 => 4,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The function applied to every element of the biased product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The identity.
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))` (Hendrycks and Gimpel, 2016, equation 2).
    GeluTanh,
    /// `x · Φ(x)`, Φ the distribution function of the standard normal.
    GeluErf,
    /// `x · σ(x)`, σ the logistic function.
    Silu,
}

impl Activation {
    /// Every activation, in the order of their names in help texts.
    pub const ALL: [Activation; 5] = [
        Activation::None,
        Activation::Relu,
        Activation::GeluTanh,
        Activation::GeluErf,
        Activation::Silu,
    ];

    /// The name that the command line and entry points use.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::None => "none",
            Activation::Relu => "relu",
            Activation::GeluTanh => "gelu",
            Activation::GeluErf => "gelu-erf",
            Activation::Silu => "silu",
        }
    }
}

/// Which index of a matrix runs fastest in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixOrder {
    /// The column index: a row is contiguous.
    RowMajor,
    /// The row index: a column is contiguous.
    ColumnMajor,
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixLayout {
    /// Which index runs fastest.
    pub order: MatrixOrder,
    /// Elements from one row (row major) or column (column major) to the next; `None` means no gap between them.
    pub leading: Option<u64>,
    /// Elements before the first one, counted from a pointer that is aligned to 16 bytes.
    pub offset: u64,
    /// Elements from one matrix of a batch to the next; `None` means no gap between them, 0 the same matrix each time.
    pub batch_stride: Option<u64>,
}

impl MatrixLayout {
    /// Rows one after the other, without gaps.
    pub const ROW_MAJOR: MatrixLayout = MatrixLayout {
        order: MatrixOrder::RowMajor,
        leading: None,
        offset: 0,
        batch_stride: None,
    };

    /// Columns one after the other, without gaps.
    pub const COLUMN_MAJOR: MatrixLayout = MatrixLayout {
        order: MatrixOrder::ColumnMajor,
        leading: None,
        offset: 0,
        batch_stride: None,
    };
}

/// Which of the kernels of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelOp {
    /// `C[m, n] = act(A[m, k] · B[k, n] + bias[n])`, with the biased product as auxiliary output.
    FusedLinear,
    /// `dX[m, k] = (dOut[m, n] · B[k, n]ᵀ) ⊙ act′(aux[m, k])`: the gradient of the layer's input. The auxiliary input is
    /// the pre-activation of the layer before, and `dBias[k] = Σ dX[m, k]` the gradient of that layer's bias, if it has
    /// one; it sums dX before it is rounded.
    InputGradient,
    /// `dW[k, n] = A[m, k]ᵀ · dOut[m, n]`, added to what is there already if `accumulate`, with
    /// `dBias[n] = Σ dOut[m, n]` if there is a bias.
    WeightGradient,
    /// `dBias[n] = Σ dOut[m, n]` alone.
    BiasGradient,
    /// `dPre[m, n] = dOut[m, n] ⊙ act′(aux[m, n])`, the gradient of the layer's own pre-activation where no product
    /// makes it, with `dBias[n] = Σ dPre[m, n]` if there is a bias; it sums dPre before it is rounded.
    ActivationGradient,
}

impl KernelOp {
    /// Every op, in the order of their names in help texts.
    pub const ALL: [KernelOp; 5] = [
        KernelOp::FusedLinear,
        KernelOp::InputGradient,
        KernelOp::WeightGradient,
        KernelOp::BiasGradient,
        KernelOp::ActivationGradient,
    ];

    /// The name that the command line and entry points use.
    pub const fn name(self) -> &'static str {
        match self {
            KernelOp::FusedLinear => "fused-linear",
            KernelOp::InputGradient => "dx",
            KernelOp::WeightGradient => "dw",
            KernelOp::BiasGradient => "dbias",
            KernelOp::ActivationGradient => "dact",
        }
    }
}

/// One kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelDescription {
    /// What is computed.
    pub op: KernelOp,
    /// The type of both inputs and of the auxiliary matrix. Sums are kept in single precision.
    pub element: ElementType,
    /// How products of single-precision inputs are computed.
    pub math: Math,
    /// The type of the result: C, dX, dW or dPre.
    pub output: ElementType,
    /// Independent problems of the same shape; they share the bias, and its gradient is the sum over all of them.
    pub batch: u64,
    /// Tokens.
    pub m: u64,
    /// Out features.
    pub n: u64,
    /// In features.
    pub k: u64,
    /// How the op's first input lies in memory: A, or dOut for dX, dBias and dPre.
    pub a: MatrixLayout,
    /// How the op's second input lies in memory: B, dOut for dW.
    pub b: MatrixLayout,
    /// How the result and the auxiliary matrix lie in memory; row major.
    pub c: MatrixLayout,
    /// The type of the bias, or of its gradient, if there is one. It is added, or summed, in single precision; a gradient
    /// is rounded once.
    pub bias: Option<ElementType>,
    /// What is applied to the biased product, or whose derivative multiplies dX or dOut.
    pub activation: Activation,
    /// Whether the biased product is also written as it is before the activation, in the inputs' type.
    pub auxiliary: bool,
    /// Whether dW is added to what the result holds already.
    pub accumulate: bool,
}

impl KernelDescription {
    /// A plain forward product of dense row-major matrices, `[m, k] · [k, n]`, without bias, activation or auxiliary
    /// output.
    pub const fn product(element: ElementType, m: u64, n: u64, k: u64) -> KernelDescription {
        KernelDescription {
            op: KernelOp::FusedLinear,
            element,
            math: Math::Full,
            output: element,
            batch: 1,
            m,
            n,
            k,
            a: MatrixLayout::ROW_MAJOR,
            b: MatrixLayout::ROW_MAJOR,
            c: MatrixLayout::ROW_MAJOR,
            bias: None,
            activation: Activation::None,
            auxiliary: false,
            accumulate: false,
        }
    }

    /// The same kernel with products of single-precision inputs computed like this. Kernels of 16-bit inputs, and sums
    /// without a product, stay as they are.
    #[must_use]
    pub fn with_math(self, math: Math) -> KernelDescription {
        let multiplies = !matches!(
            self.op,
            KernelOp::BiasGradient | KernelOp::ActivationGradient
        );
        let has_choice = self.element == ElementType::F32 && multiplies;
        KernelDescription {
            math: if has_choice { math } else { self.math },
            ..self
        }
    }

    /// Rows and columns of the op's two inputs and its result, each with a name. An op with one input has it twice; the
    /// result of dBias counts as a row.
    pub fn matrices(&self) -> [NamedMatrix; 3] {
        let (m, n, k) = (self.m, self.n, self.k);
        let named = |name, layout, rows, columns| NamedMatrix {
            name,
            layout,
            rows,
            columns,
        };
        match self.op {
            KernelOp::FusedLinear => [
                named("A", self.a, m, k),
                named("B", self.b, k, n),
                named("C", self.c, m, n),
            ],
            KernelOp::InputGradient => [
                named("dOut", self.a, m, n),
                named("B", self.b, k, n),
                named("dX", self.c, m, k),
            ],
            KernelOp::WeightGradient => [
                named("A", self.a, m, k),
                named("dOut", self.b, m, n),
                named("dW", self.c, k, n),
            ],
            KernelOp::BiasGradient => [
                named("dOut", self.a, m, n),
                named("dOut", self.a, m, n),
                named("dBias", MatrixLayout::ROW_MAJOR, 1, n),
            ],
            KernelOp::ActivationGradient => [
                named("dOut", self.a, m, n),
                named("dOut", self.a, m, n),
                named("dPre", self.c, m, n),
            ],
        }
    }

    /// Elements of the bias, or of its gradient.
    pub const fn bias_elements(&self) -> u64 {
        match self.op {
            KernelOp::InputGradient => self.k,
            _ => self.n,
        }
    }

    /// Whether the kernel computes the gradient of a bias.
    pub fn has_bias_gradient(&self) -> bool {
        self.op != KernelOp::FusedLinear && self.bias.is_some()
    }

    /// The type that the derivative of the activation is computed for: the widest that it ends up in. An approximation
    /// of the hardware is good enough for 16 bits alone.
    pub fn derivative_stored_as(&self) -> ElementType {
        match self.bias {
            Some(bias) if bias.bytes() > self.output.bytes() => bias,
            _ => self.output,
        }
    }

    /// Looks for extents, layouts and combinations that no kernel can have.
    ///
    /// # Errors
    /// [`CodegenError::InvalidDescription`] names the first one; [`CodegenError::Unsupported`] if the result is column
    /// major.
    pub fn validate(&self) -> Result<(), CodegenError> {
        for (name, extent) in [
            ("the batch", self.batch),
            ("m", self.m),
            ("n", self.n),
            ("k", self.k),
        ] {
            if extent == 0 || extent > LARGEST_EXTENT {
                return Err(CodegenError::InvalidDescription(format!(
                    "{name} is {extent}; an extent lies between 1 and {LARGEST_EXTENT}"
                )));
            }
        }
        for matrix in self.matrices() {
            matrix.validate(self.batch)?;
        }
        if self.c.order == MatrixOrder::ColumnMajor {
            return Err(CodegenError::Unsupported {
                what: "a column-major result".to_owned(),
                hint: "compute the transposed product instead: Cᵀ = Bᵀ · Aᵀ".to_owned(),
            });
        }
        self.validate_combination()
    }

    fn validate_combination(&self) -> Result<(), CodegenError> {
        let forward = self.op == KernelOp::FusedLinear;
        let has_activation = matches!(
            self.op,
            KernelOp::FusedLinear | KernelOp::InputGradient | KernelOp::ActivationGradient
        );
        let [.., result] = self.matrices();
        let meaningless = [
            (
                self.batch > 1
                    && self.op != KernelOp::BiasGradient
                    && result.batch_stride() < result.span(),
                "the results of a batch overlap",
            ),
            (
                self.auxiliary && !forward,
                "only the forward kernel has an auxiliary output",
            ),
            (
                self.activation != Activation::None && !has_activation,
                "only the forward kernel, dX and dact have an activation",
            ),
            (
                self.accumulate && self.op != KernelOp::WeightGradient,
                "only dW is added to what is there",
            ),
            (
                self.math != Math::Full && self.element != ElementType::F32,
                "only products of f32 are computed as tf32",
            ),
            (
                self.bias.is_none() && self.op == KernelOp::BiasGradient,
                "dBias without a bias computes nothing",
            ),
        ];
        match meaningless.into_iter().find(|&(applies, _)| applies) {
            Some((_, reason)) => Err(CodegenError::InvalidDescription(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Multiplications and additions of the product, two per term; two per element where nothing is multiplied.
    pub fn flops(&self) -> u128 {
        let elements = 2 * u128::from(self.batch) * u128::from(self.m) * u128::from(self.n);
        match self.op {
            KernelOp::BiasGradient | KernelOp::ActivationGradient => elements,
            _ => elements * u128::from(self.k),
        }
    }

    /// The name of the kernel's entry point: what it computes, without the layouts.
    pub fn entry(&self) -> String {
        let op = self.op.name().replace('-', "_");
        let activation = self.activation.name().replace('-', "_");
        let batch = match self.batch {
            1 => String::new(),
            batch => format!("{batch}x"),
        };
        let inputs = match self.math {
            Math::Full => self.element.name(),
            math => math.name(),
        };
        let mut name = format!(
            "{op}_{inputs}_{activation}_{batch}{}x{}x{}",
            self.m, self.n, self.k
        );
        if let Some(bias) = self.bias {
            name.push_str("_bias_");
            name.push_str(bias.name());
        }
        if self.output != self.element {
            name.push_str("_to_");
            name.push_str(self.output.name());
        }
        if self.auxiliary {
            name.push_str("_aux");
        }
        if self.accumulate {
            name.push_str("_accumulate");
        }
        name
    }
}

/// One matrix of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedMatrix {
    /// What it is called in messages.
    pub name: &'static str,
    /// How it lies in memory.
    pub layout: MatrixLayout,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
}

impl NamedMatrix {
    /// Elements from the start of one line to the next.
    pub fn leading(&self) -> u64 {
        self.layout.leading.unwrap_or(self.line())
    }

    /// Elements from the start of one matrix of a batch to the next.
    pub fn batch_stride(&self) -> u64 {
        self.layout.batch_stride.unwrap_or(self.span())
    }

    /// Elements from the pointer to the end of the last matrix of a batch.
    pub fn reach(&self, batch: u64) -> u64 {
        self.layout.offset + (batch - 1) * self.batch_stride() + self.span()
    }

    /// Elements from the first line's start to the last line's end.
    fn span(&self) -> u64 {
        let lines = match self.layout.order {
            MatrixOrder::RowMajor => self.rows,
            MatrixOrder::ColumnMajor => self.columns,
        };
        (lines - 1) * self.leading() + self.line()
    }

    /// Elements of a line.
    fn line(&self) -> u64 {
        match self.layout.order {
            MatrixOrder::RowMajor => self.columns,
            MatrixOrder::ColumnMajor => self.rows,
        }
    }

    fn validate(&self, batch: u64) -> Result<(), CodegenError> {
        let (name, line, leading) = (self.name, self.line(), self.leading());
        if leading < line || leading > LARGEST_EXTENT {
            return Err(CodegenError::InvalidDescription(format!(
                "the leading dimension of {name} is {leading}; it lies between {line}, the length of a line, and {LARGEST_EXTENT}"
            )));
        }
        // Byte addresses stay within 63 bits.
        if batch > 1 && self.batch_stride() > u64::MAX / 64 / batch {
            return Err(CodegenError::InvalidDescription(format!(
                "the batch of {name} does not fit into any memory"
            )));
        }
        if self.layout.offset > LARGEST_EXTENT {
            return Err(CodegenError::InvalidDescription(format!(
                "the offset of {name} is {}; the largest is {LARGEST_EXTENT}",
                self.layout.offset
            )));
        }
        Ok(())
    }
}
