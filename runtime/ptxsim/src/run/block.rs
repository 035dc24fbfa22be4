//! The blocks of a cluster: their warps take turns. A warp's turn lasts until it waits for others, wants to use memory in a
//! way that others can hear of, or has returned.

use std::collections::HashMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::barrier::{Barrier, NamedBarrier};
use super::cluster::{Away, ClusterBarrier, Visits};
use super::order::Order;
use super::step::{Step, lanes_where};
use super::tensor::Load;
use super::tensor_memory::Memory;
use super::tile::Decoded;
use super::warp::{LANES, RETURNED, Surroundings, Warp, each};
use super::{Counters, Delivery, Launch, Outcome, Residency};
use crate::agents::Agents;
use crate::clock::Part;
use crate::finding::{Finding, FindingKind};
use crate::global::OpenMemory;
use crate::parse::Kernel;
use crate::shared::Shared;
use crate::tensor_map::TensorMap;

/// Named barriers of a block (PTX ISA, "bar").
const NAMED_BARRIERS: usize = 16;

/// Instructions of its warps after which a cluster counts as running without end.
const PATIENCE: u64 = 1 << 28;

/// Instructions of its warps after which a cluster lets others run.
const TURN: u64 = 1 << 22;

/// Turns of all warps that show each of them what it saw before, after which what is under way arrives.
pub(super) const POLITE: u32 = 8;

/// The same, after which they count as waiting for ever.
pub(super) const RESIGNED: u32 = 256;

/// The blocks of a cluster, one of which is at home: its part of the state is in `home`.
pub(super) struct Block<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) parameters: &'k [u8],
    pub(super) delivery: Delivery,
    pub(super) around: Surroundings,
    /// The cluster's number, and the place in it of the block at home.
    pub(super) cluster: u32,
    pub(super) rank: u32,
    pub(super) agents: Agents,
    pub(super) shared: Shared,
    pub(super) named: Vec<NamedBarrier>,
    pub(super) barriers: Vec<Barrier>,
    /// Registers that `setmaxnreg` has given back and not taken.
    pub(super) free_registers: u32,
    /// Who else has used its shared memory.
    pub(super) visits: Visits,
    /// The same of the other blocks.
    pub(super) away: Vec<Away>,
    pub(super) has_ended: Vec<bool>,
    pub(super) cluster_barrier: ClusterBarrier,
    pub(super) counters: Counters,
    /// Tensor maps by their place among the parameters.
    pub(super) maps: &'k HashMap<u32, TensorMap>,
    /// Copies from global to shared memory under way.
    pub(super) loads: Vec<Load>,
    pub(super) tensor_memory: Memory,
    /// Barriers that were made so far.
    pub(super) made: u32,
    /// Changes so far that others may wait for.
    pub(super) changes: u64,
    /// What strong uses have seen since the last change: instructions and addresses.
    pub(super) seen: FxHashSet<(usize, u64)>,
    /// Operands of products that were decoded last.
    pub(super) decoded: Vec<Decoded>,
    /// What was handed over in shared memory, at which address.
    pub(super) handed_over: FxHashMap<u64, Vec<Part>>,
    /// Whether a warp's turn ended because others may have changed what it looks at.
    pub(super) has_polled: bool,
    /// Whether a strong use saw what it had not seen since the last change.
    pub(super) has_news: bool,
    /// Whether nobody else uses global memory just now.
    pub(super) is_alone: bool,
    /// Sweeps that changed nothing, one after the other.
    idle: u32,
    warps: Vec<Warp>,
    order: Order,
    pub(super) findings: Vec<Finding>,
}

/// How a cluster's run came to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It has come to its end.
    Over,
    /// Warps want to use global memory in a way that others can hear of.
    Meets,
    /// It ran for long, and others shall have their turn.
    Tired,
}

/// What all blocks of a launch share.
pub(super) struct Shape<'k> {
    pub kernel: &'k Kernel,
    pub residency: Residency,
    pub launch: &'k Launch,
    pub parameters: &'k [u8],
    pub maps: &'k HashMap<u32, TensorMap>,
}

