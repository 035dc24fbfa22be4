//! What can go wrong while a bundle runs.

use raddle_bundle::BundleError;

/// A rank at an instruction that other ranks have to join, as messages show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallSite {
    /// The rank.
    pub rank: usize,
    /// The call with all that has to agree: `dist.all_reduce sum over ["mp"] : 2x8x16xf32`.
    pub call: String,
    /// Where the op came from.
    pub location: String,
}

impl std::fmt::Display for CallSite {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let CallSite {
            rank,
            call,
            location,
        } = self;
        write!(f, "rank {rank}: {call} at {location}")
    }
}

fn lines(sites: &[CallSite]) -> String {
    sites.iter().map(|s| format!("\n  {s}")).collect()
}

/// Why a bundle cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The bundle itself is broken.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The mesh or an op's use of it is broken.
    #[error(transparent)]
    Mesh(#[from] raddle_dialect::Error),
    /// A rank belongs to no class, or to two.
    #[error("rank {rank} belongs to {count} classes, not to one")]
    Classes {
        /// The rank.
        rank: usize,
        /// How many classes hold it.
        count: usize,
    },
    /// A type that the ops do not know.
    #[error("class '{class}' has tensors of {dtype}, which the reference device does not know")]
    Dtype {
        /// The class.
        class: String,
        /// The element type.
        dtype: String,
    },
    /// An instruction that the reference device has no meaning for.
    #[error("rank {rank}: '{op}' at {location} cannot be run: {why}")]
    Instr {
        /// The rank.
        rank: usize,
        /// Op name.
        op: String,
        /// Where the op came from.
        location: String,
        /// Why.
        why: String,
    },
    /// A register or global is read before it is written.
    #[error("rank {rank}: {what} is read before it is written")]
    Unwritten {
        /// The rank.
        rank: usize,
        /// A register of a function, or a global.
        what: String,
    },
    /// A class lacks a function that the run needs.
    #[error("class '{class}' has no function of kind {kind}")]
    NoFunction {
        /// The class.
        class: String,
        /// The missing kind.
        kind: String,
    },
    /// The functions of a class do not make up a step.
    #[error("class '{class}': {why}")]
    Jobs {
        /// The class.
        class: String,
        /// What is wrong.
        why: String,
    },
    /// The schedule does not fit the mesh.
    #[error("the schedule cannot be played: {why}")]
    Schedule {
        /// What is wrong.
        why: String,
    },
    /// A checkpoint does not fit the map by which it is to be converted.
    #[error("the checkpoint cannot be converted: {why}")]
    Checkpoint {
        /// What is wrong.
        why: String,
    },
    /// A send that no receive took.
    #[error("what a rank sends is never received:\n  {site}")]
    Undelivered {
        /// The send.
        site: CallSite,
    },
    /// Inputs do not fit a function's parameters.
    #[error("rank {rank}: function '{function}' takes {expected}, but got {found}")]
    Inputs {
        /// The rank.
        rank: usize,
        /// The function.
        function: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// Ranks of a group meet at collectives that do not fit together.
    #[error("ranks of one group meet at different collectives:{}", lines(.sites))]
    Mismatch {
        /// Two of the ranks that disagree.
        sites: Vec<CallSite>,
    },
    /// Ranks wait for others that never come.
    #[error("no rank can go on; these wait{}:{}", if .finished.is_empty() { String::new() } else { format!(" while {:?} have finished", .finished) }, lines(.sites))]
    Deadlock {
        /// Where each waiting rank is.
        sites: Vec<CallSite>,
        /// Ranks that have finished.
        finished: Vec<usize>,
    },
}
