//! `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//!
//! Each warp computes its 16 rows of the warpgroup's 64. Products read shared memory, and change registers, between the
//! instruction that starts them and the wait that ends them: registers hold NaN in the meantime, and with late delivery the
//! product is only computed at the wait.

use super::Delivery;
use super::block::Block;
use super::step::Step;
use super::tile::{Row, Tile, add_product};
use super::warp::{LANES, Warp};
use crate::finding::FindingKind;
use crate::instruction::{Element, Operand};
use crate::memory::Fault;
use crate::record::{UNDER_WAY, User};
use crate::tensor_map::Swizzle;

/// Rows of a warp's share.
const ROWS: usize = 16;

/// Terms of one product.
pub(super) const TERMS: usize = 16;

/// Elements, and bytes, that lie together whatever the layout.
pub(super) const CHUNK: usize = 8;
pub(super) const CHUNK_BYTES: usize = 16;

/// What a register holds that a product under way will write: a NaN.
pub(super) const POISON: u64 = 0x7fff_dead;

/// A warp's products under way.
#[derive(Default)]
pub(super) struct Products {
    /// Groups that are committed, oldest first.
    committed: Vec<Vec<Product>>,
    /// Products of the group that is not.
    open: Vec<Product>,
    /// The sums that they change.
    sums: Vec<Sums>,
    /// Whether there was a `wgmma.fence` since the last products ended; the first needs one too.
    started: bool,
}

/// Registers that products sum up in.
struct Sums {
    registers: Vec<u32>,
    columns: usize,
    /// Row after row.
    values: Vec<f32>,
    /// Products that are under way.
    under_way: usize,
}

/// One product under way.
struct Product {
    /// The first register of its sums.
    first: u32,
    element: Element,
    left: Tile,
    right: Tile,
    /// The signs of both operands' products: 1 or −1.
    sign: f32,
}

impl Products {
    pub(super) fn are_under_way(&self) -> bool {
        !self.sums.is_empty()
    }

    /// `wgmma.commit_group`
    pub(super) fn commit(&mut self) {
        self.committed.push(std::mem::take(&mut self.open));
    }
}

/// A matrix descriptor (PTX ISA, "Matrix descriptor format").
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    pub start: u64,
    pub leading: u64,
    pub stride: u64,
    pub swizzle: Swizzle,
}

impl Descriptor {
    fn of(bits: u64) -> Result<Descriptor, Fault> {
        let field = |shift: u32| (bits >> shift & 0x3fff) << 4;
        if bits >> 49 & 7 != 0 {
            let message = "a matrix descriptor with a base offset is not modelled".to_owned();
            return Err((FindingKind::Misaligned, message));
        }
        Ok(Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::Bytes128,
                2 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
        })
    }

    /// The chunks of some rows or columns (a multiple of eight, from a multiple of eight on).
    pub(super) fn tile(self, (first, extent): (usize, usize), along_terms: bool) -> Tile {
        let span = u64::from(self.swizzle.span());
        let per_span = span / CHUNK_BYTES as u64;
        let is_plain = self.swizzle == Swizzle::None;
        let mut chunks = Vec::with_capacity(extent * 2);
        let mut push = |offset: u64| chunks.push(self.swizzle.apply(self.start + offset));
        if along_terms {
            for index in first as u64..(first + extent) as u64 {
                let line = index % 8 * span + index / 8 * self.stride;
                for chunk in 0..2 {
                    push(
                        line + chunk
                            * if is_plain {
                                self.leading
                            } else {
                                CHUNK_BYTES as u64
                            },
                    );
                }
            }
        } else {
            for term in 0..TERMS as u64 {
                for index in (first / CHUNK) as u64..((first + extent) / CHUNK) as u64 {
                    push(if is_plain {
                        index * self.stride + term % 8 * span + term / 8 * self.leading
                    } else {
                        let line = term % 8 * span + term / 8 * self.stride;
                        line + index % per_span * CHUNK_BYTES as u64
                            + index / per_span * self.leading
                    });
                }
            }
        }
        Tile {
            along_terms,
            chunks,
        }
    }
}

