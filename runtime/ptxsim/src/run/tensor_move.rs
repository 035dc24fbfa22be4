//! Between tensor memory and registers: `tcgen05.ld` and `tcgen05.st` (PTX ISA, "Tensor Memory and Register Load/Store
//! Instructions").
//!
//! Both go on until their wait. The registers of a load hold NaN until then, and with late delivery its numbers are only
//! read at the wait, as those of a store are only written there.

use super::Delivery;
use super::access::parts;
use super::block::Block;
use super::step::Step;
use super::tensor_memory::{MEMORY_COLUMNS, Use};
use super::warp::{LANES, Warp};
use super::warpgroup::POISON;
use crate::finding::FindingKind;
use crate::instruction::{Fragment, FragmentShape, Operand};
use crate::memory::Fault;

/// A load or a store under way.
pub(super) struct Move {
    kind: Use,
    fragment: Fragment,
    /// The first lane and column.
    place: (usize, usize),
    /// The registers of a load.
    registers: Vec<usize>,
    /// What a store writes, or a load read, if it did already.
    values: Option<Vec<[u64; LANES]>>,
}

impl Fragment {
    /// Lanes and columns of tensor memory.
    fn extent(self) -> (usize, usize) {
        let registers = usize::from(self.registers);
        match self.shape {
            FragmentShape::Lanes32 => (32, registers),
            FragmentShape::Lanes16Bits128 | FragmentShape::Lanes16Bits256 => (16, registers * 2),
        }
    }

    /// Where a lane's register lies, from the first lane and column.
    fn place(self, lane: usize, register: usize) -> (usize, usize) {
        match self.shape {
            FragmentShape::Lanes32 => (lane, register),
            FragmentShape::Lanes16Bits128 => {
                (lane / 4 + register % 2 * 8, lane % 4 + register / 2 * 4)
            }
            FragmentShape::Lanes16Bits256 => (
                lane / 4 + register / 2 % 2 * 8,
                register % 2 + lane % 4 * 2 + register / 4 * 8,
            ),
        }
    }
}

impl Block<'_> {
    /// The first lane and column of what a warp moves. A warp reaches a quarter of the lanes.
    fn locate_fragment(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        (operand, fragment): (&Operand, Fragment),
    ) -> Result<(usize, usize), Fault> {
        let address = self.read_same(warp, step, operand)?;
        let (lanes, columns) = fragment.extent();
        let (lane, column) = self.tensor_memory.locate(address, (lanes, columns))?;
        let quarter = warp.index as usize % 4 * 32;
        if !(quarter..quarter + 32).contains(&lane) || !(lane - quarter).is_multiple_of(lanes) {
            let message = format!(
                "warp {} reaches {lanes} lanes from {quarter} on, but uses some from {lane} on",
                warp.index
            );
            return Err((FindingKind::TensorMemory, message));
        }
        Ok((lane, column))
    }

    fn start_move(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        (kind, fragment, place): (Use, Fragment, (usize, usize)),
    ) {
        let (lanes, columns) = fragment.extent();
        let known = &warp.user(0).knowledge.tensor;
        let is_load = kind == Use::Load;
        let fault = self.tensor_memory.start(
            (&warp.tensor, known),
            (kind, is_load, !is_load),
            ((place.0, lanes), (place.1, columns)),
        );
        if let Some(fault) = fault {
            self.report(warp, step.instruction, 0, fault);
        }
    }

    pub(super) fn load_tensor(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        fragment: Fragment,
    ) -> Result<(), Fault> {
        let operands = &step.instruction.operands;
        let place = self.locate_fragment(warp, step, (&operands[1], fragment))?;
        self.start_move(warp, step, (Use::Load, fragment, place));
        let values = (self.delivery == Delivery::Eager).then(|| self.gather(fragment, place));
        let registers: Vec<usize> = parts(&operands[0])
            .iter()
            .filter_map(|part| match part {
                Operand::Register(register) => Some(*register as usize),
                _ => None,
            })
            .collect();
        if registers.len() != usize::from(fragment.registers) {
            let message = "a load into what is no register".to_owned();
            return Err((FindingKind::TensorMemory, message));
        }
        for &register in &registers {
            warp.busy[register] = true;
            *warp.overwrite(register) = [POISON; LANES];
            warp.defined[register] = u32::MAX;
            warp.touched[register] = true;
        }
        warp.tensor.moves.push(Move {
            kind: Use::Load,
            fragment,
            place,
            registers,
            values,
        });
        Ok(())
    }

    pub(super) fn store_tensor(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        fragment: Fragment,
    ) -> Result<(), Fault> {
        let operands = &step.instruction.operands;
        let place = self.locate_fragment(warp, step, (&operands[0], fragment))?;
        let values: Vec<[u64; LANES]> = parts(&operands[1])
            .iter()
            .map(|part| self.read(warp, step, part))
            .collect();
        self.start_move(warp, step, (Use::Store, fragment, place));
        let values = match self.delivery {
            Delivery::Eager => {
                self.scatter(fragment, place, &values);
                None
            }
            Delivery::Late => Some(values),
        };
        warp.tensor.moves.push(Move {
            kind: Use::Store,
            fragment,
            place,
            registers: Vec::new(),
            values,
        });
        Ok(())
    }

    /// `tcgen05.wait::ld` and `tcgen05.wait::st`
    pub(super) fn finish_moves(&mut self, warp: &mut Warp, kind: Use) {
        let moves = std::mem::take(&mut warp.tensor.moves);
        let (ended, left): (Vec<Move>, Vec<Move>) =
            moves.into_iter().partition(|one| one.kind == kind);
        warp.tensor.moves = left;
        for one in ended {
            let Move {
                fragment, place, ..
            } = one;
            match (kind, one.values) {
                (Use::Store, Some(values)) => self.scatter(fragment, place, &values),
                (Use::Load, values) => {
                    let values = values.unwrap_or_else(|| self.gather(fragment, place));
                    for (&register, values) in one.registers.iter().zip(&values) {
                        warp.busy[register] = false;
                        *warp.overwrite(register) = *values;
                    }
                }
                _ => {}
            }
        }
        warp.tensor.advance(kind);
    }

    fn gather(&self, fragment: Fragment, place: (usize, usize)) -> Vec<[u64; LANES]> {
        let registers = 0..usize::from(fragment.registers);
        registers
            .map(|register| {
                std::array::from_fn(|lane| {
                    let index = index(fragment.place(lane, register), place);
                    u64::from(self.tensor_memory.values[index].to_bits())
                })
            })
            .collect()
    }

    fn scatter(&mut self, fragment: Fragment, place: (usize, usize), values: &[[u64; LANES]]) {
        for (register, values) in values.iter().enumerate() {
            for (lane, &bits) in values.iter().enumerate() {
                let index = index(fragment.place(lane, register), place);
                self.tensor_memory.values[index] = f32::from_bits(bits as u32);
            }
        }
    }
}

/// Where a number lies, some lanes and columns after a place.
const fn index((lane, column): (usize, usize), (first, from): (usize, usize)) -> usize {
    (first + lane) * MEMORY_COLUMNS + from + column
}
