//! Who has what of a checkpoint, once a pass has taken globals away from some ranks.
//!
//! ```text
//!                 rank 0   rank 1               rank 0   rank 1
//! copies of b        7        7        ⇄           7
//! shares of g        3        4        ⇄           7                (back: 7 and 0)
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{GlobalKind, Mesh, TensorType};

/// The version that this crate writes and reads.
pub const CHECKPOINT_VERSION: u32 = 1;

/// How a checkpoint that was saved before the pass becomes one for the program after it, and back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CheckpointMap {
    /// Format version, [`CHECKPOINT_VERSION`].
    pub version: u32,
    /// The mesh of both programs.
    pub mesh: Mesh,
    /// The globals that fewer ranks have after the pass. All others stay where they are.
    pub moved: Vec<Moved>,
}

/// A global that only its owners have after the pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Moved {
    /// Its name, before and after.
    pub global: String,
    /// What it is for.
    pub kind: GlobalKind,
    /// The parameter that a state belongs to.
    pub of: Option<String>,
    /// Shape on one rank, and dtype.
    pub ty: TensorType,
    /// The ranks that had it, as boxes: each maps an axis to indices; an absent axis stands for all of its indices.
    pub ranks: Vec<BTreeMap<String, Vec<usize>>>,
    /// What the owners' coordinates are on the axes over which it was taken away. The owner of a rank agrees with it on all other
    /// axes.
    pub owner: BTreeMap<String, usize>,
    /// What the ranks of these axes had before.
    pub before: Held,
}

/// What ranks hold of a global.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// All the same.
    Copies,
    /// Each a share of the sum.
    Shares,
}
