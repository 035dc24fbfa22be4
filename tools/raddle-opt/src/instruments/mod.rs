//! What watches passes while they run.

mod dump;
mod timing;

pub use dump::Dump;
pub use timing::{Timer, TimingReport};
