//! The state of one warp.

use crate::instruction::{Operand, Special};

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
    pub waits_at_barrier: bool,
    /// `bar.warp.sync` so far.
    pub rounds: u32,
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
            waits_at_barrier: false,
            rounds: 0,
            copies: vec![vec![Vec::new()]; LANES],
        }
    }

    /// The number in the block of a lane.
    pub(super) fn thread(&self, lane: usize) -> u32 {
        self.index * LANES as u32 + lane as u32
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
            Operand::Vector(_) | Operand::Label(_) | Operand::Nothing => ([0; LANES], 0),
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
