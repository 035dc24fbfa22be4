//! Barriers: the sixteen named ones of a block, and those in shared memory (PTX ISA, "mbarrier").

use super::block::Block;
use super::step::{Step, lanes_where};
use super::warp::{LANES, Warp, each};
use crate::agents::Agent;
use crate::clock::Knowledge;
use crate::finding::FindingKind;
use crate::instruction::{Operand, Operation};
use crate::memory::{Fault, check_alignment};

/// Bytes of a barrier in shared memory.
const BARRIER_BYTES: usize = 8;

/// A barrier that `bar` names.
#[derive(Clone, Default)]
pub(super) struct NamedBarrier {
    /// Threads that it waits for; `None` for all that have not returned.
    expected: Option<u32>,
    /// Threads that have arrived.
    arrived: u32,
    /// What they knew.
    gathered: Knowledge,
}

/// A barrier in shared memory.
pub(super) struct Barrier {
    address: u64,
    /// Arrivals that complete a phase.
    count: u32,
    /// Arrivals that are missing.
    pending: u32,
    /// Bytes that are expected and have not come.
    bytes: i64,
    /// Phases that are complete.
    phase: u32,
    /// What those who arrived knew.
    gathered: Knowledge,
    /// The same for the phases that are complete.
    published: Knowledge,
    /// Whether the asynchronous proxy sees it.
    is_fenced: bool,
    /// As whom the copies that complete it count.
    copies: Agent,
}

impl Barrier {
    /// Where it lies in shared memory.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// How far it is, in words.
    pub(super) fn state(&self) -> String {
        format!(
            "has completed {} phases and misses {} of {} arrivals and {} bytes",
            self.phase, self.pending, self.count, self.bytes
        )
    }
}

