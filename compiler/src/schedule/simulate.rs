//! When does everything run? One simulator for the seven ways in which compute and communication can share a machine.
//!
//! A transfer starts once both sides have issued it (rendezvous) and all that its model puts before it is over. A ring
//! among these waits is a deadlock. Transfers are matched as a tagged transport would; [`channel_mismatches`] tells
//! where an untagged one, which matches by order, would deliver another message.

use super::action::{Action, Compute, Direction, MicrobatchId, Op, StageId, Transfer};
use super::check::Complete;
use super::cost::Costs;
use super::error::ScheduleError;
use super::graph::TimedGraph;
use super::list::Schedule;

pub use super::channel::{ChannelMismatch, channel_mismatches};
pub use super::timeline::{CommModel, Interval, TimedTransfer, Timeline};

/// Runs the lists under one model, everything as early as it can.
///
/// # Errors
/// Transfers that do not fit the computes, or a deadlock with its shortest ring.
pub fn simulate(
    complete: Complete<'_>,
    costs: &Costs,
    model: CommModel,
) -> Result<Timeline, ScheduleError> {
    let mut build = Build::new(complete.schedule(), costs, model)?;
    build.data_edges()?;
    build.order_edges()?;
    match build.graph.earliest_starts() {
        Ok(starts) => Ok(build.timeline(&starts)),
        Err(ring) => Err(ScheduleError::Deadlock {
            cycle: ring.iter().map(|n| build.label(*n)).collect(),
        }),
    }
}

const NONE: u32 = u32::MAX;

/// Both ends of a transfer: (rank, position) of the send and of the receive.
#[derive(Clone, Copy, Default)]
struct Ends {
    send: Option<(u32, u32)>,
    recv: Option<(u32, u32)>,
    node: u32,
}

struct Build<'a> {
    schedule: &'a Schedule,
    costs: &'a Costs,
    model: CommModel,
    graph: TimedGraph,
    /// Node of each (rank, position), and the way back.
    compute_node: Vec<Vec<u32>>,
    place: Vec<(u32, u32)>,
    /// For each forward output and each gradient of (stage, micro-batch): its (rank, position).
    producer: [Vec<(u32, u32)>; 2],
    /// For each direction and (sending stage, micro-batch).
    ends: [Vec<Ends>; 2],
    /// The transfer behind each node from `first_transfer` on.
    transfers: Vec<(Direction, StageId, MicrobatchId)>,
    first_transfer: u32,
}

fn output(kind: Compute) -> Option<Direction> {
    match kind {
        Compute::Forward => Some(Direction::Forward),
        Compute::InputGrad | Compute::Backward => Some(Direction::Backward),
        Compute::WeightGrad => None,
    }
}

/// The stage that a tensor of `sender` goes to.
pub(super) fn receiver_of(direction: Direction, sender: StageId) -> StageId {
    match direction {
        Direction::Forward => StageId(sender.0 + 1),
        Direction::Backward => StageId(sender.0.wrapping_sub(1)),
    }
}

/// The edge, named by its lower stage, that a tensor of `sender` crosses.
pub(super) fn edge_of(direction: Direction, sender: StageId) -> StageId {
    match direction {
        Direction::Forward => sender,
        Direction::Backward => StageId(sender.0.saturating_sub(1)),
    }
}

