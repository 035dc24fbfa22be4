//! The state of one warp.

use super::atomic::Heard;
use super::matrix::Fragments;
use super::tensor::Group;
use super::tensor_memory::TensorUse;
use super::warpgroup::Products;
use crate::agents::{Agent, Agents};
use crate::clock::Knowledge;
use crate::instruction::{Operand, Special};
use crate::record::User;

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// The place of a lane that has returned.
pub(super) const RETURNED: usize = usize::MAX;

/// One `cp.async` under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub shared: u64,
    pub global: u64,
    /// Bytes that are written.
    pub size: usize,
    /// Bytes that are read; the others are zero.
    pub valid: usize,
}

/// The state of one warp.
pub(super) struct Warp {
    /// The cluster's number.
    pub cluster: u32,
    pub agents: Agents,
    /// The block's number in the cluster, and the warp's in the block.
    pub rank: u32,
    pub index: u32,
    /// The instruction that each lane executes next.
    pub places: [usize; LANES],
    /// Each register of all lanes.
    pub registers: Vec<[u64; LANES]>,
    /// For each register, how often it was written.
    pub versions: Vec<u32>,
    pub fragments: Fragments,
    /// For each register, the lanes that have a value in it.
    pub defined: Vec<u32>,
    /// Lanes that have arrived at the cluster's barrier in its present phase, and the phase that each lane waits for.
    pub at_cluster: u32,
    pub cluster_phases: [u32; LANES],
    /// The named barrier that the warp waits at.
    pub waits_at: Option<usize>,
    /// Whether the next instruction is one that other clusters can hear of.
    pub is_meeting: bool,
    /// Lanes that can only ask again for what they wait for, and the line and what it is.
    pub asking: u32,
    pub asks_again: Option<(u32, String)>,
    /// The time of the warp's uses of memory: it grows whenever it hands over what it has done.
    pub tick: u32,
    /// The first tick whose uses by one lane are not known to the others.
    pub synced: u32,
    /// What the warp knows of others, and of what the asynchronous proxy sees.
    pub knowledge: Knowledge,
    /// What a lane knows, if it knows more than the warp.
    pub own: [Option<Box<Knowledge>>; LANES],
    /// What fences and relaxed uses have to do with each other.
    pub heard: Heard,
    /// Registers that were written since the last `wgmma.fence`.
    pub touched: Vec<bool>,
    /// Registers that products under way will write.
    pub busy: Vec<bool>,
    pub products: Products,
    /// What the warp does in tensor memory.
    pub tensor: TensorUse,
    /// Registers of a thread, if a `setmaxnreg` said so.
    pub allotment: Option<u32>,
    /// Bulk copies to global memory of each lane: groups that are committed, oldest first, and at the end those that are
    /// not.
    pub bulk: Vec<Vec<Group>>,
    /// The tick of the next such group.
    pub bulk_tick: u32,
    /// Copies of each lane: groups that are committed, oldest first, and at the end those that are not.
    pub copies: Vec<Vec<Vec<Copy>>>,
}

/// What the lanes of a block have in common.
#[derive(Clone, Copy)]
pub(super) struct Surroundings {
    pub block: u32,
    pub blocks: u32,
    pub threads: u32,
}

impl Warp {
    pub(super) fn new(
        (cluster, agents): (u32, Agents),
        (rank, index): (u32, u32),
        registers: usize,
    ) -> Warp {
        Warp {
            cluster,
            agents,
            rank,
            index,
            places: [0; LANES],
            registers: vec![[0; LANES]; registers],
            versions: vec![0; registers],
            fragments: Fragments::default(),
            defined: vec![0; registers],
            at_cluster: 0,
            cluster_phases: [0; LANES],
            waits_at: None,
            is_meeting: false,
            asking: 0,
            asks_again: None,
            tick: 1,
            synced: 0,
            knowledge: Knowledge::default(),
            own: [const { None }; LANES],
            heard: Heard::default(),
            touched: vec![true; registers],
            busy: vec![false; registers],
            products: Products::default(),
            tensor: TensorUse::of(index),
            allotment: None,
            bulk: vec![vec![Group::default()]; LANES],
            bulk_tick: 1,
            copies: vec![vec![Vec::new()]; LANES],
        }
    }

    /// The number in the block of a lane.
    pub(super) fn thread(&self, lane: usize) -> u32 {
        self.index * LANES as u32 + lane as u32
    }

    /// The number of a lane among the users of memory.
    pub(super) fn agent(&self, lane: usize) -> Agent {
        self.agents.thread(self.rank, self.thread(lane))
    }

