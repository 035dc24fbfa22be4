//! The kernels of sm_90a: copies by the tensor memory accelerator, products by `wgmma` (PTX ISA, "Asynchronous Warpgroup
//! Level Matrix Instructions").
//!
//! ```text
//! consumers: for each tile of the block: for each stage: wait until it is full; multiply; say that the one before is empty
//!                                        bias, activation and so on; results through shared memory to global memory
//! producer:  for each tile of the block: for each stage: wait until it is empty; start the copies that fill it
//! ```
//!
//! The producer is one thread, and goes on to the next tile while the consumers write one. Blocks stay and take every
//! tile whose number is theirs plus a multiple of the number of blocks.

mod column_sums;
mod consumer;
mod epilogue;
mod producer;
mod ring;

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::ptx::{Parameter, Parameters};
use super::sm80::place::tile_of;
use super::tensor_map::TensorMap;
use crate::codegen::contraction::Contraction;
use crate::codegen::llvm::Emitter;
use crate::codegen::warpgroup_tiling::{SUM_WARPS, WARPGROUP_THREADS, WarpgroupSchedule};

use ring::Ring;

/// The alignment of stages: that of the pattern in which chunks are permuted.
const STAGE_ALIGNMENT: u32 = 1024;

/// What a kernel is made of, and where its parameters are.
pub(super) struct Kernel<'l> {
    pub contraction: &'l Contraction,
    pub schedule: &'l WarpgroupSchedule,
    pub parameters: &'l Parameters,
    /// The tensor maps; they are the parameters after the pointers.
    pub maps: &'l [TensorMap],
}

/// Where a thread stands in its block.
struct Thread<'c> {
    /// The thread's number in its warp.
    lane: IntValue<'c>,
    /// The warp's number in the block.
    warp: IntValue<'c>,
    /// Shared address of the stages.
    shared: IntValue<'c>,
}

/// A tile of the result.
struct Tile<'c> {
    /// Which product of the batch; `None` if there is one.
    batch: Option<IntValue<'c>>,
    /// First row.
    row: IntValue<'c>,
    /// First column.
    column: IntValue<'c>,
}

/// Emits the body of a matrix product.
pub(super) fn emit_product(e: &Emitter<'_>, kernel: &Kernel<'_>) {
    let schedule = kernel.schedule;
    let number = special(e, "tid.x");
    let thread = Thread {
        lane: e.and_const(number, 31),
        warp: e.shr_const(number, 5),
        shared: e.shared_address(e.launch_sized_shared("stages", STAGE_ALIGNMENT)),
    };
    let ring = Ring::emit(e, schedule, thread.shared);
    let is_first = e.compare(IntPredicate::EQ, number, e.i32(0));
    e.when(is_first, |e| ring.initialise(e, schedule.readers()));
    e.call(
        "llvm.nvvm.barrier.cta.sync.aligned.all",
        &[],
        &[e.i32(0).into()],
    );
    let consumers = e.i32(schedule.groups * WARPGROUP_THREADS);
    let consumes = e.compare(IntPredicate::ULT, number, consumers);
    e.either(
        consumes,
        |e| {
            if let Some(split) = schedule.registers {
                set_registers(e, "inc", split.consumer);
            }
            consumer::emit(e, kernel, &thread, &ring);
        },
        |e| {
            if let Some(split) = schedule.registers {
                set_registers(e, "dec", split.producer);
            }
            let first = schedule.groups * 4;
            let is_producer = e.compare(IntPredicate::EQ, number, consumers);
            e.when(is_producer, |e| producer::emit(e, kernel, &thread, &ring));
            if schedule.column_sums {
                let sums = e.compare(IntPredicate::UGT, thread.warp, e.i32(first));
                let last = first + SUM_WARPS;
                let is_low = e.compare(IntPredicate::ULE, thread.warp, e.i32(last));
                e.when(e.and(sums, is_low), |e| {
                    column_sums::emit(e, kernel, &thread, &ring);
                });
            }
        },
    );
}

