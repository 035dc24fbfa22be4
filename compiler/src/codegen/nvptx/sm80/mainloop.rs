//! The pipelined loop over the depth, for any way of multiplying.
//!
//! Shared memory holds a ring of `stages` tiles of both operands. While tile `t` is multiplied, tiles `t + 1` to
//! `t + stages − 1` are being copied; within a tile, the fragments of the next step are read while one is multiplied:
//!
//! ```text
//! start copies of tiles 0 … stages−2; wait for tile 0; barrier; read step 0
//! for tile t:
//!     start the copy of tile t+stages−1 into the stage that tile t−1 left
//!     for step s: read step s+1 (after the last: wait for tile t+1, barrier, read its step 0); multiply step s
//! ```
//!
//! The barrier does two things: it makes everyone's copies of tile `t + 1` visible, and it says that everyone has read
//! all of tile `t`, whose stage the next round overwrites. The last tiles have nothing left to copy and the very last
//! nothing to read ahead, so the loop comes in three parts, none of which asks whether a tile exists. The assembler would write
//! the rounds of the second part one after the other, and for tf32, whose operands are also rounded, find too few registers for
//! all that it then moves; there their number is one that it does not know (the second index of a block is always 0).

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::copy::{Pending, TileCopy, store};
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{Method, TileSchedule};

/// One of the two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The registers of one step's operands.
#[derive(Clone)]
pub(super) struct Fragments<'c> {
    pub left: Vec<BasicValueEnum<'c>>,
    pub right: Vec<BasicValueEnum<'c>>,
}

/// Neighbouring sums of a row that one lane holds.
pub(super) struct Cell {
    /// Row within the slab, counted from the lane's first.
    pub row: u32,
    /// Column within the warp's tile, counted from the lane's first.
    pub column: u32,
    /// The first sum's number.
    pub first: usize,
    /// How many neighbours.
    pub count: u32,
}

/// Sums over the depth of the columns of a warp's tile.
pub(super) struct ColumnSums<'c> {
    /// Whether this lane is the one that writes its columns.
    pub writes: IntValue<'c>,
    /// The lane's first column within the warp's tile.
    pub first: IntValue<'c>,
    /// Columns counted from there, with their sums.
    pub columns: Vec<(u32, FloatValue<'c>)>,
}

/// What the main loop leaves in a lane's registers.
pub(super) struct Sums<'c> {
    /// The lane's part of the product.
    pub product: Vec<FloatValue<'c>>,
    /// The lane's sums over the right operand's depth; none unless they were asked for.
    pub columns: Vec<FloatValue<'c>>,
}

/// A way to multiply a warp's tile.
pub(super) trait Multiplier<'c> {
    /// How many sums a lane holds.
    fn sums(&self) -> usize;

    /// Reads the fragments of one step from the stage that lies `stage` bytes after the first.
    fn load(&self, e: &Emitter<'c>, stage: IntValue<'c>, step: u32) -> Fragments<'c>;

    /// How many registers the left and the right fragments take.
    fn registers(&self) -> (usize, usize);

    /// Adds the products of one step to the sums.
    fn multiply(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>);

    /// The lane's part of the product, from its sums after the last step.
    fn finish(&self, _e: &Emitter<'c>, sums: Vec<FloatValue<'c>>) -> Vec<FloatValue<'c>> {
        sums
    }

    /// How many columns of the warp's tile a lane adds up for the sums over the right operand's depth.
    fn column_sums(&self) -> usize;

    /// Adds the right fragments of one step to the lane's sums over the depth.
    fn add_columns(&self, e: &Emitter<'c>, sums: &mut [FloatValue<'c>], fragments: &Fragments<'c>);

    /// Completes the sums over the depth within the warp, for the lane of this number.
    fn finish_columns(
        &self,
        e: &Emitter<'c>,
        lane: IntValue<'c>,
        sums: &[FloatValue<'c>],
    ) -> ColumnSums<'c>;

    /// The first row and column within the warp's tile of the lane of this number.
    fn lane_origin(&self, e: &Emitter<'c>, lane: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>);

    /// Which of the lane's sums lie in a slab of rows of the warp's tile.
    fn cells(&self, slab: u32) -> Vec<Cell>;
}

/// What the loop works with.
pub(super) struct MainLoop<'l, 'c, M> {
    pub schedule: &'l TileSchedule,
    pub multiplier: &'l M,
    pub left: &'l TileCopy<'c>,
    pub right: &'l TileCopy<'c>,
    /// Terms from the block's share of the depth on to the end of it.
    pub depth: IntValue<'c>,
    /// Whether the right operand's sums over the depth are wanted.
    pub column_sums: bool,
}

/// What one round hands to the next.
#[derive(Clone)]
struct State<'c> {
    sums: Vec<FloatValue<'c>>,
    columns: Vec<FloatValue<'c>>,
    fragments: Fragments<'c>,
    /// Bytes from the first stage to the one that is multiplied.
    read: IntValue<'c>,
    /// Bytes from the first stage to the one that is filled.
    write: IntValue<'c>,
    source: Source<'c>,
}

