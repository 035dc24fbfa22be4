//! `tcgen05.mma` and `tcgen05.commit` (PTX ISA, "TensorCore 5th Generation Family Instructions").
//!
//! One thread starts a product of 128 rows; both operands lie in shared memory, the sums in tensor memory. Nothing waits for
//! it but a barrier that a commit names, which gets an arrival when all products that the thread started before are
//! complete. With late delivery they are computed only then, and that is when no warp can go on without it; commits
//! end in order.

use super::Delivery;
use super::block::Block;
use super::step::Step;
use super::tensor_memory::{MEMORY_COLUMNS, MEMORY_LANES, Use};
use super::tile::{Row, Tile, add_product};
use super::warp::{Warp, each};
use super::warpgroup::{CHUNK_BYTES, Descriptor};
use crate::agents::Agent;
use crate::clock::Knowledge;
use crate::finding::FindingKind;
use crate::instruction::Element;
use crate::memory::Fault;
use crate::record::User;
use crate::tensor_map::Swizzle;

/// Rows of a product: one for each lane of tensor memory.
const ROWS: usize = MEMORY_LANES;

/// One product under way.
pub(super) struct Product {
    element: Element,
    left: Tile,
    right: Tile,
    /// The signs of both operands' products: 1 or −1.
    sign: f32,
    /// The first column of its sums, and how many there are.
    column: usize,
    columns: usize,
    /// Whether it adds to what is there.
    adds: bool,
    line: u32,
    thread: u32,
}

impl Product {
    pub(super) fn place(&self) -> (u32, u32) {
        (self.line, self.thread)
    }
}

/// What gets an arrival at a barrier when products are complete.
pub(super) struct Commit {
    products: Vec<Product>,
    /// The barrier's number.
    barrier: usize,
    /// As whom the products count in tensor memory and in shared memory, and when.
    user: u16,
    reader: Agent,
    tick: u32,
    /// What the thread knew: the products came after it, and so does the arrival.
    knowledge: Knowledge,
    line: u32,
    thread: u32,
}

impl Commit {
    pub(super) fn place(&self) -> (u32, u32) {
        (self.line, self.thread)
    }
}

/// An instruction descriptor (PTX ISA, "Instruction descriptor", `.kind::f16`).
struct Instruction {
    element: Element,
    sign: f32,
    /// Whether the operands' lines run along the terms.
    along_terms: [bool; 2],
    columns: usize,
}

impl Instruction {
    fn of(bits: u32) -> Result<Instruction, Fault> {
        let field = |shift: u32, width: u32| bits >> shift & ((1 << width) - 1);
        let refused = |what: String| Err((FindingKind::Descriptor, what));
        // Sparsity, saturation, the shift of weights, and bits that mean nothing.
        if field(0, 4) != 0 || field(6, 1) | field(23, 1) | field(29, 3) != 0 {
            return refused(format!(
                "{bits:#010x} is no dense product of 16-bit elements"
            ));
        }
        if field(4, 2) != 1 {
            return refused("sums that are not in single precision are not modelled".to_owned());
        }
        let element = match (field(7, 3), field(10, 3)) {
            (0, 0) => Element::F16,
            (1, 1) => Element::Bf16,
            (left, right) => {
                return refused(format!("operands of the formats {left} and {right}"));
            }
        };
        let (columns, rows) = (field(17, 6) as usize * 8, field(24, 5) as usize * 16);
        if rows != ROWS || !columns.is_multiple_of(16) || !(16..=256).contains(&columns) {
            return refused(format!(
                "{rows} rows of {columns} columns; 128 rows of 16 to 256 columns in steps of 16 are modelled"
            ));
        }
        let along_terms = [field(15, 1) == 0, field(16, 1) == 0];
        let sign = if field(13, 1) == field(14, 1) {
            1.0
        } else {
            -1.0
        };
        Ok(Instruction {
            element,
            sign,
            along_terms,
            columns,
        })
    }
}

/// A shared memory descriptor (PTX ISA, "Shared memory descriptor").
fn descriptor(bits: u64) -> Result<Descriptor, Fault> {
    let refused = |what: &str| {
        let message = format!("{bits:#018x}: {what}");
        Err((FindingKind::Descriptor, message))
    };
    if bits >> 46 & 7 != 1 || bits >> 53 & 0xff != 0 {
        return refused("bits 46 to 48 of a shared memory descriptor are 1, bits 53 to 60 are 0");
    }
    if bits >> 14 & 3 != 0 || bits >> 30 & 3 != 0 {
        return refused("a field of a shared memory descriptor runs over");
    }
    if bits >> 49 & 7 != 0 || bits >> 52 & 1 != 0 {
        return refused("a base offset, or an absolute address, is not modelled");
    }
    let field = |shift: u32| (bits >> shift & 0x3fff) << 4;
    Ok(Descriptor {
        start: field(0),
        leading: field(16),
        stride: field(32),
        swizzle: match bits >> 61 {
            0 => Swizzle::None,
            2 => Swizzle::Bytes128,
            4 => Swizzle::Bytes64,
            6 => Swizzle::Bytes32,
            _ => return refused("a way of permuting chunks that is not modelled"),
        },
    })
}

