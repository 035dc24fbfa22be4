//! The state of one warp.

use super::tensor::Store;
use super::warpgroup::Products;
use crate::clock::Knowledge;
use crate::instruction::{Operand, Special};
use crate::shared::User;

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
    pub index: u32,
    /// The instruction that each lane executes next.
    pub places: [usize; LANES],
    /// Each register of all lanes.
    pub registers: Vec<[u64; LANES]>,
    /// For each register, the lanes that have a value in it.
    pub defined: Vec<u32>,
    /// The named barrier that the warp waits at.
    pub waits_at: Option<usize>,
    /// Lanes that can only ask again for what they wait for, and the line and what it is.
    pub asking: u32,
    pub asks_again: Option<(u32, String)>,
    /// The time of the warp's uses of memory: it grows whenever it hands over what it has done.
    pub tick: u32,
    /// The first tick whose uses by one lane are not known to the others.
    pub synced: u32,
    /// What the warp knows of others, and of what the asynchronous proxy sees.
    pub knowledge: Knowledge,
    /// Registers that were written since the last `wgmma.fence`.
    pub touched: Vec<bool>,
    /// Registers that products under way will write.
    pub busy: Vec<bool>,
    pub products: Products,
    /// Registers of a thread, if a `setmaxnreg` said so.
    pub allotment: Option<u32>,
    /// Bulk copies to global memory of each lane: groups that are committed, oldest first, and at the end those that are
    /// not.
    pub bulk: Vec<Vec<Vec<Store>>>,
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
    pub(super) fn new(index: u32, registers: usize) -> Warp {
        Warp {
            index,
            places: [0; LANES],
            registers: vec![[0; LANES]; registers],
            defined: vec![0; registers],
            waits_at: None,
            asking: 0,
            asks_again: None,
            tick: 1,
            synced: 0,
            knowledge: Knowledge::default(),
            touched: vec![true; registers],
            busy: vec![false; registers],
            products: Products::default(),
            allotment: None,
            bulk: vec![vec![Vec::new()]; LANES],
            copies: vec![vec![Vec::new()]; LANES],
        }
    }

    /// The number in the block of a lane.
    pub(super) fn thread(&self, lane: usize) -> u32 {
        self.index * LANES as u32 + lane as u32
    }

    /// Who a lane is to shared memory.
    pub(super) fn user(&self, lane: usize) -> User<'_> {
        User {
            thread: self.thread(lane) as u16,
            whole_warp: false,
            tick: self.tick,
            synced: self.synced,
            knowledge: &self.knowledge,
            asynchronous: false,
            reads_as: None,
        }
    }

    /// Hands over what some lanes know and have done.
    pub(super) fn release(&mut self, lanes: u32, into: &mut Knowledge) {
        into.join(&self.knowledge);
        for lane in 0..LANES {
            let acts = lanes >> lane & 1 == 1;
            let over = if acts { self.tick + 1 } else { self.synced };
            into.over.learn(self.thread(lane) as u16, over);
        }
        self.tick += 1;
    }

    /// The lanes wait for each other.
    pub(super) fn synchronise(&mut self) {
        self.tick += 1;
        self.synced = self.tick;
    }

    /// What some lanes know and have done becomes visible to the asynchronous proxy.
    pub(super) fn fence(&mut self, lanes: u32) {
        self.tick += 1;
        let Knowledge { over, fenced } = &mut self.knowledge;
        fenced.join(over);
        for lane in 0..LANES {
            let acts = lanes >> lane & 1 == 1;
            let thread = self.index * LANES as u32 + lane as u32;
            fenced.learn(thread as u16, if acts { self.tick } else { self.synced });
        }
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
                    Special::Lane => lane as u32,
                    Special::Warp => self.index,
                    Special::Zero => 0,
                    Special::One => 1,
                };
                (std::array::from_fn(|lane| each(lane).into()), all)
            }
            Operand::Parameter(offset) => ([u64::from(*offset); LANES], all),
            Operand::Address(base, offset) => {
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
        for lane in each(lanes) {
            self.registers[register][lane] = values[lane];
        }
        self.defined[register] |= lanes;
        self.touched[register] = true;
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
