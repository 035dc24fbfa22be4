//! The schedule kinds: one small file each. A kind is a function from a [`Shape`] to one list per rank; it knows
//! nothing of costs, and every count of ranks, chunks and micro-batches gives a valid schedule.

mod dualpipe_v;
mod eager_1f1b;
mod fthenb;
mod interleaved_1f1b;
mod looped_bfs;
mod one_f_one_b;
mod zb_h1;
mod zb_h1_paddle;
mod zb_h2;
mod zb_v;

use super::action::{Action, Compute};
use super::error::ScheduleError;
use super::list::Placement;

/// How large a pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Ranks.
    pub ranks: u32,
    /// Micro-batches.
    pub microbatches: u32,
    /// Stages on each rank.
    pub chunks: u32,
    /// Micro-batches in a round of the interleaved kinds; `None` lets the kind choose.
    pub round: Option<u32>,
}

/// A schedule kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All forwards, then all backwards (GPipe).
    FThenB,
    /// One forward, one backward.
    OneFOneB,
    /// 1F1B with twice the warm-up, so that transfers hide behind computes.
    Eager1F1B,
    /// Megatron's interleaving of several chunks per rank.
    Interleaved1F1B,
    /// All forwards of a chunk, then of the next; backwards the other way round.
    LoopedBfs,
    /// Zero Bubble H1: the memory of 1F1B.
    ZbH1,
    /// Zero Bubble H1 as Paddle emits it.
    ZbH1Paddle,
    /// Zero Bubble H2: twice the memory, no bubble.
    ZbH2,
    /// Zero Bubble V: two chunks per rank, the memory of 1F1B, no bubble.
    ZbV,
    /// The V shape in half the memory.
    VHalf,
    /// The V shape in the least memory that keeps a steady pace.
    VMin,
    /// DeepSeek's DualPipe folded into a V.
    DualPipeV,
    /// Searched under a memory limit, stages placed in a loop.
    Auto,
    /// Searched under a memory limit, two chunks per rank in a V.
    AutoV,
}

impl Kind {
    /// All kinds, the classic ones first.
    pub const ALL: [Kind; 14] = [
        Kind::FThenB,
        Kind::OneFOneB,
        Kind::Eager1F1B,
        Kind::Interleaved1F1B,
        Kind::LoopedBfs,
        Kind::ZbH1,
        Kind::ZbH1Paddle,
        Kind::ZbH2,
        Kind::ZbV,
        Kind::VHalf,
        Kind::VMin,
        Kind::DualPipeV,
        Kind::Auto,
        Kind::AutoV,
    ];

