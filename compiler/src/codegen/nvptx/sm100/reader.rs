//! The warps that read sums from tensor memory and write results.
//!
//! Each reads its 32 lanes, which are 32 rows of the tile, in two halves of 16. `tcgen05.ld.16x256b` gives a lane the same
//! numbers as `wgmma` does: neighbours of two columns in rows eight apart. So everything after it is shared.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::{Shared, fence_after, fence_before};
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::persistent::{PANEL_COLUMNS, PANEL_SUMS, Turn, Writer, warp_barrier};
use crate::codegen::warpgroup_tiling::PANEL_ROWS;

/// Lanes of tensor memory that a warp reads.
const WARP_LANES: u32 = 32;

/// Where an address of tensor memory has its lane.
const LANE_SHIFT: u32 = 16;

/// Emits the warps' loop.
pub(super) fn emit<'c>(e: &Emitter<'c>, shared: &Shared<'_, 'c>) {
    let Shared {
        kernel,
        schedule,
        thread,
        accumulators,
        tensor_memory,
        ..
    } = shared;
    let row = e.mul_const(thread.warp, WARP_LANES);
    let writer = Writer::emit(e, kernel, thread, row);
    let lanes = e.add(*tensor_memory, e.shl_const(row, LANE_SHIFT));
    let start = Turn::first(e).values();
    kernel.for_each_tile(e, start, |e, tile, turn| {
        let turn = Turn::of_values(&turn);
        accumulators.await_full(e, turn);
        fence_after(e);
        let column = e.mul_const(turn.stage, schedule.tile.columns);
        let sums = e.add(lanes, column);
        let panels = schedule.tile.columns / PANEL_COLUMNS;
        e.repeat(panels, vec![e.i32(0).into()], |e, state| {
            let column = state[0].into_int_value();
            let sums = read(e, e.add(sums, column));
            // Both halves together fill an even number of buffers, so that every round starts with the same one.
            let mut buffers = writer.buffers();
            for (half, sums) in (0..).zip(sums.chunks(PANEL_SUMS)) {
                let place = (half * PANEL_ROWS, column);
                writer.write_part(e, tile, place, (sums, &mut buffers));
            }
            vec![e.add_const(column, PANEL_COLUMNS).into()]
        });
        fence_before(e);
        warp_barrier(e);
        accumulators.release(e, thread.lane, turn.stage);
        accumulators.next(e, turn).values()
    });
    writer.finish(e);
}

/// The sums of the warp's lanes in 64 columns: those of the upper 16 lanes after those of the lower ones.
///
/// LLVM's intrinsic for the read returns a vector, whose parts it moves about before the wait; so this is assembly.
fn read<'c>(e: &Emitter<'c>, address: IntValue<'c>) -> Vec<FloatValue<'c>> {
    let halves = WARP_LANES / PANEL_ROWS;
    let registers: Vec<String> = (0..PANEL_SUMS).map(|index| format!("${index}")).collect();
    let text = format!(
        "tcgen05.ld.sync.aligned.16x256b.x8.b32 {{{}}}, [${PANEL_SUMS}];",
        registers.join(", ")
    );
    let mut constraints = vec!["=f"; PANEL_SUMS];
    constraints.push("r");
    let constraints = constraints.join(",");
    let types = [BasicTypeEnum::from(e.f32_type()); PANEL_SUMS];
    let sums: Vec<FloatValue<'c>> = (0..halves)
        .flat_map(|half| {
            let address = e.add_const(address, half * PANEL_ROWS << LANE_SHIFT);
            e.assembly(
                (text.clone(), constraints.clone()),
                &types,
                &[address.into()],
            )
        })
        .map(BasicValueEnum::into_float_value)
        .collect();
    e.pass_through("tcgen05.wait::ld.sync.aligned;", &sums)
}
