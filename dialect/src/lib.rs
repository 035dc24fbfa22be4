//! The `dist` dialect: text and IR.
//!
//! `syntax` reads and prints text, `ir` holds programs, `ops` says what each op means, `diag` reports what is wrong; `action` is the
//! vocabulary of pipeline schedules.

pub mod action;
pub mod diag;
mod error;
pub mod ir;
pub mod layout;
pub mod mesh;
pub mod ops;
pub mod reference;
pub mod syntax;
mod tensor_type;

pub use error::Error;
pub use tensor_type::{DType, TensorType};
