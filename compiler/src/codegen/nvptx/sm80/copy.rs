//! One operand's way from global to shared memory.
//!
//! The threads of a block share a tile's chunks: thread `t` takes chunks `t`, `t + threads`, … in line order. What a
//! chunk has beyond the operand's extents is written as zeros, so that the main loop multiplies whole tiles.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use crate::codegen::contraction::{Major, Operand};
use crate::codegen::llvm::Emitter;
use crate::codegen::tiling::{CopyPath, OperandTile, Swizzle, TileSchedule};

/// A thread's share of the copies of one operand.
pub(super) struct TileCopy<'c> {
    tile: OperandTile,
    /// Chunks per thread.
    passes: u32,
    /// Lines from one pass to the next.
    line_step: u32,
    /// Bytes of global memory from one line to the next.
    leading_bytes: u64,
    /// Where this thread's first chunk of the first tile lies.
    start: PointerValue<'c>,
    /// An address that can always be read.
    anchor: PointerValue<'c>,
    /// The thread's line in the first pass.
    line: IntValue<'c>,
    /// The thread's first element within a line.
    first: IntValue<'c>,
    /// Shared address of each pass's chunk in the first stage.
    destinations: Vec<IntValue<'c>>,
    /// Elements that the operand's outer extent leaves, per pass, at most a chunk's; `None` where that is always all.
    by_outer: Vec<Option<IntValue<'c>>>,
    /// Whether the depth's extent divides into chunks.
    whole_chunks_in_depth: bool,
}

/// What one operand's copies are made of.
pub(super) struct CopySource<'c> {
    pub operand: Operand,
    pub tile: OperandTile,
    /// The kernel's parameter.
    pub pointer: PointerValue<'c>,
    /// The block's first row or column.
    pub origin: IntValue<'c>,
    /// The block's share of the depth, if there are several.
    pub split: Option<IntValue<'c>>,
    /// Shared address of the tile in the first stage.
    pub destination: IntValue<'c>,
}

/// Elements on their way through registers: the shared address to store them at, and the packed value.
pub(super) struct Pending<'c> {
    address: IntValue<'c>,
    value: BasicValueEnum<'c>,
}

impl<'c> TileCopy<'c> {
    pub(super) fn emit(
        e: &Emitter<'c>,
        source: &CopySource<'c>,
        thread: IntValue<'c>,
        schedule: &TileSchedule,
    ) -> Self {
        let CopySource { operand, tile, .. } = *source;
        let chunks = tile.chunks_per_line();
        let passes = tile.lines * chunks / schedule.threads();
        let line_step = schedule.threads() / chunks;
        let line = e.div_const(thread, chunks);
        let chunk = e.rem_const(thread, chunks);
        let first = e.mul_const(chunk, tile.chunk_elements());
        // A single line has no neighbours; what a tile has beyond it must still have an aligned address.
        let stride = if operand.lines() > 1 {
            operand.leading
        } else {
            0
        };
        let leading_bytes = stride * u64::from(operand.element.bytes());

        let (outer_line, outer_first) = match operand.major {
            Major::Depth => (e.add(source.origin, line), first),
            Major::Outer => (line, e.add(source.origin, first)),
        };
        let element_bytes = u64::from(operand.element.bytes());
        let line_offset = e.mul(e.widen(outer_line), e.i64(leading_bytes));
        let first_offset = e.mul(e.widen(outer_first), e.i64(element_bytes));
        let anchor = e.offset(source.pointer, e.i64(operand.offset * element_bytes));
        let start = e.offset(e.offset(anchor, line_offset), first_offset);

        let mut copy = TileCopy {
            tile,
            passes,
            line_step,
            leading_bytes,
            start,
            anchor,
            line,
            first,
            destinations: Vec::new(),
            by_outer: Vec::new(),
            whole_chunks_in_depth: operand.depth % u64::from(tile.chunk_elements()) == 0,
        };
        if let Some(split) = source.split {
            let share_bytes = e.i64(copy.tile_step_bytes() * u64::from(schedule.depth_tiles));
            copy.start = e.offset(copy.start, e.mul(e.widen(split), share_bytes));
        }
        copy.destinations = copy.place_destinations(e, source.destination, chunk);
        copy.by_outer = (0..passes)
            .map(|pass| copy.outer_share(e, source, pass))
            .collect();
        copy
    }

