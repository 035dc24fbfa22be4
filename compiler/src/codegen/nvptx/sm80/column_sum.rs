//! Sums over the rows of a matrix: the gradient of a bias by itself, or of a layer's own pre-activation, whose elements are
//! multiplied by a derivative and written on the way.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::super::activation;
use super::super::elements::{self, Memory, Run};
use super::super::parts::{self, Barrier, Columns, Crew};
use super::super::ptx::{Parameter, Parameters};
use super::mainloop::barrier;
use crate::codegen::column_sum::{ColumnSumSchedule, DerivativeMap};
use crate::codegen::contraction::Output;
use crate::codegen::description::{Activation, ElementType, MatrixOrder};
use crate::codegen::llvm::Emitter;
use crate::codegen::math::Math;
use crate::codegen::nvptx::thread::special;

/// Emits the body of a kernel with these parameters.
pub(in super::super) fn emit(
    e: &Emitter<'_>,
    schedule: &ColumnSumSchedule,
    parameters: &Parameters,
) {
    let thread = special(e, "tid.x");
    let block = special(e, "ctaid.x");
    let column_tiles = schedule.parts.column_tiles;
    let part = e.div_const(block, column_tiles);
    let tile = e.rem_const(block, column_tiles);
    let shared = e.shared_address(e.launch_sized_shared("partial_sums", 128));
    let sums_bytes = schedule.warps * schedule.block_columns() * 4;
    let kernel = ColumnSum {
        schedule,
        parameters,
        warp: e.shr_const(thread, 5),
        lane: e.and_const(thread, 31),
        shared,
        crew: Crew {
            barrier: Barrier::Block,
            threads: schedule.threads(),
            thread,
            flag: e.add_const(shared, sums_bytes),
        },
        first_column: e.mul_const(tile, schedule.block_columns()),
        first_row: e.mul_const(e.rem_const(part, schedule.row_blocks), schedule.block_rows),
        batch: match schedule.batch {
            1 => None,
            _ => Some(e.div_const(part, schedule.row_blocks)),
        },
        tile,
        part,
    };
    if schedule.walks_lines() {
        kernel.emit_lines(e);
    } else {
        kernel.emit_rows(e);
    }
}

struct ColumnSum<'l, 'c> {
    schedule: &'l ColumnSumSchedule,
    parameters: &'l Parameters,
    warp: IntValue<'c>,
    lane: IntValue<'c>,
    /// Shared address of the sums of all warps.
    shared: IntValue<'c>,
    crew: Crew<'c>,
    /// The block's first column and row, in its matrix of the batch.
    first_column: IntValue<'c>,
    first_row: IntValue<'c>,
    batch: Option<IntValue<'c>>,
    /// The number of the block's tile of columns, and of its part of their sums.
    tile: IntValue<'c>,
    part: IntValue<'c>,
}

