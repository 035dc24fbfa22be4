//! Parts of sums on their way from one block to another; [`crate::codegen::parts`] says where they lie.
//!
//! ```text
//! write the part; barrier
//! first thread: fence; count up; fence; tell the others whether all parts are there
//! barrier; if they are: read all parts in order, and add them up
//! ```
//!
//! The barrier puts everyone's writes before the first thread's fence, and fences add up (PTX ISA, "Memory Consistency
//! Model", causality order): who sees the count of the last part sees all parts. The counter runs from zero to the number
//! of parts and starts anew, so it needs nobody to reset it. No block waits for another.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::elements;
use super::ptx::{Parameter, Parameters};
use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;
use crate::codegen::parts::Parts;

/// Parts of a column that are read at a time.
const AT_ONCE: u32 = 8;

/// A barrier of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// Of all threads.
    Block,
    /// Of so many threads, by a number other than 0.
    Named { number: u32, threads: u32 },
}

impl Barrier {
    pub(super) fn emit(self, e: &Emitter<'_>) {
        match self {
            Barrier::Block => e.call(
                "llvm.nvvm.barrier.cta.sync.aligned.all",
                &[],
                &[e.i32(0).into()],
            ),
            Barrier::Named { number, threads } => e.call(
                "llvm.nvvm.barrier.cta.sync.aligned.count",
                &[],
                &[e.i32(number).into(), e.i32(threads).into()],
            ),
        };
    }
}

/// The threads of a block that make parts together.
pub(super) struct Crew<'c> {
    pub barrier: Barrier,
    /// How many.
    pub threads: u32,
    /// The thread's number among them.
    pub thread: IntValue<'c>,
    /// Shared address of a word that nobody uses between two of the crew's barriers.
    pub flag: IntValue<'c>,
}

impl<'c> Crew<'c> {
    /// Counts a part that the crew has written. Says whether all parts are there, to one crew only.
    fn is_last(&self, e: &Emitter<'c>, counter: PointerValue<'c>, parts: u32) -> IntValue<'c> {
        self.barrier.emit(e);
        let is_first = e.compare(IntPredicate::EQ, self.thread, e.i32(0));
        e.when(is_first, |e| {
            e.device_fence();
            let before = e.count_up(counter, parts - 1);
            e.device_fence();
            let is_last = e.compare(IntPredicate::EQ, before, e.i32(parts - 1));
            e.store(e.shared_pointer(self.flag), e.zero_extend(is_last), 4);
        });
        self.barrier.emit(e);
        let word = e.load(e.i32_type(), e.shared_pointer(self.flag), 4);
        e.compare(IntPredicate::NE, word.into_int_value(), e.i32(0))
    }
}

/// Where the parts of a kernel lie.
#[derive(Clone, Copy)]
pub(super) struct Place<'l> {
    pub parts: &'l Parts,
    pub parameters: &'l Parameters,
}