impl Kernel<'_> {
    /// The address of a parameter's tensor map.
    fn map<'c>(&self, e: &Emitter<'c>, parameter: Parameter) -> PointerValue<'c> {
        let index = self
            .maps
            .iter()
            .position(|map| map.parameter == parameter)
            .expect("the maps were listed from the same schedule");
        let first = self.parameters.as_slice().len();
        e.parameter((first + index) as u32).into_pointer_value()
    }

    /// Whether a parameter's tensor map has a dimension for the batch.
    fn has_batch(&self, parameter: Parameter) -> bool {
        let mut maps = self.maps.iter();
        maps.any(|map| map.parameter == parameter && map.rank == 3)
    }

    /// Where a parameter's data for a product of the batch starts.
    fn pointer<'c>(
        &self,
        e: &Emitter<'c>,
        parameter: Parameter,
        (batch, stride_bytes): (Option<IntValue<'c>>, u64),
    ) -> PointerValue<'c> {
        let index = self
            .parameters
            .index(parameter)
            .expect("the parameters were listed from the same contraction");
        let pointer = e.parameter(index).into_pointer_value();
        match batch {
            Some(batch) => e.offset(pointer, e.mul(e.widen(batch), e.i64(stride_bytes))),
            None => pointer,
        }
    }

    /// Emits a loop over the tiles of the block that carries some values from one to the next.
    fn for_each_tile<'c>(
        &self,
        e: &Emitter<'c>,
        state: Vec<IntValue<'c>>,
        body: impl FnOnce(&Emitter<'c>, &Tile<'c>, Vec<IntValue<'c>>) -> Vec<IntValue<'c>>,
    ) {
        let schedule = self.schedule;
        let block = special(e, "ctaid.x");
        if schedule.blocks == schedule.tiles() {
            body(e, &self.tile(e, block), state);
            return;
        }
        let mut values: Vec<BasicValueEnum<'c>> = vec![block.into()];
        values.extend(state.into_iter().map(BasicValueEnum::from));
        e.repeat_while(
            values,
            |e, values| {
                let tiles = e.i32(schedule.tiles());
                e.compare(IntPredicate::ULT, values[0].into_int_value(), tiles)
            },
            |e, values| {
                let number = values[0].into_int_value();
                let state = values[1..].iter().map(|value| value.into_int_value());
                let next = body(e, &self.tile(e, number), state.collect());
                let mut values: Vec<BasicValueEnum<'c>> =
                    vec![e.add_const(number, schedule.blocks).into()];
                values.extend(next.into_iter().map(BasicValueEnum::from));
                values
            },
        );
    }

    fn tile<'c>(&self, e: &Emitter<'c>, number: IntValue<'c>) -> Tile<'c> {
        let schedule = self.schedule;
        let grid = (schedule.row_tiles, schedule.column_tiles);
        let (batch, number) = match schedule.batch {
            1 => (None, number),
            _ => (
                Some(e.div_const(number, grid.0 * grid.1)),
                e.rem_const(number, grid.0 * grid.1),
            ),
        };
        let (row, column) = tile_of(e, number, grid);
        Tile {
            batch,
            row: e.mul_const(row, schedule.rows),
            column: e.mul_const(column, schedule.columns),
        }
    }
}

fn special<'c>(e: &Emitter<'c>, name: &str) -> IntValue<'c> {
    e.call_value(&format!("llvm.nvvm.read.ptx.sreg.{name}"), &[], &[])
        .into_int_value()
}

fn set_registers(e: &Emitter<'_>, direction: &str, count: u32) {
    let name = format!("llvm.nvvm.setmaxnreg.{direction}.sync.aligned.u32");
    e.call(&name, &[], &[e.i32(count).into()]);
}

/// The lanes of a warp wait for each other, and see what the others wrote to shared memory.
fn warp_barrier(e: &Emitter<'_>) {
    e.call("llvm.nvvm.bar.warp.sync", &[], &[e.i32(u32::MAX).into()]);
}