impl Block<'_> {
    /// `tcgen05.mma`
    pub(super) fn start_tensor_product(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
    ) -> Result<(), Fault> {
        if step.lanes.count_ones() > 1 {
            let message = format!(
                "one thread starts a product, but lanes {:#010x} do",
                step.lanes
            );
            return Err((FindingKind::Divergence, message));
        }
        for lane in each(step.lanes) {
            let product = self.read_product(warp, step, lane)?;
            let (user, tick) = (self.product_reader(warp), warp.tensor.now(Use::Product).1);
            let user = User {
                asynchronous: true,
                reads_as: Some(user),
                ..warp.user(lane)
            };
            let mut faults = Vec::new();
            for tile in [&product.left, &product.right] {
                let chunks = (tile.chunks.as_slice(), CHUNK_BYTES);
                self.shared.start_reads(user, tick, chunks, &mut faults)?;
            }
            faults.truncate(1);
            self.report_all(warp, step, lane, &mut faults);
            let place = ((0, ROWS), (product.column, product.columns));
            let known = &warp.user(lane).knowledge.tensor;
            let uses = (Use::Product, product.adds, true);
            let fault = self.tensor_memory.start((&warp.tensor, known), uses, place);
            if let Some(fault) = fault {
                self.report(warp, step.instruction, lane, fault);
            }
            self.counters.tensor_memory_products += 1;
            if self.delivery == Delivery::Eager {
                self.compute_tensor_product(&product);
            }
            warp.tensor.open.push((lane, product));
        }
        Ok(())
    }

    fn read_product(
        &mut self,
        warp: &Warp,
        step: &Step<'_>,
        lane: usize,
    ) -> Result<Product, Fault> {
        let operands = &step.instruction.operands;
        let [sums, left, right, instruction, adds] =
            [0, 1, 2, 3, 4].map(|index| self.read(warp, step, &operands[index])[lane]);
        let instruction = Instruction::of(instruction as u32)?;
        let columns = instruction.columns;
        let (_, column) = self.tensor_memory.locate(sums, (ROWS, columns))?;
        let [left_along, right_along] = instruction.along_terms;
        Ok(Product {
            element: instruction.element,
            left: descriptor(left)?.tile((0, ROWS), left_along),
            right: descriptor(right)?.tile((0, columns), right_along),
            sign: instruction.sign,
            column,
            columns,
            adds: adds & 1 == 1,
            line: step.instruction.line,
            thread: warp.thread(lane),
        })
    }

    /// As which thread a warp's products read shared memory.
    fn product_reader(&self, warp: &Warp) -> Agent {
        self.agents.products(warp.rank, warp.index)
    }

    /// `tcgen05.commit`
    pub(super) fn commit_tensor_products(
        &mut self,
        warp: &mut Warp,
        step: &Step<'_>,
    ) -> Result<(), Fault> {
        let addresses = self.read(warp, step, &step.instruction.operands[0]);
        for lane in each(step.lanes) {
            let place = (addresses[lane], lane);
            let Some(barrier) = self.fenced_barrier_at(warp, step, place) else {
                return Ok(());
            };
            let open = std::mem::take(&mut warp.tensor.open);
            let (own, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|one| one.0 == lane);
            warp.tensor.open = others;
            let (user, tick) = warp.tensor.now(Use::Product);
            warp.tensor.advance(Use::Product);
            let commit = Commit {
                products: own.into_iter().map(|(_, product)| product).collect(),
                barrier,
                user,
                reader: self.product_reader(warp),
                tick,
                knowledge: warp.user(lane).knowledge.clone(),
                line: step.instruction.line,
                thread: warp.thread(lane),
            };
            self.tensor_memory.commits.push_back(commit);
            if self.delivery == Delivery::Eager {
                self.finish_commit();
            }
        }
        Ok(())
    }

    /// Completes the products before the oldest commit.
    pub(super) fn finish_commit(&mut self) -> bool {
        let Some(commit) = self.tensor_memory.commits.pop_front() else {
            return false;
        };
        if self.delivery == Delivery::Late {
            for product in &commit.products {
                self.compute_tensor_product(product);
            }
        }
        let arrived = self.arrive_after_products(commit.barrier, |knowledge| {
            knowledge.join(&commit.knowledge);
            knowledge.tensor.learn(commit.user, commit.tick + 1);
            knowledge.over.learn(commit.reader, commit.tick + 1);
        });
        if let Err(fault) = arrived {
            self.add_finding(commit.line, commit.thread, fault);
        }
        true
    }

    /// Adds a product to its sums.
    fn compute_tensor_product(&mut self, product: &Product) {
        let columns = product.columns;
        let left = self.decode(product.element, &product.left, ROWS);
        let right = self.decode(product.element, &product.right, columns);
        let lanes = self.tensor_memory.values.chunks_exact_mut(MEMORY_COLUMNS);
        for (row, lane) in lanes.enumerate() {
            let sums = &mut lane[product.column..][..columns];
            if !product.adds {
                sums.fill(0.0);
            }
            let of = Row {
                left: &left,
                rows: ROWS,
                row,
                sign: product.sign,
            };
            add_product(sums, of, &right);
        }
    }
}