impl<'k> Block<'k> {
    pub(super) fn new(shape: &Shape<'k>, cluster: u32) -> Block<'k> {
        let Shape { kernel, launch, .. } = *shape;
        let shared_bytes = kernel
            .static_shared_bytes
            .saturating_add(launch.shared_bytes);
        let agents = Agents {
            threads: launch.threads,
            ranks: launch.cluster,
        };
        let count = launch.threads / LANES as u32;
        let ranks = if launch.cluster == 1 {
            0
        } else {
            launch.cluster
        };
        let warps = (0..launch.cluster * count).map(|number| {
            let place = (number / count, number % count);
            Warp::new((cluster, agents), place, kernel.registers)
        });
        Block {
            kernel,
            parameters: shape.parameters,
            delivery: launch.delivery,
            around: Surroundings {
                block: cluster * launch.cluster,
                blocks: launch.blocks,
                threads: launch.threads,
            },
            cluster,
            rank: 0,
            agents,
            shared: Shared::new(shared_bytes),
            named: vec![NamedBarrier::default(); NAMED_BARRIERS],
            barriers: Vec::new(),
            free_registers: 0,
            visits: Visits::new(),
            away: (0..ranks)
                .map(|_| Away::new(shared_bytes, NAMED_BARRIERS))
                .collect(),
            has_ended: vec![false; launch.cluster as usize],
            cluster_barrier: ClusterBarrier::default(),
            counters: Counters::default(),
            maps: shape.maps,
            loads: Vec::new(),
            tensor_memory: Memory::default(),
            made: 0,
            changes: 0,
            seen: FxHashSet::default(),
            decoded: Vec::new(),
            handed_over: FxHashMap::default(),
            has_polled: false,
            has_news: false,
            is_alone: false,
            idle: 0,
            warps: warps.collect(),
            order: Order::of(launch.seed),
            findings: Vec::new(),
        }
    }

    /// Runs the cluster until only others can bring it on.
    pub(super) fn run(&mut self, memory: &OpenMemory) -> Pause {
        let mut warps = std::mem::take(&mut self.warps);
        let pause = self.take_turns(&mut warps, memory);
        self.warps = warps;
        pause
    }

    /// What the run showed.
    pub(super) fn outcome(self) -> Outcome {
        Outcome {
            findings: self.findings,
            counters: self.counters,
            ..Outcome::default()
        }
    }

    fn take_turns(&mut self, warps: &mut [Warp], memory: &OpenMemory) -> Pause {
        let mut order: Vec<usize> = (0..warps.len()).collect();
        let end = self.counters.warp_instructions + TURN;
        while !self.is_over() {
            let before = self.changes;
            let mut returned = 0;
            self.has_polled = false;
            self.has_news = false;
            self.order.shuffle(&mut order);
            for &index in &order {
                let warp = &mut warps[index];
                if warp.can_go_on() && !self.is_over() {
                    self.enter(warp.rank);
                    self.run_warp(warp, memory);
                }
                returned += usize::from(warps[index].has_returned());
            }
            // Everyone may have arrived; those who have returned are not waited for.
            for rank in 0..self.agents.ranks {
                self.enter(rank);
                self.settle_named(warps);
            }
            if self.agents.ranks > 1 {
                self.settle_cluster(warps);
                self.settle_ends(warps);
            }
            if returned == warps.len() {
                break;
            }
            if self.counters.warp_instructions > end {
                return Pause::Tired;
            }
            if self.changes != before {
                self.idle = 0;
                self.seen.clear();
                continue;
            }
            if warps.iter().any(|warp| warp.is_meeting) {
                return Pause::Meets;
            }
            if self.has_news {
                self.idle = 0;
                continue;
            }
            if !self.is_over() {
                self.stand_still(warps, memory);
            }
        }
        if !self.is_over() {
            self.settle_ends(warps);
            self.finish_stores(warps, memory);
            self.finish_tensor_memory(warps);
        }
        Pause::Over
    }

    /// Nobody can go on: what is under way arrives only now.
    fn stand_still(&mut self, warps: &[Warp], memory: &OpenMemory) {
        if self.has_polled {
            self.idle += 1;
            if self.idle.is_multiple_of(POLITE) {
                self.deliver(memory);
            }
            if self.idle >= RESIGNED {
                self.report_deadlock(warps, "");
            }
        } else if !self.deliver(memory) {
            self.report_deadlock(warps, "");
        }
    }

    /// Lets the copy arrive that was started last, or, if there is none, the products end that were started first.
    pub(super) fn deliver(&mut self, memory: &OpenMemory) -> bool {
        let Some(load) = self.loads.pop() else {
            return self.finish_commit();
        };
        self.finish_load(memory, &load);
        true
    }

    /// Executes what warps wait to do while nobody else uses global memory.
    pub(super) fn meet(&mut self, memory: &OpenMemory) {
        let mut warps = std::mem::take(&mut self.warps);
        self.is_alone = true;
        self.has_news = false;
        let before = self.changes;
        for warp in &mut warps {
            if std::mem::take(&mut warp.is_meeting) && !self.is_over() {
                self.enter(warp.rank);
                let mut meeting = 0;
                self.advance(warp, memory, &mut meeting);
            }
        }
        if self.changes != before {
            self.seen.clear();
            self.has_news = true;
        }
        self.is_alone = false;
        self.warps = warps;
    }

    /// Nobody in the launch can go on.
    pub(super) fn give_up(&mut self, why: &str) {
        let warps = std::mem::take(&mut self.warps);
        self.report_deadlock(&warps, why);
        self.warps = warps;
    }

    pub(super) fn is_over(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.kind.ends_block())
    }

