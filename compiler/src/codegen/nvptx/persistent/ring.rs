//! The ring of stages between the producer and its readers, and the barriers that say what holds of each stage.
//!
//! Each stage has two barriers (PTX ISA, "mbarrier"). Its *full* barrier completes a phase when the producer has said how
//! many bytes come and they have come; its *empty* barrier when every reading warp has arrived. A phase's parity says
//! which one to wait for: readers start with 0, the producer with 1, which a fresh barrier counts as complete.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use crate::codegen::llvm::Emitter;

/// Bytes of a barrier.
const BARRIER_BYTES: u32 = 8;

/// The ring.
pub(in crate::codegen::nvptx) struct Ring<'c> {
    stages: u32,
    /// Shared address of the first stage's full barrier.
    full: IntValue<'c>,
    /// Shared address of the first stage's empty barrier.
    empty: IntValue<'c>,
}

/// A stage, and which phase of its barriers is meant.
#[derive(Clone, Copy)]
pub(in crate::codegen::nvptx) struct Turn<'c> {
    pub stage: IntValue<'c>,
    parity: IntValue<'c>,
}

impl<'c> Turn<'c> {
    /// The first turn of a block.
    pub(in crate::codegen::nvptx) fn first(e: &Emitter<'c>) -> Turn<'c> {
        Turn {
            stage: e.i32(0),
            parity: e.i32(0),
        }
    }

    pub(in crate::codegen::nvptx) fn values(self) -> Vec<IntValue<'c>> {
        vec![self.stage, self.parity]
    }

    pub(in crate::codegen::nvptx) fn of_values(values: &[IntValue<'c>]) -> Turn<'c> {
        Turn {
            stage: values[0],
            parity: values[1],
        }
    }

    pub(in crate::codegen::nvptx) fn of_basic_values(values: &[BasicValueEnum<'c>]) -> Turn<'c> {
        Turn {
            stage: values[0].into_int_value(),
            parity: values[1].into_int_value(),
        }
    }
}

impl<'c> Ring<'c> {
    /// A ring of so many stages whose barriers lie at an address in shared memory, full ones first.
    pub(in crate::codegen::nvptx) fn new(
        e: &Emitter<'c>,
        stages: u32,
        full: IntValue<'c>,
    ) -> Ring<'c> {
        Ring {
            stages,
            full,
            empty: e.add_const(full, stages * BARRIER_BYTES),
        }
    }

    /// Makes the barriers. One thread does, and the block waits for it.
    pub(in crate::codegen::nvptx) fn initialise(&self, e: &Emitter<'c>, readers: u32) {
        for (first, count) in [(self.full, 1), (self.empty, readers)] {
            for stage in 0..self.stages {
                let barrier = e.shared_pointer(e.add_const(first, stage * BARRIER_BYTES));
                let arguments = [barrier.into(), e.i32(count).into()];
                e.call("llvm.nvvm.mbarrier.init.shared", &[], &arguments);
            }
        }
        // The accelerator completes them.
        e.call("llvm.nvvm.fence.mbarrier_init.release.cluster", &[], &[]);
    }

    /// The turn after one.
    pub(in crate::codegen::nvptx) fn next(&self, e: &Emitter<'c>, turn: Turn<'c>) -> Turn<'c> {
        let next = e.add_const(turn.stage, 1);
        let wraps = e.compare(IntPredicate::EQ, next, e.i32(self.stages));
        Turn {
            stage: e.select_int(wraps, e.i32(0), next),
            parity: e.xor(turn.parity, e.zero_extend(wraps)),
        }
    }

    /// The turn so many after one.
    pub(in crate::codegen::nvptx) fn after(
        &self,
        e: &Emitter<'c>,
        turn: Turn<'c>,
        turns: u32,
    ) -> Turn<'c> {
        let sum = e.add_const(turn.stage, turns);
        let laps = e.and_const(e.div_const(sum, self.stages), 1);
        Turn {
            stage: e.rem_const(sum, self.stages),
            parity: e.xor(turn.parity, laps),
        }
    }

    /// The barrier that copies into a stage complete.
    pub(in crate::codegen::nvptx) fn full_barrier(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
    ) -> PointerValue<'c> {
        let offset = e.mul_const(stage, BARRIER_BYTES);
        e.shared_pointer(e.add(self.full, offset))
    }

    /// The barrier at which the readers of a stage arrive.
    pub(in crate::codegen::nvptx) fn empty_barrier(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
    ) -> PointerValue<'c> {
        let offset = e.mul_const(stage, BARRIER_BYTES);
        e.shared_pointer(e.add(self.empty, offset))
    }

    /// Waits until a stage is full.
    pub(in crate::codegen::nvptx) fn await_full(&self, e: &Emitter<'c>, turn: Turn<'c>) {
        await_phase(e, self.full_barrier(e, turn.stage), turn.parity);
    }

    /// Waits until a stage is empty.
    pub(in crate::codegen::nvptx) fn await_empty(&self, e: &Emitter<'c>, turn: Turn<'c>) {
        let parity = e.xor_const(turn.parity, 1);
        await_phase(e, self.empty_barrier(e, turn.stage), parity);
    }

    /// Says that one warp has read a stage. One lane says it for all.
    pub(in crate::codegen::nvptx) fn release(
        &self,
        e: &Emitter<'c>,
        lane: IntValue<'c>,
        stage: IntValue<'c>,
    ) {
        let barrier = self.empty_barrier(e, stage);
        let is_first = e.compare(IntPredicate::EQ, lane, e.i32(0));
        e.when(is_first, |e| {
            e.call(
                "llvm.nvvm.mbarrier.arrive.scope.cta.space.cta",
                &[],
                &[barrier.into(), e.i32(1).into()],
            );
        });
    }

    /// Says how many bytes a stage will get.
    pub(in crate::codegen::nvptx) fn expect(
        &self,
        e: &Emitter<'c>,
        stage: IntValue<'c>,
        bytes: u32,
    ) {
        e.call(
            "llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta",
            &[],
            &[self.full_barrier(e, stage).into(), e.i32(bytes).into()],
        );
    }
}

fn await_phase<'c>(e: &Emitter<'c>, barrier: PointerValue<'c>, parity: IntValue<'c>) {
    e.until(|e| {
        e.call_value(
            "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta",
            &[],
            &[barrier.into(), parity.into()],
        )
        .into_int_value()
    });
}