impl<'a> Build<'a> {
    fn new(
        schedule: &'a Schedule,
        costs: &'a Costs,
        model: CommModel,
    ) -> Result<Build<'a>, ScheduleError> {
        if model != CommModel::Dep && schedule.ranks().len() > 1 && !schedule.has_transfers() {
            return Err(ScheduleError::NoTransfers {
                model: model.name(),
            });
        }
        let size = schedule.stages() * schedule.microbatches();
        let mut build = Build {
            schedule,
            costs,
            model,
            graph: TimedGraph::default(),
            compute_node: Vec::new(),
            place: Vec::new(),
            producer: [vec![(NONE, NONE); size], vec![(NONE, NONE); size]],
            ends: Default::default(),
            transfers: Vec::new(),
            first_transfer: 0,
        };
        for (r, actions) in schedule.ranks().iter().enumerate() {
            let mut nodes = vec![NONE; actions.len()];
            for (i, action) in actions.iter().enumerate().filter(|(_, a)| a.is_compute()) {
                nodes[i] = build.graph.node(costs.of(action));
                build.place.push((r as u32, i as u32));
                for op in action.ops() {
                    if let Some(direction) = output(op.kind) {
                        let at = build.index(op.stage, op.microbatch);
                        build.producer[direction as usize][at] = (r as u32, i as u32);
                    }
                }
            }
            build.compute_node.push(nodes);
        }
        build.first_transfer = build.place.len() as u32;
        if model != CommModel::Dep {
            build.ends = [vec![Ends::default(); size], vec![Ends::default(); size]];
            build.match_ends()?;
        }
        Ok(build)
    }

    fn index(&self, stage: StageId, microbatch: MicrobatchId) -> usize {
        stage.index() * self.schedule.microbatches() + microbatch.index()
    }

    fn match_ends(&mut self) -> Result<(), ScheduleError> {
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

    fn data_edges(&mut self) -> Result<(), ScheduleError> {
        let schedule = self.schedule;
        for (r, actions) in schedule.ranks().iter().enumerate() {
            for (i, action) in actions.iter().enumerate() {
                for op in action.ops() {
                    self.inputs_of(op, r, i)?;
                }
            }
        }
        Ok(())
    }

    fn inputs_of(&mut self, op: &Op, r: usize, i: usize) -> Result<(), ScheduleError> {
        let last = self.schedule.stages() as u32 - 1;
        let s = op.stage.0;
        let mut inputs: [Option<(Direction, StageId)>; 2] = [None, None];
        match op.kind {
            Compute::Forward if s > 0 => inputs[0] = Some((Direction::Forward, StageId(s - 1))),
            Compute::Forward => {}
            Compute::InputGrad | Compute::Backward => {
                inputs[0] = Some((Direction::Forward, op.stage));
                if s < last {
                    inputs[1] = Some((Direction::Backward, StageId(s + 1)));
                }
            }
            Compute::WeightGrad => inputs[0] = Some((Direction::Backward, op.stage)),
        }
        let own = self.compute_node[r][i];
        for (direction, stage) in inputs.into_iter().flatten() {
            let at = self.index(stage, op.microbatch);
            let (pr, pi) = self.producer[direction as usize][at];
            if pr == NONE {
                let what = format!(
                    "rank {r}: {op} needs the output of stage {}, never produced",
                    stage.0
                );
                return Err(transfer_error(r, i, what));
            }
            if pr as usize == r || self.model == CommModel::Dep {
                let node = self.compute_node[pr as usize][pi as usize];
                if node != own {
                    let lag = if pr as usize == r {
                        0.0
                    } else {
                        self.costs.of_edge(edge_of(direction, stage))
                    };
                    self.graph.edge(node, own, lag);
                }
                continue;
            }
            let ends = self.ends[direction as usize][at];
            match ends.recv {
                None => {
                    let what = format!(
                        "rank {r}: {op} needs stage {}'s output but nothing receives it",
                        stage.0
                    );
                    return Err(transfer_error(r, i, what));
                }
                Some((_, position)) if position as usize > i => {
                    return Err(transfer_error(
                        r,
                        i,
                        format!("rank {r}: {op} before its RECV"),
                    ));
                }
                Some(_) => self.graph.edge(ends.node, own, 0.0),
            }
        }
        Ok(())
    }

    fn order_edges(&mut self) -> Result<(), ScheduleError> {
        let schedule = self.schedule;
        for (r, actions) in schedule.ranks().iter().enumerate() {
            let mut order = RankOrder::new(schedule.ranks().len());
            for (i, action) in actions.iter().enumerate() {
                match action {
                    Action::Compute(_) | Action::Overlap(_) => {
                        self.after_compute(&mut order, self.compute_node[r][i])
                    }
                    Action::Send(t) => self.after_transfer(&mut order, *t, true),
                    Action::Recv(t) => self.after_transfer(&mut order, *t, false),
                    Action::WaitSend(t) => self.after_wait(&mut order, *t, (r, i))?,
                    Action::Stage(..) => {}
                }
            }
        }
        Ok(())
    }

    fn after_compute(&mut self, order: &mut RankOrder, node: u32) {
        let before = if self.model == CommModel::Sync {
            order.last_any
        } else {
            order.last_compute
        };
        if let Some(before) = before {
            self.graph.edge(before, node, 0.0);
        }
        for transfer in order.waits.drain(..) {
            self.graph.edge(transfer, node, 0.0);
        }
        order.last_compute = Some(node);
        order.last_any = Some(node);
        order.open_group = false;
    }

    fn after_transfer(&mut self, order: &mut RankOrder, t: Transfer, is_send: bool) {
        if matches!(self.model, CommModel::Dep | CommModel::Eager) {
            return;
        }
        let (Some(sender), Some(receiver)) = (t.sender(is_send), t.receiver(is_send)) else {
            return;
        };
        let node = self.ends[t.direction as usize][self.index(sender, t.microbatch)].node;
        if self.model == CommModel::Sync {
            if let Some(before) = order.last_any {
                self.graph.edge(before, node, 0.0);
            }
            order.last_any = Some(node);
            return;
        }
        let peer =
            self.schedule.stage_rank()[if is_send { receiver } else { sender }.index()].index();
        let queue = match self.model {
            CommModel::Pair => 1 + 2 * peer,
            CommModel::PairDir => 1 + 2 * peer + usize::from(is_send),
            _ => 0,
        };
        if let Some(before) = order.last_compute {
            self.graph.edge(before, node, 0.0);
        }
        let queue = &mut order.queues[queue];
        if self.model == CommModel::Group && order.open_group {
            queue.current.push(node);
        } else {
            queue.before = std::mem::replace(&mut queue.current, vec![node]);
            order.open_group = true;
        }
        for before in &queue.before {
            self.graph.edge(*before, node, 0.0);
        }
    }

    fn after_wait(
        &mut self,
        order: &mut RankOrder,
        t: Transfer,
        at: (usize, usize),
    ) -> Result<(), ScheduleError> {
        if matches!(
            self.model,
            CommModel::Dep | CommModel::Sync | CommModel::Eager
        ) {
            return Ok(());
        }
        let known = t.stage.index() < self.schedule.stages()
            && t.microbatch.index() < self.schedule.microbatches();
        let ends =
            known.then(|| self.ends[t.direction as usize][self.index(t.stage, t.microbatch)]);
        match ends.and_then(|e| e.send.map(|(_, position)| (position, e.node))) {
            Some((position, node)) if position as usize <= at.1 => {
                order.waits.push(node);
                order.open_group = false;
                Ok(())
            }
            _ => {
                let what = format!(
                    "rank {}: {} without an earlier send",
                    at.0,
                    Action::WaitSend(t)
                );
                Err(transfer_error(at.0, at.1, what))
            }
        }
    }

    fn label(&self, node: u32) -> String {
        if node >= self.first_transfer {
            let (direction, sender, microbatch) =
                self.transfers[(node - self.first_transfer) as usize];
            let to = receiver_of(direction, sender);
            return format!(
                "{}->{}:{}{}",
                sender.0,
                to.0,
                direction.letter(),
                microbatch.0
            );
        }
        let (r, i) = self.place[node as usize];
        format!("{}@{r}", self.schedule.ranks()[r as usize][i as usize])
    }

    fn timeline(&self, starts: &[f64]) -> Timeline {
        let interval = |n: u32| Interval {
            start: starts[n as usize],
            end: starts[n as usize] + self.graph.duration(n),
        };
        let computes = self.compute_node.iter().map(|nodes| {
            nodes
                .iter()
                .map(|n| (*n != NONE).then(|| interval(*n)))
                .collect()
        });
        let transfers =
            self.transfers
                .iter()
                .enumerate()
                .map(|(k, (direction, sender, microbatch))| TimedTransfer {
                    direction: *direction,
                    sender: *sender,
                    receiver: receiver_of(*direction, *sender),
                    microbatch: *microbatch,
                    interval: interval(self.first_transfer + k as u32),
                });
        let path = self.critical_nodes(starts);
        Timeline {
            computes: computes.collect(),
            transfers: transfers.collect(),
            critical_path: path
                .iter()
                .map(|n| (self.label(*n), interval(*n)))
                .collect(),
        }
    }

    /// From the compute that ends last, back along waits without slack.
    fn critical_nodes(&self, starts: &[f64]) -> Vec<u32> {
        let end = |n: u32| starts[n as usize] + self.graph.duration(n);
        let Some(mut at) = (0..self.first_transfer).max_by(|a, b| end(*a).total_cmp(&end(*b)))
        else {
            return Vec::new();
        };
        let mut tight = vec![NONE; starts.len()];
        for (before, after, lag) in self.graph.edges() {
            if end(*before) + lag >= starts[*after as usize] {
                tight[*after as usize] = *before;
            }
        }
        let mut path = vec![at];
        while tight[at as usize] != NONE {
            at = tight[at as usize];
            path.push(at);
        }
        path.reverse();
        path
    }
}

/// What one rank has issued so far.
struct RankOrder {
    last_compute: Option<u32>,
    last_any: Option<u32>,
    queues: Vec<Queue>,
    waits: Vec<u32>,
    open_group: bool,
}

/// A communication stream: the transfers launched last, and those launched before them.
#[derive(Clone, Default)]
struct Queue {
    current: Vec<u32>,
    before: Vec<u32>,
}

impl RankOrder {
    fn new(ranks: usize) -> RankOrder {
        RankOrder {
            last_compute: None,
            last_any: None,
            queues: vec![Queue::default(); 1 + 2 * ranks],
            waits: Vec::new(),
            open_group: false,
        }
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

fn transfer_error(rank: usize, position: usize, what: String) -> ScheduleError {
    let rank = super::action::RankId(rank as u32);
    ScheduleError::Transfer {
        place: Some(super::error::ActionPlace { rank, position }),
        what,
    }
}
