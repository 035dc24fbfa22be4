//! What blocks of a cluster share: each other's shared memory, and a barrier (PTX ISA, "barrier.cluster", "mapa").
//!
//! An address of shared memory says whose it is: none for the block's own, else one more than the other's rank, from bit 24
//! on. A block that ends must know that the others are done with its shared memory.

use std::collections::BTreeMap;

use super::barrier::{Barrier, NamedBarrier};
use super::block::Block;
use super::step::{Step, lanes_where};
use super::warp::{LANES, RETURNED, Warp, each};
use crate::agents::Agent;
use crate::clock::Knowledge;
use crate::finding::FindingKind;
use crate::instruction::Operation;
use crate::memory::Fault;
use crate::shared::Shared;

/// Where an address says whose shared memory it is.
const RANK_SHIFT: u32 = 24;

/// The state of a block that is not at home.
pub(super) struct Away {
    shared: Shared,
    named: Vec<NamedBarrier>,
    barriers: Vec<Barrier>,
    free_registers: u32,
    visits: Visits,
}

/// Uses of a block's shared memory by other blocks: the last tick of each user, and the line.
pub(super) type Visits = BTreeMap<Agent, (u32, u32)>;

/// The barrier of a cluster.
#[derive(Default)]
pub(super) struct ClusterBarrier {
    /// Phases that are complete.
    phase: u32,
    /// What those who arrived knew.
    gathered: Knowledge,
    /// The same for the phases that are complete.
    published: Knowledge,
}

impl Away {
    pub(super) fn new(shared_bytes: u32, named: usize) -> Away {
        Away {
            shared: Shared::new(shared_bytes),
            named: vec![NamedBarrier::default(); named],
            barriers: Vec::new(),
            free_registers: 0,
            visits: Visits::new(),
        }
    }
}

