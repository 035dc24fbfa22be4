//! What sm_100a does in tensor memory: taking columns, moving numbers, products, and all that must be waited for.

mod memory;
#[path = "../operand_layout/mod.rs"]
mod operand_layout;
mod products;

use raddle_ptxsim::{Argument, Delivery, FindingKind, Launch, Memory, Module, Outcome};

const DELIVERIES: [Delivery; 2] = [Delivery::Eager, Delivery::Late];

/// What every kernel here starts with: the addresses of its two allocations in %rd1 and %rd2, the thread's number in %r1 and
/// four times it in %rd5, predicates for thread 0 and for the first warp, and 64 columns of tensor memory, whose address is in
/// %r2. At %rd6 shared memory starts.
const HEAD: &str = "
.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 space[];
.visible .entry kernel(.param .u64 from, .param .u64 to) {
    .reg .pred %p<20>;
    .reg .b32 %r<400>;
    .reg .b64 %rd<40>;
    ld.param.b64 %rd1, [from];
    ld.param.b64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 4;
    mov.b64 %rd6, space;
    setp.eq.u32 %p1, %r1, 0;
    setp.lt.u32 %p2, %r1, 32;
    @!%p2 bra $L_taken;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space+65536], 64;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    $L_taken: @%p1 mbarrier.init.shared.b64 [space+65544], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r2, [space+65536];
";

/// How they end: everyone is done before the first warp gives the columns back.
const TAIL: &str = "
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p2 bra $L_end;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;
    $L_end: ret;
}
";

/// The barrier that every kernel here has.
const BARRIER: &str = "[space+65544]";

fn run_text(text: &str, from: &[u8], delivery: Delivery) -> (Outcome, Vec<u8>) {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = Memory::new();
    let from = memory.allocate(from.to_vec());
    let to = memory.allocate(vec![0; 128 * 256]);
    let launch = Launch {
        blocks: 1,
        threads: 128,
        shared_bytes: 65536 + 64,
        arguments: vec![Argument::Pointer(from), Argument::Pointer(to)],
        delivery,
        ..Launch::default()
    };
    let kernel = module.kernel("kernel").unwrap();
    let outcome = kernel.run(&mut memory, &launch).unwrap();
    (outcome, memory.bytes(to).to_vec())
}

fn run(body: &str, from: &[u8], delivery: Delivery) -> (Outcome, Vec<u8>) {
    run_text(&format!("{HEAD}{body}{TAIL}"), from, delivery)
}

/// The kinds of what is found in a whole kernel, changed.
fn kinds(
    body: &str,
    from: &[u8],
    (old, new): (&str, &str),
    delivery: Delivery,
) -> Vec<FindingKind> {
    let text = format!("{HEAD}{body}{TAIL}");
    assert!(text.contains(old), "{old}");
    let (outcome, _) = run_text(&text.replace(old, new), from, delivery);
    outcome
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// `%r100, %r101, …`
fn registers(count: usize) -> String {
    let names: Vec<String> = (100..100 + count)
        .map(|number| format!("%r{number}"))
        .collect();
    names.join(", ")
}

/// Writes so many registers, those of a number for all threads after each other.
fn write_registers(count: usize) -> String {
    let writes = (0..count).map(|index| {
        let (at, register) = (index * 512, 100 + index);
        format!("st.global.b32 [%rd9+{at}], %r{register};\n")
    });
    format!("add.s64 %rd9, %rd2, %rd5;\n{}", writes.collect::<String>())
}