    /// The name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FThenB => "fthenb",
            Kind::OneFOneB => "1f1b",
            Kind::Eager1F1B => "eager-1f1b",
            Kind::Interleaved1F1B => "interleaved-1f1b",
            Kind::LoopedBfs => "looped-bfs",
            Kind::ZbH1 => "zb-h1",
            Kind::ZbH1Paddle => "zb-h1-paddle",
            Kind::ZbH2 => "zb-h2",
            Kind::ZbV => "zb-v",
            Kind::VHalf => "v-half",
            Kind::VMin => "v-min",
            Kind::DualPipeV => "dualpipe-v",
            Kind::Auto => "auto",
            Kind::AutoV => "auto-v",
        }
    }

    /// One line on what it is.
    pub fn summary(self) -> &'static str {
        match self {
            Kind::FThenB => "all forwards, then all backwards (GPipe)",
            Kind::OneFOneB => "one forward, one backward",
            Kind::Eager1F1B => "1F1B with twice the warm-up, hides transfers",
            Kind::Interleaved1F1B => "Megatron's interleaving of several chunks per rank",
            Kind::LoopedBfs => "chunk after chunk, breadth first",
            Kind::ZbH1 => "Zero Bubble H1, the memory of 1F1B",
            Kind::ZbH1Paddle => "Zero Bubble H1 as Paddle emits it",
            Kind::ZbH2 => "Zero Bubble H2, twice the memory",
            Kind::ZbV => "Zero Bubble V, the memory of 1F1B",
            Kind::VHalf => "V shape in half the memory",
            Kind::VMin => "V shape in a third of the memory",
            Kind::DualPipeV => "DualPipe folded into a V",
            Kind::Auto => "searched under a memory limit, loop placement",
            Kind::AutoV => "searched under a memory limit, V placement",
        }
    }

    /// The kind of a name; `gpipe` is another name of `fthenb`.
    ///
    /// # Errors
    /// No kind of that name.
    pub fn parse(name: &str) -> Result<Kind, ScheduleError> {
        if name == "gpipe" {
            return Ok(Kind::FThenB);
        }
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| ScheduleError::UnknownKind {
                name: name.to_owned(),
                known: Kind::ALL.map(Kind::name).join(", "),
            })
    }

    /// How many chunks a rank has if the user does not say.
    pub fn default_chunks(self) -> u32 {
        match self {
            Kind::Interleaved1F1B | Kind::LoopedBfs | Kind::ZbV | Kind::VHalf | Kind::VMin => 2,
            Kind::DualPipeV | Kind::AutoV => 2,
            _ => 1,
        }
    }

    /// Where its stages live if the user does not say.
    pub fn default_placement(self) -> Placement {
        match self {
            Kind::ZbV | Kind::VHalf | Kind::VMin | Kind::DualPipeV | Kind::AutoV => Placement::V,
            _ => Placement::Loop,
        }
    }

    /// Whether the kind comes out of the search rather than out of a rule.
    pub fn is_searched(self) -> bool {
        matches!(
            self,
            Kind::ZbV | Kind::VHalf | Kind::VMin | Kind::Auto | Kind::AutoV
        )
    }

    /// Whether its backwards are split if the user does not say.
    pub fn splits_backward(self) -> bool {
        matches!(
            self,
            Kind::ZbH1 | Kind::ZbH1Paddle | Kind::ZbH2 | Kind::DualPipeV
        ) || self.is_searched()
    }
}

/// The lists of a kind that follows a rule, with a note where the shape made it fall back; `None` for searched kinds.
pub fn lists(kind: Kind, shape: Shape) -> Option<(Vec<Vec<Action>>, Option<String>)> {
    let mut note = None;
    let of_rank: fn(Shape, u32) -> Vec<Action> = match kind {
        Kind::FThenB => fthenb::list,
        Kind::OneFOneB => one_f_one_b::list,
        Kind::Eager1F1B => eager_1f1b::list,
        Kind::Interleaved1F1B => interleaved_1f1b::list,
        Kind::LoopedBfs => looped_bfs::list,
        Kind::ZbH1 => zb_h1::list,
        Kind::ZbH1Paddle => zb_h1_paddle::list,
        Kind::ZbH2 => zb_h2::list,
        Kind::DualPipeV if shape.microbatches < 2 * shape.ranks => {
            note = Some(format!(
                "dualpipe-v needs at least {} micro-batches on {} ranks; all forwards run first instead",
                2 * shape.ranks,
                shape.ranks
            ));
            dualpipe_v::short_list
        }
        Kind::DualPipeV => dualpipe_v::list,
        Kind::ZbV => zb_v::list,
        _ => return None,
    };
    Some((
        (0..shape.ranks).map(|rank| of_rank(shape, rank)).collect(),
        note,
    ))
}

/// A list under construction: the next micro-batch of every kind of step is counted per stage.
#[derive(Default)]
struct Steps {
    list: Vec<Action>,
    next: std::collections::HashMap<(Compute, u32), u32>,
}

impl Steps {
    /// Appends the next micro-batch of this step on this stage.
    fn next(&mut self, kind: Compute, stage: u32) {
        let next = self.next.entry((kind, stage)).or_default();
        self.list.push(Action::compute(kind, stage, *next));
        *next += 1;
    }
}
