//! Sums of columns beside a product: those of the right operand over the depth, and those of the results over the rows.
//!
//! Both give the gradient of a bias. What a block has of them is written, or handed on where other blocks have parts.

use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};

use super::super::parts::{Columns, Crew, Place as PartsPlace};
use super::epilogue::LaneSums;
use super::mainloop::{Multiplier, barrier};
use super::place::Place;
use crate::codegen::contraction::Contraction;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::TileSchedule;

/// Where sums go, and who hands them on.
type Shared<'l, 'c> = (PartsPlace<'l>, &'l Crew<'c>);

/// Writes the sums over the right operand's depth. All warps of a column of warps have the same ones; those of the first
/// row write them.
pub(super) fn write_operand_sums<'c, M: Multiplier<'c>>(
    e: &Emitter<'c>,
    (contraction, schedule): (&Contraction, &TileSchedule),
    ((parts, crew), place): (Shared<'_, 'c>, &Place<'c>),
    (multiplier, sums): (&M, &[FloatValue<'c>]),
) {
    let whole = multiplier.finish_columns(e, place.lane, sums);
    let is_first_row = e.compare(IntPredicate::EQ, place.warp_row, e.i32(0));
    let first = e.add(place.warp_column, whole.first);
    let columns = Columns {
        tile: place.column_tile,
        first,
        part: numbered(e, (place.batch, place.split), schedule.parts.splits),
        holds: Some(e.and(is_first_row, whole.writes)),
        extent: contraction.columns as u32,
        element: contraction.sum_element,
    };
    parts.finish_columns(e, crew, &columns, &whole.columns);
}

/// Writes the sums of the results. Every lane of the block has some of each of its columns' rows: those of a warp add
/// theirs up, then the warps below each other theirs in shared memory.
pub(super) fn write_result_sums<'c>(
    e: &Emitter<'c>,
    (contraction, schedule): (&Contraction, &TileSchedule),
    ((parts, crew), place): (Shared<'_, 'c>, &Place<'c>),
    lane: &LaneSums<'c>,
) {
    let mut bit = lane.lanes_per_row;
    let mut sums = lane.sums.clone();
    while bit < 32 {
        for sum in &mut sums {
            *sum = e.add_exchanged(*sum, bit);
        }
        bit *= 2;
    }
    // The slabs of other warps lie where these sums pass through.
    barrier(e);
    let row_bytes = schedule.columns * 4;
    let shared = crew.flag;
    let is_first = e.compare(IntPredicate::EQ, lane.row, e.i32(0));
    e.when(is_first, |e| {
        let row = e.div_const(place.warp_row, schedule.warp_rows);
        let column = e.add(place.warp_column, lane.column);
        let address = e.add(shared, e.mul_const(row, row_bytes));
        let address = e.add(address, e.mul_const(column, 4));
        for (index, &sum) in (0..).zip(&sums) {
            e.store(e.shared_pointer(e.add_const(address, index * 4)), sum, 4);
        }
    });
    barrier(e);
    let rows = schedule.rows / schedule.warp_rows;
    let threads = schedule.threads();
    let whole: Vec<(u32, FloatValue<'c>)> = (0..schedule.columns)
        .step_by(threads as usize)
        .map(|next| {
            let column = e.add_const(place.thread, next);
            // Threads beyond the last column read the first one, and write nothing.
            let within = e.compare(IntPredicate::ULT, column, e.i32(schedule.columns));
            let read = e.select_int(within, column, e.i32(0));
            let mut sum = e.f32(0.0);
            for row in 0..rows {
                let address = e.add(shared, e.mul_const(read, 4));
                let address = e.shared_pointer(e.add_const(address, row * row_bytes));
                let part = e.load(e.f32_type(), address, 4).into_float_value();
                sum = e.add_float(sum, part);
            }
            (next, sum)
        })
        .collect();
    let spare = !schedule.columns.is_multiple_of(threads);
    let columns = Columns {
        tile: place.column_tile,
        first: place.thread,
        part: numbered(e, (place.batch, Some(place.row_tile)), schedule.row_tiles),
        holds: spare.then(|| e.compare(IntPredicate::ULT, place.thread, e.i32(schedule.columns))),
        extent: contraction.columns as u32,
        element: contraction.sum_element,
    };
    parts.finish_columns(e, crew, &columns, &whole);
}

/// The number of a part among those of all products of the batch, of which each has so many.
fn numbered<'c>(
    e: &Emitter<'c>,
    (batch, part): (Option<IntValue<'c>>, Option<IntValue<'c>>),
    each: u32,
) -> IntValue<'c> {
    let part = part.unwrap_or(e.i32(0));
    match batch {
        Some(batch) => e.add(e.mul_const(batch, each), part),
        None => part,
    }
}
