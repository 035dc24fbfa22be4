//! What a simulation is asked for and what it gives: a way to share a machine, and when everything runs.

use super::action::{Direction, MicrobatchId, StageId};

/// How compute and communication share a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommModel {
    /// Only data dependencies, with the cost of a transfer on each; sends and receives in the lists are ignored. The
    /// cost model of the Zero Bubble paper.
    Dep,
    /// One in-order stream per rank: compute and transfers hold each other up.
    Sync,
    /// A compute stream and one communication stream per rank.
    Stream1,
    /// One communication stream, adjacent transfers launched as one group.
    Group,
    /// One communication stream per peer.
    Pair,
    /// One communication stream per peer and direction.
    PairDir,
    /// A send ends without its receiver.
    Eager,
}

impl CommModel {
    /// All of them, the plainest first.
    pub const ALL: [CommModel; 7] = [
        CommModel::Dep,
        CommModel::Sync,
        CommModel::Stream1,
        CommModel::Group,
        CommModel::Pair,
        CommModel::PairDir,
        CommModel::Eager,
    ];

    /// The name used in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            CommModel::Dep => "dep",
            CommModel::Sync => "sync",
            CommModel::Stream1 => "stream1",
            CommModel::Group => "group",
            CommModel::Pair => "pair",
            CommModel::PairDir => "pairdir",
            CommModel::Eager => "eager",
        }
    }
}

/// From when to when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// First moment.
    pub start: f64,
    /// Last moment.
    pub end: f64,
}

/// One transfer, with both its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedTransfer {
    /// Activation or gradient.
    pub direction: Direction,
    /// The stage that sends.
    pub sender: StageId,
    /// The stage that receives.
    pub receiver: StageId,
    /// Whose tensor.
    pub microbatch: MicrobatchId,
    /// From the moment both sides are ready.
    pub interval: Interval,
}

/// When each action runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Computes and steps of the optimizer, per rank and position; `None` for what takes no time on the compute stream.
    pub computes: Vec<Vec<Option<Interval>>>,
    /// The transfers; none under [`CommModel::Dep`].
    pub transfers: Vec<TimedTransfer>,
    /// The longest chain of waits that ends last, first to last.
    pub critical_path: Vec<CriticalStep>,
}

/// A link of the critical path.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalStep {
    /// `1F0@1` for a compute on rank 1, `0->1:F0` for a transfer from stage 0 to stage 1.
    pub label: String,
    /// When it runs.
    pub interval: Interval,
    /// Rank and position of a compute; `None` for a transfer.
    pub place: Option<(usize, usize)>,
}
