//! Loads, stores and asynchronous copies.

use super::Delivery;
use super::block::Block;
use super::step::Step;
use super::warp::{Copy, LANES, Warp, each};
use crate::finding::FindingKind;
use crate::global::{OpenMemory, Window};
use crate::instruction::{Operand, Operation, Space};
use crate::memory::{Fault, check_alignment};

impl Block<'_> {
    /// `ld` and `st`, of one number or of a vector.
    pub(super) fn access(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        let mut window = memory.window();
        let mut faults = Vec::new();
        match step.instruction.operation {
            Operation::Load(space, of) => {
                let addresses = self.read(warp, step, &operands[1]);
                let targets = parts(&operands[0]);
                let size = of.bytes() * targets.len();
                let mut values = [[0u64; LANES]; 4];
                for lane in each(step.lanes) {
                    let mut bytes = [0u8; 16];
                    let place = (space, addresses[lane], lane);
                    let into = &mut bytes[..size];
                    let loaded = self.load((warp, step), &mut window, place, into, &mut faults);
                    self.report_all(warp, step, lane, &mut faults);
                    if let Err(fault) = loaded {
                        return self.report(warp, step.instruction, lane, fault);
                    }
                    for (value, chunk) in values.iter_mut().zip(bytes.chunks(of.bytes())) {
                        let mut word = [0u8; 8];
                        word[..of.bytes()].copy_from_slice(chunk);
                        value[lane] = u64::from_le_bytes(word);
                    }
                }
                for (target, values) in targets.iter().zip(&values) {
                    warp.set(target, step.lanes, values);
                }
            }
            Operation::Store(space, of) => {
                let addresses = self.read(warp, step, &operands[0]);
                let sources = parts(&operands[1]);
                let mut values = [[0u64; LANES]; 4];
                for (value, source) in values.iter_mut().zip(sources) {
                    *value = self.read(warp, step, source);
                }
                let size = of.bytes() * sources.len();
                for lane in each(step.lanes) {
                    let mut bytes = [0u8; 16];
                    for (value, chunk) in values.iter().zip(bytes.chunks_mut(of.bytes())) {
                        let count = chunk.len();
                        chunk.copy_from_slice(&value[lane].to_le_bytes()[..count]);
                    }
                    let place = (space, addresses[lane], lane);
                    let stored = self.store(
                        (warp, step),
                        &mut window,
                        place,
                        &bytes[..size],
                        &mut faults,
                    );
                    self.report_all(warp, step, lane, &mut faults);
                    if let Err(fault) = stored {
                        return self.report(warp, step.instruction, lane, fault);
                    }
                }
            }
            _ => {}
        }
    }

    /// Reads bytes. Faults that do not keep them from being read are added to `faults`.
    fn load(
        &mut self,
        (warp, step): (&Warp, &Step<'_>),
        window: &mut Window<'_>,
        (space, address, lane): (Space, u64, usize),
        bytes: &mut [u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        check_alignment(address, bytes.len())?;
        match space.of(address) {
            Space::Global | Space::Generic => window.read(warp.user(lane), address, bytes, faults),
            Space::Shared => self.shared.read(warp.user(lane), address, bytes, faults),
            Space::Cluster => {
                let (rank, address) = self.find_shared(address)?;
                self.visit(warp, step, (rank, lane))?;
                self.at(rank, |home| {
                    home.shared.read(warp.user(lane), address, bytes, faults)
                })
            }
            Space::Parameter => {
                let start = address as usize;
                let source = self.parameters.get(start..start + bytes.len());
                let outside = || (FindingKind::OutOfBounds, format!("parameters at {start}"));
                bytes.copy_from_slice(source.ok_or_else(outside)?);
                Ok(())
            }
        }
    }

    fn store(
        &mut self,
        (warp, step): (&Warp, &Step<'_>),
        window: &mut Window<'_>,
        (space, address, lane): (Space, u64, usize),
        bytes: &[u8],
        faults: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        check_alignment(address, bytes.len())?;
        match space.of(address) {
            Space::Global | Space::Generic => window.write(warp.user(lane), address, bytes, faults),
            Space::Cluster => {
                let (rank, address) = self.find_shared(address)?;
                self.visit(warp, step, (rank, lane))?;
                self.at(rank, |home| {
                    home.shared.write(warp.user(lane), address, bytes, faults)
                })
            }
            Space::Shared | Space::Parameter => {
                self.shared.write(warp.user(lane), address, bytes, faults)
            }
        }
    }

    pub(super) fn report_all(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        lane: usize,
        faults: &mut Vec<Fault>,
    ) {
        for fault in faults.drain(..) {
            self.report(warp, step.instruction, lane, fault);
        }
    }

    /// `cp.async` and what goes with it.
    pub(super) fn copy(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
        match step.instruction.operation {
            Operation::CopyAsync => self.start_copies(warp, memory, step),
            Operation::CommitCopies => {
                for lane in each(step.lanes) {
                    warp.copies[lane].push(Vec::new());
                }
            }
            Operation::WaitCopies => {
                if let Operand::Immediate(left) = step.instruction.operands[0] {
                    self.finish_copies(warp, memory, step, left as usize + 1);
                }
            }
            Operation::WaitAllCopies => {
                self.finish_copies(warp, memory, step, 0);
                for lane in each(step.lanes) {
                    warp.copies[lane].push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn start_copies(&mut self, warp: &mut Warp, memory: &OpenMemory, step: &Step<'_>) {
        let operands = &step.instruction.operands;
        let shared = self.read(warp, step, &operands[0]);
        let global = self.read(warp, step, &operands[1]);
        let size = match operands[2] {
            Operand::Immediate(size) => size as usize,
            _ => return,
        };
        let valid = operands
            .get(3)
            .map(|operand| self.read(warp, step, operand));
        let mut window = memory.window();
        for lane in each(step.lanes) {
            let copy = Copy {
                shared: shared[lane],
                global: global[lane],
                size,
                valid: valid.map_or(size, |valid| valid[lane] as u32 as usize),
            };
            if let Err(fault) = self.start_copy(warp, &mut window, (copy, lane), step) {
                return self.report(warp, step.instruction, lane, fault);
            }
        }
    }

    fn start_copy(
        &mut self,
        warp: &mut Warp,
        window: &mut Window<'_>,
        (copy, lane): (Copy, usize),
        step: &Step<'_>,
    ) -> Result<(), Fault> {
        check_alignment(copy.shared, copy.size)?;
        check_alignment(copy.global, copy.size)?;
        if copy.valid > copy.size {
            let message = format!("a copy of {} bytes into {}", copy.valid, copy.size);
            return Err((FindingKind::OutOfBounds, message));
        }
        let mut faults = Vec::new();
        let user = warp.user(lane);
        self.shared
            .start_copy(user, (copy.shared, copy.size), user.thread, &mut faults)?;
        self.report_all(warp, step, lane, &mut faults);
        // The source must exist whenever the copy arrives.
        let bytes = self.fetch(warp, window, (copy, lane), step)?;
        self.counters.copies += u64::from(copy.valid > 0);
        if self.delivery == Delivery::Eager {
            self.shared.place(copy.shared, &bytes[..copy.size]);
        }
        if let Some(open) = warp.copies[lane].last_mut() {
            open.push(copy);
        }
        Ok(())
    }

    /// What a copy brings.
    fn fetch(
        &mut self,
        warp: &Warp,
        window: &mut Window<'_>,
        (copy, lane): (Copy, usize),
        step: &Step<'_>,
    ) -> Result<[u8; 16], Fault> {
        let mut bytes = [0; 16];
        if copy.valid > 0 {
            let mut faults = Vec::new();
            let into = &mut bytes[..copy.valid];
            window.read(warp.user(lane), copy.global, into, &mut faults)?;
            self.report_all(warp, step, lane, &mut faults);
        }
        Ok(bytes)
    }

    /// Ends the oldest groups of copies until only so many, the open one counted, are left.
    fn finish_copies(
        &mut self,
        warp: &mut Warp,
        memory: &OpenMemory,
        step: &Step<'_>,
        left: usize,
    ) {
        let mut window = memory.window();
        for lane in each(step.lanes) {
            while warp.copies[lane].len() > left {
                let group = warp.copies[lane].remove(0);
                for copy in group {
                    if self.delivery == Delivery::Late {
                        // Its reads count as made when it was started.
                        let mut bytes = [0; 16];
                        let peeked = window.peek(copy.global, &mut bytes[..copy.valid]);
                        if let Err(fault) = peeked {
                            return self.report(warp, step.instruction, lane, fault);
                        }
                        self.shared.place(copy.shared, &bytes[..copy.size]);
                    }
                    let target = (copy.shared, copy.size);
                    self.shared.finish_copy(warp.user(lane), target);
                }
            }
        }
    }
}

/// A vector's operands, or the one operand.
pub(super) fn parts(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(list) => list,
        one => std::slice::from_ref(one),
    }
}
