//! The kernels of a program's linear layers, emitted and assembled.

use std::fmt;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::Module;

use super::emit::emit;
use super::ptx::Ptx;
use super::target::Target;
use super::toolkit::{Cubin, Toolkit};
use crate::codegen::error::CodegenError;
use crate::codegen::math::Math;
use crate::codegen::program::kernels_of;

/// One kernel, and how many layers of the program need it.
#[derive(Clone, Debug)]
pub struct LayerKernel {
    /// The kernel.
    pub ptx: Ptx,
    /// Its machine code.
    pub cubin: Cubin,
    /// How many ops of the program need it.
    pub uses: usize,
}

/// Emits and assembles the kernels of all `dist.fused_linear` and `dist.fused_linear_grad` in a module, each once, in
/// program order; products of single-precision elements are computed as `math` says. Layers that no kernel computes get a
/// warning instead.
///
/// # Errors
/// What emission and NVIDIA's assembler refuse.
pub fn layer_kernels(
    module: &Module,
    target: Target,
    math: Math,
    toolkit: &Toolkit,
) -> Result<(Vec<LayerKernel>, Vec<Diagnostic>), CodegenError> {
    let (found, diagnostics) = kernels_of(module);
    let mut kernels: Vec<LayerKernel> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for layer in found {
        let kernel = layer.kernel.with_math(math);
        if let Some(&place) = places.get(&kernel) {
            let known: &mut LayerKernel = &mut kernels[place];
            known.uses += 1;
            continue;
        }
        places.insert(kernel, kernels.len());
        let ptx = emit(&kernel, target)?;
        kernels.push(LayerKernel {
            cubin: toolkit.assemble(&ptx)?,
            ptx,
            uses: 1,
        });
    }
    Ok((kernels, diagnostics))
}

impl fmt::Display for LayerKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = self.cubin.resources;
        write!(
            f,
            "{}: {} registers, {} bytes of shared memory, {} bytes spilled, {} x {} threads, {} {}",
            self.ptx.entry,
            resources.registers,
            resources.static_shared_bytes + self.ptx.launch.shared_bytes,
            resources.spill_store_bytes + resources.spill_load_bytes,
            self.ptx.launch.blocks,
            self.ptx.launch.threads,
            self.uses,
            if self.uses == 1 { "use" } else { "uses" },
        )
    }
}
