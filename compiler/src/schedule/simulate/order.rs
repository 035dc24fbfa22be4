//! What each rank's list and the communication model put before what.

use super::{Build, transfer_error};
use std::collections::HashMap;

use crate::schedule::action::{Action, StageStep, Transfer};
use crate::schedule::error::ScheduleError;
use crate::schedule::timeline::CommModel;

impl Build<'_> {
    /// Adds the order of every list.
    pub(super) fn order_edges(&mut self) -> Result<(), ScheduleError> {
        let schedule = self.schedule;
        let mut state = StateSteps::default();
        for (r, actions) in schedule.ranks().iter().enumerate() {
            let mut order = RankOrder::default();
            for (i, action) in actions.iter().enumerate() {
                match action {
                    Action::Compute(_) | Action::Overlap(_) => {
                        self.after_compute(&mut order, self.compute_node[r][i])
                    }
                    Action::Send(t) => self.after_transfer(&mut order, *t, true),
                    Action::Recv(t) => self.after_transfer(&mut order, *t, false),
                    Action::WaitSend(t) => self.after_wait(&mut order, *t, (r, i))?,
                    Action::Stage(step, _) if !step.in_torch() => {
                        let node = self.compute_node[r][i];
                        match step {
                            StageStep::RecvState => state.recv.push((r, node)),
                            StageStep::SendState => drop(state.send.insert(r, node)),
                            StageStep::Validate => state.validate.push((r, node)),
                            StageStep::SyncState => state.sync.push((order.last_compute, node)),
                            _ => {}
                        }
                        self.after_compute(&mut order, node);
                    }
                    Action::Stage(..) => {}
                }
            }
        }
        self.exchange_state(&state);
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
        let queue = order.queues.entry(queue).or_default();
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

    /// The waits of the optimizer's steps: partial state goes from rank to rank, the whole of it comes back from the last one,
    /// and a barrier ends for nobody before all have come.
    fn exchange_state(&mut self, state: &StateSteps) {
        let hop = self.costs.state;
        for (r, node) in &state.recv {
            if let Some(before) = r.checked_sub(1).and_then(|r| state.send.get(&r)) {
                self.graph.edge(*before, *node, hop);
            }
        }
        let whole = state.recv.iter().max_by_key(|(r, _)| *r);
        for (r, node) in &state.validate {
            if let Some((last, before)) = whole
                && before != node
            {
                let back = last.saturating_sub(*r) as f64;
                self.graph.edge(*before, *node, back * hop);
            }
        }
        if state.sync.len() > 1 {
            let all = self.graph.node(0.0);
            for (before, node) in &state.sync {
                if let Some(before) = before {
                    self.graph.edge(*before, all, 0.0);
                }
                self.graph.edge(all, *node, 0.0);
            }
        }
    }
}

/// Nodes of the optimizer's steps, with their ranks.
#[derive(Default)]
struct StateSteps {
    recv: Vec<(usize, u32)>,
    send: HashMap<usize, u32>,
    validate: Vec<(usize, u32)>,
    /// What each rank ran before it came to the barrier.
    sync: Vec<(Option<u32>, u32)>,
}

/// What one rank has issued so far.
#[derive(Default)]
struct RankOrder {
    last_compute: Option<u32>,
    last_any: Option<u32>,
    queues: HashMap<usize, Queue>,
    waits: Vec<u32>,
    open_group: bool,
}

/// A communication stream: the transfers launched last, and those launched before them.
#[derive(Default)]
struct Queue {
    current: Vec<u32>,
    before: Vec<u32>,
}
