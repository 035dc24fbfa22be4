//! Sums over the rows of a matrix: the gradient of a bias by itself.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue, PointerValue};

use super::super::elements::{self, Memory, Run};
use super::mainloop::barrier;
use crate::codegen::column_sum::ColumnSumSchedule;
use crate::codegen::description::MatrixOrder;
use crate::codegen::llvm::Emitter;

/// Emits the body of a kernel whose parameters are the matrix and the sums.
pub(in super::super) fn emit(e: &Emitter<'_>, schedule: &ColumnSumSchedule) {
    let special = |name: &str| {
        e.call_value(&format!("llvm.nvvm.read.ptx.sreg.{name}"), &[], &[])
            .into_int_value()
    };
    let thread = special("tid.x");
    let block = special("ctaid.x");
    let kernel = ColumnSum {
        schedule,
        warp: e.shr_const(thread, 5),
        lane: e.and_const(thread, 31),
        first_column: e.mul_const(block, schedule.block_columns()),
        matrix: e.parameter(0).into_pointer_value(),
        sums: e.parameter(1).into_pointer_value(),
    };
    match schedule.order {
        MatrixOrder::RowMajor => kernel.emit_rows(e),
        MatrixOrder::ColumnMajor => kernel.emit_columns(e),
    }
}

struct ColumnSum<'l, 'c> {
    schedule: &'l ColumnSumSchedule,
    warp: IntValue<'c>,
    lane: IntValue<'c>,
    first_column: IntValue<'c>,
    matrix: PointerValue<'c>,
    sums: PointerValue<'c>,
}

impl<'c> ColumnSum<'_, 'c> {
    /// Lanes beside each other in a row, warps below each other.
    fn emit_rows(&self, e: &Emitter<'c>) {
        let schedule = self.schedule;
        let within = e.mul_const(self.lane, schedule.run);
        let column = e.add(self.first_column, within);
        let extent = e.i32(schedule.columns as u32);
        let inside = e.compare(IntPredicate::ULT, column, extent);
        let column = e.select_int(inside, column, e.i32(0));
        let rounds = schedule.rows.div_ceil(schedule.warps.into()) as u32;
        let sums = self.add_up(
            e,
            (self.warp, column),
            schedule.warps,
            (rounds, schedule.rows),
        );

        let shared = e.shared_address(e.launch_sized_shared("partial_sums", 128));
        let row_bytes = schedule.block_columns() * 4;
        let row = e.add(shared, e.mul_const(self.warp, row_bytes));
        let own = e.add(row, e.mul_const(within, 4));
        for (index, &sum) in (0..).zip(&sums) {
            e.store(e.shared_pointer(e.add_const(own, index * 4)), sum, 4);
        }
        barrier(e);
        let first_warp = e.compare(IntPredicate::EQ, self.warp, e.i32(0));
        e.when(e.and(first_warp, inside), |e| {
            let address = e.add(shared, e.mul_const(within, 4));
            for index in 0..schedule.run {
                let mut total = e.f32(0.0);
                for warp in 0..schedule.warps {
                    let address = e.add_const(address, warp * row_bytes + index * 4);
                    let part = e.load(e.f32_type(), e.shared_pointer(address), 4);
                    total = e.add_float(total, part.into_float_value());
                }
                let target = e.mul(e.widen(e.add_const(column, index)), e.i64(4));
                e.store(e.offset(self.sums, target), total, 4);
            }
        });
    }

    /// A column for each warp, lanes below each other in it.
    fn emit_columns(&self, e: &Emitter<'c>) {
        let schedule = self.schedule;
        let column = e.add(self.first_column, self.warp);
        let extent = e.i32(schedule.columns as u32);
        let inside = e.compare(IntPredicate::ULT, column, extent);
        let column = e.select_int(inside, column, e.i32(0));
        let first = e.mul_const(self.lane, schedule.run);
        let step = 32 * schedule.run;
        let rounds = schedule.rows.div_ceil(step.into()) as u32;
        let sums = self.add_up(e, (column, first), step, (rounds, schedule.rows));
        let mut total = sums[0];
        for &sum in &sums[1..] {
            total = e.add_float(total, sum);
        }
        for bit in 0..5 {
            total = e.add_exchanged(total, 1 << bit);
        }
        let first_lane = e.compare(IntPredicate::EQ, self.lane, e.i32(0));
        e.when(e.and(first_lane, inside), |e| {
            let target = e.mul(e.widen(column), e.i64(4));
            e.store(e.offset(self.sums, target), total, 4);
        });
    }

    /// Adds up the runs that start at an element of a line, and every `step` lines (elements, where lines run down the
    /// columns) after it, `rounds` times, as far as they lie within the rows.
    fn add_up(
        &self,
        e: &Emitter<'c>,
        (line, first): (IntValue<'c>, IntValue<'c>),
        step: u32,
        (rounds, rows): (u32, u64),
    ) -> Vec<FloatValue<'c>> {
        let schedule = self.schedule;
        let bytes = u64::from(schedule.element.bytes());
        let anchor = e.offset(self.matrix, e.i64(schedule.offset * bytes));
        let along = e.mul(e.widen(first), e.i64(bytes));
        let across = e.mul(e.widen(line), e.i64(schedule.leading * bytes));
        let start = e.offset(e.offset(anchor, across), along);
        let (row, step_bytes) = match schedule.order {
            MatrixOrder::RowMajor => (line, u64::from(step) * schedule.leading * bytes),
            MatrixOrder::ColumnMajor => (first, u64::from(step) * bytes),
        };
        let run = Run {
            element: schedule.element,
            count: schedule.run,
            memory: Memory::Constant,
        };
        let extent = e.i32(rows as u32);
        let mut state: Vec<BasicValueEnum<'c>> = vec![start.into(), row.into()];
        state.extend(vec![
            BasicValueEnum::from(e.f32(0.0));
            schedule.run as usize
        ]);
        let state = e.repeat(rounds, state, |e, state| {
            let (pointer, row) = (state[0].into_pointer_value(), state[1].into_int_value());
            let inside = e.compare(IntPredicate::ULT, row, extent);
            let source = e.select(inside, pointer, anchor).into_pointer_value();
            let values = elements::load(e, source, run);
            let mut next: Vec<BasicValueEnum<'c>> = vec![
                e.offset(pointer, e.i64(step_bytes)).into(),
                e.add_const(row, step).into(),
            ];
            for (sum, value) in state[2..].iter().zip(values) {
                let value = e.select(inside, value, e.f32(0.0)).into_float_value();
                next.push(e.add_float(sum.into_float_value(), value).into());
            }
            next
        });
        state[2..]
            .iter()
            .map(|value| value.into_float_value())
            .collect()
    }
}
