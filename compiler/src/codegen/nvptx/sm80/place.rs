//! Where a thread stands: its block's tile of the result, its warp's part of that tile, its lane.

use inkwell::IntPredicate;
use inkwell::values::IntValue;

use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::TileSchedule;

/// Tiles along the rows that run together. Blocks are numbered so that a group's tiles of one column of tiles come one
/// after the other; blocks that run at the same time then share operands in the second-level cache.
const GROUP: u32 = 8;

/// Numbers of 32 bits that locate a thread.
pub(super) struct Place<'c> {
    /// The thread's number in its block.
    pub thread: IntValue<'c>,
    /// The thread's number in its warp.
    pub lane: IntValue<'c>,
    /// The warp's number in its block.
    pub warp: IntValue<'c>,
    /// First row of the warp's tile within the block's.
    pub warp_row: IntValue<'c>,
    /// First column of the warp's tile within the block's.
    pub warp_column: IntValue<'c>,
    /// Which product of the batch the block works on; `None` if there is one.
    pub batch: Option<IntValue<'c>>,
    /// The number of the block's tile among those of all products.
    pub tile: IntValue<'c>,
    /// The number of the tile's column of tiles.
    pub column_tile: IntValue<'c>,
    /// The number of the tile's row of tiles.
    pub row_tile: IntValue<'c>,
    /// Which share of the depth the block works on; `None` if there is one.
    pub split: Option<IntValue<'c>>,
    /// First row of the block's tile in the result.
    pub row: IntValue<'c>,
    /// First column of the block's tile in the result.
    pub column: IntValue<'c>,
}

impl<'c> Place<'c> {
    /// Locates the thread at the start of a kernel.
    pub(super) fn emit(e: &Emitter<'c>, schedule: &TileSchedule) -> Place<'c> {
        let special = |name: &str| {
            e.call_value(&format!("llvm.nvvm.read.ptx.sreg.{name}"), &[], &[])
                .into_int_value()
        };
        Place::of(e, schedule, (special("tid.x"), special("ctaid.x")))
    }

    /// Locates the thread again, so that the numbers need no registers until here.
    pub(super) fn emit_again(e: &Emitter<'c>, schedule: &TileSchedule) -> Place<'c> {
        let numbers = ["tid.x", "ctaid.x"].map(|name| e.read_special_again(name));
        Place::of(e, schedule, (numbers[0], numbers[1]))
    }

    fn of(
        e: &Emitter<'c>,
        schedule: &TileSchedule,
        (thread, block): (IntValue<'c>, IntValue<'c>),
    ) -> Place<'c> {
        let warp = e.shr_const(thread, 5);
        let across = schedule.columns / schedule.warp_columns;
        let warp_row = e.mul_const(e.div_const(warp, across), schedule.warp_rows);
        let warp_column = e.mul_const(e.rem_const(warp, across), schedule.warp_columns);
        let tiles = schedule.row_tiles * schedule.column_tiles;
        // Blocks that run at the same time have the same share of the depth, and so operands in common.
        let (split, tile) = match schedule.parts.splits {
            1 => (None, block),
            _ => (
                Some(e.div_const(block, schedule.tiles())),
                e.rem_const(block, schedule.tiles()),
            ),
        };
        let (batch, block) = match schedule.batch {
            1 => (None, tile),
            _ => (Some(e.div_const(tile, tiles)), e.rem_const(tile, tiles)),
        };
        let (row_tile, column_tile) =
            tile_of(e, block, (schedule.row_tiles, schedule.column_tiles));
        Place {
            thread,
            lane: e.and_const(thread, 31),
            warp,
            warp_row,
            warp_column,
            batch,
            tile,
            column_tile,
            row_tile,
            split,
            row: e.mul_const(row_tile, schedule.rows),
            column: e.mul_const(column_tile, schedule.columns),
        }
    }
}

/// Row and column of the tile of this number, in tiles, where there are so many along the rows and the columns.
pub(in super::super) fn tile_of<'c>(
    e: &Emitter<'c>,
    block: IntValue<'c>,
    (row_tiles, column_tiles): (u32, u32),
) -> (IntValue<'c>, IntValue<'c>) {
    let height = GROUP.min(row_tiles);
    let per_group = height * column_tiles;
    let group = e.div_const(block, per_group);
    let within = e.rem_const(block, per_group);
    let mut row = e.rem_const(within, height);
    let mut column = e.div_const(within, height);
    let rest = row_tiles % height;
    if rest != 0 {
        // The last group is lower than the others.
        let is_last = e.compare(IntPredicate::EQ, group, e.i32(row_tiles / height));
        row = e.select_int(is_last, e.rem_const(within, rest), row);
        column = e.select_int(is_last, e.div_const(within, rest), column);
    }
    (e.add(e.mul_const(group, height), row), column)
}
