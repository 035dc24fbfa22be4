//! The consumers: warpgroups that multiply what the producer brings, and write the result.
//!
//! `wgmma` reads both operands from shared memory while the warps go on. A consumer keeps one stage's products under way
//! while it starts the next one's; when it has started those, it waits for the former and gives their stage back. Between
//! the first product of a tile and the last wait, nothing else touches the sums' registers.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use crate::codegen::contraction::Major;
use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::parts::{Barrier, Crew};
use crate::codegen::nvptx::persistent::{Kernel, Ring, Thread, Turn, Writer};
use crate::codegen::warpgroup_tiling::{
    LINE_BYTES, PANEL_ROWS, STAGE_DEPTH, WARPGROUP_ROWS, WARPGROUP_THREADS, WarpgroupSchedule,
};

/// The named barrier of all consumers; 0 is the whole block's, 1 that of the warps that add up columns.
const CREW_BARRIER: u32 = 2;

/// Terms of one `wgmma` with 16-bit elements.
const STEP: u32 = 16;

/// Descriptors count in units of 16 bytes.
const UNIT: u32 = 16;

/// Bytes of 64 lines: a box, and 64 rows of an operand whose lines run along the depth.
const BLOCK_BYTES: u32 = 64 * LINE_BYTES;

/// Bits of a matrix descriptor for chunks permuted over 128 bytes (PTX ISA, "Matrix descriptor format").
const SWIZZLE_128: u64 = 1 << 62;

/// Emits the consumers' loop.
pub(super) fn emit<'c>(e: &Emitter<'c>, kernel: &Kernel<'_>, thread: &Thread<'c>, ring: &Ring<'c>) {
    let schedule = kernel.schedule;
    let group = e.shr_const(thread.warp, 2);
    let group_start = e.mul_const(group, schedule.group_rows() * LINE_BYTES);
    let right = e.add_const(thread.shared, schedule.left_bytes());
    let consumer = Consumer {
        schedule,
        element: kernel.contraction.left.element,
        left: descriptor(e, e.add(thread.shared, group_start), schedule.left),
        right: descriptor(e, right, schedule.right),
        ring,
        lane: thread.lane,
    };
    let within_group = e.mul_const(e.and_const(thread.warp, 3), PANEL_ROWS);
    let warp_row = e.add(e.mul_const(group, schedule.group_rows()), within_group);
    let writer = Writer::emit(e, kernel, thread, warp_row);
    let threads = schedule.groups * WARPGROUP_THREADS;
    let crew = Crew {
        barrier: Barrier::Named {
            number: CREW_BARRIER,
            threads,
        },
        threads,
        thread: e.add(e.shl_const(thread.warp, 5), thread.lane),
        flag: e.add_const(thread.shared, schedule.flags_start()),
    };
    let start = Turn::first(e).values();
    kernel.for_each_tile(e, start, |e, tile, turn| {
        let (sums, turn) = consumer.multiply(e, Turn::of_values(&turn));
        match tile.split {
            None => writer.write(e, tile, (&crew, &sums)),
            Some(split) => {
                let part = (tile.number, split);
                kernel.parts().share_tile(e, &crew, part, &sums, |e, sums| {
                    writer.write(e, tile, (&crew, sums));
                });
            }
        }
        turn.values()
    });
    writer.finish(e);
}

struct Consumer<'l, 'c> {
    schedule: &'l WarpgroupSchedule,
    element: ElementType,
    /// Descriptors of the operands' first terms in the first stage.
    left: IntValue<'c>,
    right: IntValue<'c>,
    ring: &'l Ring<'c>,
    lane: IntValue<'c>,
}

/// The descriptor of a tile in shared memory. In both layouts eight lines make a pattern of 1024 bytes; those that follow
/// each other along the lines' number are 1024 bytes apart, those that follow each other along the lines a box.
fn descriptor<'c>(e: &Emitter<'c>, address: IntValue<'c>, major: Major) -> IntValue<'c> {
    let (leading, stride) = match major {
        // Lines are no longer than the pattern, so the first is not used.
        Major::Depth => (1, 8 * LINE_BYTES / UNIT),
        Major::Outer => (BLOCK_BYTES / UNIT, 8 * LINE_BYTES / UNIT),
    };
    let constant = SWIZZLE_128 | u64::from(leading) << 16 | u64::from(stride) << 32;
    e.or(e.widen(e.shr_const(address, 4)), e.i64(constant))
}

/// Descriptor units from one step's terms to the next one's.
const fn step_units(major: Major) -> u32 {
    match major {
        Major::Depth => STEP * 2 / UNIT,
        Major::Outer => STEP * LINE_BYTES / UNIT,
    }
}

