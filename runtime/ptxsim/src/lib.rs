//! Runs PTX without a GPU, and looks for what a GPU would not tell.
//!
//! A module is parsed, its memory is laid out, and a launch runs block after block, whole warps at a time, with lanes
//! that diverge and meet again. While it runs, every access is checked: bounds, alignment, bytes that nobody wrote,
//! shared memory that two threads use without a barrier between them, asynchronous copies that are used before they are
//! waited for. Copies arrive at once, or, on request, as late as the waits allow.
//!
//! ```
//! use raddle_ptxsim::{Argument, Delivery, Launch, Memory, Module};
//!
//! let ptx = "
//!     .version 7.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry double(.param .u64 data) {
//!         .reg .b32 %r<3>;
//!         .reg .b64 %rd<4>;
//!         ld.param.b64 %rd1, [data];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         ld.global.b32 %r2, [%rd3];
//!         shl.b32 %r2, %r2, 1;
//!         st.global.b32 [%rd3], %r2;
//!         ret;
//!     }";
//! let module = Module::parse(ptx)?;
//! let mut memory = Memory::new();
//! let data = memory.allocate((0u32..32).flat_map(u32::to_le_bytes).collect());
//! let launch = Launch {
//!     blocks: 1,
//!     threads: 32,
//!     arguments: vec![Argument::Pointer(data)],
//!     delivery: Delivery::Late,
//!     ..Launch::default()
//! };
//! let outcome = module.kernel("double").unwrap().run(&mut memory, &launch)?;
//! assert!(outcome.findings.is_empty());
//! assert_eq!(memory.bytes(data)[4..8], 2u32.to_le_bytes());
//! # Ok::<(), raddle_ptxsim::Error>(())
//! ```
//!
//! # Finding a fault
//!
//! Here a thread reads what its neighbour wrote, with no barrier between them. The GPU that runs it may well give the right
//! numbers.
//!
//! ```
//! use raddle_ptxsim::{FindingKind, Launch, Memory, Module};
//!
//! let ptx = "
//!     .version 7.0
//!     .target sm_80
//!     .address_size 64
//!     .shared .align 4 .b8 words[256];
//!     .visible .entry neighbours() {
//!         .reg .b32 %r<9>;
//!         mov.u32 %r1, %tid.x;
//!         shl.b32 %r2, %r1, 2;
//!         mov.b32 %r3, words;
//!         add.s32 %r4, %r3, %r2;
//!         st.shared.b32 [%r4], %r1;
//!         xor.b32 %r5, %r2, 128;
//!         add.s32 %r5, %r3, %r5;
//!         ld.shared.b32 %r6, [%r5];
//!         ret;
//!     }";
//! let launch = Launch {
//!     threads: 64,
//!     ..Launch::default()
//! };
//! let run = |ptx: &str| {
//!     let outcome = Module::parse(ptx)?.kernels()[0].run(&mut Memory::new(), &launch)?;
//!     Ok::<_, raddle_ptxsim::Error>(outcome.findings)
//! };
//! let findings = run(ptx)?;
//! assert!(findings.iter().any(|finding| finding.kind == FindingKind::Race));
//! println!("{}", findings[0]);
//! assert!(run(&ptx.replace("xor", "bar.sync 0; xor"))?.is_empty());
//! # Ok::<(), raddle_ptxsim::Error>(())
//! ```
//!
//! # What is modelled
//!
//! - integer and single-precision arithmetic, predicates, global and shared memory, `shfl`, `elect.sync`;
//! - barriers of a block and of a warp, the named ones too; barriers in shared memory (`mbarrier`);
//! - atomic operations on integers, loads and stores with an order, fences: races between blocks on global memory are
//!   found by vector clocks, whatever the order in which they run;
//! - clusters: each other's shared memory, their barrier, arrivals at each other's barriers, copies to several blocks;
//! - `cp.async`; bulk copies of boxes of tensor maps both ways, with every swizzle, zeros for what lies outside, and
//!   addition of single-precision numbers; bulk groups;
//! - `ldmatrix`, `stmatrix`, `mma.sync` of 16-bit elements and of tf32 numbers; `wgmma` of 16-bit elements from shared memory, with every swizzle and both orders;
//! - tensor memory: taking and giving back of columns, `tcgen05.mma.kind::f16` of 128 rows from shared memory, with every swizzle
//!   and both orders, `tcgen05.commit`, `ld`, `st`, their waits and the fences;
//! - the generic and the asynchronous proxy with the fences between them; `setmaxnreg` as far as it makes warps wait;
//! - how many blocks are resident at a time, by shared memory, registers, threads and the number of multiprocessors.
//!
//! Anything else is refused with its name and line, never ignored. Approximate functions (`tanh.approx`, `ex2.approx`,
//! `rcp.approx`) give the correctly rounded value; `mma.sync` adds the exact products and rounds once; `wgmma` and `tcgen05.mma` round to
//! single precision after a few additions. Time is not modelled.
//!
//! Results and findings are the same every time, and do not depend on the host's threads. Blocks run side by side on all of
//! them; `examples/speed.rs` measures how fast one of them is.

mod agents;
mod clock;
mod error;
mod finding;
mod global;
mod instruction;
mod memory;
mod parse;
mod readers;
mod record;
mod run;
mod shared;
mod tensor_map;
mod user;
mod word;

pub use error::Error;
pub use finding::{Finding, FindingKind, Place};
pub use memory::{Memory, Pointer};
pub use parse::{Kernel, Module};
pub use run::{Argument, Counters, Delivery, Launch, Outcome, Residency};
pub use tensor_map::{Swizzle, TensorMap};
