//! A kernel as PTX, with what a launch must know.

use super::planned::Choice;
use super::target::Target;
use super::tensor_map::TensorMap;
use crate::codegen::column_sum::ColumnSumSchedule;
use crate::codegen::contraction::Contraction;
use crate::codegen::description::{Activation, KernelDescription};
use crate::codegen::error::CodegenError;
use crate::codegen::parts::Scratch;
use crate::codegen::tensor_memory_tiling::TensorMemorySchedule;
use crate::codegen::tiling::TileSchedule;
use crate::codegen::warpgroup_tiling::{NoWarpgroups, WarpgroupSchedule};

/// What a kernel's parameter points to, in global memory, aligned to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// The first input.
    A,
    /// The second input.
    B,
    /// The bias, one element per column.
    Bias,
    /// The result. A kernel that accumulates also reads it.
    Output,
    /// The biased product before the activation, written.
    AuxiliaryOutput,
    /// The pre-activation whose derivative is taken, read.
    AuxiliaryInput,
    /// The gradient of the bias, one element per column, written.
    BiasGradient,
    /// Parts of sums on their way from one block to another; [`Ptx::scratch`] says how many bytes.
    Workspace,
    /// Counters of finished parts, zero before the launch and after it; [`Ptx::scratch`] says how many bytes.
    Counters,
}

impl Parameter {
    /// The parameter's name in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Parameter::A => "a",
            Parameter::B => "b",
            Parameter::Bias => "bias",
            Parameter::Output => "out",
            Parameter::AuxiliaryOutput | Parameter::AuxiliaryInput => "aux",
            Parameter::BiasGradient => "dbias",
            Parameter::Workspace => "workspace",
            Parameter::Counters => "counters",
        }
    }

    /// Whether the kernel writes a result there.
    pub const fn is_written(self) -> bool {
        matches!(
            self,
            Parameter::Output | Parameter::AuxiliaryOutput | Parameter::BiasGradient
        )
    }
}

/// A kernel's parameters, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters(Vec<Parameter>);

impl Parameters {
    /// The parameters that a product takes: the inputs, the bias, the result, the auxiliary matrix and the bias's
    /// gradient, where they exist.
    pub fn of_product(contraction: &Contraction) -> Parameters {
        let epilogue = contraction.epilogue;
        let optional = [
            (epilogue.bias.is_some(), Parameter::Bias),
            (true, Parameter::Output),
            (
                epilogue.auxiliary_output.is_some(),
                Parameter::AuxiliaryOutput,
            ),
            (epilogue.derivative.is_some(), Parameter::AuxiliaryInput),
            (
                contraction.column_sums || epilogue.result_sums,
                Parameter::BiasGradient,
            ),
        ];
        let mut list = vec![Parameter::A, Parameter::B];
        list.extend(
            optional
                .iter()
                .filter(|(exists, _)| *exists)
                .map(|&(_, parameter)| parameter),
        );
        Parameters(list)
    }

    /// The parameters that a sum over the rows of a matrix takes: the matrix, where it is multiplied on the way the
    /// result and the pre-activation, and the sums.
    pub fn of_column_sum(schedule: &ColumnSumSchedule) -> Parameters {
        let mut list = vec![Parameter::A];
        if let Some(map) = schedule.map {
            list.push(Parameter::Output);
            if map.activation != Activation::None {
                list.push(Parameter::AuxiliaryInput);
            }
        }
        if schedule.parts.column_parts.is_some() {
            list.push(Parameter::BiasGradient);
        }
        Parameters(list)
    }

    /// These parameters, and after them those that hold parts of sums, as far as there are any.
    pub fn with_scratch(mut self, scratch: Scratch) -> Parameters {
        if scratch.workspace_bytes > 0 {
            self.0.extend([Parameter::Workspace, Parameter::Counters]);
        }
        self
    }

    /// The parameters in order.
    pub fn as_slice(&self) -> &[Parameter] {
        &self.0
    }

    /// The number of a parameter.
    pub fn index(&self, parameter: Parameter) -> Option<u32> {
        self.0
            .iter()
            .position(|&other| other == parameter)
            .map(|index| index as u32)
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks; the grid has one dimension.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory that the launch asks for.
    pub shared_bytes: u32,
}

/// How a kernel's work is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A matrix product in tiles, one for each block.
    Product(TileSchedule),
    /// A matrix product by warpgroups in blocks that stay.
    Warpgroups(WarpgroupSchedule),
    /// A matrix product with its sums in tensor memory, in blocks that stay.
    TensorMemory(TensorMemorySchedule),
    /// Sums over the rows of a matrix, and what is made of its elements on the way.
    ColumnSum(ColumnSumSchedule),
}

