//! How kernels compute an op that is a linear layer: which kernels, on which buffers.
//!
//! ```text
//! %c, %aux = dist.fused_linear gelu %x, %w, %b          ──▶   one fused-linear kernel
//! %dx, %dw, %db = dist.fused_linear_grad … %x, %w, %dc  ──▶   one dx kernel, one dw kernel with the bias's gradient
//! ```
//!
//! Batch dimensions are tokens: x is read as one matrix. Results lie as their types say, so where an operand is given transposed the
//! kernel computes the transposed gradient: `dxᵀ = w · doutᵀ` is a dx kernel with w in dout's place, `dwᵀ = doutᵀ · x` a dw kernel with
//! its inputs swapped. A batch of transposed matrices is no one matrix: its products are computed one by one, and for dw their sums are
//! added up afterwards, by the kernel that adds up the rows of a matrix.

use raddle_bundle::kernel::{Element, Start};
use raddle_dialect::ops::{Args, Attributes, Attrs, OpDef};
use raddle_dialect::{DType, TensorType};

use super::description::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, MatrixOrder,
};
use super::math::Math;
use super::nvptx::Parameter;

/// The kernels that compute an op, and what they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPlan {
    /// Memory for operands, results and what passes from kernel to kernel.
    pub buffers: Vec<LayerBuffer>,
    /// The kernels in the order in which they run.
    pub launches: Vec<LayerLaunch>,
    /// How their products are computed.
    pub math: Math,
}

/// Memory of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerBuffer {
    /// What its elements are, whatever the operand's or result's are.
    pub element: Element,
    /// How many.
    pub elements: u64,
    /// What it holds before the first kernel.
    pub start: Start,
    /// The result whose elements it holds after the last kernel.
    pub result: Option<usize>,
}

/// One kernel of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerLaunch {
    /// What it computes.
    pub kernel: KernelDescription,
    /// Which buffer a parameter points to. Parameters that are not named are scratch.
    pub arguments: Vec<(Parameter, usize)>,
}

/// Whether an op is one that kernels may compute.
pub fn is_layer(def: &OpDef) -> bool {
    matches!(def.name, "dist.fused_linear" | "dist.fused_linear_grad")
}

/// Plans a `dist.fused_linear` or a `dist.fused_linear_grad`; `None` for any other op. Products of f32 elements are computed as `math`
/// says, those of tf32 elements as what they are.
///
/// # Errors
/// The reason why no kernel computes it.
pub fn plan(
    def: &OpDef,
    operands: &[TensorType],
    results: &[TensorType],
    attrs: &dyn Attributes,
    math: Math,
) -> Option<Result<LayerPlan, String>> {
    if !is_layer(def) {
        return None;
    }
    let is_forward = def.name == "dist.fused_linear";
    let attrs = Attrs(attrs);
    let numbered = |types: &[TensorType]| types.iter().cloned().enumerate().collect::<Vec<_>>();
    let (operands, results) = (numbered(operands), numbered(results));
    let planned = || {
        let operands = Args::operands(def, &operands, attrs).map_err(|e| e.to_string())?;
        let results = Args::results(def, &results, attrs).map_err(|e| e.to_string())?;
        let mut layer = Layer::new(&operands, &results, attrs, math)?;
        if is_forward {
            layer.forward()?;
        } else {
            layer.backward()?;
        }
        let plan = layer.plan;
        for launch in &plan.launches {
            let valid = launch.kernel.validate();
            valid.map_err(|error| error.to_string())?;
        }
        Ok(plan)
    };
    Some(planned())
}

type Values<'a> = Args<'a, (usize, TensorType)>;

/// An op on its way to a plan.
struct Layer<'a> {
    operands: &'a Values<'a>,
    results: &'a Values<'a>,
    attrs: Attrs<'a>,
    /// The forward product of one of `matrices`: types, extents and the order of x and w.
    product: KernelDescription,
    /// Products of this shape, of which each has its own x: 1, or the batch of transposed matrices.
    matrices: u64,
    plan: LayerPlan,
}

