//! From sums in registers to the result in global memory: bias, auxiliary output, activation.
//!
//! A lane's sums are scattered over its warp's tile. Each warp takes its tile through shared memory in slabs of 16
//! rows: the sums go in where they belong and come out as runs of 16 bytes of the result, so that neighbouring lanes
//! write neighbouring addresses and each lane stays with one run of columns, whose bias it loads once. Slabs belong to
//! their warp, so the warps do not wait for each other.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::activation;
use super::elements;
use super::mainloop::{Multiplier, barrier};
use super::place::Place;
use crate::codegen::contraction::Contraction;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{SLAB_ROWS, TileSchedule};

/// Where the results go and the bias comes from.
pub(super) struct Destinations<'c> {
    pub output: PointerValue<'c>,
    pub auxiliary: Option<PointerValue<'c>>,
    pub bias: Option<PointerValue<'c>>,
}

/// What the epilogue works with.
pub(super) struct EpilogueWriter<'l, 'c> {
    contraction: &'l Contraction,
    schedule: &'l TileSchedule,
    destinations: Destinations<'c>,
    /// Elements of a run.
    run: u32,
    /// Elements of a store.
    width: u32,
    /// Shared address of the warp's slab.
    slab: IntValue<'c>,
    /// The lane's row in the first pass over a slab, and its first column in the warp's tile.
    lane_row: IntValue<'c>,
    lane_column: IntValue<'c>,
    /// The same in the result, for the first slab.
    row: IntValue<'c>,
    column: IntValue<'c>,
    /// Per store of a run, whether it lies within the columns; `None` where all always do.
    inside: Vec<Option<IntValue<'c>>>,
}

impl<'l, 'c> EpilogueWriter<'l, 'c> {
    /// `shared` is the address of the block's shared memory.
    pub(super) fn emit(
        e: &Emitter<'c>,
        (contraction, schedule): (&'l Contraction, &'l TileSchedule),
        place: &Place<'c>,
        shared: IntValue<'c>,
        destinations: Destinations<'c>,
    ) -> Self {
        let run = 16 / contraction.output.element.bytes();
        let width = contraction.store_width(run);
        let lanes_per_row = schedule.warp_columns / run;
        let lane_row = e.div_const(place.lane, lanes_per_row);
        let lane_column = e.mul_const(e.rem_const(place.lane, lanes_per_row), run);
        let column = e.add(e.add(place.column, place.warp_column), lane_column);
        let ragged = contraction.columns % u64::from(schedule.columns) != 0;
        let inside = (0..run)
            .step_by(width as usize)
            .map(|first| {
                let extent = e.i32(contraction.columns as u32);
                ragged.then(|| e.compare(IntPredicate::ULT, e.add_const(column, first), extent))
            })
            .collect();
        EpilogueWriter {
            contraction,
            schedule,
            destinations,
            run,
            width,
            slab: e.add(shared, e.mul_const(place.warp, schedule.slab_bytes())),
            lane_row,
            lane_column,
            row: e.add(e.add(place.row, place.warp_row), lane_row),
            column,
            inside,
        }
    }

    /// Writes a warp's tile. Every warp of the block must have finished the main loop's reads when its barrier is
    /// passed, and no copy may be in flight.
    pub(super) fn write<M: Multiplier<'c>>(
        &self,
        e: &Emitter<'c>,
        multiplier: &M,
        sums: &[FloatValue<'c>],
    ) {
        let bias = self.load_bias(e);
        barrier(e);
        let origin = multiplier.lane_origin(e);
        for slab in 0..self.schedule.warp_rows / SLAB_ROWS {
            if slab > 0 {
                warp_barrier(e);
            }
            self.fill_slab(e, origin, (multiplier, slab), sums);
            warp_barrier(e);
            self.drain_slab(e, slab, bias.as_deref());
        }
    }

