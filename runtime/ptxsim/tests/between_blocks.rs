//! Blocks that hear of each other through global memory, and those that should have.

use raddle_ptxsim::{Argument, Delivery, FindingKind, Launch, Memory, Module, Outcome};

const BLOCKS: u32 = 6;
const THREADS: u32 = 64;

/// Every block writes a part for each of its threads; the block that comes last adds them up.
const LAST_BLOCK_SUMS: &str = "
.version 7.0
.target sm_80
.address_size 64
.shared .align 4 .b8 flag[4];
.visible .entry kernel(.param .u64 parts, .param .u64 counter, .param .u64 sums) {
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<20>;
    ld.param.b64 %rd1, [parts];
    ld.param.b64 %rd2, [counter];
    ld.param.b64 %rd3, [sums];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %nctaid.x;
    mad.lo.s32 %r4, %r2, 64, %r1;
    mul.wide.u32 %rd4, %r4, 4;
    add.s64 %rd4, %rd1, %rd4;
    add.s32 %r5, %r4, 1000;
    st.global.b32 [%rd4], %r5;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $L_counted;
    fence.acq_rel.gpu;
    atom.relaxed.gpu.global.add.u32 %r6, [%rd2], 1;
    fence.acq_rel.gpu;
    st.shared.b32 [flag], %r6;
$L_counted:
    bar.sync 0;
    ld.shared.b32 %r7, [flag];
    add.s32 %r8, %r3, -1;
    setp.ne.u32 %p2, %r7, %r8;
    @%p2 bra $L_end;
    mov.b32 %r9, 0;
    mov.b32 %r10, 0;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd6, %rd1, %rd5;
$L_next:
    ld.global.b32 %r11, [%rd6];
    add.s32 %r9, %r9, %r11;
    add.s64 %rd6, %rd6, 256;
    add.s32 %r10, %r10, 1;
    setp.lt.u32 %p3, %r10, %r3;
    @%p3 bra $L_next;
    add.s64 %rd7, %rd3, %rd5;
    st.global.b32 [%rd7], %r9;
$L_end:
    ret;
}";

/// Runs a kernel with memory for parts, a counter and sums.
fn run(text: &str, delivery: Delivery, seed: u64) -> (Outcome, Vec<u32>) {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::new();
    let parts = memory.allocate_uninitialised((BLOCKS * THREADS * 4) as usize);
    let counter = memory.allocate(vec![0; 64]);
    let sums = memory.allocate(vec![0; (THREADS * 4) as usize]);
    let launch = Launch {
        blocks: BLOCKS,
        threads: THREADS,
        arguments: [parts, counter, sums].map(Argument::Pointer).to_vec(),
        delivery,
        seed,
        ..Launch::default()
    };
    let outcome = module.kernels()[0].run(&mut memory, &launch).unwrap();
    let words = memory.bytes(sums).chunks(4);
    let words = words.map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    (outcome, words.collect())
}