/// Where the copies stand.
#[derive(Clone, Copy)]
struct Source<'c> {
    left: PointerValue<'c>,
    right: PointerValue<'c>,
    /// Terms from here on.
    depth_left: IntValue<'c>,
}

/// How much of the pipeline a round still drives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Copies a tile and reads the next one ahead.
    Steady,
    /// Everything is copied.
    Drain,
    /// Nothing is left to read ahead.
    Last,
}

impl<'c, M: Multiplier<'c>> MainLoop<'_, 'c, M> {
    /// Emits the loop. All copies are complete after it, but other warps may still read shared
    /// memory.
    pub(super) fn emit(&self, e: &Emitter<'c>) -> Sums<'c> {
        let schedule = self.schedule;
        let ahead = schedule.stages - 1;
        let source = self.fill(e, ahead);
        self.await_tile(e);
        let mut state = State {
            sums: vec![e.f32(0.0); self.multiplier.sums()],
            columns: vec![e.f32(0.0); self.columns()],
            fragments: self.multiplier.load(e, e.i32(0), 0),
            read: e.i32(0),
            write: e.i32(ahead * schedule.stage_bytes()),
            source,
        };
        let tiles = schedule.depth_tiles;
        for (count, phase) in [
            (tiles.saturating_sub(ahead), Phase::Steady),
            (tiles.min(ahead) - 1, Phase::Drain),
            (1, Phase::Last),
        ] {
            let values = self.pack(&state);
            let round =
                |e: &Emitter<'c>, values| self.pack(&self.round(e, self.unpack(values), phase));
            let stays = phase == Phase::Drain && schedule.method == Method::Tf32;
            let values = if stays && count > 1 {
                let count = e.add_const(e.read_special_again("ctaid.y"), count);
                e.repeat_counted(count, values, round)
            } else {
                e.repeat(count, values, round)
            };
            state = self.unpack(values);
        }
        Sums {
            product: self.multiplier.finish(e, state.sums),
            columns: state.columns,
        }
    }

    /// How many sums over the depth a lane keeps.
    fn columns(&self) -> usize {
        if self.column_sums {
            self.multiplier.column_sums()
        } else {
            0
        }
    }

    /// Starts the copies of the first tiles, one group each.
    fn fill(&self, e: &Emitter<'c>, ahead: u32) -> Source<'c> {
        let mut source = Source {
            left: self.left.start(),
            right: self.right.start(),
            depth_left: self.depth,
        };
        for tile in 0..ahead {
            if tile < self.schedule.depth_tiles {
                let stage = e.i32(tile * self.schedule.stage_bytes());
                let pending = self.issue(e, &mut source, stage);
                store(e, &pending);
            }
            e.call("llvm.nvvm.cp.async.commit.group", &[], &[]);
        }
        source
    }

    /// Waits until the oldest tile in flight has arrived from everyone.
    fn await_tile(&self, e: &Emitter<'c>) {
        let in_flight = e.i32(self.schedule.stages - 2);
        e.call("llvm.nvvm.cp.async.wait.group", &[], &[in_flight.into()]);
        barrier(e);
    }

    fn issue(
        &self,
        e: &Emitter<'c>,
        source: &mut Source<'c>,
        stage: IntValue<'c>,
    ) -> Vec<Pending<'c>> {
        let mut pending = self.left.issue(e, source.left, stage, source.depth_left);
        pending.extend(self.right.issue(e, source.right, stage, source.depth_left));
        source.left = self.left.advance(e, source.left);
        source.right = self.right.advance(e, source.right);
        let stage = e.i32(self.schedule.depth);
        source.depth_left = if self.schedule.empty_stages {
            let arguments = [source.depth_left.into(), stage.into()];
            e.call_value("llvm.usub.sat", &[e.i32_type().into()], &arguments)
                .into_int_value()
        } else {
            e.sub(source.depth_left, stage)
        };
        pending
    }

    fn round(&self, e: &Emitter<'c>, mut state: State<'c>, phase: Phase) -> State<'c> {
        let steps = self.schedule.steps();
        let mut pending = Vec::new();
        for step in 0..steps {
            if step == 0 {
                if phase == Phase::Steady {
                    pending = self.issue(e, &mut state.source, state.write);
                    state.write = self.next_stage(e, state.write);
                }
                if phase != Phase::Last {
                    e.call("llvm.nvvm.cp.async.commit.group", &[], &[]);
                }
            }
            let next = if step + 1 < steps {
                Some(self.multiplier.load(e, state.read, step + 1))
            } else if phase != Phase::Last {
                store(e, &pending);
                self.await_tile(e);
                state.read = self.next_stage(e, state.read);
                Some(self.multiplier.load(e, state.read, 0))
            } else {
                None
            };
            let fragments = &state.fragments;
            self.multiplier.multiply(e, &mut state.sums, fragments);
            if self.column_sums {
                self.multiplier
                    .add_columns(e, &mut state.columns, fragments);
            }
            if let Some(next) = next {
                state.fragments = next;
            }
        }
        state
    }

