//! What command line tools share: sections of a file, expected diagnostics, files written whole or not at all.

mod copies;
mod expect;
mod output;
mod split;

pub use copies::write_generic_copy;
pub use expect::{Checked, Expectations};
pub use output::OutputFile;
pub use split::{DEFAULT_MARKER, Section, sections};