impl Plan {
    /// How a kernel that is cut like this is launched.
    pub const fn launch(&self) -> Launch {
        match self {
            Plan::Product(schedule) => Launch {
                blocks: schedule.blocks() as u32,
                threads: schedule.threads(),
                shared_bytes: schedule.shared_bytes(),
            },
            Plan::Warpgroups(schedule) => Launch {
                blocks: schedule.blocks,
                threads: schedule.threads(),
                shared_bytes: schedule.shared_bytes(),
            },
            Plan::TensorMemory(schedule) => Launch {
                blocks: schedule.tile.blocks,
                threads: schedule.threads(),
                shared_bytes: schedule.shared_bytes(),
            },
            Plan::ColumnSum(schedule) => Launch {
                blocks: schedule.blocks() as u32,
                threads: schedule.threads(),
                shared_bytes: schedule.shared_bytes(),
            },
        }
    }

    /// Global memory that the kernel takes beside its matrices.
    pub const fn scratch(&self) -> Scratch {
        match self {
            Plan::Product(schedule) => schedule.parts.scratch(),
            Plan::Warpgroups(schedule) => schedule.parts.scratch(),
            Plan::TensorMemory(schedule) => schedule.tile.parts.scratch(),
            Plan::ColumnSum(schedule) => schedule.parts.scratch(),
        }
    }

    /// Blocks that are meant to share a multiprocessor.
    pub const fn resident(&self) -> u32 {
        match self {
            Plan::Product(schedule) => schedule.resident,
            Plan::Warpgroups(schedule) => schedule.resident,
            Plan::TensorMemory(schedule) => schedule.tile.resident,
            Plan::ColumnSum(_) => 2,
        }
    }
}

/// One kernel as PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The PTX module: one entry point and nothing else.
    pub text: String,
    /// The entry point's name.
    pub entry: String,
    /// Its pointers.
    pub parameters: Parameters,
    /// Its tensor maps: parameters of 128 bytes each, after the pointers.
    pub tensor_maps: Vec<TensorMap>,
    /// How it is launched.
    pub launch: Launch,
    /// What its workspace and its counters take.
    pub scratch: Scratch,
    /// What it computes.
    pub kernel: KernelDescription,
    /// How the work was cut.
    pub plan: Plan,
    /// Why neither warpgroups nor tensor memory do it, on an architecture that has one of them.
    pub without_warpgroups: Option<NoWarpgroups>,
    /// What chose the tile.
    pub choice: Choice,
    /// What it runs on.
    pub target: Target,
}

/// Looks for calls to functions that do not exist. LLVM takes a misspelt intrinsic for an external function, and PTX
/// declares it as one.
///
/// # Errors
/// [`CodegenError::LeftoverExternals`] lists the names.
pub fn check_externals(ptx: &str) -> Result<(), CodegenError> {
    let mut names: Vec<String> = Vec::new();
    for line in ptx.lines() {
        // Few lines are worth taking apart.
        if !line.contains("llvm") && !line.contains(".extern") {
            continue;
        }
        let code = line.split("//").next().unwrap_or_default();
        let declares = code.trim_start().starts_with(".extern") && code.contains(".func");
        for word in code.split(|c: char| !(c.is_ascii_alphanumeric() || "_$.%".contains(c))) {
            let is_intrinsic = word.starts_with("llvm.") || word.starts_with("llvm_");
            if (is_intrinsic || (declares && is_function_name(word)))
                && !names.iter().any(|name| name == word)
            {
                names.push(word.to_owned());
            }
        }
    }
    if names.is_empty() {
        Ok(())
    } else {
        Err(CodegenError::LeftoverExternals(names))
    }
}

/// Whether a word of a declaration can be the function's name rather than a directive, a register or a number.
fn is_function_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_external_function_is_found() {
        let ptx = ".version 7.0\n.extern .func  (.param .b32 func_retval0) llvm_nvvm_mistake\n(\n\t.param .b32 x\n)\n;\n";
        let error = check_externals(ptx).unwrap_err();
        assert!(error.to_string().contains("llvm_nvvm_mistake"), "{error}");
        let called = "\tcall.uni (retval0), llvm.nvvm.mistake, (param0);\n";
        assert!(check_externals(called).is_err());
    }

    #[test]
    fn shared_memory_and_comments_are_not_functions() {
        let ptx =
            "// llvm.is.here\n.extern .shared .align 128 .b8 stages[];\n\tmov.b32 %r1, %tid.x;\n";
        assert!(check_externals(ptx).is_ok());
    }
}
