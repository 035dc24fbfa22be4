//! The Raddle compiler: passes on `dist` modules, the schedule room, code generation and the doors to other systems.

pub mod analysis;
pub mod bundle;
pub mod codegen;
pub mod driver;
mod error;
pub mod generate;
pub mod interop;
pub mod pass;
pub mod schedule;
pub mod transforms;

pub use error::Error;
