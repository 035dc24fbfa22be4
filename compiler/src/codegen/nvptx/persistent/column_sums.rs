//! Sums over the right operand's depth: the gradient of a bias, beside that of the weights.
//!
//! Every row of tiles passes the whole right operand by; while the first one does, two warps of the producer's warpgroup
//! read it from the stages and add it up. The order of every sum is fixed.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::ring::{Ring, Turn};
use super::{Kernel, Thread, Tile};
use crate::codegen::contraction::Major;
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::elements;
use crate::codegen::nvptx::parts::{Barrier, Columns, Crew};
use crate::codegen::nvptx::thread::warp_barrier;
use crate::codegen::warpgroup_tiling::{LINE_BYTES, STAGE_DEPTH, SUM_WARPS, WarpgroupSchedule};

/// Threads that add up.
const THREADS: u32 = SUM_WARPS * 32;

/// The named barrier at which they wait for each other; 0 is the whole block's.
const BARRIER: u32 = 1;

/// Elements of a chunk of 16 bytes.
const CHUNK: u32 = 8;

/// Bytes of a box of 64 lines.
const BOX_BYTES: u32 = STAGE_DEPTH * LINE_BYTES;

/// Emits the loop of the warps that add up.
pub(in crate::codegen::nvptx) fn emit<'c>(
    e: &Emitter<'c>,
    kernel: &Kernel<'_>,
    thread: &Thread<'c>,
    ring: &Ring<'c>,
) {
    let schedule = kernel.schedule;
    let warp = e.sub(thread.warp, e.i32(schedule.groups * 4 + 1));
    let sums = Sums {
        kernel,
        schedule,
        ring,
        lane: thread.lane,
        crew: Crew {
            barrier: Barrier::Named {
                number: BARRIER,
                threads: THREADS,
            },
            threads: THREADS,
            thread: e.add(e.shl_const(warp, 5), thread.lane),
            flag: e.add_const(thread.shared, schedule.flags_start() + 4),
        },
        right: e.add_const(thread.shared, schedule.left_bytes()),
        scratch: e.add_const(thread.shared, schedule.sums_start()),
    };
    let start = Turn::first(e).values();
    kernel.for_each_tile(e, start, |e, tile, turn| {
        let turn = Turn::of_values(&turn);
        let is_first = e.compare(IntPredicate::EQ, tile.row, e.i32(0));
        e.either(
            is_first,
            |e| {
                let whole = sums.pass(e, turn, true);
                sums.write(e, tile, &whole);
            },
            |e| {
                sums.pass(e, turn, false);
            },
        );
        ring.after(e, turn, schedule.depth_tiles).values()
    });
}

struct Sums<'l, 'c> {
    kernel: &'l Kernel<'l>,
    schedule: &'l WarpgroupSchedule,
    ring: &'l Ring<'c>,
    lane: IntValue<'c>,
    /// The threads that add up.
    crew: Crew<'c>,
    /// Shared address of the right operand's tile in the first stage.
    right: IntValue<'c>,
    /// Shared address of the memory through which the sums pass.
    scratch: IntValue<'c>,
}

