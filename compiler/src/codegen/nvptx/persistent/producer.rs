//! The producer: one thread that keeps the ring of stages filled.

use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::ring::{Ring, Turn};
use super::{Kernel, Thread, Tile};
use crate::codegen::contraction::Major;
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::ptx::Parameter;
use crate::codegen::warpgroup_tiling::{BOX_EXTENT, LINE_BYTES, STAGE_DEPTH};

/// Bytes of a box of an operand whose lines run along the outer index.
const BOX_BYTES: u32 = STAGE_DEPTH * LINE_BYTES;

/// One operand, as the producer sees it.
struct Source<'c> {
    map: PointerValue<'c>,
    major: Major,
    /// Whether the map has a dimension for the batch.
    has_batch: bool,
    /// Extent of the tile along the outer index.
    extent: u32,
    /// Bytes from the stage's start to the tile's.
    within_stage: u32,
}

/// Emits the producer's loop.
pub(in crate::codegen::nvptx) fn emit<'c>(
    e: &Emitter<'c>,
    kernel: &Kernel<'_>,
    thread: &Thread<'c>,
    ring: &Ring<'c>,
) {
    let schedule = kernel.schedule;
    let source = |parameter, major, extent, within_stage| Source {
        map: kernel.map(e, parameter),
        major,
        has_batch: kernel.has_batch(parameter),
        extent,
        within_stage,
    };
    let left = source(Parameter::A, schedule.left, schedule.rows, 0);
    let right = source(
        Parameter::B,
        schedule.right,
        schedule.columns,
        schedule.left_bytes(),
    );
    for source in [&left, &right] {
        let overload = [source.map.get_type().into()];
        e.call(
            "llvm.nvvm.prefetch.tensormap",
            &overload,
            &[source.map.into()],
        );
    }
    let start = Turn::first(e).values();
    kernel.for_each_tile(e, start, |e, tile, turn| {
        let mut state = vec![tile.depth.into()];
        state.extend(turn.into_iter().map(BasicValueEnum::from));
        let state = e.repeat(schedule.depth_tiles, state, |e, state| {
            let depth = state[0].into_int_value();
            let turn = Turn::of_basic_values(&state[1..]);
            ring.await_empty(e, turn);
            ring.expect(e, turn.stage, schedule.stage_bytes());
            let stage = e.mul_const(turn.stage, schedule.stage_bytes());
            let stage = Stage {
                address: e.add(thread.shared, stage),
                barrier: ring.full_barrier(e, turn.stage),
                depth,
            };
            left.copy(e, &stage, (tile, tile.row));
            right.copy(e, &stage, (tile, tile.column));
            let next = ring.next(e, turn).values();
            let mut state = vec![e.add_const(depth, STAGE_DEPTH).into()];
            state.extend(next.into_iter().map(BasicValueEnum::from));
            state
        });
        state[1..]
            .iter()
            .map(|value| value.into_int_value())
            .collect()
    });
}

/// The stage that is filled.
struct Stage<'c> {
    address: IntValue<'c>,
    /// Its full barrier.
    barrier: PointerValue<'c>,
    /// The first term that it holds.
    depth: IntValue<'c>,
}

impl<'c> Source<'c> {
    /// Starts the copies of one tile.
    fn copy(&self, e: &Emitter<'c>, stage: &Stage<'c>, (tile, outer): (&Tile<'c>, IntValue<'c>)) {
        let boxes = match self.major {
            Major::Depth => 1,
            Major::Outer => self.extent / BOX_EXTENT,
        };
        for index in 0..boxes {
            let address = e.add_const(stage.address, self.within_stage + index * BOX_BYTES);
            let place = match self.major {
                Major::Depth => [stage.depth, outer],
                Major::Outer => [e.add_const(outer, index * BOX_EXTENT), stage.depth],
            };
            let mut arguments: Vec<BasicValueEnum<'c>> = vec![
                e.cluster_pointer(e.shared_pointer(address)).into(),
                stage.barrier.into(),
                self.map.into(),
                place[0].into(),
                place[1].into(),
            ];
            if self.has_batch {
                arguments.push(tile.batch.unwrap_or(e.i32(0)).into());
            }
            let rank = if self.has_batch { 3 } else { 2 };
            // No multicast, no hint for the cache, no pair of blocks.
            let options: [BasicValueEnum<'c>; 5] = [
                e.context().i16_type().const_zero().into(),
                e.i64(0).into(),
                e.boolean(false).into(),
                e.boolean(false).into(),
                e.i32(0).into(),
            ];
            arguments.extend(options);
            e.call(
                &format!("llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{rank}d"),
                &[],
                &arguments,
            );
        }
    }
}
