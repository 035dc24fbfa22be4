//! One step of a rank: the vocabulary every schedule is written in, and its text form.
//!
//! The text form is the one of `torch.distributed.pipelining`: `<stage><TYPE><microbatch?>`, upper case and
//! counted from zero, as in `0F1`, `3SEND_B2`, `1UNSHARD` or `(0F4;7B1)OVERLAP_F_B`. Raddle adds the steps of the
//! optimizer (`0STEP`, `0VALIDATE`, `0ROLLBACK`, and transfers of its state), which PyTorch leaves outside.

use std::fmt;

/// One pipeline chunk, counted from the first layers. A rank owns one stage or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId(pub u32);

/// One device of the pipeline axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankId(pub u32);

/// One micro-batch of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicrobatchId(pub u32);

impl StageId {
    /// The stage as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl RankId {
    /// The rank as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl MicrobatchId {
    /// The micro-batch as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a compute step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compute {
    /// `F`: the forward.
    Forward,
    /// `I`: the gradient of the input, which the stage before waits for.
    InputGrad,
    /// `W`: the gradient of the weights, which nobody but the optimizer waits for.
    WeightGrad,
    /// `B`: both gradients as one step.
    Backward,
}

impl Compute {
    /// A bit of its own, for sets of what a stage has done of a micro-batch.
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Which tensor a transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// An activation, from a stage to the next one.
    Forward,
    /// A gradient, from a stage to the one before.
    Backward,
}

/// One compute step of one stage and micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op {
    /// What is computed.
    pub kind: Compute,
    /// Where.
    pub stage: StageId,
    /// On which micro-batch.
    pub microbatch: MicrobatchId,
}

/// One end of a transfer. `stage` is the stage that acts: the sender of a send, the receiver of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transfer {
    /// Activation or gradient.
    pub direction: Direction,
    /// The stage whose rank performs this end.
    pub stage: StageId,
    /// Whose tensor.
    pub microbatch: MicrobatchId,
}

/// A step that concerns the parameters of a whole stage, once per step or per gathering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StageStep {
    /// Gather sharded parameters.
    Unshard,
    /// Let gathered parameters go.
    Reshard,
    /// Start the reduction of the parameter gradients over the data axis.
    ReduceGrad,
    /// Wait for that reduction.
    WaitReduceGrad,
    /// Wait for the partial norm and found-inf state of the ranks before this one.
    RecvState,
    /// Update the parameters.
    Step,
    /// Hand the partial norm and found-inf state to the next rank.
    SendState,
    /// Compare the state the step used with the state of all ranks.
    Validate,
    /// Undo the step and repeat it with the state of all ranks; skipped where validation agreed.
    Rollback,
    /// Reduce norm and found-inf state over all ranks and wait for it: the barrier before the step.
    SyncState,
}

/// One entry of a rank's list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// One compute step.
    Compute(Op),
    /// Several compute steps that run together (`OVERLAP_F_B`).
    Overlap(Box<[Op]>),
    /// Issue a send.
    Send(Transfer),
    /// Issue a receive.
    Recv(Transfer),
    /// Hold the compute stream until a send has ended.
    WaitSend(Transfer),
    /// A step of a stage's parameters.
    Stage(StageStep, StageId),
}

/// Why a text is not an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionSyntax {
    /// Not of the form `<stage><TYPE><microbatch?>`.
    Unknown,
    /// A type that needs a micro-batch has none.
    MicrobatchMissing,
    /// A type that concerns the whole stage names a micro-batch.
    MicrobatchNotAllowed,
    /// An overlap group with fewer than two compute steps, or with something else in it.
    BadOverlap,
    /// A number that does not fit.
    TooLarge,
}

impl fmt::Display for ActionSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ActionSyntax::Unknown => "not of the form <stage><TYPE><microbatch>",
            ActionSyntax::MicrobatchMissing => "the micro-batch index is missing",
            ActionSyntax::MicrobatchNotAllowed => "this type takes no micro-batch index",
            ActionSyntax::BadOverlap => "an overlap group is (<compute>;<compute>)OVERLAP_F_B",
            ActionSyntax::TooLarge => "the index is too large",
        })
    }
}

