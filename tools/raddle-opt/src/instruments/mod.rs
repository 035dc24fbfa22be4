//! What watches passes while they run.

mod dump;
mod promotion;
mod timing;
mod validate;

pub use dump::Dump;
pub use promotion::Promotion;
pub use timing::{Timer, TimingReport};
pub use validate::Validate;
