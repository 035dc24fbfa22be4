//! Plays a compiled bundle: devices, communication between ranks, and the reference device that defines what is right.
//!
//! The runtime sees bundles, never the compiler's IR. From `raddle-dialect` it takes what each op means on plain tensors.

pub mod checkpoint;
pub mod device;
mod error;
mod training;
pub mod validate;

pub use error::{CallSite, RuntimeError};
pub use training::Training;
