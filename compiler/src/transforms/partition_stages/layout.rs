//! Stages, ranks and chunks: which stage lives where.

use crate::schedule::{Placement, StageId};

/// A pipeline of `ranks` ranks with the same number of chunks each.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    /// Stages in all.
    pub stages: u32,
    /// Ranks along the pipeline axis.
    pub ranks: u32,
    /// Where stages live.
    pub placement: Placement,
    /// The mesh axis.
    pub axis: String,
}

impl Pipeline {
    /// The rank of a stage.
    pub fn rank(&self, stage: u32) -> u32 {
        self.placement.rank_of(StageId(stage), self.ranks).0
    }
}
