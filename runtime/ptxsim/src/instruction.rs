//! Instructions as the runner takes them.

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// Line of the text, from 1.
    pub line: u32,
    /// The register that must be true, or false if the flag is set.
    pub guard: Option<(u32, bool)>,
    pub operation: Operation,
    pub operands: Vec<Operand>,
}

/// What an operand is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Register(u32),
    Immediate(u64),
    /// `%tid.x` and the like.
    Special(Special),
    /// `[base + offset]`
    Address(Box<Operand>, i64),
    /// `register+offset`, where no address is meant
    Sum(Box<Operand>, i64),
    /// `[map, {x, y}]`: a tensor map's address, and a place in its tensor.
    Tensor(Box<Operand>, Vec<Operand>),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// The index of an instruction.
    Label(usize),
    /// Where a parameter lies among the parameters.
    Parameter(u32),
    /// `_`: a result that nobody wants.
    Nothing,
}

/// Registers that the hardware fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread,
    Threads,
    Block,
    Blocks,
    /// The cluster, how many there are, the block's place in it, and how many it has.
    Cluster,
    Clusters,
    Rank,
    Ranks,
    Lane,
    Warp,
    /// The second and third index of a thread or block: launches have one dimension.
    Zero,
    /// The extents that go with them.
    One,
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Predicate,
    /// Bits without a meaning, and unsigned numbers.
    Unsigned,
    Signed,
    Float,
}

/// The type of a number and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub kind: Kind,
    pub bits: u32,
}

impl Type {
    /// The type that a suffix such as `u32` names, as far as it is modelled.
    pub(crate) fn parse(suffix: &str) -> Option<Type> {
        let (kind, digits) = match suffix {
            "pred" => {
                return Some(Type {
                    kind: Kind::Predicate,
                    bits: 1,
                });
            }
            _ if suffix.starts_with('u') || suffix.starts_with('b') => {
                (Kind::Unsigned, &suffix[1..])
            }
            _ if suffix.starts_with('s') => (Kind::Signed, &suffix[1..]),
            _ if suffix.starts_with('f') => (Kind::Float, &suffix[1..]),
            _ => return None,
        };
        let bits: u32 = digits.parse().ok()?;
        matches!(bits, 8 | 16 | 32 | 64).then_some(Type { kind, bits })
    }

    pub(crate) fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    /// The low bits.
    pub(crate) fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// A register's bits as a signed number.
    pub(crate) fn signed(self, value: u64) -> i64 {
        let shift = 64 - self.bits;
        ((value << shift) as i64) >> shift
    }
}

/// Instructions of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    MultiplyHigh,
    MultiplyWide,
    Divide,
    Remainder,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// Instructions of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Negate,
    Not,
    Absolute,
    PowerOfTwo,
    Reciprocal,
    HyperbolicTangent,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Conversions between types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Integer to integer.
    Integer { to: Type, from: Type },
    /// 16-bit element to single precision.
    Widen(Element),
    /// Single precision to a 16-bit element, to the nearest even.
    Narrow(Element),
    /// Two of them, the first operand in the high half.
    NarrowPair(Element),
    /// Single precision to tf32, to the nearest and ties away from zero.
    RoundToTf32,
}

/// Types of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
}

/// State spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Parameter,
    Global,
    Shared,
    /// Shared memory of any block of the cluster: the address says whose.
    Cluster,
    /// Global or shared: the address says which.
    Generic,
}

/// Addresses below this one are shared memory's.
const SHARED_END: u64 = 1 << 32;

impl Space {
    /// The space that an address lies in.
    pub(crate) fn of(self, address: u64) -> Space {
        match self {
            Space::Generic if address < SHARED_END => Space::Cluster,
            Space::Generic => Space::Global,
            space => space,
        }
    }
}

/// Who takes part in the order of a strong use of memory (PTX ISA, "Scope").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scope {
    Block = 1,
    Cluster = 2,
    /// The whole device, or more.
    Device = 3,
}

/// A strong use of memory (PTX ISA, "Memory Consistency Model").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strength {
    pub scope: Scope,
    pub acquires: bool,
    pub releases: bool,
}

/// What an atomic operation makes of the number that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// What an instruction of tensor memory does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorMemory {
    Allocate,
    Deallocate,
    /// `tcgen05.relinquish_alloc_permit`
    Relinquish,
    FenceBefore,
    FenceAfter,
    /// `tcgen05.mma` of 16-bit elements in shared memory
    Multiply,
    Commit,
    Load(Fragment),
    Store(Fragment),
    WaitForLoads,
    WaitForStores,
}

impl TensorMemory {
    /// Whether all lanes of a warp must execute it together.
    const fn is_collective(self) -> bool {
        !matches!(
            self,
            TensorMemory::FenceBefore
                | TensorMemory::FenceAfter
                | TensorMemory::Multiply
                | TensorMemory::Commit
        )
    }
}

/// What of tensor memory a warp moves at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub shape: FragmentShape,
    /// Registers of each lane.
    pub registers: u8,
}