impl<'c> Consumer<'_, 'c> {
    /// Multiplies one tile. The sums of each block of 64 rows come one after the other.
    fn multiply(&self, e: &Emitter<'c>, first: Turn<'c>) -> (Vec<FloatValue<'c>>, Turn<'c>) {
        let schedule = self.schedule;
        self.ring.await_full(e, first);
        let sums = self.products(e, first.stage, None);
        let mut state: Vec<BasicValueEnum<'c>> = sums.into_iter().map(Into::into).collect();
        state.extend(first.values().into_iter().map(BasicValueEnum::from));
        let count = state.len() - 2;
        let state = e.repeat(schedule.depth_tiles - 1, state, |e, state| {
            let last = Turn::of_basic_values(&state[count..]);
            let turn = self.ring.next(e, last);
            self.ring.await_full(e, turn);
            let sums = state[..count].iter().map(|sum| sum.into_float_value());
            let sums = self.products(e, turn.stage, Some(sums.collect()));
            let under_way = [e.i64(1).into()];
            e.call("llvm.nvvm.wgmma.wait_group.sync.aligned", &[], &under_way);
            self.ring.release(e, self.lane, last.stage);
            let mut state: Vec<BasicValueEnum<'c>> = sums.into_iter().map(Into::into).collect();
            state.extend(turn.values().into_iter().map(BasicValueEnum::from));
            state
        });
        let last = Turn::of_basic_values(&state[count..]);
        let sums = self.await_products(e, &state[..count]);
        self.ring.release(e, self.lane, last.stage);
        (sums, self.ring.next(e, last))
    }

    /// Starts one stage's products; without sums so far, they start from zero.
    fn products(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
        sums: Option<Vec<FloatValue<'c>>>,
    ) -> Vec<FloatValue<'c>> {
        let schedule = self.schedule;
        let units = e.widen(e.mul_const(stage, schedule.stage_bytes() / UNIT));
        let (left, right) = (e.add(self.left, units), e.add(self.right, units));
        let per_block = (schedule.columns / 2) as usize;
        let blocks = schedule.group_rows() / WARPGROUP_ROWS;
        let mut results = Vec::with_capacity(per_block * blocks as usize);
        e.call("llvm.nvvm.wgmma.fence.sync.aligned", &[], &[]);
        for block in 0..blocks {
            let mut block_sums: Option<Vec<FloatValue<'c>>> = sums
                .as_ref()
                .map(|sums| sums[block as usize * per_block..][..per_block].to_vec());
            for step in 0..STAGE_DEPTH / STEP {
                let further = block * BLOCK_BYTES / UNIT + step * step_units(schedule.left);
                let left = e.add(left, e.i64(further.into()));
                let right = e.add(right, e.i64((step * step_units(schedule.right)).into()));
                block_sums = Some(self.product(e, (left, right), block_sums.as_deref()));
            }
            results.extend(block_sums.into_iter().flatten());
        }
        e.call("llvm.nvvm.wgmma.commit_group.sync.aligned", &[], &[]);
        results
    }

    /// One `wgmma`.
    fn product(
        &self,
        e: &Emitter<'c>,
        (left, right): (IntValue<'c>, IntValue<'c>),
        sums: Option<&[FloatValue<'c>]>,
    ) -> Vec<FloatValue<'c>> {
        let columns = self.schedule.columns;
        let count = columns / 2;
        let registers: Vec<String> = (0..count).map(|index| format!("${index}")).collect();
        let operands = count + sums.map_or(0, |sums| sums.len() as u32);
        let outer = |major| u32::from(major == Major::Outer);
        let text = format!(
            "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{element}.{element} {{{registers}}}, ${operands}, ${next}, {adds}, 1, 1, {left}, {right};",
            element = self.element,
            registers = registers.join(", "),
            next = operands + 1,
            adds = u32::from(sums.is_some()),
            left = outer(self.schedule.left),
            right = outer(self.schedule.right),
        );
        let mut constraints = vec!["=f".to_owned(); count as usize];
        let mut arguments: Vec<BasicValueEnum<'c>> = Vec::new();
        if let Some(sums) = sums {
            constraints.extend((0..count).map(|index| index.to_string()));
            arguments.extend(sums.iter().map(|&sum| BasicValueEnum::from(sum)));
        }
        constraints.extend(["l".to_owned(), "l".to_owned()]);
        arguments.extend([BasicValueEnum::from(left), right.into()]);
        let types = vec![BasicTypeEnum::from(e.f32_type()); count as usize];
        e.assembly((text, constraints.join(",")), &types, &arguments)
            .into_iter()
            .map(BasicValueEnum::into_float_value)
            .collect()
    }

    /// Waits for all products. The sums pass through the wait, so that nothing uses them before.
    fn await_products(&self, e: &Emitter<'c>, sums: &[BasicValueEnum<'c>]) -> Vec<FloatValue<'c>> {
        let sums: Vec<FloatValue<'c>> = sums.iter().map(|sum| sum.into_float_value()).collect();
        e.pass_through("wgmma.wait_group.sync.aligned 0;", &sums)
    }
}