impl Place<'_> {
    fn pointer<'c>(&self, e: &Emitter<'c>, parameter: Parameter) -> PointerValue<'c> {
        let index = self
            .parameters
            .index(parameter)
            .expect("a kernel whose blocks share sums takes a workspace and counters");
        e.parameter(index).into_pointer_value()
    }

    fn counter<'c>(&self, e: &Emitter<'c>, number: IntValue<'c>) -> PointerValue<'c> {
        let bytes = e.shl_const(e.widen(number), 2);
        e.offset(self.pointer(e, Parameter::Counters), bytes)
    }

    /// Hands on one split's sums of a tile, of which each thread of the crew has as many, a multiple of four. Where they
    /// are the last ones that the tile waits for, `then` gets the sums over all splits in their place.
    pub(super) fn share_tile<'c>(
        &self,
        e: &Emitter<'c>,
        crew: &Crew<'c>,
        part: (IntValue<'c>, IntValue<'c>),
        sums: &[FloatValue<'c>],
        then: impl FnOnce(&Emitter<'c>, &[FloatValue<'c>]),
    ) {
        let shared = self.shared_tile(e, crew, part);
        shared.put(e, e.i64(0), sums);
        let is_last = shared.is_last(e);
        e.when(is_last, |e| {
            let whole = shared.whole(e, e.i64(0), sums.len());
            then(e, &whole);
        });
    }

    /// A tile of which this block has one split's sums.
    pub(super) fn shared_tile<'k, 'c>(
        &self,
        e: &Emitter<'c>,
        crew: &'k Crew<'c>,
        (tile, split): (IntValue<'c>, IntValue<'c>),
    ) -> SharedTile<'k, 'c> {
        let part_bytes = u64::from(self.parts.tile_elements) * 4;
        let splits = self.parts.splits;
        let workspace = self.pointer(e, Parameter::Workspace);
        let tile_bytes = e.i64(part_bytes * u64::from(splits));
        let first = e.offset(workspace, e.mul(e.widen(tile), tile_bytes));
        // A thread's sums lie four by four, between those of its neighbours.
        let first = e.offset(first, e.shl_const(e.widen(crew.thread), 4));
        SharedTile {
            crew,
            first,
            own: e.offset(first, e.mul(e.widen(split), e.i64(part_bytes))),
            counter: self.counter(e, tile),
            splits,
            part_bytes,
        }
    }

    /// Writes sums of columns so many after the thread's first, rounded once, or hands them on where others have parts of
    /// them too.
    pub(super) fn finish_columns<'c>(
        &self,
        e: &Emitter<'c>,
        crew: &Crew<'c>,
        columns: &Columns<'c>,
        sums: &[(u32, FloatValue<'c>)],
    ) {
        let first = e.mul_const(columns.tile, self.parts.tile_columns);
        if !self.parts.splits_columns() {
            let first = e.add(first, columns.first);
            let write = |e: &Emitter<'c>| {
                for &(further, sum) in sums {
                    let column = e.add_const(first, further);
                    let inside = e.compare(IntPredicate::ULT, column, e.i32(columns.extent));
                    e.when(inside, |e| {
                        self.write_column(e, columns.element, (first, further), sum);
                    });
                }
            };
            match columns.holds {
                Some(holds) => e.when(holds, write),
                None => write(e),
            }
            return;
        }
        let stride = self.parts.column_stride() * 4;
        let workspace = self.pointer(e, Parameter::Workspace);
        let workspace = e.offset(workspace, e.i64(self.parts.columns_start() * 4));
        let workspace = e.offset(workspace, e.shl_const(e.widen(first), 2));
        let own = e.offset(workspace, e.mul(e.widen(columns.part), e.i64(stride)));
        let own = e.offset(own, e.shl_const(e.widen(columns.first), 2));
        let write = |e: &Emitter<'c>| {
            for &(further, sum) in sums {
                e.store(e.offset(own, e.i64(u64::from(further) * 4)), sum, 4);
            }
        };
        match columns.holds {
            Some(holds) => e.when(holds, write),
            None => write(e),
        }
        let counter = e.add_const(columns.tile, self.parts.column_counters_start());
        let parts = self.parts.column_parts.unwrap_or(1);
        let is_last = crew.is_last(e, self.counter(e, counter), parts);
        e.when(is_last, |e| {
            for next in (0..self.parts.tile_columns).step_by(crew.threads as usize) {
                let within = e.add_const(crew.thread, next);
                let column = e.add(first, within);
                let inside = e.compare(IntPredicate::ULT, column, e.i32(columns.extent));
                let of_tile = e.compare(IntPredicate::ULT, within, e.i32(self.parts.tile_columns));
                e.when(e.and(inside, of_tile), |e| {
                    let start = e.offset(workspace, e.shl_const(e.widen(within), 2));
                    let sum = add_up(e, start, (parts, stride));
                    self.write_column(e, columns.element, (column, 0), sum);
                });
            }
        });
    }

    fn write_column<'c>(
        &self,
        e: &Emitter<'c>,
        element: ElementType,
        (first, further): (IntValue<'c>, u32),
        sum: FloatValue<'c>,
    ) {
        let bytes = u64::from(element.bytes());
        let pointer = self.pointer(e, Parameter::BiasGradient);
        let pointer = e.offset(pointer, e.mul(e.widen(first), e.i64(bytes)));
        let pointer = e.offset(pointer, e.i64(u64::from(further) * bytes));
        elements::store(e, pointer, element, &[sum]);
    }
}

/// A tile whose sums several blocks make parts of.
pub(super) struct SharedTile<'k, 'c> {
    crew: &'k Crew<'c>,
    /// Where the thread's sums of the first part and of its own part lie.
    first: PointerValue<'c>,
    own: PointerValue<'c>,
    counter: PointerValue<'c>,
    splits: u32,
    part_bytes: u64,
}