impl Compute {
    /// The letter of the text form.
    pub fn letter(self) -> char {
        match self {
            Compute::Forward => 'F',
            Compute::InputGrad => 'I',
            Compute::WeightGrad => 'W',
            Compute::Backward => 'B',
        }
    }
}

impl Direction {
    /// The letter of the text form, as in `SEND_F`.
    pub fn letter(self) -> char {
        match self {
            Direction::Forward => 'F',
            Direction::Backward => 'B',
        }
    }
}

impl StageStep {
    const ALL: [StageStep; 10] = [
        StageStep::Unshard,
        StageStep::Reshard,
        StageStep::ReduceGrad,
        StageStep::WaitReduceGrad,
        StageStep::RecvState,
        StageStep::Step,
        StageStep::SendState,
        StageStep::Validate,
        StageStep::Rollback,
        StageStep::SyncState,
    ];

    /// The word of the text form.
    pub fn word(self) -> &'static str {
        match self {
            StageStep::Unshard => "UNSHARD",
            StageStep::Reshard => "RESHARD",
            StageStep::ReduceGrad => "REDUCE_GRAD",
            StageStep::WaitReduceGrad => "WAIT_REDUCE_GRAD",
            StageStep::RecvState => "RECV_STATE",
            StageStep::Step => "STEP",
            StageStep::SendState => "SEND_STATE",
            StageStep::Validate => "VALIDATE",
            StageStep::Rollback => "ROLLBACK",
            StageStep::SyncState => "SYNC_STATE",
        }
    }

    /// Whether PyTorch's schedule files know this step.
    pub fn in_torch(self) -> bool {
        matches!(
            self,
            StageStep::Unshard
                | StageStep::Reshard
                | StageStep::ReduceGrad
                | StageStep::WaitReduceGrad
        )
    }
}

impl Op {
    /// A step from plain indices.
    pub fn new(kind: Compute, stage: u32, microbatch: u32) -> Op {
        Op {
            kind,
            stage: StageId(stage),
            microbatch: MicrobatchId(microbatch),
        }
    }
}

impl Transfer {
    /// The stage that sends, given which end this is. `None` below stage 0.
    pub fn sender(self, is_send: bool) -> Option<StageId> {
        match (is_send, self.direction) {
            (true, _) => Some(self.stage),
            (false, Direction::Forward) => self.stage.0.checked_sub(1).map(StageId),
            (false, Direction::Backward) => self.stage.0.checked_add(1).map(StageId),
        }
    }

    /// The stage that receives, given which end this is. `None` below stage 0.
    pub fn receiver(self, is_send: bool) -> Option<StageId> {
        match (is_send, self.direction) {
            (false, _) => Some(self.stage),
            (true, Direction::Forward) => self.stage.0.checked_add(1).map(StageId),
            (true, Direction::Backward) => self.stage.0.checked_sub(1).map(StageId),
        }
    }
}

impl Action {
    /// A compute step from plain indices.
    pub fn compute(kind: Compute, stage: u32, microbatch: u32) -> Action {
        Action::Compute(Op::new(kind, stage, microbatch))
    }

    /// The compute steps in this action: one, several in an overlap group, or none.
    pub fn ops(&self) -> &[Op] {
        match self {
            Action::Compute(op) => std::slice::from_ref(op),
            Action::Overlap(ops) => ops,
            _ => &[],
        }
    }

    /// Whether this action occupies the compute stream.
    pub fn is_compute(&self) -> bool {
        matches!(self, Action::Compute(_) | Action::Overlap(_))
    }

    /// Whether this action is one end of a transfer.
    pub fn is_transfer(&self) -> bool {
        matches!(self, Action::Send(_) | Action::Recv(_))
    }