    /// Bytes from the first stage to the one after.
    fn next_stage(&self, e: &Emitter<'c>, stage: IntValue<'c>) -> IntValue<'c> {
        let bytes = self.schedule.stage_bytes();
        let next = e.add_const(stage, bytes);
        let end = e.i32(bytes * self.schedule.stages);
        let wraps = e.compare(IntPredicate::EQ, next, end);
        e.select_int(wraps, e.i32(0), next)
    }

    fn pack(&self, state: &State<'c>) -> Vec<BasicValueEnum<'c>> {
        let mut values: Vec<BasicValueEnum<'c>> = Vec::new();
        values.extend(state.sums.iter().map(|&sum| BasicValueEnum::from(sum)));
        values.extend(state.columns.iter().map(|&sum| BasicValueEnum::from(sum)));
        values.extend(&state.fragments.left);
        values.extend(&state.fragments.right);
        values.extend([
            BasicValueEnum::from(state.read),
            state.write.into(),
            state.source.left.into(),
            state.source.right.into(),
            state.source.depth_left.into(),
        ]);
        values
    }

    fn unpack(&self, values: Vec<BasicValueEnum<'c>>) -> State<'c> {
        let (left, right) = self.multiplier.registers();
        let mut values = values.into_iter();
        let mut floats = |count| -> Vec<FloatValue<'c>> {
            let values = values.by_ref().take(count);
            values.map(BasicValueEnum::into_float_value).collect()
        };
        let (sums, columns) = (floats(self.multiplier.sums()), floats(self.columns()));
        State {
            sums,
            columns,
            fragments: Fragments {
                left: values.by_ref().take(left).collect(),
                right: values.by_ref().take(right).collect(),
            },
            read: take(&mut values).into_int_value(),
            write: take(&mut values).into_int_value(),
            source: Source {
                left: take(&mut values).into_pointer_value(),
                right: take(&mut values).into_pointer_value(),
                depth_left: take(&mut values).into_int_value(),
            },
        }
    }
}

fn take<'c>(values: &mut impl Iterator<Item = BasicValueEnum<'c>>) -> BasicValueEnum<'c> {
    values.next().expect("a state is unpacked as it was packed")
}

/// Everyone in the block waits for everyone.
pub(super) fn barrier(e: &Emitter<'_>) {
    e.call(
        "llvm.nvvm.barrier.cta.sync.aligned.all",
        &[],
        &[e.i32(0).into()],
    );
}
