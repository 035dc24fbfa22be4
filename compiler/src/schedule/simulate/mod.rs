//! When does everything run? One simulator for the seven ways in which compute and communication can share a machine.
//!
//! A transfer starts once both sides have issued it (rendezvous) and all that its model puts before it is over. A ring
//! among these waits is a deadlock. Transfers are matched as a tagged transport would; [`channel_mismatches`] tells
//! where an untagged one, which matches by order, would deliver another message.

use crate::schedule::action::{
    Action, Compute, Direction, MicrobatchId, Op, RankId, StageId, StageStep,
};
use crate::schedule::check::Complete;
use crate::schedule::cost::Costs;
use crate::schedule::error::{ActionPlace, ScheduleError, Wait};
use crate::schedule::graph::TimedGraph;
use crate::schedule::list::Schedule;

mod ends;
mod order;

pub use crate::schedule::channel::{ChannelMismatch, channel_mismatches};
pub use crate::schedule::timeline::{CommModel, CriticalStep, Interval, TimedTransfer, Timeline};

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
            cycle: ring.iter().map(|n| build.wait(*n)).collect(),
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
    /// Node of each (rank, position) that takes time on the compute stream, and the way back.
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

/// Computes, and the steps of the optimizer.
fn takes_time(action: &Action) -> bool {
    match action {
        Action::Compute(_) | Action::Overlap(_) => true,
        Action::Stage(step, _) => !step.in_torch(),
        _ => false,
    }
}

fn output(kind: Compute) -> Option<Direction> {
    match kind {
        Compute::Forward => Some(Direction::Forward),
        Compute::InputGrad | Compute::Backward => Some(Direction::Backward),
        Compute::WeightGrad => None,
    }
}

/// The stage that a tensor of `sender` goes to.
pub(in crate::schedule) fn receiver_of(direction: Direction, sender: StageId) -> StageId {
    match direction {
        Direction::Forward => StageId(sender.0 + 1),
        Direction::Backward => StageId(sender.0.wrapping_sub(1)),
    }
}

/// The edge, named by its lower stage, that a tensor of `sender` crosses.
pub(in crate::schedule) fn edge_of(direction: Direction, sender: StageId) -> StageId {
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
            for (i, action) in actions.iter().enumerate().filter(|(_, a)| takes_time(a)) {
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

    fn label(&self, node: u32) -> String {
        if let Some((r, i)) = self.place.get(node as usize) {
            let action = &self.schedule.ranks()[*r as usize][*i as usize];
            return format!("{action}@{r}");
        }
        match self.transfers.get((node - self.first_transfer) as usize) {
            Some((direction, sender, microbatch)) => format!(
                "{}->{}:{}{}",
                sender.0,
                receiver_of(*direction, *sender).0,
                direction.letter(),
                microbatch.0
            ),
            None => "state of all ranks".to_owned(),
        }
    }

    /// A node of a ring, with the actions that stand for it.
    fn wait(&self, node: u32) -> Wait {
        let place = |(rank, position): (u32, u32)| ActionPlace {
            rank: RankId(rank),
            position: position as usize,
        };
        let places = match self.place.get(node as usize) {
            Some(own) => vec![place(*own)],
            None => self
                .transfers
                .get((node - self.first_transfer) as usize)
                .map(|(direction, sender, microbatch)| {
                    let ends = &self.ends[*direction as usize][self.index(*sender, *microbatch)];
                    [ends.send, ends.recv]
                        .into_iter()
                        .flatten()
                        .map(place)
                        .collect()
                })
                .unwrap_or_default(),
        };
        Wait {
            label: self.label(node),
            places,
        }
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
                .map(|n| CriticalStep {
                    label: self.label(*n),
                    interval: interval(*n),
                    place: self
                        .place
                        .get(*n as usize)
                        .map(|(r, i)| (*r as usize, *i as usize)),
                })
                .collect(),
        }
    }

    fn validates(&self, node: u32) -> bool {
        let (r, i) = self.place[node as usize];
        matches!(
            self.schedule.ranks()[r as usize][i as usize],
            Action::Stage(StageStep::Validate | StageStep::Rollback, _)
        )
    }

    /// From the compute, or the optimizer's step, that ends last, back along waits without slack. What validates runs while the
    /// next step starts.
    fn critical_nodes(&self, starts: &[f64]) -> Vec<u32> {
        let end = |n: u32| starts[n as usize] + self.graph.duration(n);
        let Some(mut at) = (0..self.first_transfer)
            .filter(|n| !self.validates(*n))
            .max_by(|a, b| end(*a).total_cmp(&end(*b)))
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

/// A fault of a transfer at a place.
fn transfer_error(rank: usize, position: usize, what: String) -> ScheduleError {
    let rank = crate::schedule::action::RankId(rank as u32);
    ScheduleError::Transfer {
        place: Some(crate::schedule::error::ActionPlace { rank, position }),
        what,
    }
}
