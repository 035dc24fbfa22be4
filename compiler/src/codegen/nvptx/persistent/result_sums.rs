//! Sums of the results over the rows: the gradient of the bias of the layer before, beside dX.
//!
//! A lane has rows eight apart of its columns; the eight lanes that share columns add theirs up, and each keeps an eighth
//! of the columns, so that few registers wait for the tile's end. Then the warps below each other add up theirs in shared
//! memory, in the buffers through which the result went.

use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};

use super::{Kernel, Tile};
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::parts::{Columns, Crew};
use crate::codegen::warpgroup_tiling::{PANEL_BYTES, PANELS, WARPGROUP_ROWS};

/// Columns of a panel.
const PANEL_COLUMNS: u32 = 64;

/// A lane's share of the sums of one panel's columns over the rows of its warp: two neighbouring columns.
pub(super) struct PanelSums<'c>([FloatValue<'c>; 2]);

impl<'c> PanelSums<'c> {
    /// Adds up over the lanes of a warp that have the same columns, which differ in bits 2, 3 and 4 of their numbers.
    /// Each lane starts with eight pairs of columns, eight columns apart, and ends with the pair whose number these bits
    /// say.
    pub(super) fn of_lanes(
        e: &Emitter<'c>,
        lane: IntValue<'c>,
        columns: &[[FloatValue<'c>; 2]],
    ) -> PanelSums<'c> {
        let mut pairs = columns.to_vec();
        for bit in [16, 8, 4] {
            let upper = e.compare(IntPredicate::NE, e.and_const(lane, bit), e.i32(0));
            let half = pairs.len() / 2;
            let halves: Vec<[FloatValue<'c>; 2]> = (0..half)
                .map(|index| {
                    [0, 1].map(|side| {
                        let (low, high) = (pairs[index][side], pairs[index + half][side]);
                        let kept = e.select(upper, high, low).into_float_value();
                        let given = e.select(upper, low, high).into_float_value();
                        e.add_float(kept, e.exchanged(given, bit))
                    })
                })
                .collect();
            pairs = halves;
        }
        PanelSums(pairs[0])
    }
}

/// Writes the sums of a tile's columns.
pub(super) struct Writer<'l, 'c> {
    pub kernel: &'l Kernel<'l>,
    /// All consumers.
    pub crew: &'l Crew<'c>,
    pub lane: IntValue<'c>,
    /// Shared address of as many bytes as the warp's buffers have, which nothing reads or writes; those of all warps lie
    /// next to each other.
    pub scratch: IntValue<'c>,
}

impl<'c> Writer<'_, 'c> {
    /// The panels come in the order of the warp's blocks of rows, and within one of the columns.
    pub(super) fn write(&self, e: &Emitter<'c>, tile: &Tile<'c>, panels: &[PanelSums<'c>]) {
        for (index, sums) in (0..).zip(panels) {
            self.put(e, e.i32(index * PANEL_COLUMNS), sums);
        }
        self.finish(e, tile);
    }

    /// Keeps the sums of a panel whose first column has this number among those of all the warp's blocks of rows.
    pub(super) fn put(&self, e: &Emitter<'c>, first: IntValue<'c>, sums: &PanelSums<'c>) {
        // The lane's pair within the panel.
        let pair = e.shl_const(e.shr_const(self.lane, 2), 3);
        let column = e.add(pair, e.shl_const(e.and_const(self.lane, 3), 1));
        let column = e.add(first, column);
        let address = e.add(self.scratch, e.shl_const(column, 2));
        let values = e.vector(&[sums.0[0].into(), sums.0[1].into()]);
        e.store(e.shared_pointer(address), values, 8);
    }

    /// Adds up what all warps have kept.
    pub(super) fn finish(&self, e: &Emitter<'c>, tile: &Tile<'c>) {
        let schedule = self.kernel.schedule;
        let (columns, threads) = (schedule.columns, self.crew.threads);
        self.crew.barrier.emit(e);
        let warp = e.shr_const(self.crew.thread, 5);
        let first_warp = e.sub(self.scratch, e.mul_const(warp, PANELS * PANEL_BYTES));
        let blocks = schedule.group_rows() / WARPGROUP_ROWS;
        let whole: Vec<(u32, FloatValue<'c>)> = (0..columns)
            .step_by(threads as usize)
            .map(|next| {
                let column = e.add_const(self.crew.thread, next);
                // Threads beyond the last column read the first one, and write nothing.
                let within = e.compare(IntPredicate::ULT, column, e.i32(columns));
                let read = e.shl_const(e.select_int(within, column, e.i32(0)), 2);
                let start = e.add(first_warp, read);
                let mut sum = e.f32(0.0);
                for warp in 0..schedule.groups * 4 {
                    for block in 0..blocks {
                        let further = warp * PANELS * PANEL_BYTES + block * columns * 4;
                        let address = e.shared_pointer(e.add_const(start, further));
                        let part = e.load(e.f32_type(), address, 4).into_float_value();
                        sum = e.add_float(sum, part);
                    }
                }
                (next, sum)
            })
            .collect();
        // The buffers are filled again for the next tile.
        self.crew.barrier.emit(e);
        let spare = !columns.is_multiple_of(threads);
        let within = || e.compare(IntPredicate::ULT, self.crew.thread, e.i32(columns));
        let of = Columns {
            tile: tile.column_tile,
            first: self.crew.thread,
            part: tile.column_part(e, (Some(tile.row_tile), schedule.row_tiles)),
            holds: spare.then(within),
            extent: self.kernel.contraction.columns as u32,
            element: self.kernel.contraction.sum_element,
        };
        let parts = self.kernel.parts();
        parts.finish_columns(e, self.crew, &of, &whole);
    }
}
