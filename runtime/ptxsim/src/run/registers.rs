//! Registers that warps give to each other (PTX ISA, "setmaxnreg").

use super::block::Block;
use super::step::Step;
use super::warp::{LANES, Warp, each};
use crate::finding::FindingKind;
use crate::instruction::Operand;
use crate::parse::Kernel;

impl Block<'_> {
    /// `setmaxnreg`: warps give registers back, or wait until there are enough.
    pub(super) fn set_registers(&mut self, warp: &mut Warp, step: &Step<'_>, increases: bool) {
        let Operand::Immediate(count) = step.instruction.operands[0] else {
            return;
        };
        let count = count as u32;
        let threads = LANES as u32;
        let Some(now) = warp.allotment.or(self.kernel.registers_at_entry()) else {
            let message = "setmaxnreg in a kernel whose registers at entry are not bounded";
            let fault = (FindingKind::Divergence, message.to_owned());
            return self.report(warp, step.instruction, 0, fault);
        };
        let in_range = (24..=256).contains(&count) && count.is_multiple_of(8);
        if !in_range || (increases && count < now) || (!increases && count > now) {
            let message = format!("setmaxnreg to {count} from {now}");
            let fault = (FindingKind::Divergence, message);
            return self.report(warp, step.instruction, 0, fault);
        }
        if increases {
            let more = (count - now) * threads;
            if more > self.free_registers {
                for lane in each(step.lanes) {
                    warp.places[lane] = step.place;
                }
                let free = self.free_registers;
                let what = format!("{more} registers, of which {free} are free");
                warp.asks_again = Some((step.instruction.line, what));
                warp.asking |= step.lanes;
                return;
            }
            self.free_registers -= more;
        } else {
            self.free_registers += (now - count) * threads;
        }
        warp.allotment = Some(count);
        self.changes += 1;
    }
}

impl Kernel {
    /// Registers that a thread has at the start, if the kernel bounds them: by a number, or by the blocks that shall share
    /// the 65536 of a multiprocessor.
    pub(super) fn registers_at_entry(&self) -> Option<u32> {
        self.most_registers.or_else(|| {
            let (threads, blocks) = (self.required_threads?, self.resident?);
            let each = 65536 / (threads * blocks).max(1);
            Some((each / 8 * 8).min(255))
        })
    }
}