impl<'c> SharedTile<'_, 'c> {
    /// Bytes from four of a thread's sums to the next four.
    fn step(&self) -> u64 {
        u64::from(self.crew.threads) * 16
    }

    /// Bytes of the part that so many sums of each thread take.
    pub(super) fn bytes_of(&self, sums: u32) -> u32 {
        self.crew.threads * 4 * sums
    }

    /// Writes some of the thread's sums, a multiple of four, so many bytes after its first.
    pub(super) fn put(&self, e: &Emitter<'c>, offset: IntValue<'c>, sums: &[FloatValue<'c>]) {
        let own = e.offset(self.own, offset);
        for (index, four) in (0..).zip(sums.chunks(4)) {
            let values: Vec<BasicValueEnum<'c>> = four.iter().map(|&sum| sum.into()).collect();
            let place = e.offset(own, e.i64(index * self.step()));
            e.store(place, e.vector(&values), 16);
        }
    }

    /// Counts the block's part, all of which is written. Says whether all parts are there, to one block only.
    pub(super) fn is_last(&self, e: &Emitter<'c>) -> IntValue<'c> {
        self.crew.is_last(e, self.counter, self.splits)
    }

    /// So many of the thread's sums over all splits, a multiple of four, once all parts are there.
    pub(super) fn whole(
        &self,
        e: &Emitter<'c>,
        offset: IntValue<'c>,
        count: usize,
    ) -> Vec<FloatValue<'c>> {
        let first = e.offset(self.first, offset);
        let mut state: Vec<BasicValueEnum<'c>> = vec![first.into()];
        state.extend(vec![BasicValueEnum::from(e.f32(0.0)); count]);
        let whole = e.repeat(self.splits, state, |e, state| {
            let part = state[0].into_pointer_value();
            let mut next = vec![e.offset(part, e.i64(self.part_bytes)).into()];
            for (index, four) in (0..).zip(state[1..].chunks(4)) {
                let pointer = e.offset(part, e.i64(index * self.step()));
                let read = e.load(e.f32_type().vec_type(4), pointer, 16);
                for (element, sum) in (0..).zip(four) {
                    let value = e.element(read.into_vector_value(), element);
                    let sum = e.add_float(sum.into_float_value(), value.into_float_value());
                    next.push(sum.into());
                }
            }
            next
        });
        whole[1..]
            .iter()
            .map(|sum| sum.into_float_value())
            .collect()
    }
}

/// The columns whose sums a crew has.
pub(super) struct Columns<'c> {
    /// The number of their tile.
    pub tile: IntValue<'c>,
    /// The thread's first column within the tile.
    pub first: IntValue<'c>,
    /// The number of the part that the sums are.
    pub part: IntValue<'c>,
    /// Whether the thread has any.
    pub holds: Option<IntValue<'c>>,
    /// Columns of the whole.
    pub extent: u32,
    /// What the whole sums are written as.
    pub element: ElementType,
}

/// Adds up numbers that lie `stride` bytes apart, in order.
fn add_up<'c>(
    e: &Emitter<'c>,
    start: PointerValue<'c>,
    (parts, stride): (u32, u64),
) -> FloatValue<'c> {
    let some = |e: &Emitter<'c>, pointer: PointerValue<'c>, sum: FloatValue<'c>, count: u32| {
        let read: Vec<FloatValue<'c>> = (0..u64::from(count))
            .map(|index| {
                let place = e.offset(pointer, e.i64(index * stride));
                e.load(e.f32_type(), place, 4).into_float_value()
            })
            .collect();
        let sum = read
            .into_iter()
            .fold(sum, |sum, part| e.add_float(sum, part));
        (e.offset(pointer, e.i64(u64::from(count) * stride)), sum)
    };
    let state = vec![start.into(), e.f32(0.0).into()];
    let state = e.repeat(parts / AT_ONCE, state, |e, state| {
        let sum = state[1].into_float_value();
        let (pointer, sum) = some(e, state[0].into_pointer_value(), sum, AT_ONCE);
        vec![pointer.into(), sum.into()]
    });
    let rest = parts % AT_ONCE;
    let sum = state[1].into_float_value();
    some(e, state[0].into_pointer_value(), sum, rest).1
}
