//! The kernels of sm_100a: copies by the tensor memory accelerator, products by `tcgen05.mma` with their sums in tensor
//! memory (PTX ISA, "TensorCore 5th Generation Family Instructions").
//!
//! ```text
//! copies:   for each tile of the block: for each stage: wait until it is empty; start the copies that fill it
//! products: for each tile of the block: wait until its accumulator is read
//!                                       for each stage: wait until it is full; start its products, which give it back
//!                                       say that the accumulator is complete, once it is
//! writers:  for each tile of the block: wait until its accumulator is complete
//!                                       for each 64 columns: read the sums; bias, activation and so on; write
//!                                       say that the accumulator is read
//! ```
//!
//! The copies are one thread's, the products one warp's, of which one thread starts them; nobody waits for a product before
//! the writers do. `tcgen05` instructions of different threads are ordered by a barrier only between a
//! `tcgen05.fence::before_thread_sync` and a `tcgen05.fence::after_thread_sync`.

mod issuer;
mod reader;

use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::persistent::{Kernel, Ring, STAGE_ALIGNMENT, Thread, emit_column_sums, emit_producer};
use super::thread::special;
use crate::codegen::llvm::Emitter;
use crate::codegen::tensor_memory_tiling::{ISSUING_WARP, TensorMemorySchedule, WRITING_WARPS};
use crate::codegen::warpgroup_tiling::SUM_WARPS;

/// What the roles of a block have in common.
struct Shared<'l, 'c> {
    kernel: &'l Kernel<'l>,
    schedule: &'l TensorMemorySchedule,
    thread: Thread<'c>,
    /// The stages: filled by copies, read by products.
    stages: Ring<'c>,
    /// The accumulators: filled by products, read by the writers.
    accumulators: Ring<'c>,
    /// Address of the block's tensor memory.
    tensor_memory: IntValue<'c>,
}

/// Emits the body of a matrix product.
pub(super) fn emit_product(e: &Emitter<'_>, kernel: &Kernel<'_>, schedule: &TensorMemorySchedule) {
    let number = special(e, "tid.x");
    let shared = e.shared_address(e.launch_sized_shared("stages", STAGE_ALIGNMENT));
    let thread = Thread {
        lane: e.and_const(number, 31),
        warp: e.shr_const(number, 5),
        shared,
    };
    let barriers = e.add_const(shared, kernel.schedule.barriers_start());
    let stages = Ring::new(e, kernel.schedule.stages, barriers);
    let barriers = e.add_const(shared, schedule.accumulator_barriers_start());
    let accumulators = Ring::new(e, schedule.accumulators, barriers);
    let is_first = e.compare(IntPredicate::EQ, number, e.i32(0));
    e.when(is_first, |e| {
        stages.initialise(e, schedule.stage_readers());
        accumulators.initialise(e, WRITING_WARPS);
    });
    let address = e.shared_pointer(e.add_const(shared, schedule.address_start()));
    let issues = e.compare(IntPredicate::EQ, thread.warp, e.i32(ISSUING_WARP));
    let columns = e.i32(schedule.tensor_columns());
    e.when(issues, |e| {
        let arguments = [address.into(), columns.into()];
        e.call("llvm.nvvm.tcgen05.alloc.shared.cg1", &[], &arguments);
        e.call("llvm.nvvm.tcgen05.relinq.alloc.permit.cg1", &[], &[]);
    });
    block_barrier(e);
    let shared = Shared {
        kernel,
        schedule,
        thread,
        stages,
        accumulators,
        tensor_memory: e.load(e.i32_type(), address, 4).into_int_value(),
    };
    let writers = e.i32(WRITING_WARPS);
    let writes = e.compare(IntPredicate::ULT, shared.thread.warp, writers);
    e.either(
        writes,
        |e| reader::emit(e, &shared),
        |e| {
            let producer = e.i32(WRITING_WARPS * 32);
            let is_producer = e.compare(IntPredicate::EQ, number, producer);
            e.when(is_producer, |e| {
                emit_producer(e, kernel, &shared.thread, &shared.stages);
            });
            if schedule.tile.column_sums {
                let warp = shared.thread.warp;
                let sums = e.compare(IntPredicate::UGT, warp, writers);
                let last = e.i32(WRITING_WARPS + SUM_WARPS);
                let sums = e.and(sums, e.compare(IntPredicate::ULE, warp, last));
                e.when(sums, |e| {
                    emit_column_sums(e, kernel, &shared.thread, &shared.stages);
                });
            }
            e.when(issues, |e| issuer::emit(e, &shared));
        },
    );
    block_barrier(e);
    e.when(issues, |e| {
        let memory = e.tensor_pointer(shared.tensor_memory);
        let arguments = [memory.into(), columns.into()];
        e.call("llvm.nvvm.tcgen05.dealloc.cg1", &[], &arguments);
    });
}

/// All threads of the block wait for each other, and for what they did to tensor memory.
fn block_barrier(e: &Emitter<'_>) {
    fence_before(e);
    let barrier = "llvm.nvvm.barrier.cta.sync.aligned.all";
    e.call(barrier, &[], &[e.i32(0).into()]);
    fence_after(e);
}

/// What the thread did to tensor memory comes before what follows the next barrier.
fn fence_before(e: &Emitter<'_>) {
    e.call("llvm.nvvm.tcgen05.fence.before.thread.sync", &[], &[]);
}

/// What the thread will do to tensor memory comes after what came before the last barrier.
fn fence_after(e: &Emitter<'_>) {
    e.call("llvm.nvvm.tcgen05.fence.after.thread.sync", &[], &[]);
}
