//! From sums in registers to the result in global memory: bias, auxiliary output, activation, derivative, accumulation.
//!
//! A lane's sums are scattered over its warp's tile. Each warp takes its tile through shared memory in slabs of 16
//! rows: the sums go in where they belong and come out as runs of 16 bytes of the result, so that neighbouring lanes
//! write neighbouring addresses and each lane stays with one run of columns, whose bias it loads once. Slabs belong to
//! their warp, so the warps do not wait for each other.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::super::activation;
use super::super::elements::{self, Memory, Run};
use super::super::thread::warp_barrier;
use super::mainloop::{Multiplier, barrier};
use super::place::Place;
use crate::codegen::contraction::Contraction;
use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{SLAB_ROWS, TileSchedule};

/// Where the results go, and what else the epilogue reads.
pub(super) struct Destinations<'c> {
    pub output: PointerValue<'c>,
    pub auxiliary_output: Option<PointerValue<'c>>,
    pub auxiliary_input: Option<PointerValue<'c>>,
    pub bias: Option<PointerValue<'c>>,
}

/// What a lane has added up of the results of its columns.
pub(super) struct LaneSums<'c> {
    /// Neighbouring columns; none unless their sums are wanted.
    pub sums: Vec<FloatValue<'c>>,
    /// The lane's row among those that have the same columns, and its first column in the warp's tile.
    pub row: IntValue<'c>,
    pub column: IntValue<'c>,
    /// Lanes side by side; those with the same number modulo it have the same columns.
    pub lanes_per_row: u32,
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
        let width = contraction.row_run(run);
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
    /// passed, and no copy may be in flight. Gives the sums of the lane's columns before they are rounded, if they are
    /// wanted.
    pub(super) fn write<M: Multiplier<'c>>(
        &self,
        e: &Emitter<'c>,
        place: &Place<'c>,
        multiplier: &M,
        sums: &[FloatValue<'c>],
    ) -> LaneSums<'c> {
        let wanted = self.contraction.epilogue.result_sums;
        let count = if wanted { self.run as usize } else { 0 };
        let mut columns = vec![e.f32(0.0); count];
        let bias = self.load_bias(e);
        barrier(e);
        let origin = multiplier.lane_origin(e, place.lane);
        for slab in 0..self.schedule.warp_rows / SLAB_ROWS {
            if slab > 0 {
                warp_barrier(e);
            }
            self.fill_slab(e, origin, (multiplier, slab), sums);
            warp_barrier(e);
            self.drain_slab(e, slab, bias.as_deref(), &mut columns);
        }
        LaneSums {
            sums: columns,
            row: self.lane_row,
            column: self.lane_column,
            lanes_per_row: self.schedule.warp_columns / self.run,
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
            let run = Run {
                element,
                count: self.width,
                memory: Memory::Constant,
            };
            values.extend(elements::load(e, e.offset(pointer, bytes), run));
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

    fn drain_slab(
        &self,
        e: &Emitter<'c>,
        slab: u32,
        bias: Option<&[FloatValue<'c>]>,
        columns: &mut [FloatValue<'c>],
    ) {
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
            self.write_run(e, slab * SLAB_ROWS + row, &values, columns);
        }
    }

    /// Writes one run, `row` rows below the lane's first, and adds it to the columns' sums if they are wanted.
    fn write_run(
        &self,
        e: &Emitter<'c>,
        row: u32,
        values: &[FloatValue<'c>],
        columns: &mut [FloatValue<'c>],
    ) {
        let ragged = !self
            .contraction
            .rows
            .is_multiple_of(u64::from(self.schedule.rows));
        let above = ragged.then(|| {
            let extent = e.i32(self.contraction.rows as u32);
            e.compare(IntPredicate::ULT, e.add_const(self.row, row), extent)
        });
        for (index, part) in values.chunks(self.width as usize).enumerate() {
            let condition = match (above, self.inside[index]) {
                (Some(above), Some(inside)) => Some(e.and(above, inside)),
                (above, inside) => above.or(inside),
            };
            let place = (row, index as u32 * self.width);
            let wanted = !columns.is_empty();
            let body = |e: &Emitter<'c>| {
                let results = self.write_part(e, place, part);
                if wanted { results } else { Vec::new() }
            };
            let results = match condition {
                Some(condition) => e.when_some(condition, body),
                None => body(e),
            };
            let columns = columns.iter_mut().skip(index * self.width as usize);
            for (sum, result) in columns.zip(results) {
                *sum = e.add_float(*sum, result);
            }
        }
    }

    /// Finishes and writes neighbours that one access takes. Gives them as they are before they are rounded.
    fn write_part(
        &self,
        e: &Emitter<'c>,
        place: (u32, u32),
        part: &[FloatValue<'c>],
    ) -> Vec<FloatValue<'c>> {
        let epilogue = self.contraction.epilogue;
        let element = self.contraction.output.element;
        if let Some((pointer, element)) = self
            .destinations
            .auxiliary_output
            .zip(epilogue.auxiliary_output)
        {
            elements::store(e, self.address(e, (pointer, element), place), element, part);
        }
        let mut results: Vec<FloatValue<'c>> = part
            .iter()
            .map(|&value| activation::apply(e, epilogue.activation, value, element))
            .collect();
        if let Some((pointer, (activation, stored_as))) =
            self.destinations.auxiliary_input.zip(epilogue.derivative)
        {
            let run = self.run_of(stored_as, Memory::Constant);
            let inputs = elements::load(e, self.address(e, (pointer, stored_as), place), run);
            for (result, input) in results.iter_mut().zip(inputs) {
                let stored_as = epilogue.derivative_stored_as;
                let slope = activation::derivative(e, activation, input, stored_as);
                *result = e.mul_float(*result, slope);
            }
        }
        let address = self.address(e, (self.destinations.output, element), place);
        if epilogue.accumulate {
            let existing = elements::load(e, address, self.run_of(element, Memory::Mutable));
            for (result, existing) in results.iter_mut().zip(existing) {
                *result = e.add_float(*result, existing);
            }
        }
        elements::store(e, address, element, &results);
        results
    }

    fn run_of(&self, element: ElementType, memory: Memory) -> Run {
        Run {
            element,
            count: self.width,
            memory,
        }
    }

    /// Where the element of a matrix that is laid out like the result lies, `row` rows below and `column` columns right
    /// of the lane's first.
    fn address(
        &self,
        e: &Emitter<'c>,
        (pointer, element): (PointerValue<'c>, ElementType),
        (row, column): (u32, u32),
    ) -> PointerValue<'c> {
        let output = self.contraction.output;
        let bytes = u64::from(element.bytes());
        let line = e.mul(e.widen(self.row), e.i64(output.leading * bytes));
        let within = e.mul(e.widen(self.column), e.i64(bytes));
        let lane = e.offset(e.offset(pointer, line), within);
        let further = (u64::from(row) * output.leading + u64::from(column) + output.offset) * bytes;
        e.offset(lane, e.i64(further))
    }
}