impl Block<'_> {
    /// Makes a block of the cluster the one at home.
    pub(super) fn enter(&mut self, rank: u32) {
        if rank != self.rank {
            let here = self.rank;
            self.swap(here);
            self.swap(rank);
            self.rank = rank;
            self.around.block = self.cluster * self.agents.ranks + rank;
        }
    }

    fn swap(&mut self, rank: u32) {
        let Some(away) = self.away.get_mut(rank as usize) else {
            return;
        };
        std::mem::swap(&mut self.shared, &mut away.shared);
        std::mem::swap(&mut self.named, &mut away.named);
        std::mem::swap(&mut self.barriers, &mut away.barriers);
        std::mem::swap(&mut self.free_registers, &mut away.free_registers);
        std::mem::swap(&mut self.visits, &mut away.visits);
    }

    /// Does something with the state of a block of the cluster, on behalf of the one at home.
    pub(super) fn at<T>(&mut self, rank: u32, work: impl FnOnce(&mut Self) -> T) -> T {
        let home = (self.rank, self.around.block);
        self.enter(rank);
        self.around.block = home.1;
        let result = work(self);
        self.enter(home.0);
        self.around.block = home.1;
        result
    }

    /// Whose shared memory an address lies in, and where there.
    pub(super) fn find_shared(&self, address: u64) -> Result<(u32, u64), Fault> {
        let offset = address & ((1 << RANK_SHIFT) - 1);
        match address >> RANK_SHIFT {
            0 => Ok((self.rank, offset)),
            above if above <= u64::from(self.agents.ranks) => Ok((above as u32 - 1, offset)),
            above => {
                let message = format!(
                    "shared memory of block {} of a cluster of {}",
                    above - 1,
                    self.agents.ranks
                );
                Err((FindingKind::OutOfBounds, message))
            }
        }
    }

    /// `mapa`: the address of the same place in another block's shared memory; and `getctarank`.
    pub(super) fn map_address(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        let addresses = self.read(warp, step, &operands[1]);
        let mut values = [0; LANES];
        if step.instruction.operation == Operation::RankOfAddress {
            for lane in each(step.lanes) {
                match self.find_shared(addresses[lane]) {
                    Ok((rank, _)) => values[lane] = rank.into(),
                    Err(fault) => return self.report(warp, step.instruction, lane, fault),
                }
            }
        } else {
            let ranks = self.read(warp, step, &operands[2]);
            for lane in each(step.lanes) {
                let offset = addresses[lane] & ((1 << RANK_SHIFT) - 1);
                let rank = ranks[lane] & 0xffff_ffff;
                values[lane] = offset | (rank + 1) << RANK_SHIFT;
                if let Err(fault) = self.find_shared(values[lane]) {
                    return self.report(warp, step.instruction, lane, fault);
                }
            }
        }
        warp.set(&operands[0], step.lanes, &values);
    }

    /// Whether a block still has its shared memory.
    pub(super) fn check_running(&self, rank: u32) -> Result<(), Fault> {
        if self.has_ended[rank as usize] {
            let message = format!(
                "shared memory of block {}, which has ended",
                self.cluster * self.agents.ranks + rank
            );
            return Err((FindingKind::Ended, message));
        }
        Ok(())
    }

    /// Notes that a lane uses a block's shared memory.
    pub(super) fn visit(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        (rank, lane): (u32, usize),
    ) -> Result<(), Fault> {
        if rank == self.rank {
            return Ok(());
        }
        self.check_running(rank)?;
        let visit = (warp.tick, step.instruction.line);
        let agent = warp.agent(lane);
        if let Some(away) = self.away.get_mut(rank as usize) {
            away.visits.insert(agent, visit);
        }
        Ok(())
    }

    /// Takes note of blocks that have ended: what is done to their shared memory must be over, and they must know it.
    pub(super) fn settle_ends(&mut self, warps: &[Warp]) {
        for rank in 0..self.agents.ranks {
            let mut own = warps.iter().filter(|warp| warp.rank == rank);
            if self.has_ended[rank as usize] || !own.all(Warp::has_returned) {
                continue;
            }
            self.has_ended[rank as usize] = true;
            self.enter(rank);
            self.report_loads_at_end();
            let mut known = Knowledge::default();
            for warp in warps.iter().filter(|warp| warp.rank == rank) {
                known.join(&warp.knowledge);
                for own in warp.own.iter().flatten() {
                    known.join(own);
                }
            }
            for (agent, (tick, line)) in std::mem::take(&mut self.visits) {
                if tick >= known.over.of(agent) {
                    let who = self.agents.describe(self.cluster, agent, self.around.block);
                    let message =
                        format!("the block may end before {who} has used its shared memory");
                    self.add_finding(line, 0, (FindingKind::Ended, message));
                }
            }
        }
    }

    /// The block at home ends: no copy to its shared memory may be under way.
    pub(super) fn report_loads_at_end(&mut self) {
        let rank = self.rank;
        let left: Vec<(u32, u32)> = self
            .loads
            .extract_if(.., |load| load.rank == rank)
            .map(|load| (load.line, load.thread))
            .collect();
        for (line, thread) in left {
            let message = "the block ends while a copy to its shared memory is under way";
            let fault = (FindingKind::InFlight, message.to_owned());
            self.add_finding(line, thread, fault);
        }
    }

    /// `barrier.cluster.arrive`
    pub(super) fn arrive_at_cluster(&mut self, warp: &mut Warp, step: &Step<'_>, releases: bool) {
        if warp.at_cluster & step.lanes != 0 {
            let message =
                "the cluster's barrier is arrived at twice with no wait between".to_owned();
            let fault = (FindingKind::Barrier, message);
            return self.report(warp, step.instruction, 0, fault);
        }
        warp.at_cluster |= step.lanes;
        for lane in each(step.lanes) {
            warp.cluster_phases[lane] = self.cluster_barrier.phase + 1;
        }
        if releases {
            warp.release(step.lanes, &mut self.cluster_barrier.gathered);
        }
        self.changes += 1;
    }

    /// `barrier.cluster.wait`
    pub(super) fn wait_for_cluster(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let barrier = &self.cluster_barrier;
        let missing = lanes_where(|lane| warp.cluster_phases[lane] == 0) & step.lanes;
        if missing != 0 {
            let message = "a wait for the cluster's barrier with no arrival before".to_owned();
            let lane = missing.trailing_zeros() as usize;
            return self.report(
                warp,
                step.instruction,
                lane,
                (FindingKind::Barrier, message),
            );
        }
        let done = lanes_where(|lane| warp.cluster_phases[lane] <= barrier.phase) & step.lanes;
        warp.learn(done, |knowledge| knowledge.join(&barrier.published));
        if done == u32::MAX {
            // The warp's own lanes have waited for each other too.
            warp.synchronise();
        }
        for lane in each(done) {
            warp.cluster_phases[lane] = 0;
        }
        let waits = step.lanes & !done;
        if waits != 0 {
            for lane in each(waits) {
                warp.places[lane] = step.place;
            }
            warp.asking |= waits;
            let what = "the cluster's barrier".to_owned();
            warp.asks_again = Some((step.instruction.line, what));
        }
    }

    /// Completes the phase of the cluster's barrier if everyone who has not returned has arrived.
    pub(super) fn settle_cluster(&mut self, warps: &mut [Warp]) {
        let has_arrived =
            |warp: &Warp| lanes_where(|lane| warp.places[lane] != RETURNED) & !warp.at_cluster == 0;
        if warps.iter().any(|warp| warp.at_cluster != 0) && warps.iter().all(has_arrived) {
            for warp in warps {
                warp.at_cluster = 0;
            }
            let ClusterBarrier {
                phase,
                gathered,
                published,
            } = &mut self.cluster_barrier;
            *phase += 1;
            published.join(gathered);
            self.changes += 1;
        }
    }
}
