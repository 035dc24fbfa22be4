//! Devices: what plays the instructions of a bundle.

pub mod reference;
