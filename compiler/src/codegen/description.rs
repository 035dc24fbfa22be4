//! What a kernel computes, as plain data: the same for every target.
//!
//! `m`, `n` and `k` are always those of the forward product, tokens, out features and in features:
//! `C[m, n] = act(A[m, k] · B[k, n] + bias[n])`.

use std::fmt;

use super::CodegenError;

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
}

impl MatrixLayout {
    /// Rows one after the other, without gaps.
    pub const ROW_MAJOR: MatrixLayout = MatrixLayout {
        order: MatrixOrder::RowMajor,
        leading: None,
        offset: 0,
    };

    /// Columns one after the other, without gaps.
    pub const COLUMN_MAJOR: MatrixLayout = MatrixLayout {
        order: MatrixOrder::ColumnMajor,
        leading: None,
        offset: 0,
    };
}

/// Which of the kernels of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelOp {
    /// The forward product with bias, activation and auxiliary output.
    FusedLinear,
}

impl KernelOp {
    /// The name that the command line uses.
    pub const fn name(self) -> &'static str {
        match self {
            KernelOp::FusedLinear => "fused-linear",
        }
    }
}

/// One kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelDescription {
    /// What is computed.
    pub op: KernelOp,
    /// The type of A, B, C and the auxiliary output. Sums are kept in single precision.
    pub element: ElementType,
    /// Tokens: rows of A and C.
    pub m: u64,
    /// Out features: columns of B and C.
    pub n: u64,
    /// In features: columns of A, rows of B.
    pub k: u64,
    /// How A lies in memory.
    pub a: MatrixLayout,
    /// How B lies in memory.
    pub b: MatrixLayout,
    /// How C and the auxiliary output lie in memory; row major.
    pub c: MatrixLayout,
    /// The type of the bias, if there is one. It is added in single precision.
    pub bias: Option<ElementType>,
    /// What is applied to the biased product.
    pub activation: Activation,
    /// Whether the biased product is also written as it is before the activation, in C's type.
    pub auxiliary: bool,
}

impl KernelDescription {
    /// A plain product of dense row-major matrices, `[m, k] · [k, n]`, without bias, activation or auxiliary output.
    pub const fn product(element: ElementType, m: u64, n: u64, k: u64) -> KernelDescription {
        KernelDescription {
            op: KernelOp::FusedLinear,
            element,
            m,
            n,
            k,
            a: MatrixLayout::ROW_MAJOR,
            b: MatrixLayout::ROW_MAJOR,
            c: MatrixLayout::ROW_MAJOR,
            bias: None,
            activation: Activation::None,
            auxiliary: false,
        }
    }

    /// Looks for extents and layouts that no kernel can have.
    ///
    /// # Errors
    /// [`CodegenError::InvalidDescription`] names the first one; [`CodegenError::Unsupported`] if C is column major.
    pub fn validate(&self) -> Result<(), CodegenError> {
        for (name, extent) in [("m", self.m), ("n", self.n), ("k", self.k)] {
            if extent == 0 || extent > LARGEST_EXTENT {
                return Err(CodegenError::InvalidDescription(format!(
                    "{name} is {extent}; an extent lies between 1 and {LARGEST_EXTENT}"
                )));
            }
        }
        for (name, layout, rows, columns) in [
            ("A", self.a, self.m, self.k),
            ("B", self.b, self.k, self.n),
            ("C", self.c, self.m, self.n),
        ] {
            let line = match layout.order {
                MatrixOrder::RowMajor => columns,
                MatrixOrder::ColumnMajor => rows,
            };
            let leading = layout.leading.unwrap_or(line);
            if leading < line || leading > LARGEST_EXTENT {
                return Err(CodegenError::InvalidDescription(format!(
                    "the leading dimension of {name} is {leading}; it lies between {line}, the length of a line, and {LARGEST_EXTENT}"
                )));
            }
            if layout.offset > LARGEST_EXTENT {
                return Err(CodegenError::InvalidDescription(format!(
                    "the offset of {name} is {}; the largest is {LARGEST_EXTENT}",
                    layout.offset
                )));
            }
        }
        if self.c.order == MatrixOrder::ColumnMajor {
            return Err(CodegenError::Unsupported {
                what: "a column-major C".to_owned(),
                hint: "compute the transposed product instead: Cᵀ = Bᵀ · Aᵀ".to_owned(),
            });
        }
        Ok(())
    }

    /// Multiplications and additions of the product, two per term.
    pub fn flops(&self) -> u128 {
        2 * u128::from(self.m) * u128::from(self.n) * u128::from(self.k)
    }

    /// The name of the kernel's entry point: what it computes, without the layouts.
    pub fn entry(&self) -> String {
        let op = self.op.name().replace('-', "_");
        let activation = self.activation.name().replace('-', "_");
        let mut name = format!(
            "{op}_{}_{activation}_{}x{}x{}",
            self.element, self.m, self.n, self.k
        );
        if let Some(bias) = self.bias {
            name.push_str("_bias_");
            name.push_str(bias.name());
        }
        if self.auxiliary {
            name.push_str("_aux");
        }
        name
    }
}
