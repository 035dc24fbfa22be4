//! Devices: what plays the instructions of a bundle, and what launches kernels.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod kernels;
pub mod launch;
#[cfg(feature = "ptxsim")]
pub mod ptxsim;
pub mod reference;