impl Block<'_> {
    /// `wgmma.mma_async`
    pub(super) fn start_product(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (element, columns): (Element, usize),
    ) {
        if let Err(fault) = self.try_product(warp, step, (element, columns)) {
            self.report(warp, step.instruction, 0, fault);
        }
    }

    fn try_product(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (element, columns): (Element, usize),
    ) -> Result<(), Fault> {
        let operands = &step.instruction.operands;
        let Operand::Vector(list) = &operands[0] else {
            return Ok(());
        };
        let registers: Vec<u32> = list
            .iter()
            .filter_map(|operand| match operand {
                Operand::Register(register) => Some(*register),
                _ => None,
            })
            .collect();
        let descriptors = [1, 2].map(|index| self.read(warp, step, &operands[index]));
        let adds = self.read(warp, step, &operands[3]);
        if descriptors
            .iter()
            .chain([&adds])
            .any(|values| values.iter().any(|&value| value != values[0]))
        {
            let message = "the lanes of a warp disagree about a product".to_owned();
            return Err((FindingKind::Divergence, message));
        }
        let is_one = |index: usize| operands[index] == Operand::Immediate(1);
        let first_row = warp.index as usize % 4 * ROWS;
        let product = Product {
            first: registers[0],
            element,
            left: Descriptor::of(descriptors[0][0])?.tile((first_row, ROWS), !is_one(6)),
            right: Descriptor::of(descriptors[1][0])?.tile((0, columns), !is_one(7)),
            sign: if is_one(4) == is_one(5) { 1.0 } else { -1.0 },
        };
        let mut faults = Vec::new();
        let user = User {
            whole_warp: true,
            asynchronous: true,
            reads_as: Some(self.agents.products(warp.rank, warp.index)),
            ..warp.user(0)
        };
        for tile in [&product.left, &product.right] {
            let chunks = (tile.chunks.as_slice(), CHUNK_BYTES);
            self.shared
                .start_reads(user, UNDER_WAY, chunks, &mut faults)?;
        }
        faults.truncate(1);
        self.report_all(warp, step, 0, &mut faults);
        let index = self.sums_of(warp, step, (registers, columns), adds[0] & 1 == 1)?;
        self.counters.group_products += 1;
        let Products { open, sums, .. } = &mut warp.products;
        sums[index].under_way += 1;
        if self.delivery == Delivery::Eager {
            self.compute_product(&product, &mut sums[index]);
        }
        open.push(product);
        Ok(())
    }

    /// The number of the sums in some registers; they start with what the registers hold, or with zero.
    fn sums_of(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
        (registers, columns): (Vec<u32>, usize),
        adds: bool,
    ) -> Result<usize, Fault> {
        let known = warp
            .products
            .sums
            .iter()
            .position(|sums| sums.registers == registers);
        if let Some(index) = known {
            if !adds {
                // Products of one accumulator end in order, so what came before is lost, as it should be.
                warp.products.sums[index].values.fill(0.0);
                if self.delivery == Delivery::Late && warp.products.sums[index].under_way > 0 {
                    let message = "sums are begun anew while they are under way".to_owned();
                    return Err((FindingKind::InFlight, message));
                }
            }
            return Ok(index);
        }
        let is = |flags: &[bool]| registers.iter().any(|&one| flags[one as usize]);
        if is(&warp.busy) {
            let message = "a product takes some of the registers of one under way".to_owned();
            return Err((FindingKind::InFlight, message));
        }
        if is(&warp.touched) && (adds || !warp.products.started) {
            let message = "a product's registers were used with no wgmma.fence since".to_owned();
            let fault = (FindingKind::Fence, message);
            self.report(warp, step.instruction, 0, fault);
        }
        warp.products.started = true;
        let mut values = vec![0.0; ROWS * columns];
        for (index, &register) in registers.iter().enumerate() {
            if adds {
                let held = self.read(warp, step, &Operand::Register(register));
                for (lane, &bits) in held.iter().enumerate() {
                    values[place(index, lane, columns)] = f32::from_bits(bits as u32);
                }
            }
            let register = register as usize;
            warp.busy[register] = true;
            *warp.overwrite(register) = [POISON; LANES];
            warp.defined[register] = u32::MAX;
        }
        warp.products.sums.push(Sums {
            registers,
            columns,
            values,
            under_way: 0,
        });
        Ok(warp.products.sums.len() - 1)
    }

    /// `wgmma.wait_group`
    pub(super) fn await_products(&mut self, warp: &mut Warp, step: &Step<'_>) {
        let Operand::Immediate(left) = step.instruction.operands[0] else {
            return;
        };
        let ends = warp.products.committed.len().saturating_sub(left as usize);
        let ended: Vec<Vec<Product>> = warp.products.committed.drain(..ends).collect();
        let reads_as = self.agents.products(warp.rank, warp.index);
        for product in ended.into_iter().flatten() {
            let user = User {
                reads_as: Some(reads_as),
                ..warp.user(0)
            };
            for tile in [&product.left, &product.right] {
                self.shared
                    .finish_reads(user, (tile.chunks.as_slice(), CHUNK_BYTES));
            }
            let found = warp
                .products
                .sums
                .iter()
                .position(|sums| sums.registers[0] == product.first);
            let Some(index) = found else {
                continue;
            };
            let sums = &mut warp.products.sums[index];
            if self.delivery == Delivery::Late {
                self.compute_product(&product, sums);
            }
            sums.under_way -= 1;
            if sums.under_way == 0 {
                let sums = warp.products.sums.remove(index);
                hand_over(warp, &sums);
            }
        }
        // Every lane knows that these reads are over.
        let tick = warp.tick;
        warp.knowledge.over.learn(reads_as, tick + 1);
        warp.tick += 1;
    }

    /// Adds a product to its sums.
    fn compute_product(&mut self, product: &Product, sums: &mut Sums) {
        let columns = sums.columns;
        let left = self.decode(product.element, &product.left, ROWS);
        // The warps of a warpgroup take the same.
        let right = self.decode_once(product.element, &product.right, columns);
        for (row, sums) in sums.values.chunks_exact_mut(columns).enumerate() {
            let of = Row {
                left: &left,
                rows: ROWS,
                row,
                sign: product.sign,
            };
            add_product(sums, of, &right);
        }
    }

    /// Looks for registers of an instruction that products under way will write.
    pub(super) fn check_busy(&mut self, warp: &Warp, step: &Step<'_>) {
        if matches!(
            step.instruction.operation,
            crate::instruction::Operation::MultiplyGroup { .. }
        ) {
            return;
        }
        if step
            .instruction
            .operands
            .iter()
            .any(|operand| is_busy(warp, operand))
        {
            let message = "a register of an operation under way is used before its wait".to_owned();
            let fault = (FindingKind::InFlight, message);
            self.report(warp, step.instruction, 0, fault);
        }
    }
}

fn is_busy(warp: &Warp, operand: &Operand) -> bool {
    match operand {
        Operand::Register(register) => warp.busy[*register as usize],
        Operand::Vector(list) => list.iter().any(|one| is_busy(warp, one)),
        Operand::Address(base, _) | Operand::Sum(base, _) => is_busy(warp, base),
        Operand::Tensor(map, place) => {
            is_busy(warp, map) || place.iter().any(|one| is_busy(warp, one))
        }
        _ => false,
    }
}

/// Puts sums that are complete into their registers.
fn hand_over(warp: &mut Warp, sums: &Sums) {
    for (index, &register) in sums.registers.iter().enumerate() {
        let register = register as usize;
        warp.busy[register] = false;
        for (lane, held) in warp.overwrite(register).iter_mut().enumerate() {
            *held = u64::from(sums.values[place(index, lane, sums.columns)].to_bits());
        }
    }
}

/// Where the sum that a lane holds in its register of this number lies.
#[inline]
fn place(register: usize, lane: usize, columns: usize) -> usize {
    let row = lane / 4 + register / 2 % 2 * 8;
    row * columns + register / 4 * 8 + lane % 4 * 2 + register % 2
}
