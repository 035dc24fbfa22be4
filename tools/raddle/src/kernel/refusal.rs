//! Options that cannot be had: the command ends with 2, as it does for those that cannot be read.

use std::process::ExitCode;

use raddle_compiler::codegen::CodegenError;

/// Options that do not go together.
#[derive(Debug)]
pub struct BadOptions(pub String);

impl std::fmt::Display for BadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOptions {}

/// Prints what is wrong with the options and gives 2, if that is what an outcome is.
///
/// # Errors
/// The outcome's, if it is another.
pub fn exit_code(outcome: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    let Err(error) = outcome else {
        return outcome;
    };
    let codegen = error.downcast_ref::<CodegenError>();
    let concerns_options = codegen.is_some_and(CodegenError::concerns_options);
    if concerns_options || error.is::<BadOptions>() {
        eprintln!("error: {error:#}");
        return Ok(ExitCode::from(2));
    }
    Err(error)
}
