//! Text to IR and back.
//!
//! MLIR's own text: the generic form of any op, and the short forms of `dist`, `builtin.module`, `func`, `cf` and `arith`.

pub mod print;

pub use print::{Displayed, PrintOptions, Printable, print, write};