    /// Reads the text form; surrounding blanks are skipped and an empty text is `None`.
    ///
    /// # Errors
    /// [`ActionSyntax`] says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Option<Action>, ActionSyntax> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        if let Some(rest) = text.strip_prefix('(') {
            let (body, kind) = rest.split_once(')').ok_or(ActionSyntax::BadOverlap)?;
            if kind != "OVERLAP_F_B" {
                return Err(ActionSyntax::BadOverlap);
            }
            let mut ops = Vec::new();
            for part in body
                .split(';')
                .map(str::trim)
                .filter(|part| !part.is_empty())
            {
                match Action::parse_plain(part)? {
                    Action::Compute(op) => ops.push(op),
                    _ => return Err(ActionSyntax::BadOverlap),
                }
            }
            if ops.len() < 2 {
                return Err(ActionSyntax::BadOverlap);
            }
            return Ok(Some(Action::Overlap(ops.into_boxed_slice())));
        }
        Action::parse_plain(text).map(Some)
    }

    fn parse_plain(text: &str) -> Result<Action, ActionSyntax> {
        let word_at = text
            .find(|c: char| !c.is_ascii_digit())
            .ok_or(ActionSyntax::Unknown)?;
        let (stage, rest) = text.split_at(word_at);
        let word_end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (word, microbatch) = rest.split_at(word_end);
        if stage.is_empty() || microbatch.chars().any(|c| !c.is_ascii_digit()) {
            return Err(ActionSyntax::Unknown);
        }
        if let Some(step) = StageStep::ALL.into_iter().find(|step| step.word() == word) {
            if !microbatch.is_empty() {
                return Err(ActionSyntax::MicrobatchNotAllowed);
            }
            return Ok(Action::Stage(step, StageId(number(stage)?)));
        }
        let make: fn(StageId, MicrobatchId) -> Action = match word {
            "F" => |stage, microbatch| {
                Action::Compute(Op {
                    kind: Compute::Forward,
                    stage,
                    microbatch,
                })
            },
            "I" => |stage, microbatch| {
                Action::Compute(Op {
                    kind: Compute::InputGrad,
                    stage,
                    microbatch,
                })
            },
            "W" => |stage, microbatch| {
                Action::Compute(Op {
                    kind: Compute::WeightGrad,
                    stage,
                    microbatch,
                })
            },
            "B" => |stage, microbatch| {
                Action::Compute(Op {
                    kind: Compute::Backward,
                    stage,
                    microbatch,
                })
            },
            "SEND_F" => |stage, microbatch| Action::Send(forward(stage, microbatch)),
            "SEND_B" => |stage, microbatch| Action::Send(backward(stage, microbatch)),
            "RECV_F" => |stage, microbatch| Action::Recv(forward(stage, microbatch)),
            "RECV_B" => |stage, microbatch| Action::Recv(backward(stage, microbatch)),
            "WAIT_SEND_F" => |stage, microbatch| Action::WaitSend(forward(stage, microbatch)),
            "WAIT_SEND_B" => |stage, microbatch| Action::WaitSend(backward(stage, microbatch)),
            _ => return Err(ActionSyntax::Unknown),
        };
        if microbatch.is_empty() {
            return Err(ActionSyntax::MicrobatchMissing);
        }
        Ok(make(
            StageId(number(stage)?),
            MicrobatchId(number(microbatch)?),
        ))
    }
}

/// Indices above this are refused: no schedule has them, and they would make tables of that size.
const LARGEST_INDEX: u32 = 1 << 24;

fn number(digits: &str) -> Result<u32, ActionSyntax> {
    digits
        .parse()
        .ok()
        .filter(|n| *n <= LARGEST_INDEX)
        .ok_or(ActionSyntax::TooLarge)
}

fn forward(stage: StageId, microbatch: MicrobatchId) -> Transfer {
    Transfer {
        direction: Direction::Forward,
        stage,
        microbatch,
    }
}

fn backward(stage: StageId, microbatch: MicrobatchId) -> Transfer {
    Transfer {
        direction: Direction::Backward,
        stage,
        microbatch,
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{}",
            self.stage.0,
            self.kind.letter(),
            self.microbatch.0
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transfer = |f: &mut fmt::Formatter<'_>, word: &str, t: &Transfer| {
            write!(
                f,
                "{}{word}_{}{}",
                t.stage.0,
                t.direction.letter(),
                t.microbatch.0
            )
        };
        match self {
            Action::Compute(op) => op.fmt(f),
            Action::Overlap(ops) => {
                for (i, op) in ops.iter().enumerate() {
                    write!(f, "{}{op}", if i == 0 { "(" } else { ";" })?;
                }
                f.write_str(")OVERLAP_F_B")
            }
            Action::Send(t) => transfer(f, "SEND", t),
            Action::Recv(t) => transfer(f, "RECV", t),
            Action::WaitSend(t) => transfer(f, "WAIT_SEND", t),
            Action::Stage(step, stage) => write!(f, "{}{}", stage.0, step.word()),
        }
    }
}
