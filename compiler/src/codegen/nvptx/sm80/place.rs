//! Where a thread stands: its block's tile of the result, its warp's part of that tile, its lane.

use inkwell::values::IntValue;

use super::super::thread::special;
use super::super::tiles::Cut;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::TileSchedule;

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
        Place::of(e, schedule, (special(e, "tid.x"), special(e, "ctaid.x")))
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
        let cut = Cut {
            splits: schedule.parts.splits,
            batch: schedule.batch,
            row_tiles: schedule.row_tiles,
            column_tiles: schedule.column_tiles,
        };
        let piece = cut.piece(e, block);
        Place {
            thread,
            lane: e.and_const(thread, 31),
            warp,
            warp_row,
            warp_column,
            batch: piece.batch,
            tile: piece.tile,
            column_tile: piece.column,
            row_tile: piece.row,
            split: piece.split,
            row: e.mul_const(piece.row, schedule.rows),
            column: e.mul_const(piece.column, schedule.columns),
        }
    }
}
