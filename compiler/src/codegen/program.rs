//! Which kernels the linear layers of a program need, op by op. [`layer`] says which kernels compute an op; ops that none compute are
//! left to other backends, and a diagnostic says why.

use raddle_dialect::TensorType;
use raddle_dialect::diag::{Diagnostic, Severity};
use raddle_dialect::ir::{Module, OpId, ValueId};
use raddle_dialect::ops::OpAttributes;

use super::description::KernelDescription;
use super::layer::{self, LayerPlan};
use super::math::Math;

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
        match plan(module, op) {
            None => {}
            Some(Ok(plan)) => {
                let launches = plan.launches.into_iter();
                kernels.extend(launches.map(|launch| ProgramKernel {
                    op,
                    kernel: launch.kernel,
                }));
            }
            Some(Err(reason)) => {
                let message = format!("no GPU kernel computes this layer: {reason}");
                let at = module.loc(op);
                diagnostics.push(Diagnostic::new(Severity::Warning, "W0901", at, message));
            }
        }
    }
    (kernels, diagnostics)
}

fn plan(module: &Module, op: OpId) -> Option<Result<LayerPlan, String>> {
    let def = module.def_of(op)?;
    if !layer::is_layer(def) {
        return None;
    }
    let types = |values: Vec<ValueId>| -> Result<Vec<TensorType>, String> {
        let types = values.into_iter();
        let types = types.map(|value| TensorType::of(module.cx(), module.ty(value)));
        let types: Result<_, _> = types.collect();
        types.map_err(|error| format!("an operand or result {error}"))
    };
    let operands = types(module.operands(op).collect());
    let results = types(module.results(op).collect());
    let attrs = OpAttributes { module, op };
    match operands.and_then(|operands| Ok((operands, results?))) {
        Ok((operands, results)) => layer::plan(def, &operands, &results, &attrs, Math::Full),
        Err(reason) => Some(Err(reason)),
    }
}
