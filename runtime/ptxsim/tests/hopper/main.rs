//! What sm_90a does beside its threads: barriers in shared memory, copies of boxes, products of warpgroups.

mod barriers;
mod copies;
#[path = "../operand_layout/mod.rs"]
mod operand_layout;
mod products;

use raddle_ptxsim::{
    Argument, Delivery, FindingKind, Launch, Memory, Module, Outcome, Pointer, Swizzle, TensorMap,
};

const DELIVERIES: [Delivery; 2] = [Delivery::Eager, Delivery::Late];

/// What every kernel here starts with: the addresses of its two allocations in %rd1 and %rd2, of its two tensor maps in
/// %rd3 and %rd4, the thread's number in %r1, and a predicate for thread 0.
const HEAD: &str = "
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 space[];
.visible .entry kernel(.param .u64 from, .param .u64 to, .param .align 64 .b8 first[128],
    .param .align 64 .b8 second[128]) .maxnreg 64 {
    .reg .pred %p<20>;
    .reg .b32 %r<400>;
    .reg .b64 %rd<40>;
    ld.param.b64 %rd1, [from];
    ld.param.b64 %rd2, [to];
    mov.b64 %rd3, first;
    cvta.param.u64 %rd3, %rd3;
    mov.b64 %rd4, second;
    cvta.param.u64 %rd4, %rd4;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 4;
    mov.b64 %rd6, space;
    setp.eq.u32 %p1, %r1, 0;
";

/// Where kernels here put their barrier.
const BARRIER: u32 = 32768;

struct Setting {
    threads: u32,
    from: Vec<u8>,
    /// Bytes of the second allocation, zero at first.
    to: usize,
    /// A tensor map of each allocation.
    maps: [fn(Pointer) -> TensorMap; 2],
}

fn run(body: &str, setting: &Setting, delivery: Delivery) -> (Outcome, Vec<u8>) {
    let text = format!("{HEAD}{body}\n    ret;\n}}\n");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = Memory::new();
    let from = memory.allocate(setting.from.clone());
    let to = memory.allocate(vec![0; setting.to]);
    let launch = Launch {
        blocks: 1,
        threads: setting.threads,
        shared_bytes: BARRIER + 64,
        arguments: vec![
            Argument::Pointer(from),
            Argument::Pointer(to),
            Argument::TensorMap((setting.maps[0])(from)),
            Argument::TensorMap((setting.maps[1])(to)),
        ],
        delivery,
        ..Launch::default()
    };
    let kernel = module.kernel("kernel").unwrap();
    let outcome = kernel.run(&mut memory, &launch).unwrap();
    (outcome, memory.bytes(to).to_vec())
}

fn kinds(body: &str, setting: &Setting, delivery: Delivery) -> Vec<FindingKind> {
    let (outcome, _) = run(body, setting, delivery);
    let kinds = outcome.findings.iter().map(|finding| finding.kind);
    kinds.collect()
}

/// 20 words a line, 6 lines, boxes of so many words by 8 lines.
fn map(pointer: Pointer, words: u32, swizzle: Swizzle) -> TensorMap {
    TensorMap {
        pointer,
        offset_bytes: 0,
        element_bytes: 4,
        extents: vec![20, 6],
        strides_bytes: vec![80],
        box_extents: vec![words, 8],
        swizzle,
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

fn plain(threads: u32) -> Setting {
    Setting {
        threads,
        from: (1..=120u32).flat_map(u32::to_le_bytes).collect(),
        to: 4096,
        maps: [
            |pointer| map(pointer, 32, Swizzle::Bytes128),
            |pointer| map(pointer, 32, Swizzle::Bytes128),
        ],
    }
}
