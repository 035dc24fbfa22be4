//! What a thread asks about itself, and how the lanes of a warp wait for each other.

use inkwell::values::IntValue;

use crate::codegen::llvm::Emitter;

/// A special register, such as `tid.x`.
pub(super) fn special<'c>(e: &Emitter<'c>, name: &str) -> IntValue<'c> {
    e.call_value(&format!("llvm.nvvm.read.ptx.sreg.{name}"), &[], &[])
        .into_int_value()
}

/// The lanes of a warp wait for each other, and see what the others wrote to shared memory.
pub(super) fn warp_barrier(e: &Emitter<'_>) {
    e.call("llvm.nvvm.bar.warp.sync", &[], &[e.i32(u32::MAX).into()]);
}
