//! From a file to a bundle with the kernels that its linear layers need.

use anyhow::Result;
use raddle_bundle::FunctionKind;
use raddle_compiler::analysis::cost::Cost;
use raddle_compiler::bundle;
use raddle_compiler::codegen::bundled::{BuiltKernel, BundleKernels};
use raddle_compiler::codegen::nvptx::{Architecture, Planned, Target};
use raddle_compiler::codegen::program::kernels_of;
use raddle_compiler::codegen::{CodegenError, Wish};
use raddle_dialect::ir::{Module, OpId, VerifyOptions, verify};
use raddle_runtime::device::launch::Launcher;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::{Loaded, Options, bar};
use crate::compare::rank_count;
use crate::device::Device;
use crate::input;
use crate::kernel::store::Store;

/// Reads a program and finds out which kernels it needs; `None` if it is none. Where kernels are wanted, layers without one get a
/// warning.
pub(super) fn load(options: &Options) -> Result<Option<Loaded>> {
    input::load(&options.file, |module, diagnostics| {
        let module = verify(module, VerifyOptions::default(), diagnostics).ok()?;
        let bundle = bundle::lower(&module, diagnostics)?;
        if options.device.kernels().is_some() {
            diagnostics.extend(kernels_of(&module).1);
        }
        let kernels = BundleKernels::of(&bundle, options.math.math());
        let (mut products, mut elements) = (0.0, 0.0);
        let classes = module.members(module.root(), "builtin.module");
        for (class, op) in bundle.classes.iter().zip(classes) {
            let mut of_rank = 0.0;
            for function in module.members(op, "func.func") {
                let kind = module.str_attr(function, "dist.kind");
                let times = match kind.and_then(FunctionKind::parse) {
                    None | Some(FunctionKind::Init) => continue,
                    Some(FunctionKind::Optimizer) => 1,
                    Some(_) => class.microbatches,
                };
                let ops = module.walk(function);
                of_rank += times as f64 * ops.map(|op| products_of(&module, op)).sum::<f64>();
            }
            let ranks = rank_count(&bundle, class) as f64;
            products += of_rank * ranks;
            let shapes = class.globals.iter().map(|global| &global.ty.shape);
            let sizes =
                shapes.map(|shape| shape.iter().map(|&extent| extent as f64).product::<f64>());
            elements += ranks * sizes.sum::<f64>();
        }
        Some(Loaded {
            bundle,
            kernels,
            products,
            elements,
        })
    })
}

/// Multiplications of an op, about; getting to one takes time too.
fn products_of(module: &Module, op: OpId) -> f64 {
    Cost::of(module, op).flops / 2.0 + PRODUCTS_PER_OP
}

/// Multiplications that take as long as an op on nothing.
const PRODUCTS_PER_OP: f64 = 100.0;

/// What kernels are for: what is asked for, else the GPU that is there, else the oldest target.
pub(super) fn target(options: &Options, launcher: &dyn Launcher) -> Result<Target> {
    let there = launcher.architecture().and_then(|name| {
        let own: Option<Architecture> = format!("{name}a").parse().ok();
        own.or_else(|| name.parse().ok())
    });
    let architecture = options.target.or(there).unwrap_or(Architecture::Sm80);
    Ok(match options.ptx_version {
        Some(version) => Target::with_ptx(architecture, version)?,
        None => Target::of(architecture),
    })
}

/// Emits the kernels, each once and side by side on all processors, and puts them into the bundle.
pub(super) fn emit(
    loaded: &mut Loaded,
    device: Device,
    target: Target,
    store: &Store,
) -> Result<()> {
    let descriptions = loaded.kernels.descriptions();
    let bar = bar(descriptions.len() as u128, "kernels emitted");
    let built = descriptions.par_iter().map(|description| {
        let ptx = store.emit(Planned::of(description, target, Wish::default())?)?;
        bar.set_message(ptx.entry.clone());
        bar.inc(1);
        Ok(BuiltKernel {
            image: device.image(&ptx, store)?,
            parameters: ptx.parameters,
        })
    });
    let built: Vec<_> = built.collect::<Result<_, CodegenError>>()?;
    bar.finish_and_clear();
    loaded.kernels.attach(&mut loaded.bundle, built)?;
    Ok(())
}
