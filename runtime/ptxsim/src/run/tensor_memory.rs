//! Tensor memory (PTX ISA, "Tensor Memory"): who has which columns, what lies there, and who used it.
//!
//! It has 128 lanes of 512 columns of 32 bits. Uses are products, loads and stores, and each of the three counts as a
//! thread of its own for each warp: none of them waits for anything. A product is known to be over to whoever waits for a
//! barrier after its `tcgen05.commit`; a load or store to its warp after the `tcgen05.wait`, and to others if a
//! `tcgen05.fence::before_thread_sync` comes before the barrier that orders them. Whoever learned it may use the memory
//! after a `tcgen05.fence::after_thread_sync`.

use std::collections::VecDeque;

use super::block::Block;
use super::step::Step;
use super::tensor_move::Move;
use super::tensor_product::{Commit, Product};
use super::warp::{LANES, Warp, each};
use crate::clock::Clock;
use crate::finding::FindingKind;
use crate::instruction::{Operand, TensorMemory};
use crate::memory::{Fault, check_alignment};

/// Lanes and columns.
pub(super) const MEMORY_LANES: usize = 128;
pub(super) const MEMORY_COLUMNS: usize = 512;

/// Lanes whose uses are recorded together: no use touches fewer.
pub(super) const SLAB: usize = 16;

/// Columns are handed out in powers of two from this one on.
const FEWEST_COLUMNS: u32 = 32;

/// Kinds of uses, each a thread of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Product,
    Load,
    Store,
}

/// The number of a warp's uses of a kind.
pub(super) const fn user(warp: u32, kind: Use) -> u16 {
    (warp * 3 + kind as u32) as u16
}

/// 16 lanes of a column.
#[derive(Clone, Default)]
struct Cell {
    /// Who wrote it last, and when.
    written: Option<(u16, u32)>,
    /// Who has read it since.
    readers: Vec<(u16, u32)>,
}

/// Columns that a block has.
struct Held {
    first: u32,
    count: u32,
    line: u32,
    thread: u32,
}

/// Tensor memory, as one block sees it.
#[derive(Default)]
pub(super) struct Memory {
    /// Lane after lane; empty until columns are taken.
    pub values: Vec<f32>,
    cells: Vec<Cell>,
    held: Vec<Held>,
    /// Whether no more may be taken.
    is_closed: bool,
    /// Commits whose products may be under way, oldest first.
    pub commits: VecDeque<Commit>,
}

/// What a warp does in tensor memory.
pub(super) struct TensorUse {
    warp: u32,
    /// What was known to be over at the last `tcgen05.fence::after_thread_sync`.
    seen: Clock,
    /// The next tick of the warp's uses of each kind.
    ticks: [u32; 3],
    /// Loads and stores under way.
    pub moves: Vec<Move>,
    /// Products that no commit follows yet, with the lane that started each.
    pub open: Vec<(usize, Product)>,
}

impl TensorUse {
    pub(super) fn of(warp: u32) -> TensorUse {
        TensorUse {
            warp,
            seen: Clock::default(),
            ticks: [1; 3],
            moves: Vec::new(),
            open: Vec::new(),
        }
    }

    pub(super) fn loads_are_under_way(&self) -> bool {
        !self.moves.is_empty()
    }

    /// As whom uses of a kind count that start now, and when.
    pub(super) fn now(&self, kind: Use) -> (u16, u32) {
        (user(self.warp, kind), self.ticks[kind as usize])
    }

    /// Later uses of a kind have another tick.
    pub(super) fn advance(&mut self, kind: Use) {
        self.ticks[kind as usize] += 1;
    }

    /// Whether a use is known to be over to a use that starts now.
    fn knows(&self, (other, tick): (u16, u32), kind: Use) -> bool {
        let own = |kind: Use| other == user(self.warp, kind);
        if own(Use::Product) && kind == Use::Product {
            // Products of one thread are computed in order.
            return true;
        }
        if own(Use::Load) || own(Use::Store) {
            let kind = usize::from(other) % 3;
            return tick < self.ticks[kind];
        }
        tick < self.seen.of(other)
    }
}

impl Memory {
    /// Where a use of some lanes and columns starts: its lane and column.
    pub(super) fn locate(
        &self,
        address: u64,
        (lanes, columns): (usize, usize),
    ) -> Result<(usize, usize), Fault> {
        let (lane, column) = (address as usize >> 16 & 0xffff, address as usize & 0xffff);
        let is_held = self.held.iter().any(|held| {
            let (first, count) = (held.first as usize, held.count as usize);
            first <= column && column + columns <= first + count
        });
        if !is_held || lane + lanes > MEMORY_LANES {
            let message = format!(
                "{lanes} lanes from {lane} on of {columns} columns from {column} on, which the block does not have"
            );
            return Err((FindingKind::OutOfBounds, message));
        }
        Ok((lane, column))
    }

