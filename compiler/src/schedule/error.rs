//! What can be wrong with a schedule or with the wish for one.

use super::action::{ActionSyntax, MicrobatchId, Op, RankId, StageId};

/// Where an action stands: rank and place in its list, both from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionPlace {
    /// Whose list.
    pub rank: RankId,
    /// The place in it.
    pub position: usize,
}

impl std::fmt::Display for ActionPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}, position {}", self.rank.0, self.position)
    }
}

/// A link of a ring of waits: it waits for the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// `1F0@1` for a compute on rank 1, `0->1:F0` for a transfer from stage 0 to stage 1.
    pub label: String,
    /// The actions that stand for it in the lists: a compute's own, or both ends of a transfer.
    pub places: Vec<ActionPlace>,
}

/// The labels of a ring.
pub fn labels(cycle: &[Wait]) -> Vec<&str> {
    cycle.iter().map(|wait| wait.label.as_str()).collect()
}

/// A schedule that cannot be, or a wish that cannot be met. [`code`](ScheduleError::code) and
/// [`help`](ScheduleError::help) serve the diagnostic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// A cell of a schedule file is no action.
    #[error("bad action `{text}`: {problem}")]
    Syntax {
        row: usize,
        column: usize,
        text: String,
        problem: ActionSyntax,
    },
    /// A file that is not of the format at all.
    #[error("{what}")]
    File { row: usize, what: String },
    /// Two ranks act for one stage.
    #[error("stage {} is on ranks {} and {}", stage.0, ranks[0].0, ranks[1].0)]
    StageOnTwoRanks { stage: StageId, ranks: [RankId; 2] },
    /// A hole in the stages.
    #[error("stages are not 0..{}: stage {} is missing", stages.saturating_sub(1), stage.0)]
    StageMissing { stage: StageId, stages: u32 },
    /// A hole in the micro-batches.
    #[error("micro-batches are not 0..{}: some are never computed", found.saturating_sub(1))]
    MicrobatchesNotDense { found: u32 },
    /// The same step twice.
    #[error("{place}, {op}: done twice")]
    Twice { place: ActionPlace, op: Op },
    /// A step before what it needs on its own rank.
    #[error("{place}, {op}: no {needs} before it")]
    TooEarly {
        place: ActionPlace,
        op: Op,
        needs: char,
    },
    /// A backward done whole and in parts.
    #[error("{place}, {op}: both B and I")]
    WholeAndSplit { place: ActionPlace, op: Op },
    /// A forward that nobody does.
    #[error("rank {}: {}F{} missing", rank.0, stage.0, microbatch.0)]
    ForwardMissing {
        rank: RankId,
        stage: StageId,
        microbatch: MicrobatchId,
    },
    /// A backward that nobody finishes.
    #[error("rank {}: backward of stage {} microbatch {} incomplete", rank.0, stage.0, microbatch.0)]
    BackwardMissing {
        rank: RankId,
        stage: StageId,
        microbatch: MicrobatchId,
    },
    /// Transfers that do not fit each other or the computes.
    #[error("{what}")]
    Transfer {
        place: Option<ActionPlace>,
        what: String,
    },
    /// A communication model was asked of lists without transfers.
    #[error("model {model} needs SEND/RECV actions")]
    NoTransfers { model: &'static str },
    /// A ring of waits.
    #[error("deadlock: {}", labels(cycle).join(" -> "))]
    Deadlock { cycle: Vec<Wait> },
    /// More memory than allowed.
    #[error("rank {} holds {peak} activations, the limit is {limit}", rank.0)]
    OverMemory { rank: RankId, peak: f64, limit: f64 },
    /// A limit that no schedule can meet.
    #[error("the memory limit of rank {} is {limit}, but one micro-batch needs {smallest}", rank.0)]
    LimitTooSmall {
        rank: RankId,
        limit: f64,
        smallest: f64,
    },
    /// A cost below zero or not a number.
    #[error("cost `{what}` is {value}; a cost is a finite number, zero or more")]
    CostNegative { what: &'static str, value: f64 },
    /// A part that is less than nothing or more than all.
    #[error("{what} is {value}; it is a part, from 0 to 1")]
    NoFraction { what: &'static str, value: f64 },
    /// A list of costs of the wrong length.
    #[error("cost `{what}` has {given} values where {wanted} are wanted")]
    CostCount {
        what: &'static str,
        given: usize,
        wanted: usize,
    },
    /// A count of zero.
    #[error("{what} must be at least 1")]
    CountZero { what: &'static str },
    /// A count beyond what is sensible.
    #[error("{what} is {value}; at most {most} is supported")]
    TooLarge {
        what: &'static str,
        value: u64,
        most: u64,
    },
    /// A kind that exists only for some settings.
    #[error("{kind} {what}")]
    KindSetting { kind: &'static str, what: String },
    /// A name that is no kind.
    #[error("`{name}` is not a schedule kind")]
    UnknownKind { name: String, known: String },
    /// A name that is no communication model.
    #[error("`{name}` is not a communication model")]
    UnknownModel { name: String, known: String },
}

impl ScheduleError {
    /// The stable code of this diagnostic.
    pub fn code(&self) -> &'static str {
        match self {
            ScheduleError::Syntax { .. } => "S0001",
            ScheduleError::File { .. } => "S0002",
            ScheduleError::StageOnTwoRanks { .. } => "S0003",
            ScheduleError::StageMissing { .. } => "S0004",
            ScheduleError::MicrobatchesNotDense { .. } => "S0005",
            ScheduleError::Twice { .. } => "S0006",
            ScheduleError::TooEarly { .. } => "S0007",
            ScheduleError::WholeAndSplit { .. } => "S0008",
            ScheduleError::ForwardMissing { .. } => "S0009",
            ScheduleError::BackwardMissing { .. } => "S0010",
            ScheduleError::Transfer { .. } => "S0011",
            ScheduleError::NoTransfers { .. } => "S0012",
            ScheduleError::Deadlock { .. } => "S0013",
            ScheduleError::OverMemory { .. } => "S0014",
            ScheduleError::LimitTooSmall { .. } => "S0015",
            ScheduleError::CostNegative { .. } => "S0016",
            ScheduleError::CostCount { .. } => "S0017",
            ScheduleError::CountZero { .. } => "S0018",
            ScheduleError::TooLarge { .. } => "S0019",
            ScheduleError::KindSetting { .. } => "S0020",
            ScheduleError::UnknownKind { .. } => "S0021",
            ScheduleError::UnknownModel { .. } => "S0022",
            ScheduleError::NoFraction { .. } => "S0023",
        }
    }

    /// What the user can do about it.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            ScheduleError::Syntax { .. } => {
                "write <stage><TYPE><microbatch>, for example 0F1, 3I0, 2SEND_F4 or (0F4;7B1)OVERLAP_F_B".into()
            }
            ScheduleError::StageMissing { stage, .. } => format!("some rank must compute stage {}", stage.0),
            ScheduleError::TooEarly { op, needs, .. } => {
                format!("move {op} behind {}{needs}{} in its rank's list", op.stage.0, op.microbatch.0)
            }
            ScheduleError::NoTransfers { .. } => {
                "use a file with communication, or let `--format csv-comms` place the transfers".into()
            }
            ScheduleError::Deadlock { .. } => {
                "order all computes and transfers once and give each rank its part of that one order".into()
            }
            ScheduleError::OverMemory { peak, .. } => format!("the smallest limit that would do is {peak}"),
            ScheduleError::LimitTooSmall { smallest, .. } => format!("the smallest limit that would do is {smallest}"),
            ScheduleError::CostCount { wanted, .. } => format!("give one number, or {wanted} separated by `/`"),
            ScheduleError::UnknownKind { known, .. } => format!("known kinds: {known}, file"),
            ScheduleError::UnknownModel { known, .. } => format!("known models: {known}"),
            _ => return None,
        })
    }

    /// Where in the lists the trouble is, if it is in one place.
    pub fn place(&self) -> Option<ActionPlace> {
        match self {
            ScheduleError::Twice { place, .. }
            | ScheduleError::TooEarly { place, .. }
            | ScheduleError::WholeAndSplit { place, .. } => Some(*place),
            ScheduleError::Transfer { place, .. } => *place,
            _ => None,
        }
    }
}
