//! Which kernels the linear layers of a program need.
//!
//! ```text
//! %c, %aux = dist.fused_linear gelu %x, %w, %b          ──▶   one fused-linear kernel
//! %dx, %dw, %db = dist.fused_linear_grad … %x, %w, %dc  ──▶   one dx kernel, one dw kernel with the bias's gradient
//! ```
//!
//! Batch dimensions are tokens: x is read as one matrix. Ops that no kernel computes are left to other backends; a
//! diagnostic says why.

use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::{DType, TensorType};

use super::description::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, MatrixOrder,
};

/// A kernel, and the op that needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramKernel {
    /// A `dist.fused_linear` or `dist.fused_linear_grad`.
    pub op: OpId,
    /// What the kernel computes.
    pub kernel: KernelDescription,
}

/// The kernels of a module's linear layers, in program order, and a warning (`W0901`) for each that has none. Layers of
/// the same shape need the same kernel; each is listed.
pub fn kernels_of(module: &Module) -> (Vec<ProgramKernel>, Vec<Diagnostic>) {
    let mut kernels = Vec::new();
    let mut diagnostics = Vec::new();
    for op in module.walk_all() {
        let layer = Layer { module, op };
        let found = if module.is(op, "dist.fused_linear") {
            layer.forward().map(|kernel| vec![kernel])
        } else if module.is(op, "dist.fused_linear_grad") {
            layer.backward()
        } else {
            continue;
        };
        let found = found.and_then(|found| {
            for kernel in &found {
                kernel.validate().map_err(|error| error.to_string())?;
            }
            Ok(found)
        });
        match found {
            Ok(found) => {
                kernels.extend(found.into_iter().map(|kernel| ProgramKernel { op, kernel }))
            }
            Err(reason) => {
                let message = format!("no GPU kernel computes this layer: {reason}");
                let at = module.loc(op);
                diagnostics.push(Diagnostic::new(Severity::Warning, "W0901", at, message));
            }
        }
    }
    (kernels, diagnostics)
}

/// One op, as far as it is a linear layer.
struct Layer<'m> {
    module: &'m Module,
    op: OpId,
}

impl Layer<'_> {
    fn forward(&self) -> Result<KernelDescription, String> {
        let plain = self.plain()?;
        let bias = match self.operand("bias") {
            Some(bias) => Some(self.element("the bias", bias)?),
            None => None,
        };
        Ok(KernelDescription {
            bias,
            activation: self.activation()?,
            auxiliary: self.result("aux").is_some(),
            ..plain
        })
    }

    fn backward(&self) -> Result<Vec<KernelDescription>, String> {
        let plain = self.plain()?;
        let mut kernels = Vec::new();
        if self.result("dx").is_some() {
            if plain.a.order == MatrixOrder::ColumnMajor {
                return Err("dx would be column major, because x is given transposed".to_owned());
            }
            kernels.push(KernelDescription {
                op: KernelOp::InputGradient,
                a: MatrixLayout::ROW_MAJOR,
                activation: self.activation()?,
                ..plain
            });
        }
        let bias = match self.result("dbias") {
            Some(gradient) => Some(self.element("dbias", gradient)?),
            None => None,
        };
        if let Some(gradient) = self.result("dw") {
            if plain.b.order == MatrixOrder::ColumnMajor {
                return Err("dw would be column major, because w is given transposed".to_owned());
            }
            let overwrites = self.module.bool_attr(self.op, "overwrite") == Some(true);
            kernels.push(KernelDescription {
                op: KernelOp::WeightGradient,
                output: self.element("dw", gradient)?,
                b: MatrixLayout::ROW_MAJOR,
                bias,
                accumulate: self.operand("acc").is_some() && !overwrites,
                ..plain
            });
        } else if bias.is_some() {
            kernels.push(KernelDescription {
                op: KernelOp::BiasGradient,
                a: MatrixLayout::ROW_MAJOR,
                bias,
                ..plain
            });
        }
        Ok(kernels)
    }

    /// The product alone: types, extents and the order of x and w.
    fn plain(&self) -> Result<KernelDescription, String> {
        let x = self.tensor("x")?;
        let w = self.tensor("w")?;
        let element = element("x", x.dtype)?;
        let extent = |value: i64| {
            u64::try_from(value)
                .map_err(|_| "an extent is not known when it is compiled".to_owned())
        };
        let transpose_x = self.module.bool_attr(self.op, "transpose_a") == Some(true);
        let transpose_w = self.module.bool_attr(self.op, "transpose_b") == Some(true);
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
        let mut tokens = extent(m)?;
        for &count in batch {
            tokens = tokens
                .checked_mul(extent(count)?)
                .ok_or("there are too many tokens")?;
        }
        if transpose_x && tokens != extent(m)? {
            return Err("a batch of transposed matrices is not one matrix".to_owned());
        }
        let layout = |transposed| {
            if transposed {
                MatrixLayout::COLUMN_MAJOR
            } else {
                MatrixLayout::ROW_MAJOR
            }
        };
        Ok(KernelDescription {
            a: layout(transpose_x),
            b: layout(transpose_w),
            ..KernelDescription::product(element, tokens, extent(n)?, extent(k)?)
        })
    }

    fn activation(&self) -> Result<Activation, String> {
        match self.module.str_attr(self.op, "activation") {
            None | Some("none") => Ok(Activation::None),
            Some("relu") => Ok(Activation::Relu),
            Some("gelu") => Ok(Activation::GeluErf),
            Some("gelu_tanh") => Ok(Activation::GeluTanh),
            Some("silu") => Ok(Activation::Silu),
            Some(other) => Err(format!("the activation {other} has none")),
        }
    }

    fn tensor(&self, name: &str) -> Result<TensorType, String> {
        let value = self
            .operand(name)
            .ok_or_else(|| format!("operand {name} is missing"))?;
        TensorType::of(self.module.cx(), self.module.ty(value))
            .map_err(|error| format!("{name} {error}"))
    }

    fn element(&self, name: &str, value: ValueId) -> Result<ElementType, String> {
        let tensor = TensorType::of(self.module.cx(), self.module.ty(value))
            .map_err(|error| format!("{name} {error}"))?;
        element(name, tensor.dtype)
    }

    fn operand(&self, name: &str) -> Option<ValueId> {
        self.module.operand_in(self.op, name)
    }

    fn result(&self, name: &str) -> Option<ValueId> {
        self.module.result_in(self.op, name)
    }
}

fn element(name: &str, dtype: DType) -> Result<ElementType, String> {
    match dtype {
        DType::BF16 => Ok(ElementType::Bf16),
        DType::F16 => Ok(ElementType::F16),
        DType::F32 => Ok(ElementType::F32),
        other => Err(format!(
            "elements of {name} are {other}; kernels take bf16, f16 and f32"
        )),
    }
}
