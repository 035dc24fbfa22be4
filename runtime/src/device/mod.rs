//! Devices: what plays the instructions of a bundle.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod reference;