impl Block<'_> {
    /// `bar.sync` and `bar.arrive`
    pub(super) fn arrive_named(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        let Operand::Immediate(name) = operands[0] else {
            return;
        };
        let expected = match operands.get(1) {
            Some(Operand::Immediate(count)) => Some(*count as u32),
            _ => None,
        };
        let barrier = &mut self.named[name as usize];
        if barrier.arrived > 0 && barrier.expected != expected {
            let message = "threads expect different numbers at one barrier".to_owned();
            return self.report(warp, step.instruction, 0, (FindingKind::Barrier, message));
        }
        barrier.expected = expected;
        barrier.arrived += LANES as u32;
        warp.release(u32::MAX, &mut barrier.gathered);
        warp.synchronise();
        if step.instruction.operation == Operation::BlockBarrier {
            warp.waits_at = Some(name as usize);
        }
        self.changes += 1;
    }

    /// Lets those go on whose barrier everyone has reached.
    pub(super) fn settle_named(&mut self, warps: &mut [Warp]) {
        let rank = self.rank;
        let alive = warps
            .iter()
            .filter(|warp| warp.rank == rank && !warp.has_returned());
        let alive = alive.count() as u32;
        for (name, barrier) in self.named.iter_mut().enumerate() {
            let expected = barrier.expected.unwrap_or(alive * LANES as u32);
            if barrier.arrived == 0 || barrier.arrived < expected {
                continue;
            }
            for warp in warps.iter_mut() {
                if warp.rank == rank && warp.waits_at == Some(name) {
                    warp.waits_at = None;
                    warp.knowledge.join(&barrier.gathered);
                    self.changes += 1;
                }
            }
            *barrier = NamedBarrier::default();
        }
    }

    /// Everything about barriers in shared memory.
    pub(super) fn use_barrier(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        match step.instruction.operation {
            Operation::InitialiseBarrier => {
                let addresses = self.read(warp, step, &operands[0]);
                let counts = self.read(warp, step, &operands[1]);
                for lane in each(step.lanes) {
                    let place = (addresses[lane], counts[lane] as u32);
                    self.initialise_barrier(warp, step, lane, place);
                }
            }
            Operation::FenceBarriers => {
                for barrier in &mut self.barriers {
                    barrier.is_fenced = true;
                }
                warp.tick += 1;
            }
            Operation::Arrive => {
                let addresses = self.read(warp, step, &operands[1]);
                let counts = match operands.get(2) {
                    Some(operand) => self.read(warp, step, operand),
                    None => [1; LANES],
                };
                for lane in each(step.lanes) {
                    let count = counts[lane] as u32;
                    self.arrive(warp, step, (addresses[lane], lane), (count, 0));
                }
            }
            Operation::Expect { arrives } => {
                let first = usize::from(arrives);
                let addresses = self.read(warp, step, &operands[first]);
                let bytes = self.read(warp, step, &operands[first + 1]);
                for lane in each(step.lanes) {
                    let bytes = bytes[lane] as u32;
                    self.arrive(
                        warp,
                        step,
                        (addresses[lane], lane),
                        (u32::from(arrives), bytes),
                    );
                }
            }
            Operation::TryWait => self.try_wait(warp, step),
            _ => {}
        }
    }

    fn initialise_barrier(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        lane: usize,
        (address, count): (u64, u32),
    ) {
        let mut faults = Vec::new();
        let user = warp.user(lane);
        let written = check_alignment(address, BARRIER_BYTES).and_then(|()| {
            self.shared
                .write(user, address, &[0; BARRIER_BYTES], &mut faults)
        });
        self.report_all(warp, step, lane, &mut faults);
        if let Err(fault) = written {
            return self.report(warp, step.instruction, lane, fault);
        }
        if count == 0 || count >= 1 << 20 {
            let message = format!("a barrier for {count} arrivals");
            return self.report(
                warp,
                step.instruction,
                lane,
                (FindingKind::Barrier, message),
            );
        }
        self.barriers.retain(|barrier| barrier.address != address);
        self.barriers.push(Barrier {
            address,
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            gathered: Knowledge::default(),
            published: Knowledge::default(),
            is_fenced: false,
            copies: self.agents.copies(self.made),
        });
        self.made += 1;
        self.changes += 1;
    }

    /// The number of the barrier at an address that a lane may use.
    pub(super) fn barrier_at(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        (address, lane): (u64, usize),
    ) -> Option<usize> {
        let found = self
            .barriers
            .iter()
            .position(|barrier| barrier.address == address);
        if found.is_none() {
            let message = format!("there is no barrier at {address}");
            self.report(
                warp,
                step.instruction,
                lane,
                (FindingKind::Barrier, message),
            );
        } else if !self.shared.is_known(warp.user(lane), address) {
            let message =
                format!("the barrier at {address} is used with no other after it was made");
            self.report(warp, step.instruction, lane, (FindingKind::Race, message));
        }
        found
    }

    /// The number of the barrier at an address that copies of a lane may complete.
    pub(super) fn fenced_barrier_at(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        place: (u64, usize),
    ) -> Option<usize> {
        let number = self.barrier_at(warp, step, place)?;
        if !self.barriers[number].is_fenced {
            let message = format!(
                "a copy completes the barrier at {}, which no fence.mbarrier_init follows",
                place.0
            );
            let fault = (FindingKind::Fence, message);
            self.report(warp, step.instruction, place.1, fault);
        }
        Some(number)
    }

    /// Some arrivals at a barrier, and bytes that it shall wait for.
    fn arrive(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (address, lane): (u64, usize),
        counts: (u32, u32),
    ) {
        let found = self.find_shared(address);
        let visited = found.and_then(|(rank, address)| {
            self.visit(warp, step, (rank, lane))?;
            Ok((rank, address))
        });
        match visited {
            Ok((rank, address)) => self.at(rank, |home| {
                home.arrive_here(warp, step, (address, lane), counts);
            }),
            Err(fault) => self.report(warp, step.instruction, lane, fault),
        }
    }

    fn arrive_here(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (address, lane): (u64, usize),
        (count, bytes): (u32, u32),
    ) {
        let Some(number) = self.barrier_at(warp, step, (address, lane)) else {
            return;
        };
        let barrier = &mut self.barriers[number];
        barrier.bytes += i64::from(bytes);
        if barrier.pending < count {
            let message = format!(
                "more arrivals than the {} that the barrier at {address} expects in a phase",
                barrier.count
            );
            return self.report(
                warp,
                step.instruction,
                lane,
                (FindingKind::Barrier, message),
            );
        }
        barrier.pending -= count;
        if count > 0 {
            warp.release(1 << lane, &mut barrier.gathered);
        }
        self.complete_phase(number);
    }

    /// One arrival at a barrier, when products are complete.
    pub(super) fn arrive_after_products(
        &mut self,
        number: usize,
        learn: impl FnOnce(&mut Knowledge),
    ) -> Result<(), Fault> {
        let barrier = &mut self.barriers[number];
        if barrier.pending == 0 {
            let message = format!(
                "more arrivals than the {} that the barrier at {} expects in a phase",
                barrier.count, barrier.address
            );
            return Err((FindingKind::Barrier, message));
        }
        barrier.pending -= 1;
        learn(&mut barrier.gathered);
        self.complete_phase(number);
        Ok(())
    }

    /// Bytes that a barrier waited for have come.
    pub(super) fn bytes_came(&mut self, number: usize, bytes: usize) {
        self.barriers[number].bytes -= bytes as i64;
        self.complete_phase(number);
    }

    fn complete_phase(&mut self, number: usize) {
        self.changes += 1;
        let writer = self.copies_of(number);
        let barrier = &mut self.barriers[number];
        if barrier.pending == 0 && barrier.bytes == 0 {
            barrier.phase += 1;
            barrier.pending = barrier.count;
            let phase = barrier.phase;
            barrier.gathered.over.learn(writer, phase);
            barrier.published.join(&barrier.gathered);
        }
    }

    /// As which thread the copies that complete a barrier count.
    pub(super) fn copies_of(&self, number: usize) -> Agent {
        self.barriers[number].copies
    }

    /// The phase that is not complete yet.
    pub(super) fn phase_of(&self, number: usize) -> u32 {
        self.barriers[number].phase
    }

    /// `mbarrier.try_wait.parity`: whether the phase of this parity is complete. Those that must ask again lose their turn.
    fn try_wait(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        let addresses = self.read(warp, step, &operands[1]);
        let parities = self.read(warp, step, &operands[2]);
        let mut values = [0; LANES];
        let mut missing = None;
        for lane in each(step.lanes) {
            let Some(number) = self.barrier_at(warp, step, (addresses[lane], lane)) else {
                return;
            };
            let barrier = &self.barriers[number];
            let is_complete = u64::from(barrier.phase) & 1 != parities[lane] & 1;
            values[lane] = u64::from(is_complete);
            if !is_complete {
                missing = Some(number);
                warp.asking |= 1 << lane;
            }
        }
        warp.set(&operands[0], step.lanes, &values);
        let mut waiting = step.lanes & lanes_where(|lane| values[lane] == 1);
        while waiting != 0 {
            let address = addresses[waiting.trailing_zeros() as usize];
            let together = waiting & lanes_where(|lane| addresses[lane] == address);
            waiting &= !together;
            let mut barriers = self.barriers.iter();
            if let Some(barrier) = barriers.find(|barrier| barrier.address == address) {
                warp.learn(together, |knowledge| knowledge.join(&barrier.published));
            }
        }
        if let Some(number) = missing {
            let address = self.barriers[number].address;
            warp.asks_again = Some((step.instruction.line, format!("the barrier at {address}")));
        }
    }
}
