//! What can go wrong in this crate. The details are in the diagnostics; an error says which phase gave up.

use thiserror::Error;

/// A failure of the compiler. Everything a user can do about it stands in the diagnostics pushed before.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Error {
    /// The pipeline text or an option in it is wrong.
    #[error("the pass pipeline is not valid")]
    Pipeline,
    /// A pass reported an error.
    #[error("pass '{0}' failed")]
    Pass(&'static str),
    /// A pass left a module that does not verify.
    #[error("the module does not verify after pass '{0}'")]
    Verify(&'static str),
    /// Something watching the passes stopped them.
    #[error("stopped at pass '{0}'")]
    Stopped(&'static str),
}
