//! What is wrong with a run.

use std::fmt;

/// A fault that a run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which kind.
    pub kind: FindingKind,
    /// Where.
    pub place: Place,
    /// What exactly.
    pub message: String,
}

/// Where in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line of the PTX, from 1.
    pub line: u32,
    /// The block.
    pub block: u32,
    /// The thread in the block; the first one concerned.
    pub thread: u32,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// An access beyond an allocation. The block ends there.
    OutOfBounds,
    /// An access at an address that is not a multiple of its size. The block ends there.
    Misaligned,
    /// A value was used that nobody wrote.
    Uninitialised,
    /// Two threads used the same shared memory, one of them to write, with no barrier between them.
    Race,
    /// Shared memory, tensor memory or registers were used while an asynchronous operation on them was under way.
    InFlight,
    /// An asynchronous operation uses what threads wrote, with no fence that lets it see that: `fence.proxy.async` for
    /// shared memory, `wgmma.fence` for registers, `tcgen05.fence` on both sides of a barrier for tensor memory.
    Fence,
    /// A barrier in shared memory is used before it is made, or by more arrivals than it expects. The block ends there.
    Barrier,
    /// Threads wait for each other for ever, or run without end. The block ends there.
    Deadlock,
    /// A product in tf32 takes numbers that were not rounded to it: the hardware cuts bits off.
    Unrounded,
    /// Tensor memory is taken, used or given back against its rules. The block ends there.
    TensorMemory,
    /// A descriptor has bits that the instruction does not take. The block ends there.
    Descriptor,
    /// Shared memory of a block that has ended, or may have, is used by another block of the cluster. The block ends there.
    Ended,
    /// An instruction that a whole warp must execute together was reached by a part of it. The block ends there.
    Divergence,
}

impl FindingKind {
    /// Whether the block cannot go on.
    pub const fn ends_block(self) -> bool {
        matches!(
            self,
            FindingKind::OutOfBounds
                | FindingKind::Misaligned
                | FindingKind::Deadlock
                | FindingKind::Divergence
                | FindingKind::Barrier
                | FindingKind::TensorMemory
                | FindingKind::Descriptor
                | FindingKind::Ended
        )
    }

    const fn name(self) -> &'static str {
        match self {
            FindingKind::OutOfBounds => "out of bounds",
            FindingKind::Misaligned => "misaligned",
            FindingKind::Uninitialised => "uninitialised",
            FindingKind::Race => "race",
            FindingKind::InFlight => "under way",
            FindingKind::Fence => "missing fence",
            FindingKind::Barrier => "barrier",
            FindingKind::Deadlock => "deadlock",
            FindingKind::Ended => "ended",
            FindingKind::Unrounded => "not rounded",
            FindingKind::TensorMemory => "tensor memory",
            FindingKind::Descriptor => "descriptor",
            FindingKind::Divergence => "divergence",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            line,
            block,
            thread,
        } = self.place;
        let (kind, message) = (self.kind.name(), &self.message);
        write!(
            f,
            "line {line}: {kind}: {message} (block {block}, thread {thread})"
        )
    }
}
