//! The kernels of a program's linear layers, emitted and assembled.

use std::collections::HashMap;
use std::fmt;

use raddle_dialect::diag::Diagnostic;
use raddle_dialect::ir::Module;
use rayon::prelude::*;

use super::cache::KernelCache;
use super::emit::emit_planned;
use super::planned::Planned;
use super::ptx::Ptx;
use super::target::Target;
use super::toolkit::{Cubin, Toolkit};
use crate::codegen::Wish;
use crate::codegen::description::KernelDescription;
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

/// What the kernels of a program are made for, and with.
#[derive(Clone, Copy, Debug)]
pub struct LayerSetting<'a> {
    /// What they run on.
    pub target: Target,
    /// How products of single-precision elements are computed.
    pub math: Math,
    /// NVIDIA's assembler.
    pub toolkit: &'a Toolkit,
    /// Where kernels are kept from one run to the next, if anywhere.
    pub cache: Option<&'a KernelCache>,
}

/// Emits and assembles the kernels of all `dist.fused_linear` and `dist.fused_linear_grad` in a module, each once and side
/// by side on all processors; they are listed in program order. Layers that no kernel computes get a warning instead.
///
/// # Errors
/// What emission and NVIDIA's assembler refuse, of the first kernel that they refuse.
pub fn layer_kernels(
    module: &Module,
    setting: LayerSetting<'_>,
) -> Result<(Vec<LayerKernel>, Vec<Diagnostic>), CodegenError> {
    let (found, diagnostics) = kernels_of(module);
    let mut wanted: Vec<(KernelDescription, usize)> = Vec::new();
    let mut places = HashMap::new();
    for layer in found {
        let kernel = layer.kernel.with_math(setting.math);
        let place = *places.entry(kernel).or_insert(wanted.len());
        match wanted.get_mut(place) {
            Some((_, uses)) => *uses += 1,
            None => wanted.push((kernel, 1)),
        }
    }
    let made: Vec<Result<LayerKernel, CodegenError>> = wanted
        .par_iter()
        .map(|(kernel, uses)| make(kernel, *uses, setting))
        .collect();
    let kernels = made.into_iter().collect::<Result<_, _>>()?;
    Ok((kernels, diagnostics))
}

fn make(
    kernel: &KernelDescription,
    uses: usize,
    setting: LayerSetting<'_>,
) -> Result<LayerKernel, CodegenError> {
    let planned = Planned::of(kernel, setting.target, Wish::default())?;
    let (ptx, cubin) = match setting.cache {
        Some(cache) => {
            let ptx = cache.emit(planned)?.value;
            let cubin = cache.assemble(&ptx, setting.toolkit)?.value;
            (ptx, cubin)
        }
        None => {
            let ptx = emit_planned(planned)?;
            let cubin = setting.toolkit.assemble(&ptx)?;
            (ptx, cubin)
        }
    };
    Ok(LayerKernel { ptx, cubin, uses })
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
