//! Why a module cannot be read or a launch cannot start.

use thiserror::Error;

/// Why a module cannot be read or a launch cannot start.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The text is no PTX.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line of the text, from 1.
        line: u32,
        /// What is wrong.
        message: String,
    },
    /// An instruction or a directive that is not modelled.
    #[error("line {line}: `{what}` is not modelled")]
    Unsupported {
        /// Line of the text, from 1.
        line: u32,
        /// The instruction or directive.
        what: String,
    },
    /// A launch that does not fit the kernel.
    #[error("cannot launch: {0}")]
    Launch(String),
}
