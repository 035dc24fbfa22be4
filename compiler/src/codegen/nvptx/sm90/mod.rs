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
//! tile whose number is theirs plus a multiple of the number of blocks; where tiles are few, every share of a tile's depth.

mod consumer;

use inkwell::IntPredicate;

use super::persistent::{Kernel, Ring, STAGE_ALIGNMENT, Thread, emit_column_sums, emit_producer};
use super::thread::special;
use crate::codegen::llvm::Emitter;
use crate::codegen::warpgroup_tiling::{SUM_WARPS, WARPGROUP_THREADS};

/// Emits the body of a matrix product.
pub(super) fn emit_product(e: &Emitter<'_>, kernel: &Kernel<'_>) {
    let schedule = kernel.schedule;
    let number = special(e, "tid.x");
    let thread = Thread {
        lane: e.and_const(number, 31),
        warp: e.shr_const(number, 5),
        shared: e.shared_address(e.launch_sized_shared("stages", STAGE_ALIGNMENT)),
    };
    let ring = Ring::new(
        e,
        schedule.stages,
        e.add_const(thread.shared, schedule.barriers_start()),
    );
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
            e.when(is_producer, |e| emit_producer(e, kernel, &thread, &ring));
            if schedule.column_sums {
                let sums = e.compare(IntPredicate::UGT, thread.warp, e.i32(first));
                let last = first + SUM_WARPS;
                let is_low = e.compare(IntPredicate::ULE, thread.warp, e.i32(last));
                e.when(e.and(sums, is_low), |e| {
                    emit_column_sums(e, kernel, &thread, &ring);
                });
            }
        },
    );
}

fn set_registers(e: &Emitter<'_>, direction: &str, count: u32) {
    let name = format!("llvm.nvvm.setmaxnreg.{direction}.sync.aligned.u32");
    e.call(&name, &[], &[e.i32(count).into()]);
}