    /// Who a lane is to memory.
    pub(super) fn user(&self, lane: usize) -> User<'_> {
        User {
            cluster: self.cluster,
            agents: self.agents,
            thread: self.agent(lane),
            whole_warp: false,
            is_apart: self.own[lane].is_some(),
            tick: self.tick,
            synced: self.synced,
            knowledge: self.own[lane].as_deref().unwrap_or(&self.knowledge),
            asynchronous: false,
            reads_as: None,
            strong: None,
        }
    }

    /// Hands over what some lanes know and have done.
    pub(super) fn release(&mut self, lanes: u32, into: &mut Knowledge) {
        into.join(&self.knowledge);
        for lane in 0..LANES {
            let acts = lanes >> lane & 1 == 1;
            if acts && let Some(own) = &self.own[lane] {
                into.join(own);
            }
            let over = if acts { self.tick + 1 } else { self.synced };
            into.over.learn(self.agent(lane), over);
        }
        self.tick += 1;
    }

    /// What a lane knows, with what it and its warp have done.
    pub(super) fn told(&self, lane: usize) -> Knowledge {
        let mut knowledge = self.user(lane).knowledge.clone();
        for other in 0..LANES {
            let over = if other == lane {
                self.tick + 1
            } else {
                self.synced
            };
            knowledge.over.learn(self.agent(other), over);
        }
        knowledge
    }

    /// Some lanes learn something; the others too if the warp has no others that are still running.
    pub(super) fn learn(&mut self, lanes: u32, what: impl Fn(&mut Knowledge)) {
        let is_running = |lane: &usize| self.places[*lane] != RETURNED;
        let running = (0..LANES).filter(is_running);
        if running.fold(0u32, |all, lane| all | 1 << lane) & !lanes == 0 {
            what(&mut self.knowledge);
            self.own.iter_mut().flatten().for_each(|own| what(own));
            return;
        }
        for lane in each(lanes) {
            let knowledge = &self.knowledge;
            what(self.own[lane].get_or_insert_with(|| Box::new(knowledge.clone())));
        }
    }

    /// The lanes wait for each other.
    pub(super) fn synchronise(&mut self) {
        self.tick += 1;
        self.synced = self.tick;
        for own in &mut self.own {
            if let Some(own) = own.take() {
                self.knowledge.join(&own);
            }
        }
    }

    /// What some lanes know and have done becomes visible to the asynchronous proxy.
    pub(super) fn fence(&mut self, lanes: u32) {
        self.tick += 1;
        let done: [(Agent, u32); LANES] = std::array::from_fn(|lane| {
            let acts = lanes >> lane & 1 == 1;
            (self.agent(lane), if acts { self.tick } else { self.synced })
        });
        for knowledge in self
            .own
            .iter_mut()
            .flatten()
            .map(Box::as_mut)
            .chain([&mut self.knowledge])
        {
            let Knowledge { over, fenced, .. } = knowledge;
            fenced.join(over);
            for (agent, tick) in done {
                fenced.learn(agent, tick);
            }
            knowledge.fence_others();
        }
    }

    /// Where all lanes are, if they are at one place.
    pub(super) fn place_of_all(&self) -> Option<usize> {
        let first = self.places[0];
        let apart = self
            .places
            .iter()
            .fold(0, |apart, place| apart | (place ^ first));
        (apart == 0).then_some(first)
    }

    /// Whether the warp waits for nobody.
    pub(super) fn can_go_on(&self) -> bool {
        self.waits_at.is_none() && !self.is_meeting && !self.has_returned()
    }

    pub(super) fn has_returned(&self) -> bool {
        self.places.iter().all(|&place| place == RETURNED)
    }

    /// The values of an operand in all lanes, and the lanes in which it has one.
    pub(super) fn values(&self, operand: &Operand, around: Surroundings) -> ([u64; LANES], u32) {
        let all = u32::MAX;
        match operand {
            Operand::Register(register) => {
                let register = *register as usize;
                (self.registers[register], self.defined[register])
            }
            Operand::Immediate(value) => ([*value; LANES], all),
            Operand::Special(special) => {
                let each = |lane: usize| match special {
                    Special::Thread => self.thread(lane),
                    Special::Threads => around.threads,
                    Special::Block => around.block,
                    Special::Blocks => around.blocks,
                    Special::Cluster => self.cluster,
                    Special::Clusters => around.blocks / self.agents.ranks,
                    Special::Rank => self.rank,
                    Special::Ranks => self.agents.ranks,
                    Special::Lane => lane as u32,
                    Special::Warp => self.index,
                    Special::Zero => 0,
                    Special::One => 1,
                };
                (std::array::from_fn(|lane| each(lane).into()), all)
            }
            Operand::Parameter(offset) => ([u64::from(*offset); LANES], all),
            Operand::Address(base, offset) | Operand::Sum(base, offset) => {
                let (mut values, defined) = self.values(base, around);
                for value in &mut values {
                    *value = value.wrapping_add(*offset as u64);
                }
                (values, defined)
            }
            Operand::Vector(_) | Operand::Label(_) | Operand::Nothing | Operand::Tensor(..) => {
                ([0; LANES], 0)
            }
        }
    }

    /// Writes a register in some lanes.
    pub(super) fn set(&mut self, operand: &Operand, lanes: u32, values: &[u64; LANES]) {
        let Operand::Register(register) = operand else {
            return;
        };
        let register = *register as usize;
        if lanes == u32::MAX {
            self.registers[register] = *values;
        } else {
            for lane in each(lanes) {
                self.registers[register][lane] = values[lane];
            }
        }
        self.defined[register] |= lanes;
        self.touched[register] = true;
        self.versions[register] = self.versions[register].wrapping_add(1);
    }

    /// A register that is written in all lanes.
    pub(super) fn overwrite(&mut self, register: usize) -> &mut [u64; LANES] {
        self.versions[register] = self.versions[register].wrapping_add(1);
        &mut self.registers[register]
    }

    /// Marks a register as without a value in some lanes.
    pub(super) fn forget(&mut self, operand: &Operand, lanes: u32) {
        if let Operand::Register(register) = operand {
            self.defined[*register as usize] &= !lanes;
        }
    }
}

/// The lanes of a mask.
pub(super) fn each(mut lanes: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if lanes == 0 {
            return None;
        }
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        Some(lane)
    })
}