    /// Where the first tile's copies start; [`TileCopy::advance`] moves on by one tile.
    pub(super) fn start(&self) -> PointerValue<'c> {
        self.start
    }

    /// The pointer for the tile after.
    pub(super) fn advance(&self, e: &Emitter<'c>, pointer: PointerValue<'c>) -> PointerValue<'c> {
        e.offset(pointer, e.i64(self.tile_step_bytes()))
    }

    /// Bytes of global memory from one tile to the next along the depth.
    fn tile_step_bytes(&self) -> u64 {
        match self.tile.major {
            Major::Depth => u64::from(self.tile.line_bytes),
            Major::Outer => u64::from(self.tile.lines) * self.leading_bytes,
        }
    }

    /// Starts the copies of one tile into the stage that lies `stage` bytes after the first. `depth_left` counts the
    /// terms from the tile's first to the last of the sum. What passes through registers is returned, to be stored by
    /// [`store`] before the barrier that ends the round.
    pub(super) fn issue(
        &self,
        e: &Emitter<'c>,
        pointer: PointerValue<'c>,
        stage: IntValue<'c>,
        depth_left: IntValue<'c>,
    ) -> Vec<Pending<'c>> {
        let by_depth = self.depth_share(e, depth_left);
        let mut pending = Vec::new();
        for pass in 0..self.passes {
            let count = self.share(e, pass, by_depth, depth_left);
            let lines = u64::from(pass * self.line_step);
            let source = e.offset(pointer, e.i64(lines * self.leading_bytes));
            let address = e.add(stage, self.destinations[pass as usize]);
            match self.tile.copy {
                CopyPath::Async(bytes) => self.issue_async(e, source, address, (bytes, count)),
                CopyPath::Registers => pending.push(Pending {
                    address,
                    value: self.gather(e, source, count),
                }),
            }
        }
        pending
    }

    fn issue_async(
        &self,
        e: &Emitter<'c>,
        source: PointerValue<'c>,
        address: IntValue<'c>,
        (bytes, count): (u32, Option<IntValue<'c>>),
    ) {
        // 16 bytes may bypass the first-level cache; narrower copies cannot.
        let name = match bytes {
            16 => "llvm.nvvm.cp.async.cg.shared.global.16".to_owned(),
            _ => format!("llvm.nvvm.cp.async.ca.shared.global.{bytes}"),
        };
        let to = e.shared_pointer(address).into();
        match count {
            None => e.call(&name, &[], &[to, source.into()]),
            Some(count) => {
                let valid = e.mul_const(count, self.tile.element.bytes());
                e.call(
                    &format!("{name}.s"),
                    &[],
                    &[to, source.into(), valid.into()],
                )
            }
        };
    }

    /// Loads a chunk element by element, and packs it. Elements beyond `count` are zero, and read from an address that
    /// is always valid.
    fn gather(
        &self,
        e: &Emitter<'c>,
        source: PointerValue<'c>,
        count: Option<IntValue<'c>>,
    ) -> BasicValueEnum<'c> {
        let short = e.context().i16_type();
        let bytes = self.tile.element.bytes();
        let halves: Vec<IntValue<'c>> = (0..self.tile.chunk_elements())
            .map(|index| {
                let address = e.offset(source, e.i64(u64::from(index * bytes)));
                let Some(count) = count else {
                    return e.load_constant(short, address, bytes).into_int_value();
                };
                let valid = e.compare(IntPredicate::UGT, count, e.i32(index));
                let address = e.select(valid, address, self.anchor).into_pointer_value();
                let value = e.load_constant(short, address, bytes).into_int_value();
                e.select_int(valid, value, short.const_zero())
            })
            .collect();
        let words: Vec<BasicValueEnum<'c>> = halves
            .chunks(2)
            .map(|pair| {
                let (low, high) = (e.zero_extend(pair[0]), e.zero_extend(pair[1]));
                e.or(low, e.shl_const(high, 16)).into()
            })
            .collect();
        e.vector(&words).into()
    }

    /// Shared addresses of the chunks, pass by pass, in the first stage.
    fn place_destinations(
        &self,
        e: &Emitter<'c>,
        tile: IntValue<'c>,
        chunk: IntValue<'c>,
    ) -> Vec<IntValue<'c>> {
        let swizzle = self.tile.swizzle();
        let parts = 16 / self.tile.copy.chunk_bytes();
        let wide = e.div_const(chunk, parts);
        let part = e.mul_const(e.rem_const(chunk, parts), self.tile.copy.chunk_bytes());
        let permuted = e.xor(wide, permutation(e, swizzle, self.line));
        let base = e.add(
            e.add(tile, e.mul_const(self.line, self.tile.line_bytes)),
            part,
        );
        (0..self.passes)
            .map(|pass| {
                // A pass starts at a multiple of the step, and the step is a power of two above every line of the
                // first pass, so the permutation of the sum of both is the XOR of their permutations.
                let lines = pass * self.line_step;
                let position = e.xor_const(permuted, swizzle.of_line(lines));
                let address = e.add(base, e.shl_const(position, 4));
                e.add_const(address, lines * self.tile.line_bytes)
            })
            .collect()
    }

    /// Elements of a pass's chunk that lie within the outer extent.
    fn outer_share(
        &self,
        e: &Emitter<'c>,
        source: &CopySource<'c>,
        pass: u32,
    ) -> Option<IntValue<'c>> {
        if !self.tile.ragged_outer {
            return None;
        }
        let extent = e.i32(source.operand.outer as u32);
        let chunk = self.tile.chunk_elements();
        match self.tile.major {
            Major::Depth => {
                let line = e.add_const(e.add(source.origin, self.line), pass * self.line_step);
                let inside = e.compare(IntPredicate::ULT, line, extent);
                Some(e.select_int(inside, e.i32(chunk), e.i32(0)))
            }
            Major::Outer => {
                let first = e.add(source.origin, self.first);
                let whole = source.operand.outer.is_multiple_of(u64::from(chunk));
                Some(clamped_difference(e, extent, first, (chunk, whole)))
            }
        }
    }

    /// Elements of this thread's chunks that lie within the depth, where lines run along it.
    fn depth_share(&self, e: &Emitter<'c>, depth_left: IntValue<'c>) -> Option<IntValue<'c>> {
        let along = self.tile.ragged_depth && self.tile.major == Major::Depth;
        along.then(|| {
            let whole = (self.tile.chunk_elements(), self.whole_chunks_in_depth);
            clamped_difference(e, depth_left, self.first, whole)
        })
    }

    /// Elements of a pass's chunk that lie within both extents; `None` if that is always all.
    fn share(
        &self,
        e: &Emitter<'c>,
        pass: u32,
        by_depth: Option<IntValue<'c>>,
        depth_left: IntValue<'c>,
    ) -> Option<IntValue<'c>> {
        let by_outer = self.by_outer[pass as usize];
        match self.tile.major {
            Major::Depth => match (by_outer, by_depth) {
                (None, by_depth) => by_depth,
                (by_outer, None) => by_outer,
                (Some(by_outer), Some(by_depth)) => {
                    let outside = e.compare(IntPredicate::EQ, by_outer, e.i32(0));
                    Some(e.select_int(outside, e.i32(0), by_depth))
                }
            },
            Major::Outer if self.tile.ragged_depth => {
                let line = e.add_const(self.line, pass * self.line_step);
                let inside = e.compare(IntPredicate::ULT, line, depth_left);
                let all = by_outer.unwrap_or_else(|| e.i32(self.tile.chunk_elements()));
                Some(e.select_int(inside, all, e.i32(0)))
            }
            Major::Outer => by_outer,
        }
    }
}