    /// The bias of the lane's columns; zeros beyond the last column are never used.
    fn load_bias(&self, e: &Emitter<'c>) -> Option<Vec<FloatValue<'c>>> {
        let (pointer, element) = self.destinations.bias.zip(self.contraction.epilogue.bias)?;
        let mut values = Vec::with_capacity(self.run as usize);
        for (index, inside) in self.inside.iter().enumerate() {
            let mut column = e.add_const(self.column, index as u32 * self.width);
            if let Some(inside) = inside {
                column = e.select_int(*inside, column, e.i32(0));
            }
            let bytes = e.mul(e.widen(column), e.i64(element.bytes().into()));
            values.extend(elements::load_constant(
                e,
                e.offset(pointer, bytes),
                element,
                self.width,
            ));
        }
        Some(values)
    }

    fn fill_slab<M: Multiplier<'c>>(
        &self,
        e: &Emitter<'c>,
        (row, column): (IntValue<'c>, IntValue<'c>),
        (multiplier, slab): (&M, u32),
        sums: &[FloatValue<'c>],
    ) {
        let row_bytes = self.schedule.slab_row_bytes();
        let base = e.add(self.slab, e.mul_const(row, row_bytes));
        let base = e.shared_pointer(e.add(base, e.mul_const(column, 4)));
        for cell in multiplier.cells(slab) {
            let address = e.offset(
                base,
                e.i64(u64::from(cell.row * row_bytes + cell.column * 4)),
            );
            let values: Vec<BasicValueEnum<'c>> = sums[cell.first..][..cell.count as usize]
                .iter()
                .map(|&sum| sum.into())
                .collect();
            match values.as_slice() {
                [value] => e.store(address, *value, 4),
                values => e.store(address, e.vector(values), cell.count * 4),
            }
        }
    }

    fn drain_slab(&self, e: &Emitter<'c>, slab: u32, bias: Option<&[FloatValue<'c>]>) {
        let row_bytes = self.schedule.slab_row_bytes();
        let rows_per_pass = 32 / (self.schedule.warp_columns / self.run);
        let start = e.add(self.slab, e.mul_const(self.lane_row, row_bytes));
        let start = e.shared_pointer(e.add(start, e.mul_const(self.lane_column, 4)));
        let quad = e.f32_type().vec_type(4);
        for row in (0..SLAB_ROWS).step_by(rows_per_pass as usize) {
            let mut values = Vec::with_capacity(self.run as usize);
            for first in (0..self.run).step_by(4) {
                let pointer = e.offset(start, e.i64(u64::from(row * row_bytes + first * 4)));
                let vector = e.load(quad, pointer, 16).into_vector_value();
                values.extend((0..4).map(|index| e.element(vector, index).into_float_value()));
            }
            if let Some(bias) = bias {
                for (value, bias) in values.iter_mut().zip(bias) {
                    *value = e.add_float(*value, *bias);
                }
            }
            self.write_run(e, slab * SLAB_ROWS + row, &values);
        }
    }

    /// Writes one run, `row` rows below the lane's first.
    fn write_run(&self, e: &Emitter<'c>, row: u32, values: &[FloatValue<'c>]) {
        let ragged = !self
            .contraction
            .rows
            .is_multiple_of(u64::from(self.schedule.rows));
        let above = ragged.then(|| {
            let extent = e.i32(self.contraction.rows as u32);
            e.compare(IntPredicate::ULT, e.add_const(self.row, row), extent)
        });
        let element = self.contraction.output.element;
        for (index, part) in values.chunks(self.width as usize).enumerate() {
            let condition = match (above, self.inside[index]) {
                (Some(above), Some(inside)) => Some(e.and(above, inside)),
                (above, inside) => above.or(inside),
            };
            let body = |e: &Emitter<'c>| {
                let first = index as u32 * self.width;
                if let Some(auxiliary) = self.destinations.auxiliary {
                    elements::store(e, self.address(e, auxiliary, (row, first)), element, part);
                }
                let activation = self.contraction.epilogue.activation;
                let results: Vec<FloatValue<'c>> = part
                    .iter()
                    .map(|&value| activation::apply(e, activation, value, element))
                    .collect();
                elements::store(
                    e,
                    self.address(e, self.destinations.output, (row, first)),
                    element,
                    &results,
                );
            };
            match condition {
                Some(condition) => e.when(condition, body),
                None => body(e),
            }
        }
    }

    /// Where the element lies that is `row` rows below and `column` columns right of the lane's first.
    fn address(
        &self,
        e: &Emitter<'c>,
        pointer: PointerValue<'c>,
        (row, column): (u32, u32),
    ) -> PointerValue<'c> {
        let output = self.contraction.output;
        let bytes = u64::from(output.element.bytes());
        let line = e.mul(e.widen(self.row), e.i64(output.leading * bytes));
        let within = e.mul(e.widen(self.column), e.i64(bytes));
        let lane = e.offset(e.offset(pointer, line), within);
        let further = (u64::from(row) * output.leading + u64::from(column) + output.offset) * bytes;
        e.offset(lane, e.i64(further))
    }
}

/// The lanes of a warp wait for each other, and see what the others wrote to shared memory.
fn warp_barrier(e: &Emitter<'_>) {
    e.call("llvm.nvvm.bar.warp.sync", &[], &[e.i32(u32::MAX).into()]);
}