fn kinds(text: &str) -> Vec<FindingKind> {
    let (outcome, _) = run(text, Delivery::Late, 0);
    outcome
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn expected_sums() -> Vec<u32> {
    let sum = |thread| (0..BLOCKS).map(|block| block * 64 + thread + 1000).sum();
    (0..THREADS).map(sum).collect()
}

#[test]
fn the_last_block_may_sum_what_others_released() {
    let fused = LAST_BLOCK_SUMS
        .replace("fence.acq_rel.gpu;", "")
        .replace("atom.relaxed.gpu", "atom.acq_rel.gpu");
    let older = LAST_BLOCK_SUMS
        .replace("fence.acq_rel.gpu;", "membar.gl;")
        .replace("atom.relaxed.gpu.global", "atom.global");
    let everyone = LAST_BLOCK_SUMS.replace(
        "    bar.sync 0;\n    setp.ne",
        "    fence.sc.gpu;\n    bar.sync 0;\n    setp.ne",
    );
    for text in [LAST_BLOCK_SUMS, &fused, &older, &everyone] {
        for seed in 0..4 {
            for delivery in [Delivery::Eager, Delivery::Late] {
                let (outcome, sums) = run(text, delivery, seed);
                assert_eq!(outcome.findings, [], "{text}");
                assert_eq!(sums, expected_sums());
            }
        }
    }
}

#[test]
fn what_is_missing_between_blocks_is_a_race() {
    let replaced = |from: &str, to: &str| {
        assert!(LAST_BLOCK_SUMS.contains(from), "{from}");
        LAST_BLOCK_SUMS.replace(from, to)
    };
    let atom = "    atom.relaxed.gpu";
    for (what, text) in [
        ("no fences", replaced("fence.acq_rel.gpu;", "")),
        (
            "no fence before",
            replaced(&format!("    fence.acq_rel.gpu;\n{atom}"), atom),
        ),
        (
            "no fence after",
            replaced("    fence.acq_rel.gpu;\n    st.shared", "    st.shared"),
        ),
        (
            "fences for the block only",
            replaced("fence.acq_rel.gpu", "fence.acq_rel.cta"),
        ),
        (
            "only a release",
            replaced("fence.acq_rel.gpu;", "").replace("relaxed.gpu", "release.gpu"),
        ),
        (
            "only an acquire",
            replaced("fence.acq_rel.gpu;", "").replace("relaxed.gpu", "acquire.gpu"),
        ),
        (
            "an atomic of the block",
            replaced("fence.acq_rel.gpu;", "").replace("relaxed.gpu", "acq_rel.cta"),
        ),
        (
            "no barrier before the count",
            replaced("    bar.sync 0;\n    setp.ne", "    setp.ne"),
        ),
        (
            "no count",
            replaced(
                "atom.relaxed.gpu.global.add.u32 %r6, [%rd2], 1;",
                "mov.b32 %r6, 5;",
            ),
        ),
    ] {
        let (outcome, _) = run(&text, Delivery::Late, 0);
        let found = |kind| outcome.findings.iter().any(|one| one.kind == kind);
        assert!(found(FindingKind::Race), "{what}: {:?}", outcome.findings);
        // The report is the same every time.
        for _ in 0..3 {
            assert_eq!(
                run(&text, Delivery::Late, 0).0.findings,
                outcome.findings,
                "{what}"
            );
        }
    }
    // The finding says whose use it is.
    let (outcome, _) = run(&replaced("fence.acq_rel.gpu;", ""), Delivery::Eager, 0);
    let text = outcome.findings[0].to_string();
    assert!(
        text.starts_with(
            "line 39: race: global memory at offset 0 of allocation 0 is read with no order"
        ) && text.contains("thread 0 of block 0 (block 5, thread 0)"),
        "{text}"
    );
}

#[test]
fn blocks_that_never_hear_of_each_other_share_nothing() {
    let head = LAST_BLOCK_SUMS.split("    bar.sync").next().unwrap();
    let own = format!("{head} ld.global.b32 %r6, [%rd4]; ret; }}");
    assert_eq!(kinds(&own), []);
    // Thread 1 reads what thread 0 wrote, in its own block.
    let neighbour = format!(
        "{head} add.s64 %rd5, %rd4, 4; setp.eq.u32 %p1, %r1, 0; @%p1 ld.global.b32 %r6, [%rd5]; ret; }}"
    );
    assert_eq!(kinds(&neighbour), [FindingKind::Race]);
    let waited = neighbour.replace("setp.eq", "bar.sync 0; setp.eq");
    assert_eq!(kinds(&waited), []);
    // All blocks write one word; all read it, and one writes.
    let one = format!("{head} st.global.b32 [%rd2], %r1; ret; }}");
    assert_eq!(kinds(&one), [FindingKind::Race]);
    let read = format!(
        "{head} ld.global.b32 %r6, [%rd2]; setp.eq.u32 %p1, %r4, 200; @%p1 st.global.b32 [%rd2], %r1; ret; }}"
    );
    assert_eq!(kinds(&read), [FindingKind::Race]);
}

#[test]
fn atomics_compute_what_they_say() {
    // Every thread of every block does the same to one word.
    let head = LAST_BLOCK_SUMS.split("    bar.sync").next().unwrap();
    let count = BLOCKS * THREADS;
    for (operation, start, expected) in [
        ("red.global.add.u32 [%rd3], 3;", 5, 5 + 3 * count),
        (
            "atom.global.add.s32 %r9, [%rd3], -1;",
            5,
            5u32.wrapping_sub(count),
        ),
        ("atom.global.max.u32 %r9, [%rd3], %r4;", 5, count - 1),
        ("atom.global.min.s32 %r9, [%rd3], -7;", 5, -7i32 as u32),
        ("atom.global.max.s32 %r9, [%rd3], -7;", 5, 5),
        ("red.global.min.u32 [%rd3], %r4;", 5, 0),
        ("atom.global.and.b32 %r9, [%rd3], 6;", 5, 4),
        ("atom.global.or.b32 %r9, [%rd3], %r4;", 512, 512 + 511),
        ("atom.global.inc.u32 %r9, [%rd3], 99;", 0, count % 100),
        ("atom.relaxed.sys.global.cas.b32 %r9, [%rd3], 5, 8;", 5, 8),
        ("atom.global.cas.b32 %r9, [%rd3], 6, 8;", 5, 5),
        ("red.global.xor.b32 [%rd3], 1;", 5, 5),
    ] {
        let text = format!("{head} {operation} ret; }}");
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{operation}: {error}"));
        let mut memory = Memory::new();
        let parts = memory.allocate_uninitialised((count * 4) as usize);
        let word = memory.allocate(u32::to_le_bytes(start).to_vec());
        let launch = Launch {
            blocks: BLOCKS,
            threads: THREADS,
            arguments: [parts, parts, word].map(Argument::Pointer).to_vec(),
            ..Launch::default()
        };
        let outcome = module.kernels()[0].run(&mut memory, &launch).unwrap();
        assert_eq!(outcome.findings, [], "{operation}");
        assert_eq!(memory.bytes(word), expected.to_le_bytes(), "{operation}");
    }
    for unknown in [
        "atom.global.add.f32 %r9, [%rd3], 0f00000000;",
        "red.global.add.noftz.bf16x2 [%rd3], %r9;",
        "atom.global.add.b32 %r9, [%rd3], 1;",
        "red.global.exch.b32 [%rd3], 1;",
        "atom.global.cas.b16 %r9, [%rd3], 1, 2;",
    ] {
        assert!(Module::parse(&format!("{head} {unknown} ret; }}")).is_err());
    }
}

/// Blocks pass a number on, each to the next, through flags that they wait for.
const CHAIN: &str = "
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $L_end;
    setp.eq.u32 %p2, %r2, 0;
    mov.b32 %r9, 7;
    @%p2 bra $L_pass;
$L_wait:
    ld.acquire.gpu.global.b32 %r9, [%rd2];
    setp.ne.u32 %p3, %r9, %r2;
    @%p3 bra $L_wait;
    ld.global.b32 %r9, [%rd3];
$L_pass:
    add.s32 %r9, %r9, 1;
    st.global.b32 [%rd3], %r9;
    add.s32 %r10, %r2, 1;
    st.release.gpu.global.b32 [%rd2], %r10;
$L_end:
    ret;
}";

