//! Locations: where an op came from, in every form MLIR has.

use super::attr::Attr;
use super::context::Ident;

/// An interned location; see [`Context::loc_data`](super::Context::loc_data).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Loc(pub(super) u32);

impl Loc {
    /// Position among the context's interned values: a dense key for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a [`Loc`] is. Lines and columns count from 1; 0 is what MLIR prints where it knows none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LocData {
    /// `unknown`
    Unknown,
    /// `"file":line:col`, or a range, `"file":line:col to line:col`
    File {
        /// File name.
        file: Ident,
        /// First line.
        line: u32,
        /// First column.
        col: u32,
        /// Last line and column, for a range.
        end: Option<(u32, u32)>,
    },
    /// `"name"` or `"name"(child)`
    Name {
        /// The name.
        name: Ident,
        /// Where the named thing is; unknown if not written.
        child: Loc,
    },
    /// `callsite(callee at caller)`
    CallSite {
        /// Where the called code is.
        callee: Loc,
        /// Where it is called.
        caller: Loc,
    },
    /// `fused<metadata>[…]`
    Fused {
        /// The parts.
        locs: Box<[Loc]>,
        /// What fused them.
        metadata: Option<Attr>,
    },
}

impl LocData {
    /// A position in a file.
    pub fn file(file: Ident, line: u32, col: u32) -> Self {
        Self::File {
            file,
            line,
            col,
            end: None,
        }
    }
}
