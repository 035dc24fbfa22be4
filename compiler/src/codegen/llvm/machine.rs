//! A module through LLVM: verification, passes, and the target's assembly.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine,
    TargetTriple,
};

use crate::codegen::CodegenError;

/// The passes that run on emitted kernels. Emission already writes the loops, the unrolling and the addresses that are
/// wanted; what is left is folding constants, sharing common values and dropping dead ones. Passes that restructure
/// loops stay out: they undo the pipelining. LLVM's own passes in front of instruction selection share common values once more.
const PASSES: &str = "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,adce)";

/// How much instruction selection tries. At a higher level NVPTX numbers all values twice more, which takes a tenth of the
/// whole time and changes nothing in what comes out; without any optimisation the sums of `wgmma` are copied about.
const LEVEL: OptimizationLevel = OptimizationLevel::Less;

/// One processor of one of LLVM's targets.
pub(crate) struct Machine {
    machine: TargetMachine,
    triple: TargetTriple,
}

/// A module after verification and passes.
pub(crate) struct Optimised<'m, 'c> {
    machine: &'m Machine,
    module: Module<'c>,
}

impl Machine {
    /// NVPTX for a processor, as LLVM names it, and a list of features. The caller has checked that they go together:
    /// LLVM ends the process over a pair that does not.
    pub(crate) fn nvptx(processor: &str, features: &str) -> Result<Machine, CodegenError> {
        static INITIALISE: Once = Once::new();
        INITIALISE.call_once(|| LlvmTarget::initialize_nvptx(&InitializationConfig::default()));
        let failed = |message: String| CodegenError::Llvm {
            stage: "target",
            message,
        };
        let triple = TargetTriple::create("nvptx64-nvidia-cuda");
        let target = LlvmTarget::from_triple(&triple).map_err(|error| failed(error.to_string()))?;
        let machine = target
            .create_target_machine(
                &triple,
                processor,
                features,
                LEVEL,
                RelocMode::Default,
                CodeModel::Default,
            )
            .ok_or_else(|| failed(format!("no machine for {processor} with {features}")))?;
        Ok(Machine { machine, triple })
    }

    /// Gives a module that is still to be filled this machine's triple and data layout.
    pub(crate) fn prepare(&self, module: &Module<'_>) {
        module.set_triple(&self.triple);
        module.set_data_layout(&self.machine.get_target_data().get_data_layout());
    }

    /// Verifies a finished module and runs the passes on it.
    pub(crate) fn optimise<'m, 'c>(
        &'m self,
        module: Module<'c>,
    ) -> Result<Optimised<'m, 'c>, CodegenError> {
        module.verify().map_err(|error| CodegenError::Llvm {
            stage: "verification",
            message: error.to_string(),
        })?;
        module
            .run_passes(PASSES, &self.machine, PassBuilderOptions::create())
            .map_err(|error| CodegenError::Llvm {
                stage: "passes",
                message: error.to_string(),
            })?;
        Ok(Optimised {
            machine: self,
            module,
        })
    }
}

impl Optimised<'_, '_> {
    /// The module as LLVM IR.
    pub(crate) fn ir(&self) -> String {
        self.module.print_to_string().to_string()
    }

    /// The module as the target's assembly.
    pub(crate) fn assembly(&self) -> Result<String, CodegenError> {
        let failed = |message: String| CodegenError::Llvm {
            stage: "assembly",
            message,
        };
        let buffer = self
            .machine
            .machine
            .write_to_memory_buffer(&self.module, FileType::Assembly)
            .map_err(|error| failed(error.to_string()))?;
        let text =
            std::str::from_utf8(buffer.as_slice()).map_err(|error| failed(error.to_string()))?;
        Ok(text.trim_end_matches('\0').to_owned())
    }
}