    fn cells(
        &self,
        (lane, lanes): (usize, usize),
        (column, columns): (usize, usize),
    ) -> impl Iterator<Item = usize> + use<> {
        (lane / SLAB..(lane + lanes) / SLAB).flat_map(move |slab| {
            (column..column + columns).map(move |at| slab * MEMORY_COLUMNS + at)
        })
    }

    /// Records a use that starts now, and gives the worst of what is wrong with it.
    pub(super) fn start(
        &mut self,
        (tensor, known): (&TensorUse, &Clock),
        (kind, reads, writes): (Use, bool, bool),
        (lanes, columns): ((usize, usize), (usize, usize)),
    ) -> Option<Fault> {
        let now = tensor.now(kind);
        let mut worst = None;
        for index in self.cells(lanes, columns) {
            let cell = &mut self.cells[index];
            let others = cell.written.iter();
            let readers = cell.readers.iter().filter(|_| writes);
            let unknown = others
                .chain(readers)
                .find(|&&other| !tensor.knows(other, kind));
            if worst.is_none() {
                let at = index % MEMORY_COLUMNS;
                worst = match (unknown, cell.written) {
                    (Some(&(other, tick)), _) if tick < known.of(other) => Some((
                        FindingKind::Fence,
                        format!(
                            "column {at} of tensor memory is used after {}, with no tcgen05.fence::after_thread_sync in between",
                            describe(other)
                        ),
                    )),
                    (Some(&(other, _)), _) => Some((
                        FindingKind::InFlight,
                        format!(
                            "column {at} of tensor memory is used while {} may be under way",
                            describe(other)
                        ),
                    )),
                    (None, None) if reads => Some((
                        FindingKind::Uninitialised,
                        format!(
                            "column {at} of tensor memory is read before anything is written there"
                        ),
                    )),
                    _ => None,
                };
            }
            if writes {
                cell.written = Some(now);
                cell.readers.clear();
            } else if cell.readers.last() != Some(&now) {
                cell.readers
                    .retain(|&other| !tensor.knows(other, Use::Load));
                cell.readers.push(now);
            }
        }
        worst
    }

    /// Takes columns, the last ones that are free together.
    fn take(&mut self, count: u32, (line, thread): (u32, u32)) -> Option<u32> {
        let is_free = |first: u32| {
            self.held
                .iter()
                .all(|held| first + count <= held.first || held.first + held.count <= first)
        };
        let last = (MEMORY_COLUMNS as u32 - count) / FEWEST_COLUMNS;
        let mut starts = (0..last + 1).rev().map(|start| start * FEWEST_COLUMNS);
        let first = starts.find(|&first| is_free(first))?;
        self.held.push(Held {
            first,
            count,
            line,
            thread,
        });
        if self.values.is_empty() {
            self.values = vec![f32::NAN; MEMORY_LANES * MEMORY_COLUMNS];
            self.cells = vec![Cell::default(); MEMORY_LANES / SLAB * MEMORY_COLUMNS];
        }
        Some(first)
    }
}

/// A user of tensor memory in words.
fn describe(user: u16) -> String {
    let kind = ["a product", "a load", "a store"][usize::from(user) % 3];
    format!("{kind} of warp {}", user / 3)
}