/// What the number of a chunk in this line is XORed with.
pub(super) fn permutation<'c>(
    e: &Emitter<'c>,
    swizzle: Swizzle,
    line: IntValue<'c>,
) -> IntValue<'c> {
    let kept = e.and_const(e.shr_const(line, swizzle.shift), swizzle.mask);
    e.shl_const(kept, swizzle.doubled)
}

/// Stores what went through registers.
pub(super) fn store<'c>(e: &Emitter<'c>, pending: &[Pending<'c>]) {
    for chunk in pending {
        e.store(e.shared_pointer(chunk.address), chunk.value, 16);
    }
}

/// `extent − first`, at least 0 and at most `chunk`; only those two occur if `whole`.
fn clamped_difference<'c>(
    e: &Emitter<'c>,
    extent: IntValue<'c>,
    first: IntValue<'c>,
    (chunk, whole): (u32, bool),
) -> IntValue<'c> {
    let inside = e.compare(IntPredicate::ULT, first, extent);
    if whole {
        return e.select_int(inside, e.i32(chunk), e.i32(0));
    }
    let difference = e.sub(extent, first);
    let short = e.compare(IntPredicate::ULT, difference, e.i32(chunk));
    let clamped = e.select_int(short, difference, e.i32(chunk));
    e.select_int(inside, clamped, e.i32(0))
}
