//! A schedule as data: one ordered list of actions per rank, and which rank holds which stage.

use super::action::{Action, Compute, Op, RankId, StageId};
use super::error::ScheduleError;

/// One ordered action list per rank. Every stage from 0 up lives on exactly one rank and every micro-batch from 0
/// up is computed somewhere; whether the lists are complete, causal and free of deadlock is for
/// [`check`](super::check::check) and [`simulate`](super::simulate::simulate) to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    ranks: Vec<Vec<Action>>,
    stage_rank: Vec<RankId>,
    microbatches: u32,
}

/// Where the stages of a pipeline live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Stage `s` on rank `s mod p`: Megatron's interleaving.
    Loop,
    /// Odd chunks run back: stages 0..p upwards, p..2p downwards. Zero Bubble's V.
    V,
}

impl Placement {
    /// The rank of a stage among `ranks` ranks.
    pub fn rank_of(self, stage: StageId, ranks: u32) -> RankId {
        let (chunk, at) = (stage.0 / ranks, stage.0 % ranks);
        match self {
            Placement::V if chunk % 2 == 1 => RankId(ranks - 1 - at),
            _ => RankId(at),
        }
    }

    /// The stage that is chunk number `chunk` of `rank`.
    pub fn stage_of(self, rank: u32, chunk: u32, ranks: u32) -> StageId {
        match self {
            Placement::V if chunk % 2 == 1 => StageId(chunk * ranks + ranks - 1 - rank),
            _ => StageId(chunk * ranks + rank),
        }
    }

    /// The rank of every stage, for `chunks` chunks on each of `ranks` ranks.
    pub fn table(self, ranks: u32, chunks: u32) -> Vec<RankId> {
        (0..ranks * chunks)
            .map(|s| self.rank_of(StageId(s), ranks))
            .collect()
    }
}

impl Schedule {
    /// Takes action lists and derives the placement from them.
    ///
    /// # Errors
    /// A stage on two ranks, or stages or micro-batches that are not 0, 1, 2, ….
    pub fn new(ranks: Vec<Vec<Action>>) -> Result<Schedule, ScheduleError> {
        let stages = ranks
            .iter()
            .flatten()
            .flat_map(stages_of)
            .map(|s| s.0 + 1)
            .max()
            .unwrap_or(0);
        let total: usize = ranks.iter().map(Vec::len).sum();
        if stages as usize > total {
            // Fewer actions than stages: at least one stage below the highest is missing.
            return Err(missing_stage(&ranks));
        }
        let mut stage_rank: Vec<Option<RankId>> = vec![None; stages as usize];
        let mut microbatches = 0u32;
        for (r, actions) in ranks.iter().enumerate() {
            let rank = RankId(r as u32);
            for action in actions {
                for stage in stages_of(action) {
                    match stage_rank[stage.index()] {
                        Some(old) if old != rank => {
                            return Err(ScheduleError::StageOnTwoRanks {
                                stage,
                                ranks: [old, rank],
                            });
                        }
                        _ => stage_rank[stage.index()] = Some(rank),
                    }
                }
                for op in action.ops() {
                    microbatches = microbatches.max(op.microbatch.0 + 1);
                }
            }
        }
        if let Some(stage) = stage_rank.iter().position(Option::is_none) {
            return Err(ScheduleError::StageMissing {
                stage: StageId(stage as u32),
                stages,
            });
        }
        if microbatches as usize > total * 2 {
            return Err(ScheduleError::MicrobatchesNotDense {
                found: microbatches,
            });
        }
        let mut seen = vec![false; microbatches as usize];
        for op in ranks.iter().flatten().flat_map(Action::ops) {
            seen[op.microbatch.index()] = true;
        }
        if seen.iter().any(|seen| !seen) {
            return Err(ScheduleError::MicrobatchesNotDense {
                found: microbatches,
            });
        }
        Ok(Schedule {
            ranks,
            stage_rank: stage_rank.into_iter().flatten().collect(),
            microbatches,
        })
    }

    /// The action lists, rank by rank.
    pub fn ranks(&self) -> &[Vec<Action>] {
        &self.ranks
    }

    /// The rank of every stage.
    pub fn stage_rank(&self) -> &[RankId] {
        &self.stage_rank
    }

    /// How many stages there are.
    pub fn stages(&self) -> usize {
        self.stage_rank.len()
    }

    /// How many micro-batches there are.
    pub fn microbatches(&self) -> usize {
        self.microbatches as usize
    }

    /// Whether the lists say where transfers go.
    pub fn has_transfers(&self) -> bool {
        self.ranks.iter().flatten().any(Action::is_transfer)
    }

    /// Whether any backward is split into its two parts.
    pub fn splits_backward(&self) -> bool {
        self.ops().any(|op| op.kind == Compute::InputGrad)
    }

    /// Whether nothing but forwards is computed.
    pub fn is_forward_only(&self) -> bool {
        self.ops().all(|op| op.kind == Compute::Forward)
    }

    /// All compute steps, rank after rank.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.ranks.iter().flatten().flat_map(Action::ops)
    }

    /// The stages of one rank, lowest first.
    pub fn stages_of(&self, rank: RankId) -> impl Iterator<Item = StageId> + '_ {
        self.stage_rank
            .iter()
            .enumerate()
            .filter(move |(_, r)| **r == rank)
            .map(|(s, _)| StageId(s as u32))
    }

    /// The same schedule without transfers and stage steps.
    pub fn compute_only(&self) -> Schedule {
        let ranks = self
            .ranks
            .iter()
            .map(|r| r.iter().filter(|a| a.is_compute()).cloned().collect())
            .collect();
        Schedule {
            ranks,
            stage_rank: self.stage_rank.clone(),
            microbatches: self.microbatches,
        }
    }
}

fn stages_of(action: &Action) -> impl Iterator<Item = StageId> + '_ {
    let own = match action {
        Action::Send(t) | Action::Recv(t) | Action::WaitSend(t) => Some(t.stage),
        Action::Stage(_, stage) => Some(*stage),
        Action::Compute(_) | Action::Overlap(_) => None,
    };
    own.into_iter()
        .chain(action.ops().iter().map(|op| op.stage))
}

fn missing_stage(ranks: &[Vec<Action>]) -> ScheduleError {
    let present: std::collections::BTreeSet<u32> = ranks
        .iter()
        .flatten()
        .flat_map(stages_of)
        .map(|s| s.0)
        .collect();
    let stages = present.last().map_or(0, |s| s + 1);
    let stage = (0..stages).find(|s| !present.contains(s)).unwrap_or(0);
    ScheduleError::StageMissing {
        stage: StageId(stage),
        stages,
    }
}