    /// Runs a warp until all its lanes wait or have returned, or it ends the block.
    fn run_warp(&mut self, warp: &mut Warp, memory: &OpenMemory) {
        warp.asks_again = None;
        warp.asking = 0;
        let mut meeting = 0u32;
        while warp.can_go_on() && !self.is_over() {
            if !self.advance(warp, memory, &mut meeting) {
                return;
            }
        }
    }

    /// Executes one instruction of a warp, if it has one to execute.
    ///
    /// Lanes that part go on by themselves, those with the lowest place first. What a whole warp must execute together
    /// makes those who reach it wait for the others: they are `meeting`.
    fn advance(&mut self, warp: &mut Warp, memory: &OpenMemory, meeting: &mut u32) -> bool {
        let kernel = self.kernel;
        let live = match warp.place_of_all() {
            Some(RETURNED) => 0,
            Some(_) => u32::MAX,
            None => lanes_where(|lane| warp.places[lane] != RETURNED),
        };
        let free = live & !(*meeting | warp.asking);
        let all = warp.place_of_all().filter(|_| free == u32::MAX);
        let Some(place) = all.or_else(|| each(free).map(|lane| warp.places[lane]).min()) else {
            if warp.asking == 0 && *meeting != 0 {
                self.report_parted(warp, *meeting);
            }
            return false;
        };
        let here = match all {
            Some(_) => u32::MAX,
            None => lanes_where(|lane| warp.places[lane] == place) & !warp.asking,
        };
        let Some(instruction) = kernel.instructions.get(place) else {
            // Beyond the last instruction a kernel returns.
            for lane in each(here) {
                warp.places[lane] = RETURNED;
            }
            return true;
        };
        let operation = instruction.operation;
        if operation.is_collective() && here != live {
            *meeting |= here;
            return true;
        }
        if operation.is_heard_by_others() && !self.is_alone {
            warp.is_meeting = true;
            return false;
        }
        *meeting &= !here;
        self.counters.warp_instructions += 1;
        let lanes = here & self.guard(warp, instruction, here);
        if here == u32::MAX {
            warp.places = [place + 1; LANES];
        } else {
            for lane in each(here) {
                warp.places[lane] = place + 1;
            }
        }
        let step = Step {
            instruction,
            lanes,
            place,
        };
        self.step(warp, memory, &step);
        if self.counters.warp_instructions > PATIENCE {
            let fault = (
                FindingKind::Deadlock,
                "the kernel does not come to an end".to_owned(),
            );
            self.report(warp, instruction, 0, fault);
        }
        // Others may have something to say about what a strong use sees.
        let polls = operation.is_strong();
        self.has_polled |= polls;
        !polls
    }
}
