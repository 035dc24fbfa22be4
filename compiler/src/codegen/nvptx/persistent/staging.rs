//! Buffers in shared memory through which results go to global memory.
//!
//! A warp has two, of 16 lines of 128 bytes each. The tensor memory accelerator writes from them, and cuts off what lies
//! beyond the result; while one is being written, the warp fills the other.

use inkwell::values::{BasicValueEnum, IntValue};

use super::Kernel;
use super::epilogue::Pair;
use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::elements;
use crate::codegen::nvptx::ptx::Parameter;
use crate::codegen::nvptx::thread::warp_barrier;
use crate::codegen::warpgroup_tiling::{LINE_BYTES, PANEL_BYTES, PANELS};

/// A warp's buffers, and where one of its lanes stands in them.
pub(super) struct Staging<'c> {
    /// Row and first column of the lane's first pair.
    pub lane_row: IntValue<'c>,
    pub lane_column: IntValue<'c>,
    /// Shared address of the first buffer.
    pub start: IntValue<'c>,
}

/// Where a buffer's first element lies in the result.
pub(super) struct Place<'c> {
    pub batch: Option<IntValue<'c>>,
    pub row: IntValue<'c>,
    pub column: IntValue<'c>,
}

impl<'c> Staging<'c> {
    /// Puts pairs into the next of the warp's buffers, whose shared address is returned.
    pub(super) fn fill(
        &self,
        e: &Emitter<'c>,
        (element, pairs): (ElementType, &[Pair<'c>]),
        buffers: &mut Buffers,
    ) -> IntValue<'c> {
        let (index, under_way) = buffers.next();
        await_reads(e, under_way);
        warp_barrier(e);
        let buffer = e.add_const(self.start, index * PANEL_BYTES);
        let line = e.add(buffer, e.mul_const(self.lane_row, LINE_BYTES));
        let within = e.mul_const(self.lane_column, element.bytes());
        let chunk = e.xor(e.and_const(within, 0x70), e.shl_const(self.lane_row, 4));
        let rest = e.add(line, e.and_const(within, 0xf));
        let first = pairs[0].column;
        for pair in pairs {
            let further = (pair.column - first) * element.bytes();
            let address = e.add(rest, e.xor_const(chunk, further));
            // Eight rows on, the chunks are permuted alike.
            let address = e.add_const(address, pair.row * LINE_BYTES);
            elements::store(e, e.shared_pointer(address), element, &pair.values);
        }
        buffer
    }

    /// Starts the copy of a filled buffer to the result.
    pub(super) fn send(
        &self,
        e: &Emitter<'c>,
        kernel: &Kernel<'_>,
        (parameter, buffer): (Parameter, IntValue<'c>),
        place: &Place<'c>,
    ) {
        e.call("llvm.nvvm.fence.proxy.async.shared_cta", &[], &[]);
        warp_barrier(e);
        let map = kernel.map(e, parameter);
        let has_batch = kernel.has_batch(parameter);
        // The same lane starts all copies, so that its groups are all of the warp's.
        e.when(e.elected(), |e| {
            let mut arguments: Vec<BasicValueEnum<'c>> = vec![
                e.shared_pointer(buffer).into(),
                map.into(),
                place.column.into(),
                place.row.into(),
            ];
            if has_batch {
                arguments.push(place.batch.unwrap_or(e.i32(0)).into());
            }
            let hint: [BasicValueEnum<'c>; 2] = [e.i64(0).into(), e.boolean(false).into()];
            arguments.extend(hint);
            let rank = if has_batch { 3 } else { 2 };
            let name = format!("llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{rank}d");
            e.call(&name, &[], &arguments);
            e.call("llvm.nvvm.cp.async.bulk.commit.group", &[], &[]);
        });
    }
}

/// Which of a warp's buffers comes next.
pub(in crate::codegen::nvptx) struct Buffers {
    /// Buffers filled so far for this tile.
    filled: u32,
    per_tile: u32,
}

impl Buffers {
    /// No buffer of a tile, which takes so many, is filled yet.
    pub(super) fn of_tile(per_tile: u32) -> Buffers {
        Buffers {
            filled: 0,
            per_tile,
        }
    }

    /// The next buffer, and how many copies may still be under way when it is filled: the other buffer's, unless the
    /// tile before ended with this one.
    fn next(&mut self) -> (u32, u32) {
        let index = self.filled % PANELS;
        let repeats = self.filled == 0 && !self.per_tile.is_multiple_of(PANELS);
        self.filled += 1;
        (index, if repeats { 0 } else { PANELS - 1 })
    }
}

/// Waits until at most so many of the thread's copies still read shared memory.
pub(super) fn await_reads(e: &Emitter<'_>, under_way: u32) {
    let name = "llvm.nvvm.cp.async.bulk.wait.group.read";
    e.call(name, &[], &[e.i32(under_way).into()]);
}