#[test]
fn blocks_wait_for_flags() {
    let head = LAST_BLOCK_SUMS.split("    bar.sync").next().unwrap();
    let text = format!("{head}{CHAIN}");
    for seed in 0..3 {
        let (outcome, sums) = run(&text, Delivery::Late, seed);
        assert_eq!(outcome.findings, [], "seed {seed}");
        assert_eq!(sums[0], 7 + BLOCKS);
    }
    for (from, to) in [
        ("ld.acquire.gpu", "ld.relaxed.gpu"),
        ("st.release.gpu", "st.relaxed.gpu"),
        ("ld.acquire.gpu.global", "ld.volatile.global"),
        ("st.release.gpu", "st.release.cta"),
    ] {
        assert!(
            kinds(&text.replace(from, to)).contains(&FindingKind::Race),
            "{to}"
        );
    }
    // A flag that nobody raises.
    let never = text.replace("add.s32 %r10, %r2, 1;", "add.s32 %r10, %r2, 2;");
    let (outcome, _) = run(&never, Delivery::Late, 0);
    assert_eq!(outcome.findings[0].kind, FindingKind::Deadlock);
    let message = &outcome.findings[0].message;
    assert!(
        message.contains("warp 0 waits for global memory at 0x"),
        "{message}"
    );
}

#[test]
fn shared_memory_has_atomics_and_locks_too() {
    let head = LAST_BLOCK_SUMS
        .split("    bar.sync")
        .next()
        .unwrap()
        .replace("flag[4]", "flag[16]");
    // Every thread counts; every warp's first lane takes a lock and adds to a word without an atomic.
    let body = "
        setp.ne.u32 %p1, %r1, 0;
        mov.b32 %r9, 0;
        @!%p1 st.shared.v4.b32 [flag], {%r9, %r9, %r9, %r9};
        bar.sync 0;
        atom.shared.add.u32 %r10, [flag], 1;
        and.b32 %r11, %r1, 31;
        setp.ne.u32 %p2, %r11, 0;
        @%p2 bra $L_met;
    $L_lock:
        atom.acquire.cta.shared.cas.b32 %r12, [flag+4], 0, 1;
        setp.ne.u32 %p3, %r12, 0;
        @%p3 bra $L_lock;
        ld.shared.b32 %r13, [flag+8];
        add.s32 %r13, %r13, 5;
        st.shared.b32 [flag+8], %r13;
        atom.release.cta.shared.exch.b32 %r14, [flag+4], 0;
    $L_met:
        bar.sync 0;
        ld.shared.b32 %r15, [flag];
        ld.shared.b32 %r16, [flag+8];
        add.s32 %r15, %r15, %r16;
        setp.ne.u32 %p4, %r4, 0;
        @%p4 bra $L_end;
        st.global.b32 [%rd3], %r15;
    $L_end: ret;
    }";
    let text = format!("{head}{body}");
    let (outcome, sums) = run(&text, Delivery::Late, 1);
    assert_eq!(outcome.findings, []);
    assert_eq!(sums[0], THREADS + 10);
    for (from, to) in [
        ("atom.acquire.cta.shared", "atom.relaxed.cta.shared"),
        ("atom.release.cta.shared", "atom.relaxed.cta.shared"),
    ] {
        assert!(
            kinds(&text.replace(from, to)).contains(&FindingKind::Race),
            "{to}"
        );
    }
    let locked = text.replace("exch.b32 %r14, [flag+4], 0", "exch.b32 %r14, [flag+4], 1");
    assert_eq!(kinds(&locked), [FindingKind::Deadlock]);
}
