//! Which send belongs to which receive.

use super::{Build, edge_of, transfer_error};
use crate::schedule::action::{Action, Direction, MicrobatchId, StageId};
use crate::schedule::error::ScheduleError;

impl Build<'_> {
    /// Pairs sends with receives, and makes a node of each pair behind the compute that makes its tensor.
    pub(super) fn match_ends(&mut self) -> Result<(), ScheduleError> {
        let stage_rank = self.schedule.stage_rank();
        let mut order = Vec::new();
        for (r, actions) in self.schedule.ranks().iter().enumerate() {
            for (i, action) in actions.iter().enumerate() {
                let (t, is_send) = match action {
                    Action::Send(t) => (t, true),
                    Action::Recv(t) => (t, false),
                    _ => continue,
                };
                let fail = |what: String| transfer_error(r, i, what);
                let (sender, receiver) = match (t.sender(is_send), t.receiver(is_send)) {
                    (Some(a), Some(b))
                        if a.index() < stage_rank.len() && b.index() < stage_rank.len() =>
                    {
                        (a, b)
                    }
                    _ => return Err(fail(format!("rank {r}: {action} has no remote peer"))),
                };
                if stage_rank[sender.index()] == stage_rank[receiver.index()] {
                    return Err(fail(format!("rank {r}: {action} has no remote peer")));
                }
                if t.microbatch.index() >= self.schedule.microbatches() {
                    return Err(fail(format!(
                        "rank {r}: {action}: sender does not compute it"
                    )));
                }
                let at = self.index(sender, t.microbatch);
                let ends = &mut self.ends[t.direction as usize][at];
                let side = if is_send {
                    &mut ends.send
                } else {
                    &mut ends.recv
                };
                if side.replace((r as u32, i as u32)).is_some() {
                    return Err(fail(format!("rank {r}: {action} twice")));
                }
                if ends.send.is_none() || ends.recv.is_none() {
                    order.push((t.direction, sender, t.microbatch));
                }
            }
        }
        for (direction, sender, microbatch) in order {
            let at = self.index(sender, microbatch);
            let ends = self.ends[direction as usize][at];
            let name = transfer_name(direction, sender, microbatch);
            let (Some(send), Some(_)) = (ends.send, ends.recv) else {
                let (present, (rank, position)) = match (ends.send, ends.recv) {
                    (Some(place), _) => ("SEND", place),
                    (None, place) => ("RECV", place.unwrap_or_default()),
                };
                let what = format!("{name}: only {present} present");
                return Err(transfer_error(rank as usize, position as usize, what));
            };
            let made = self.producer[direction as usize][at];
            let fail = |what: &str| {
                transfer_error(send.0 as usize, send.1 as usize, format!("{name}: {what}"))
            };
            if made.0 != send.0 {
                return Err(fail("sender does not compute it"));
            }
            if made.1 > send.1 {
                return Err(fail("sent before it is computed"));
            }
            let node = self
                .graph
                .node(self.costs.of_edge(edge_of(direction, sender)));
            self.ends[direction as usize][at].node = node;
            self.transfers.push((direction, sender, microbatch));
            self.graph.edge(
                self.compute_node[made.0 as usize][made.1 as usize],
                node,
                0.0,
            );
        }
        Ok(())
    }
}

fn transfer_name(direction: Direction, sender: StageId, microbatch: MicrobatchId) -> String {
    format!(
        "{}SEND/RECV_{}{}",
        sender.0,
        direction.letter(),
        microbatch.0
    )
}
