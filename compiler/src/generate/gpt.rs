//! The decoder.

use raddle_dialect::Error;
use raddle_dialect::ir::ValueId;

use super::program::Program;

/// Builds the step; gives the loss.
pub fn build(program: &mut Program) -> Result<ValueId, Error> {
    let _ = program;
    Err(Error::op("E0318", "no decoder yet"))
}