impl<'a> Layer<'a> {
    fn new(
        operands: &'a Values<'a>,
        results: &'a Values<'a>,
        attrs: Attrs<'a>,
        math: Math,
    ) -> Result<Self, String> {
        let (_, x) = operands.one("x").map_err(|e| e.to_string())?;
        let (_, w) = operands.one("w").map_err(|e| e.to_string())?;
        let element = element("x", x.dtype)?;
        let transpose_x = attrs.bool("transpose_a").unwrap_or(false);
        let transpose_w = attrs.bool("transpose_b").unwrap_or(false);
        let ([batch @ .., rows, columns], [w_rows, w_columns]) = (&x.shape[..], &w.shape[..])
        else {
            return Err("x or w is no matrix".to_owned());
        };
        let (m, k) = if transpose_x {
            (*columns, *rows)
        } else {
            (*rows, *columns)
        };
        let n = if transpose_w { *w_rows } else { *w_columns };
        let mut count: u64 = 1;
        for &dimension in batch {
            let more = count.checked_mul(extent(dimension)?);
            count = more.ok_or("there are too many tokens")?;
        }
        let tokens = count.checked_mul(extent(m)?);
        let tokens = tokens.filter(|&tokens| tokens <= MOST_ELEMENTS);
        let tokens = tokens.ok_or("there are too many tokens")?;
        let (matrices, tokens) = if transpose_x && count > 1 {
            (count, extent(m)?)
        } else {
            (1, tokens)
        };
        let layout = |transposed| MatrixLayout {
            order: if transposed {
                MatrixOrder::ColumnMajor
            } else {
                MatrixOrder::RowMajor
            },
            ..MatrixLayout::ROW_MAJOR
        };
        Ok(Self {
            operands,
            results,
            attrs,
            product: KernelDescription {
                a: layout(transpose_x),
                b: layout(transpose_w),
                ..KernelDescription::product(element, tokens, extent(n)?, extent(k)?)
            },
            matrices,
            plan: LayerPlan {
                buffers: Vec::new(),
                launches: Vec::new(),
                math: match x.dtype {
                    DType::F32 => math,
                    DType::TF32 => Math::Tf32,
                    _ => Math::Full,
                },
            },
        })
    }

    fn forward(&mut self) -> Result<(), String> {
        let x = self.operand("x", self.product.element)?;
        let w = self.operand("w", self.product.element)?;
        let bias = match self.operands.optional("bias") {
            Some((_, bias)) => Some(element("the bias", bias.dtype)?),
            None => None,
        };
        let kernel = KernelDescription {
            batch: self.matrices,
            b: self.shared(self.product.b),
            bias,
            activation: self.activation()?,
            auxiliary: self.results.has("aux"),
            ..self.product
        };
        let mut arguments = vec![
            (Parameter::A, x),
            (Parameter::B, w),
            (Parameter::Output, self.result("out", self.product.element)?),
        ];
        if let Some(bias) = bias {
            arguments.push((Parameter::Bias, self.operand("bias", bias)?));
        }
        if kernel.auxiliary {
            let aux = self.result("aux", self.product.element)?;
            arguments.push((Parameter::AuxiliaryOutput, aux));
        }
        self.launch(kernel, arguments);
        Ok(())
    }

    fn backward(&mut self) -> Result<(), String> {
        let dout = self.operand("dout", self.product.element)?;
        if self.results.has("dx") {
            self.input_gradient(dout)?;
        }
        let with_weight = self.results.has("dw") && self.weight_gradient(dout)?;
        if let Some(bias) = self.bias_gradient()?.filter(|_| !with_weight) {
            let kernel = KernelDescription {
                op: KernelOp::BiasGradient,
                m: self.matrices * self.product.m,
                a: MatrixLayout::ROW_MAJOR,
                b: MatrixLayout::ROW_MAJOR,
                bias: Some(bias),
                ..self.product
            };
            let sums = self.result("dbias", bias)?;
            self.launch(
                kernel,
                vec![(Parameter::A, dout), (Parameter::BiasGradient, sums)],
            );
        }
        Ok(())
    }

