//! A kernel as PTX, with what a launch must know.

use super::target::Target;
use crate::codegen::contraction::Contraction;
use crate::codegen::description::KernelDescription;
use crate::codegen::error::CodegenError;
use crate::codegen::tiling::TileSchedule;

/// What a kernel's parameter points to, in global memory, aligned to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// The left operand.
    A,
    /// The right operand.
    B,
    /// The bias, one element per column.
    Bias,
    /// The result.
    Output,
    /// The biased product before the activation.
    Auxiliary,
}

impl Parameter {
    /// The parameter's name in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Parameter::A => "a",
            Parameter::B => "b",
            Parameter::Bias => "bias",
            Parameter::Output => "out",
            Parameter::Auxiliary => "aux",
        }
    }

    /// Whether the kernel writes there.
    pub const fn is_written(self) -> bool {
        matches!(self, Parameter::Output | Parameter::Auxiliary)
    }
}

/// A kernel's parameters, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters(Vec<Parameter>);

impl Parameters {
    /// The parameters that a product takes: A, B, then the bias, the result and the auxiliary output, where they exist.
    pub fn of(contraction: &Contraction) -> Parameters {
        let mut list = vec![Parameter::A, Parameter::B];
        if contraction.epilogue.bias.is_some() {
            list.push(Parameter::Bias);
        }
        list.push(Parameter::Output);
        if contraction.epilogue.auxiliary {
            list.push(Parameter::Auxiliary);
        }
        Parameters(list)
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

/// One kernel as PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The PTX module: one entry point and nothing else.
    pub text: String,
    /// The entry point's name.
    pub entry: String,
    /// Its parameters.
    pub parameters: Parameters,
    /// How it is launched.
    pub launch: Launch,
    /// What it computes.
    pub kernel: KernelDescription,
    /// How it was cut.
    pub schedule: TileSchedule,
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