impl<'c> ColumnSum<'_, 'c> {
    /// Lanes beside each other in a row, warps below each other.
    fn emit_rows(&self, e: &Emitter<'c>) {
        let schedule = self.schedule;
        let within = e.mul_const(self.lane, schedule.run);
        let column = e.add(self.first_column, within);
        let inside = e.compare(IntPredicate::ULT, column, e.i32(schedule.columns as u32));
        let column = e.select_int(inside, column, e.i32(0));
        let first = e.add(self.first_row, self.warp);
        let rows = (first, schedule.warps);
        let sums = self.walk(e, rows, (inside, self.count()), |e, row| {
            self.row(e, (row, column))
        });
        if schedule.parts.column_parts.is_none() {
            return;
        }
        let row_bytes = schedule.block_columns() * 4;
        let row = e.add(self.shared, e.mul_const(self.warp, row_bytes));
        let own = e.add(row, e.mul_const(within, 4));
        for (index, &sum) in (0..).zip(&sums) {
            e.store(e.shared_pointer(e.add_const(own, index * 4)), sum, 4);
        }
        barrier(e);
        let columns = schedule.block_columns();
        let threads = schedule.threads();
        // Threads beyond the last column read the first one, and write nothing.
        let has_column = e.compare(IntPredicate::ULT, self.crew.thread, e.i32(columns));
        let own = e.select_int(has_column, self.crew.thread, e.i32(0));
        let address = e.add(self.shared, e.mul_const(own, 4));
        let mut total = e.f32(0.0);
        for warp in 0..schedule.warps {
            let address = e.shared_pointer(e.add_const(address, warp * row_bytes));
            let part = e.load(e.f32_type(), address, 4).into_float_value();
            total = e.add_float(total, part);
        }
        debug_assert!(columns <= threads, "a column has a thread");
        self.finish(e, (own, total), has_column);
    }

    /// A column for each warp, lanes below each other in it.
    fn emit_lines(&self, e: &Emitter<'c>) {
        let schedule = self.schedule;
        let column = e.add(self.first_column, self.warp);
        let inside = e.compare(IntPredicate::ULT, column, e.i32(schedule.columns as u32));
        let column = e.select_int(inside, column, e.i32(0));
        let first = e.add(self.first_row, e.mul_const(self.lane, schedule.run));
        let step = 32 * schedule.run;
        let rows = (first, step);
        let run = (inside, schedule.run as usize);
        let sums = self.walk(e, rows, run, |e, row| {
            self.read(e, (row, column), schedule.run)
        });
        let mut total = sums[0];
        for &sum in &sums[1..] {
            total = e.add_float(total, sum);
        }
        for bit in 0..5 {
            total = e.add_exchanged(total, 1 << bit);
        }
        let first_lane = e.compare(IntPredicate::EQ, self.lane, e.i32(0));
        self.finish(e, (self.warp, total), first_lane);
    }

    /// Sums that a lane keeps while it walks down the rows.
    fn count(&self) -> usize {
        match self.schedule.parts.column_parts {
            Some(_) => self.schedule.run as usize,
            None => 0,
        }
    }

    /// Walks down the block's rows, from one on and so many at a time, if there is anything to be had there, and adds up
    /// so many values of each.
    fn walk(
        &self,
        e: &Emitter<'c>,
        (first, step): (IntValue<'c>, u32),
        (goes, count): (IntValue<'c>, usize),
        values: impl FnOnce(&Emitter<'c>, IntValue<'c>) -> Vec<FloatValue<'c>>,
    ) -> Vec<FloatValue<'c>> {
        let schedule = self.schedule;
        let extent = e.i32(schedule.rows as u32);
        let end = e.add_const(self.first_row, schedule.block_rows);
        let reaches_beyond = e.compare(IntPredicate::UGT, end, extent);
        let end = e.select_int(reaches_beyond, extent, end);
        let end = e.select_int(goes, end, e.i32(0));
        let mut state: Vec<BasicValueEnum<'c>> = vec![first.into()];
        state.extend(vec![BasicValueEnum::from(e.f32(0.0)); count]);
        let state = e.repeat_while(
            state,
            |e, state| e.compare(IntPredicate::ULT, state[0].into_int_value(), end),
            |e, state| {
                let row = state[0].into_int_value();
                let mut next: Vec<BasicValueEnum<'c>> = vec![e.add_const(row, step).into()];
                for (sum, value) in state[1..].iter().zip(values(e, row)) {
                    next.push(e.add_float(sum.into_float_value(), value).into());
                }
                next
            },
        );
        let sums = state[1..].iter();
        sums.map(|sum| sum.into_float_value()).collect()
    }

    /// Writes the block's sum of a column of its tile, or hands it on.
    fn finish(
        &self,
        e: &Emitter<'c>,
        (first, sum): (IntValue<'c>, FloatValue<'c>),
        holds: IntValue<'c>,
    ) {
        let place = parts::Place {
            parts: &self.schedule.parts,
            parameters: self.parameters,
        };
        let columns = Columns {
            tile: self.tile,
            first,
            part: self.part,
            holds: Some(holds),
            extent: self.schedule.columns as u32,
            element: self.schedule.sum_element,
        };
        place.finish_columns(e, &self.crew, &columns, &[(0, sum)]);
    }

    /// One run of a row: what is added up of it, if sums are wanted.
    fn row(&self, e: &Emitter<'c>, place: (IntValue<'c>, IntValue<'c>)) -> Vec<FloatValue<'c>> {
        let schedule = self.schedule;
        let values = match schedule.order {
            MatrixOrder::RowMajor => self.read(e, place, schedule.run),
            // The next rows of the same columns lie beside these in memory, and find them in the first-level cache.
            MatrixOrder::ColumnMajor => (0..schedule.run)
                .map(|index| self.read(e, (place.0, e.add_const(place.1, index)), 1)[0])
                .collect(),
        };
        let values = match &schedule.map {
            Some(map) => self.apply(e, map, (place, values)),
            None => values,
        };
        if schedule.parts.column_parts.is_some() {
            values
        } else {
            Vec::new()
        }
    }

    /// Multiplies a run by the derivative and writes it. Gives it as it is before it is rounded.
    fn apply(
        &self,
        e: &Emitter<'c>,
        map: &DerivativeMap,
        (place, mut values): ((IntValue<'c>, IntValue<'c>), Vec<FloatValue<'c>>),
    ) -> Vec<FloatValue<'c>> {
        if map.activation != Activation::None {
            let run = Run {
                element: map.auxiliary,
                count: self.schedule.run,
                memory: Memory::Constant,
            };
            let output = (map.output, map.auxiliary);
            let source = self.address(e, Parameter::AuxiliaryInput, output, place);
            for (value, input) in values.iter_mut().zip(elements::load(e, source, run)) {
                let slope = activation::derivative(e, map.activation, input, map.stored_as);
                *value = e.mul_float(*value, slope);
            }
        }
        let output = (map.output, map.output.element);
        let target = self.address(e, Parameter::Output, output, place);
        elements::store(e, target, map.output.element, &values);
        values
    }

    /// Neighbours of the matrix from a place on: of a row, or of a line that runs down a column.
    fn read(
        &self,
        e: &Emitter<'c>,
        (row, column): (IntValue<'c>, IntValue<'c>),
        count: u32,
    ) -> Vec<FloatValue<'c>> {
        let schedule = self.schedule;
        let (line, within) = match schedule.order {
            MatrixOrder::RowMajor => (row, column),
            MatrixOrder::ColumnMajor => (column, row),
        };
        let matrix = Output {
            element: schedule.element,
            leading: schedule.leading,
            offset: schedule.offset,
            batch_stride: schedule.batch_stride,
        };
        let matrix = (matrix, schedule.element);
        let source = self.address(e, Parameter::A, matrix, (line, within));
        let run = Run {
            element: schedule.element,
            count,
            memory: Memory::Constant,
        };
        let mut values = elements::load(e, source, run);
        if schedule.math == Math::Tf32 {
            for value in &mut values {
                *value = elements::as_tf32(e, *value).1;
            }
        }
        values
    }

    /// Where an element of a line lies.
    fn address(
        &self,
        e: &Emitter<'c>,
        parameter: Parameter,
        (matrix, element): (Output, ElementType),
        (line, within): (IntValue<'c>, IntValue<'c>),
    ) -> PointerValue<'c> {
        let index = self
            .parameters
            .index(parameter)
            .expect("the parameters were listed from the same schedule");
        let bytes = u64::from(element.bytes());
        let pointer = e.parameter(index).into_pointer_value();
        let pointer = match self.batch {
            Some(batch) => {
                let stride = e.i64(matrix.batch_stride * bytes);
                e.offset(pointer, e.mul(e.widen(batch), stride))
            }
            None => pointer,
        };
        let pointer = e.offset(pointer, e.i64(matrix.offset * bytes));
        let line = e.mul(e.widen(line), e.i64(matrix.leading * bytes));
        let within = e.mul(e.widen(within), e.i64(bytes));
        e.offset(e.offset(pointer, line), within)
    }
}