    /// dx, or where x is given transposed, each matrix of its transpose.
    fn input_gradient(&mut self, dout: usize) -> Result<(), String> {
        let w = self.operand("w", self.product.element)?;
        let dx = self.result("dx", self.product.element)?;
        let plain = KernelDescription {
            op: KernelOp::InputGradient,
            batch: self.matrices,
            activation: self.activation()?,
            ..self.product
        };
        let (kernel, first, second) = if self.is_x_transposed() {
            let kernel = KernelDescription {
                m: plain.k,
                k: plain.m,
                a: self.shared(plain.b),
                b: MatrixLayout::ROW_MAJOR,
                ..plain
            };
            (kernel, w, dout)
        } else {
            let kernel = KernelDescription {
                a: MatrixLayout::ROW_MAJOR,
                ..plain
            };
            (kernel, dout, w)
        };
        let mut arguments = vec![
            (Parameter::A, first),
            (Parameter::B, second),
            (Parameter::Output, dx),
        ];
        if kernel.activation != Activation::None {
            let aux = self.operand("aux", self.product.element)?;
            arguments.push((Parameter::AuxiliaryInput, aux));
        }
        self.launch(kernel, arguments);
        Ok(())
    }

    /// dw, or where w is given transposed, its transpose; says whether the bias's gradient comes with it.
    fn weight_gradient(&mut self, dout: usize) -> Result<bool, String> {
        let x = self.operand("x", self.product.element)?;
        let plain = KernelDescription {
            op: KernelOp::WeightGradient,
            b: MatrixLayout::ROW_MAJOR,
            ..self.product
        };
        let (kernel, first, second) = if self.is_w_transposed() {
            let kernel = KernelDescription {
                n: plain.k,
                k: plain.n,
                a: MatrixLayout::ROW_MAJOR,
                b: plain.a,
                ..plain
            };
            (kernel, dout, x)
        } else {
            (plain, x, dout)
        };
        let inputs = [(Parameter::A, first), (Parameter::B, second)];
        let Some((_, gradient)) = self.results.optional("dw") else {
            return Ok(false);
        };
        let output = element("dw", gradient.dtype)?;
        let overwrites = self.attrs.bool("overwrite").unwrap_or(false);
        let existing = match self.operands.optional("acc") {
            Some(&(acc, _)) if !overwrites => Start::Operand(acc),
            _ => Start::Nothing,
        };
        if self.matrices > 1 {
            let kernel = KernelDescription { output, ..kernel };
            self.summed_weight_gradient(kernel, inputs, existing)?;
            return Ok(false);
        }
        let dw = self.result("dw", output)?;
        self.plan.buffers[dw].start = existing;
        let mut arguments = inputs.to_vec();
        arguments.push((Parameter::Output, dw));
        let bias = self.bias_gradient()?.filter(|_| !self.is_w_transposed());
        if let Some(bias) = bias {
            let sums = self.result("dbias", bias)?;
            arguments.push((Parameter::BiasGradient, sums));
        }
        let kernel = KernelDescription {
            output,
            bias,
            accumulate: existing != Start::Nothing,
            ..kernel
        };
        self.launch(kernel, arguments);
        Ok(bias.is_some())
    }

    /// One product for each matrix of a batch, in single precision, below what is there already; then the sum of them all.
    fn summed_weight_gradient(
        &mut self,
        product: KernelDescription,
        inputs: [(Parameter, usize); 2],
        existing: Start,
    ) -> Result<(), String> {
        let size = product.n.checked_mul(product.k);
        let size = size.ok_or("dw is too large")?;
        let before = u64::from(existing != Start::Nothing);
        let rows = self.matrices + before;
        let elements = rows.checked_mul(size);
        let elements = elements.filter(|&elements| elements <= MOST_ELEMENTS);
        let parts = self.buffer(LayerBuffer {
            element: Element::F32,
            elements: elements.ok_or("dw is too large")?,
            start: existing,
            result: None,
        });
        let kernel = KernelDescription {
            output: ElementType::F32,
            batch: self.matrices,
            c: MatrixLayout {
                offset: before * size,
                ..MatrixLayout::ROW_MAJOR
            },
            ..product
        };
        let mut arguments = inputs.to_vec();
        arguments.push((Parameter::Output, parts));
        self.launch(kernel, arguments);
        let sum = KernelDescription {
            op: KernelOp::BiasGradient,
            bias: Some(product.output),
            ..KernelDescription::product(ElementType::F32, rows, size, 1)
        };
        let dw = self.result("dw", product.output)?;
        self.launch(
            sum,
            vec![(Parameter::A, parts), (Parameter::BiasGradient, dw)],
        );
        Ok(())
    }

