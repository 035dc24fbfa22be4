//! What watches passes while they run.

mod dump;
mod timing;
mod validate;

pub use dump::Dump;
pub use timing::{Timer, TimingReport};
pub use validate::Validate;