impl<'c> Sums<'_, 'c> {
    /// How many numbers a thread adds up.
    fn count(&self) -> u32 {
        match self.schedule.right {
            Major::Depth => self.schedule.columns / THREADS,
            Major::Outer => CHUNK,
        }
    }

    /// Threads beside each other in a line, where lines run along the columns.
    fn across(&self) -> u32 {
        self.schedule.columns / CHUNK
    }

    /// Passes all stages of one tile, and adds them up if that is wanted.
    fn pass(&self, e: &Emitter<'c>, turn: Turn<'c>, adds: bool) -> Vec<FloatValue<'c>> {
        let count = if adds { self.count() as usize } else { 0 };
        let mut state = vec![BasicValueEnum::from(e.f32(0.0)); count];
        state.extend(turn.values().into_iter().map(BasicValueEnum::from));
        let state = e.repeat(self.schedule.depth_tiles, state, |e, state| {
            let turn = Turn::of_basic_values(&state[count..]);
            self.ring.await_full(e, turn);
            let mut sums: Vec<FloatValue<'c>> = state[..count]
                .iter()
                .map(|sum| sum.into_float_value())
                .collect();
            if adds {
                let stage = e.mul_const(turn.stage, self.schedule.stage_bytes());
                let tile = e.add(self.right, stage);
                match self.schedule.right {
                    Major::Depth => self.add_lines(e, tile, &mut sums),
                    Major::Outer => self.add_chunks(e, tile, &mut sums),
                }
            }
            warp_barrier(e);
            self.ring.release(e, self.lane, turn.stage);
            let next = self.ring.next(e, turn).values();
            let mut state: Vec<BasicValueEnum<'c>> = sums.into_iter().map(Into::into).collect();
            state.extend(next.into_iter().map(BasicValueEnum::from));
            state
        });
        state[..count]
            .iter()
            .map(|sum| sum.into_float_value())
            .collect()
    }

    /// Adds up whole lines, each a column: every thread those whose number is its own plus a multiple of the threads'.
    fn add_lines(&self, e: &Emitter<'c>, tile: IntValue<'c>, sums: &mut [FloatValue<'c>]) {
        let line = e.add(tile, e.mul_const(self.crew.thread, LINE_BYTES));
        let permuted = e.shl_const(e.and_const(self.crew.thread, 7), 4);
        for (index, sum) in (0..).zip(sums) {
            let line = e.add_const(line, index * THREADS * LINE_BYTES);
            for chunk in 0..LINE_BYTES / 16 {
                let address = e.add(line, e.xor_const(permuted, chunk * 16));
                for value in self.chunk(e, address) {
                    *sum = e.add_float(*sum, value);
                }
            }
        }
    }

    /// Adds up a chunk of eight columns over every so many terms.
    fn add_chunks(&self, e: &Emitter<'c>, tile: IntValue<'c>, sums: &mut [FloatValue<'c>]) {
        let across = self.across();
        let together = THREADS / across;
        let column = e.rem_const(self.crew.thread, across);
        let line = e.div_const(self.crew.thread, across);
        let permuted = e.xor(e.and_const(column, 7), e.and_const(line, 7));
        let permuted = e.shl_const(permuted, 4);
        let boxes = e.mul_const(e.shr_const(column, 3), BOX_BYTES);
        let start = e.add(e.add(tile, boxes), e.mul_const(line, LINE_BYTES));
        for term in (0..STAGE_DEPTH).step_by(together as usize) {
            let address = e.add_const(start, term * LINE_BYTES);
            let address = e.add(address, e.xor_const(permuted, (term & 7) * 16));
            for (sum, value) in sums.iter_mut().zip(self.chunk(e, address)) {
                *sum = e.add_float(*sum, value);
            }
        }
    }

    /// The eight elements at an address.
    fn chunk(&self, e: &Emitter<'c>, address: IntValue<'c>) -> Vec<FloatValue<'c>> {
        let words = e.i32_type().vec_type(4);
        let loaded = e
            .load(words, e.shared_pointer(address), 16)
            .into_vector_value();
        let element = self.kernel.contraction.right.element;
        (0..4)
            .flat_map(|index| {
                let word = e.element(loaded, index).into_int_value();
                let (low, high) = elements::unpack(e, element, word);
                [low, high]
            })
            .collect()
    }

    /// Writes the sums of a tile's columns.
    fn write(&self, e: &Emitter<'c>, tile: &Tile<'c>, sums: &[FloatValue<'c>]) {
        let whole: Vec<(u32, FloatValue<'c>)> = match self.schedule.right {
            Major::Depth => (0..)
                .zip(sums)
                .map(|(index, &sum)| (index * THREADS, sum))
                .collect(),
            Major::Outer => {
                // The threads of a column hold different terms.
                let first = e.mul_const(self.crew.thread, CHUNK * 4);
                for (index, &sum) in (0..).zip(sums) {
                    let address = e.add(self.scratch, e.add_const(first, index * 4));
                    e.store(e.shared_pointer(address), sum, 4);
                }
                self.crew.barrier.emit(e);
                let whole = (0..self.schedule.columns / THREADS).map(|index| {
                    let column = e.add_const(self.crew.thread, index * THREADS);
                    (index * THREADS, self.column(e, column))
                });
                let whole = whole.collect();
                self.crew.barrier.emit(e);
                whole
            }
        };
        let columns = Columns {
            tile: tile.column_tile,
            first: self.crew.thread,
            part: tile.column_part(e, (tile.split, self.schedule.parts.splits)),
            holds: None,
            extent: self.kernel.contraction.columns as u32,
            element: self.kernel.contraction.sum_element,
        };
        let parts = self.kernel.parts();
        parts.finish_columns(e, &self.crew, &columns, &whole);
    }

    /// Adds up what the threads of a column have put into shared memory.
    fn column(&self, e: &Emitter<'c>, column: IntValue<'c>) -> FloatValue<'c> {
        let address = e.add(self.scratch, e.mul_const(column, 4));
        let mut whole = e.f32(0.0);
        for part in 0..THREADS / self.across() {
            let address = e.add_const(address, part * self.schedule.columns * 4);
            let value = e.load(e.f32_type(), e.shared_pointer(address), 4);
            whole = e.add_float(whole, value.into_float_value());
        }
        whole
    }
}