    /// The type of the bias's gradient, if there is one.
    fn bias_gradient(&self) -> Result<Option<ElementType>, String> {
        let gradient = self.results.optional("dbias");
        let element = gradient.map(|(_, ty)| element("dbias", ty.dtype));
        element.transpose()
    }

    fn launch(&mut self, kernel: KernelDescription, arguments: Vec<(Parameter, usize)>) {
        let kernel = kernel.with_math(self.plan.math);
        self.plan.launches.push(LayerLaunch { kernel, arguments });
    }

    /// A layout that all matrices of the batch share.
    fn shared(&self, layout: MatrixLayout) -> MatrixLayout {
        MatrixLayout {
            batch_stride: (self.matrices > 1).then_some(0),
            ..layout
        }
    }

    fn is_x_transposed(&self) -> bool {
        self.product.a.order == MatrixOrder::ColumnMajor
    }

    fn is_w_transposed(&self) -> bool {
        self.product.b.order == MatrixOrder::ColumnMajor
    }

    fn activation(&self) -> Result<Activation, String> {
        let name = self.attrs.string("activation");
        match name.as_deref().unwrap_or("none") {
            "none" => Ok(Activation::None),
            "relu" => Ok(Activation::Relu),
            "gelu" => Ok(Activation::GeluErf),
            "gelu_tanh" => Ok(Activation::GeluTanh),
            "silu" => Ok(Activation::Silu),
            other => Err(format!("the activation {other} has none")),
        }
    }

    /// A buffer that holds an operand.
    fn operand(&mut self, name: &str, element: ElementType) -> Result<usize, String> {
        let (index, ty) = self.operands.one(name).map_err(|e| e.to_string())?;
        let buffer = LayerBuffer {
            element: element.in_memory(),
            elements: elements(ty)?,
            start: Start::Operand(*index),
            result: None,
        };
        Ok(self.buffer(buffer))
    }

    /// A buffer that comes to hold a result.
    fn result(&mut self, name: &str, element: ElementType) -> Result<usize, String> {
        let (index, ty) = self.results.one(name).map_err(|e| e.to_string())?;
        self::element(name, ty.dtype)?;
        let buffer = LayerBuffer {
            element: element.in_memory(),
            elements: elements(ty)?,
            start: Start::Nothing,
            result: Some(*index),
        };
        Ok(self.buffer(buffer))
    }

    /// The number of a buffer. Kernels that read the same operand share it.
    fn buffer(&mut self, buffer: LayerBuffer) -> usize {
        let buffers = &mut self.plan.buffers;
        let is_read = buffer.result.is_none() && buffer.start != Start::Nothing;
        let known = buffers.iter().position(|b| is_read && *b == buffer);
        known.unwrap_or_else(|| {
            buffers.push(buffer);
            buffers.len() - 1
        })
    }
}

fn extent(value: i64) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| "an extent is not known when it is compiled".to_owned())
}

fn elements(ty: &TensorType) -> Result<u64, String> {
    ty.shape.iter().try_fold(1u64, |count, &dimension| {
        let more = count.checked_mul(extent(dimension)?);
        let more = more.filter(|&more| more <= MOST_ELEMENTS);
        more.ok_or_else(|| "a tensor is too large".to_owned())
    })
}

/// The most elements of a tensor: no memory holds more, and counts of bytes and sums of extents stay within 64 bits.
const MOST_ELEMENTS: u64 = 1 << 56;

fn element(name: &str, dtype: DType) -> Result<ElementType, String> {
    match dtype {
        DType::BF16 => Ok(ElementType::Bf16),
        DType::F16 => Ok(ElementType::F16),
        DType::F32 | DType::TF32 => Ok(ElementType::F32),
        other => Err(format!(
            "elements of {name} are {other}; kernels take bf16, f16, tf32 and f32"
        )),
    }
}