/// How numbers in tensor memory go to registers (PTX ISA, "tcgen05.ld").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentShape {
    /// `.32x32b`
    Lanes32,
    /// `.16x128b`
    Lanes16Bits128,
    /// `.16x256b`
    Lanes16Bits256,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Move(Type),
    Binary(Binary, Type),
    Unary(Unary, Type),
    /// `a · b + c`: `mad.lo`, or `fma` for floats.
    MultiplyAdd(Type),
    /// `add` or `sub` of a 16-bit element and a single-precision number
    Mixed(Binary, Element),
    /// `fma` of two 16-bit elements and a single-precision number
    MixedMultiplyAdd(Element),
    ExtractBits(Type),
    Compare(Comparison, Type),
    Select(Type),
    Convert(Conversion),
    Load(Space, Type),
    Store(Space, Type),
    /// `atom`, or `red`, which gives nothing back.
    Atomic {
        space: Space,
        operation: Atomic,
        of: Type,
        strength: Strength,
        returns: bool,
    },
    /// `ld` that is volatile, relaxed or acquires.
    StrongLoad {
        space: Space,
        of: Type,
        strength: Strength,
    },
    /// `st` that is volatile, relaxed or releases.
    StrongStore {
        space: Space,
        of: Type,
        strength: Strength,
    },
    /// `fence` and `membar`
    Fence(Scope),
    /// `shfl.sync.bfly`
    Exchange,
    Branch,
    Return,
    /// `bar.sync`
    BlockBarrier,
    /// `bar.arrive`
    ArriveAtBarrier,
    /// `barrier.cluster.arrive`
    ArriveAtCluster {
        releases: bool,
        aligned: bool,
    },
    /// `barrier.cluster.wait`
    WaitForCluster {
        aligned: bool,
    },
    /// `mapa`
    MapAddress,
    /// `getctarank`
    RankOfAddress,
    WarpBarrier,
    /// `cvta.param`
    ParameterAddress,
    /// A hint that changes nothing.
    Hint,
    InitialiseBarrier,
    /// `mbarrier.arrive`
    Arrive,
    /// `mbarrier.arrive.expect_tx`, or, without the arrival, `mbarrier.expect_tx`.
    Expect {
        arrives: bool,
    },
    /// `mbarrier.try_wait.parity` or `test_wait.parity`
    TryWait,
    /// `fence.mbarrier_init`
    FenceBarriers,
    /// `fence.proxy.async`
    FenceProxy,
    /// `cp.async.bulk.tensor` from global to shared memory.
    LoadTensor {
        rank: u8,
        /// Whether it comes to all blocks of a mask.
        multicast: bool,
    },
    /// `cp.async.bulk.tensor` or `cp.reduce.async.bulk.tensor` from shared to global memory.
    StoreTensor {
        rank: u8,
        adds: bool,
    },
    CommitBulk,
    /// Waits until at most so many bulk groups are under way, or still read shared memory.
    WaitBulk {
        read: bool,
    },
    FenceProducts,
    CommitProducts,
    WaitProducts,
    MultiplyGroup {
        element: Element,
        columns: u16,
    },
    /// `elect.sync`
    Elect,
    /// `tcgen05`
    TensorMemory(TensorMemory),
    /// `setmaxnreg`
    SetRegisters {
        increases: bool,
    },
    CopyAsync,
    CommitCopies,
    /// Waits until at most so many groups are under way.
    WaitCopies,
    WaitAllCopies,
    LoadMatrix {
        count: u8,
        transposed: bool,
    },
    StoreMatrix {
        count: u8,
        transposed: bool,
    },
    MultiplyMatrix(Element),
    /// `mma.sync` of tf32 numbers.
    MultiplyTf32,
}

impl Operation {
    /// Whether all lanes of a warp must execute it together.
    pub(crate) const fn is_collective(self) -> bool {
        matches!(
            self,
            Operation::Exchange
                | Operation::BlockBarrier
                | Operation::WarpBarrier
                | Operation::LoadMatrix { .. }
                | Operation::StoreMatrix { .. }
                | Operation::MultiplyMatrix(_)
                | Operation::MultiplyTf32
                | Operation::ArriveAtBarrier
                | Operation::ArriveAtCluster { aligned: true, .. }
                | Operation::WaitForCluster { aligned: true }
                | Operation::FenceProducts
                | Operation::CommitProducts
                | Operation::WaitProducts
                | Operation::MultiplyGroup { .. }
                | Operation::SetRegisters { .. }
                | Operation::Elect
        ) || matches!(self, Operation::TensorMemory(operation) if operation.is_collective()
        )
    }

    /// Whether it is a strong use of memory.
    pub(crate) const fn is_strong(self) -> bool {
        matches!(
            self,
            Operation::Atomic { .. } | Operation::StrongLoad { .. } | Operation::StrongStore { .. }
        )
    }

    /// Whether other clusters can hear of it: a strong use of global memory.
    pub(crate) const fn is_heard_by_others(self) -> bool {
        match self {
            Operation::Atomic { space, .. }
            | Operation::StrongLoad { space, .. }
            | Operation::StrongStore { space, .. } => {
                matches!(space, Space::Global | Space::Generic)
            }
            _ => false,
        }
    }
}
