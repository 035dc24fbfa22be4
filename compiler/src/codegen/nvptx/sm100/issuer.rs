//! The warp that starts products.
//!
//! The whole warp walks over the tiles and waits, so that what it knows is the same in all its lanes; one lane starts
//! the products and says what shall happen when they are complete.

use inkwell::values::{BasicValueEnum, IntValue};

use super::{Shared, fence_after};
use crate::codegen::contraction::Major;
use crate::codegen::description::ElementType;
use crate::codegen::llvm::Emitter;
use crate::codegen::nvptx::persistent::Turn;
use crate::codegen::warpgroup_tiling::{LINE_BYTES, STAGE_DEPTH};

/// Terms of one `tcgen05.mma` with 16-bit elements.
const STEP: u32 = 16;

/// Descriptors count in units of 16 bytes.
const UNIT: u32 = 16;

/// Bytes of 64 lines: a box, and 64 rows of an operand whose lines run along the depth.
const BLOCK_BYTES: u32 = 64 * LINE_BYTES;

/// A shared memory descriptor of this architecture (PTX ISA, "Shared memory descriptor": bits 46 to 48 are 1) for chunks
/// permuted over 128 bytes (bits 61 to 63 are 2).
const SWIZZLE_128: u64 = 1 << 46 | 2 << 61;

/// Arguments of the intrinsic: `.kind::f16`, `.cta_group::1`, and the left operand is not kept for the next product.
const KIND_F16: u32 = 0;
const ONE_BLOCK: u32 = 1;
const DISCARD: u32 = 0;

/// Emits the warp's loop.
pub(super) fn emit<'c>(e: &Emitter<'c>, shared: &Shared<'_, 'c>) {
    let kernel = shared.kernel;
    let schedule = kernel.schedule;
    let start = shared.thread.shared;
    let right = e.add_const(start, schedule.left_bytes());
    let issuer = Issuer {
        shared,
        left: descriptor(e, start, schedule.left),
        right: descriptor(e, right, schedule.right),
        instruction: instruction(shared),
    };
    let mut state = Turn::first(e).values();
    state.extend(Turn::first(e).values());
    kernel.for_each_tile(e, state, |e, _, state| {
        let (turn, accumulator) = (Turn::of_values(&state), Turn::of_values(&state[2..]));
        let mut state = issuer.multiply(e, turn, accumulator).values();
        state.extend(shared.accumulators.next(e, accumulator).values());
        state
    });
}

struct Issuer<'l, 'c> {
    shared: &'l Shared<'l, 'c>,
    /// Descriptors of the operands' first terms in the first stage.
    left: IntValue<'c>,
    right: IntValue<'c>,
    /// The instruction descriptor.
    instruction: u32,
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

/// The instruction descriptor (PTX ISA, "Instruction descriptor", table for `.kind::f16`): single-precision sums, the
/// elements' type, the order of both operands, and how many columns and rows there are.
fn instruction(shared: &Shared<'_, '_>) -> u32 {
    let schedule = shared.kernel.schedule;
    let element = match shared.kernel.contraction.left.element {
        ElementType::F16 => 0,
        _ => 1,
    };
    let outer = |major| u32::from(major == Major::Outer);
    1 << 4
        | element << 7
        | element << 10
        | outer(schedule.left) << 15
        | outer(schedule.right) << 16
        | (schedule.columns / 8) << 17
        | (schedule.rows / 16) << 24
}

/// Descriptor units from one step's terms to the next one's.
const fn step_units(major: Major) -> u32 {
    match major {
        Major::Depth => STEP * 2 / UNIT,
        Major::Outer => STEP * LINE_BYTES / UNIT,
    }
}

impl<'c> Issuer<'_, 'c> {
    /// Starts the products of one tile, and gives the turn after its last stage.
    fn multiply(&self, e: &Emitter<'c>, first: Turn<'c>, accumulator: Turn<'c>) -> Turn<'c> {
        let Shared {
            kernel,
            stages,
            accumulators,
            ..
        } = self.shared;
        accumulators.await_empty(e, accumulator);
        let column = e.mul_const(accumulator.stage, kernel.schedule.columns);
        let sums = e.add(self.shared.tensor_memory, column);
        let mut state: Vec<BasicValueEnum<'c>> = vec![e.boolean(false).into()];
        state.extend(first.values().into_iter().map(BasicValueEnum::from));
        let state = e.repeat(kernel.schedule.depth_tiles, state, |e, state| {
            let adds = state[0].into_int_value();
            let turn = Turn::of_basic_values(&state[1..]);
            stages.await_full(e, turn);
            fence_after(e);
            e.when(e.elected(), |e| {
                self.products(e, turn.stage, (sums, adds));
                commit(e, stages.empty_barrier(e, turn.stage).into());
            });
            let next = stages.next(e, turn).values();
            let mut state = vec![e.boolean(true).into()];
            state.extend(next.into_iter().map(BasicValueEnum::from));
            state
        });
        e.when(e.elected(), |e| {
            commit(e, accumulators.full_barrier(e, accumulator.stage).into());
        });
        Turn::of_basic_values(&state[1..])
    }

    /// Starts one stage's products; the first replaces the sums so far or adds to them.
    fn products(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
        (sums, adds): (IntValue<'c>, IntValue<'c>),
    ) {
        let schedule = self.shared.kernel.schedule;
        let units = e.widen(e.mul_const(stage, schedule.stage_bytes() / UNIT));
        let (left, right) = (e.add(self.left, units), e.add(self.right, units));
        for step in 0..STAGE_DEPTH / STEP {
            let further = |major| e.i64((step * step_units(major)).into());
            let arguments: [BasicValueEnum<'c>; 8] = [
                e.tensor_pointer(sums).into(),
                e.add(left, further(schedule.left)).into(),
                e.add(right, further(schedule.right)).into(),
                e.i32(self.instruction).into(),
                if step == 0 { adds } else { e.boolean(true) }.into(),
                e.i32(KIND_F16).into(),
                e.i32(ONE_BLOCK).into(),
                e.i32(DISCARD).into(),
            ];
            e.call("llvm.nvvm.tcgen05.mma.shared", &[], &arguments);
        }
    }
}

/// A barrier gets an arrival when all products that the thread has started are complete.
fn commit<'c>(e: &Emitter<'c>, barrier: BasicValueEnum<'c>) {
    e.call("llvm.nvvm.tcgen05.commit.shared.cg1", &[], &[barrier]);
}
