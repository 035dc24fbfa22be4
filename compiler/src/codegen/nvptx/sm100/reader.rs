//! The warps that read sums from tensor memory and write results.
//!
//! Where several blocks share a tile, each hands on what it read, and the one that comes last writes their sum.
//!
//! Each reads its 32 lanes, which are 32 rows of the tile, in two halves of 16. `tcgen05.ld.16x256b` gives a lane the same
//! numbers as `wgmma` does: neighbours of two columns in rows eight apart. So everything after it is shared.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::{Shared, fence_after, fence_before};
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::parts::{Barrier, Crew};
use crate::codegen::nvptx::persistent::{PANEL_COLUMNS, PANEL_SUMS, Tile, Turn, Writer};
use crate::codegen::nvptx::thread::warp_barrier;
use crate::codegen::tensor_memory_tiling::WRITING_WARPS;
use crate::codegen::warpgroup_tiling::{PANEL_BYTES, PANEL_ROWS, PANELS};

/// Lanes of tensor memory that a warp reads.
const WARP_LANES: u32 = 32;

/// Where an address of tensor memory has its lane.
const LANE_SHIFT: u32 = 16;

/// The named barrier of all writers; 0 is the whole block's, 1 that of the warps that add up columns.
const CREW_BARRIER: u32 = 2;

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
    let threads = WRITING_WARPS * 32;
    let crew = Crew {
        barrier: Barrier::Named {
            number: CREW_BARRIER,
            threads,
        },
        threads,
        thread: e.add(row, thread.lane),
        flag: e.add_const(thread.shared, schedule.tile.flags_start()),
    };
    let scratch = e.add_const(thread.shared, schedule.result_sums_start());
    let reader = Reader {
        writer: Writer::emit(e, kernel, thread, row),
        crew,
        scratch: e.add(scratch, e.mul_const(thread.warp, PANELS * PANEL_BYTES)),
        columns: schedule.tile.columns,
    };
    let lanes = e.add(*tensor_memory, e.shl_const(row, LANE_SHIFT));
    let start = Turn::first(e).values();
    kernel.for_each_tile(e, start, |e, tile, turn| {
        let turn = Turn::of_values(&turn);
        accumulators.await_full(e, turn);
        fence_after(e);
        let column = e.mul_const(turn.stage, schedule.tile.columns);
        let sums = e.add(lanes, column);
        let release = |e: &Emitter<'c>| {
            fence_before(e);
            warp_barrier(e);
            accumulators.release(e, thread.lane, turn.stage);
        };
        match tile.split {
            None => {
                reader.write(e, tile, |e, column| read(e, e.add(sums, column)));
                release(e);
            }
            Some(split) => {
                let part = (tile.number, split);
                let shared = kernel.parts().shared_tile(e, &reader.crew, part);
                let offset = |e: &Emitter<'c>, column| {
                    // Each lane has one number for each of the columns.
                    e.widen(e.mul_const(column, shared.bytes_of(1)))
                };
                reader.for_each_panel(e, |e, column| {
                    let sums = read(e, e.add(sums, column));
                    shared.put(e, offset(e, column), &sums);
                });
                release(e);
                let is_last = shared.is_last(e);
                e.when(is_last, |e| {
                    reader.write(e, tile, |e, column| {
                        shared.whole(e, offset(e, column), PANEL_COLUMNS as usize)
                    });
                });
            }
        }
        accumulators.next(e, turn).values()
    });
    reader.writer.finish(e);
}

/// One of the warps.
struct Reader<'l, 'c> {
    writer: Writer<'l, 'c>,
    /// All of them.
    crew: Crew<'c>,
    /// Shared address of the warp's share of the memory in which sums over rows are kept.
    scratch: IntValue<'c>,
    /// Columns of a tile.
    columns: u32,
}

impl<'c> Reader<'_, 'c> {
    /// Emits a loop over the panels of a tile, by the number of the first column of each.
    fn for_each_panel(&self, e: &Emitter<'c>, mut body: impl FnMut(&Emitter<'c>, IntValue<'c>)) {
        let panels = self.columns / PANEL_COLUMNS;
        e.repeat(panels, vec![e.i32(0).into()], |e, state| {
            let column = state[0].into_int_value();
            body(e, column);
            vec![e.add_const(column, PANEL_COLUMNS).into()]
        });
    }

    /// Writes a tile whose sums in 64 columns, from one on, some function gives.
    fn write(
        &self,
        e: &Emitter<'c>,
        tile: &Tile<'c>,
        sums: impl Fn(&Emitter<'c>, IntValue<'c>) -> Vec<FloatValue<'c>>,
    ) {
        let kept = (&self.crew, self.scratch);
        self.for_each_panel(e, |e, column| {
            let sums = sums(e, column);
            // Both halves together fill an even number of buffers, so that every round starts with the same one.
            let mut buffers = self.writer.buffers();
            for (half, sums) in (0..).zip(sums.chunks(PANEL_SUMS)) {
                let place = (half * PANEL_ROWS, column);
                let part = self.writer.write_part(e, tile, place, (sums, &mut buffers));
                let column = e.add_const(column, half * self.columns);
                self.writer.keep_sums(e, kept, (&part, column));
            }
        });
        self.writer.finish_sums(e, kept, tile);
    }
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
            let address = e.add_const(address, (half * PANEL_ROWS) << LANE_SHIFT);
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
