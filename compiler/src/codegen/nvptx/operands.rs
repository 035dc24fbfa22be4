//! What stands behind a kernel's pointers, in the oracle's terms.

use super::ptx::Parameter;
use crate::codegen::oracle::{Results, Which};

impl Parameter {
    /// Which of the oracle's matrices is there before a launch. What the kernel only writes lies like the result.
    pub const fn before(self) -> Which {
        match self {
            Parameter::A => Which::First,
            Parameter::B => Which::Second,
            Parameter::Bias => Which::Bias,
            Parameter::AuxiliaryInput => Which::Auxiliary,
            Parameter::Output
            | Parameter::AuxiliaryOutput
            | Parameter::BiasGradient
            | Parameter::Workspace
            | Parameter::Counters => Which::Existing,
        }
    }
}

impl<'b> Results<'b> {
    /// The results among what is behind the pointers after a launch.
    pub fn behind(bytes: impl Fn(Parameter) -> Option<&'b [u8]>) -> Results<'b> {
        Results {
            output: bytes(Parameter::Output),
            auxiliary: bytes(Parameter::AuxiliaryOutput),
            bias_gradient: bytes(Parameter::BiasGradient),
        }
    }
}
