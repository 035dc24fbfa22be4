//! Untagged point-to-point transports match messages by order: on each directed pair of ranks the order of sends must
//! be the order of receives, or a receive gets another message. The data is then silently wrong where shapes agree.

use std::collections::BTreeMap;
use std::fmt;

use super::action::{Action, Direction, MicrobatchId, RankId, StageId};
use super::list::Schedule;

/// A message as an untagged channel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Activation or gradient.
    pub direction: Direction,
    /// The stage that sends.
    pub sender: StageId,
    /// Whose tensor.
    pub microbatch: MicrobatchId,
}

/// The first message of a channel that would reach the wrong receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMismatch {
    /// Sending rank.
    pub from: RankId,
    /// Receiving rank.
    pub to: RankId,
    /// Number of the message on this channel.
    pub message: usize,
    /// What is sent, if anything still is.
    pub sent: Option<Message>,
    /// What the receiver expects, if anything.
    pub expected: Option<Message>,
}

/// The first mismatch of every directed pair of ranks that has one.
pub fn channel_mismatches(schedule: &Schedule) -> Vec<ChannelMismatch> {
    let rank_of = |stage: StageId| schedule.stage_rank().get(stage.index()).copied();
    let mut channels: BTreeMap<(RankId, RankId), [Vec<Message>; 2]> = BTreeMap::new();
    for action in schedule.ranks().iter().flatten() {
        let (t, is_send) = match action {
            Action::Send(t) => (t, true),
            Action::Recv(t) => (t, false),
            _ => continue,
        };
        let (Some(sender), Some(receiver)) = (t.sender(is_send), t.receiver(is_send)) else {
            continue;
        };
        let (Some(from), Some(to)) = (rank_of(sender), rank_of(receiver)) else {
            continue;
        };
        let message = Message {
            direction: t.direction,
            sender,
            microbatch: t.microbatch,
        };
        channels.entry((from, to)).or_default()[usize::from(!is_send)].push(message);
    }
    let mut out = Vec::new();
    for ((from, to), [sent, expected]) in channels {
        let length = sent.len().max(expected.len());
        if let Some(i) = (0..length).find(|i| sent.get(*i) != expected.get(*i)) {
            let (sent, expected) = (sent.get(i).copied(), expected.get(i).copied());
            out.push(ChannelMismatch {
                from,
                to,
                message: i,
                sent,
                expected,
            });
        }
    }
    out
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{} of stage {}",
            self.direction.letter(),
            self.microbatch.0,
            self.sender.0
        )
    }
}

impl fmt::Display for ChannelMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let say = |m: Option<Message>| m.map_or("None".to_owned(), |m| m.to_string());
        write!(
            f,
            "rank {}->{}, message {}: sends {}, receiver expects {}",
            self.from.0,
            self.to.0,
            self.message,
            say(self.sent),
            say(self.expected)
        )
    }
}