impl Block<'_> {
    /// Everything about tensor memory.
    pub(super) fn use_tensor_memory(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        operation: TensorMemory,
    ) {
        let done = match operation {
            TensorMemory::Allocate => self.allocate_tensor(warp, step),
            TensorMemory::Deallocate => self.deallocate_tensor(warp, step),
            TensorMemory::Relinquish => {
                self.tensor_memory.is_closed = true;
                Ok(())
            }
            TensorMemory::FenceBefore => {
                for kind in [Use::Load, Use::Store] {
                    let (user, tick) = warp.tensor.now(kind);
                    warp.learn(step.lanes, |knowledge| knowledge.tensor.learn(user, tick));
                }
                Ok(())
            }
            TensorMemory::FenceAfter => {
                let Warp {
                    tensor,
                    knowledge,
                    own,
                    ..
                } = warp;
                let own = each(step.lanes).filter_map(|lane| own[lane].as_deref());
                for knowledge in own.chain([&*knowledge]) {
                    tensor.seen.join(&knowledge.tensor);
                }
                Ok(())
            }
            TensorMemory::Multiply => self.start_tensor_product(warp, step),
            TensorMemory::Commit => self.commit_tensor_products(warp, step),
            TensorMemory::Load(fragment) => self.load_tensor(warp, step, fragment),
            TensorMemory::Store(fragment) => self.store_tensor(warp, step, fragment),
            TensorMemory::WaitForLoads => {
                self.finish_moves(warp, Use::Load);
                Ok(())
            }
            TensorMemory::WaitForStores => {
                self.finish_moves(warp, Use::Store);
                Ok(())
            }
        };
        if let Err(fault) = done {
            let lane = step.lanes.trailing_zeros() as usize;
            self.report(warp, step.instruction, lane, fault);
        }
    }

    /// The value of an operand that must be the same in all lanes.
    pub(super) fn read_same(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        operand: &Operand,
    ) -> Result<u64, Fault> {
        let values = self.read(warp, step, operand);
        let mut lanes = each(step.lanes).map(|lane| values[lane]);
        let first = lanes.next().unwrap_or(0);
        if lanes.any(|value| value != first) {
            let message = "the lanes of a warp disagree about an operand".to_owned();
            return Err((FindingKind::Divergence, message));
        }
        Ok(first)
    }

    fn allocate_tensor(&mut self, warp: &mut Warp, step: &Step<'_>) -> Result<(), Fault> {
        let operands = &step.instruction.operands;
        let target = self.read_same(warp, step, &operands[0])?;
        let count = self.read_same(warp, step, &operands[1])? as u32;
        let fits = FEWEST_COLUMNS..=MEMORY_COLUMNS as u32;
        if !count.is_power_of_two() || !fits.contains(&count) {
            let message = format!("{count} columns are taken; it takes 32, 64, 128, 256 or 512");
            return Err((FindingKind::TensorMemory, message));
        }
        if self.tensor_memory.is_closed {
            let message = "columns are taken after tcgen05.relinquish_alloc_permit".to_owned();
            return Err((FindingKind::TensorMemory, message));
        }
        let place = (step.instruction.line, warp.thread(0));
        let Some(first) = self.tensor_memory.take(count, place) else {
            for lane in 0..LANES {
                warp.places[lane] = step.place;
            }
            let what = format!("{count} columns of tensor memory");
            warp.asks_again = Some((step.instruction.line, what));
            warp.asking |= step.lanes;
            return Ok(());
        };
        check_alignment(target, 4)?;
        let mut faults = Vec::new();
        let bytes = first.to_le_bytes();
        let written = self.shared.write(warp.user(0), target, &bytes, &mut faults);
        self.report_all(warp, step, 0, &mut faults);
        self.changes += 1;
        written
    }

    fn deallocate_tensor(&mut self, warp: &mut Warp, step: &Step<'_>) -> Result<(), Fault> {
        let operands = &step.instruction.operands;
        let address = self.read_same(warp, step, &operands[0])? as u32;
        let count = self.read_same(warp, step, &operands[1])? as u32;
        let memory = &mut self.tensor_memory;
        let is_this = |held: &Held| (held.first, held.count) == (address, count);
        let Some(number) = memory.held.iter().position(is_this) else {
            let message =
                format!("{count} columns at {address:#x} are given back, but were not taken");
            return Err((FindingKind::TensorMemory, message));
        };
        memory.held.remove(number);
        self.changes += 1;
        let columns = (address as usize, count as usize);
        let mut unknown = None;
        for index in memory.cells((0, MEMORY_LANES), columns) {
            let cell = std::mem::take(&mut memory.cells[index]);
            let mut uses = cell.written.iter().chain(&cell.readers);
            // Products of the warp's own count too: as for a load, they are only over once they are known to be.
            let found = uses.find(|&&other| !warp.tensor.knows(other, Use::Load));
            unknown = unknown.or(found.map(|&(user, _)| (user, index % MEMORY_COLUMNS)));
        }
        match unknown {
            None => Ok(()),
            Some((user, column)) => {
                let message = format!(
                    "column {column} is given back while {} may be under way",
                    describe(user)
                );
                Err((FindingKind::InFlight, message))
            }
        }
    }

    /// The block ends: whatever is under way, or was not given back, is a fault.
    pub(super) fn finish_tensor_memory(&mut self, warps: &[Warp]) {
        let open = warps
            .iter()
            .flat_map(|warp| &warp.tensor.open)
            .map(|(_, product)| product.place());
        let committed = self.tensor_memory.commits.iter().map(Commit::place);
        let places: Vec<(u32, u32)> = open.chain(committed).collect();
        for (line, thread) in places {
            let message = "the block ends while a product is under way".to_owned();
            self.add_finding(line, thread, (FindingKind::InFlight, message));
        }
        for held in std::mem::take(&mut self.tensor_memory.held) {
            let message = format!(
                "the block ends without giving {} columns of tensor memory back",
                held.count
            );
            let fault = (FindingKind::TensorMemory, message);
            self.add_finding(held.line, held.thread, fault);
        }
    }
}
