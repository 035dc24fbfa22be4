//! Which blocks are resident at a time, and what does not fit at all.

use raddle_ptxsim::{Argument, Error, FindingKind, Launch, Memory, Module, Outcome};

/// Every block but the last waits for the one after it.
const CHAIN: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 flags) {
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<20>;
    ld.param.b64 %rd1, [flags];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd2, %rd1, %rd2;
    add.s32 %r3, %r1, 1;
    setp.eq.u32 %p1, %r3, %r2;
    @%p1 bra $L_raise;
$L_wait:
    ld.acquire.gpu.global.b32 %r4, [%rd2+4];
    setp.eq.u32 %p2, %r4, 0;
    @%p2 bra $L_wait;
$L_raise:
    mov.b32 %r5, 1;
    st.release.gpu.global.b32 [%rd2], %r5;
    ret;
}";

fn run(text: &str, change: impl Fn(&mut Launch)) -> Result<Outcome, Error> {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::new();
    let flags = memory.allocate(vec![0; 4096]);
    let mut launch = Launch {
        blocks: 8,
        arguments: vec![Argument::Pointer(flags)],
        ..Launch::default()
    };
    change(&mut launch);
    module.kernels()[0].run(&mut memory, &launch)
}

#[test]
fn a_block_that_waits_for_one_that_cannot_start_is_a_deadlock() {
    // 64 KiB each: two fit on a multiprocessor of 164 KiB.
    let fits = |multiprocessors| {
        move |launch: &mut Launch| {
            launch.shared_bytes = 65536;
            launch.multiprocessors = Some(multiprocessors);
        }
    };
    let outcome = run(CHAIN, fits(4)).unwrap();
    assert_eq!(outcome.findings, []);
    let residency = outcome.residency;
    assert_eq!(
        (residency.blocks, residency.limit, residency.clusters),
        (2, "shared memory", 8)
    );
    let outcome = run(CHAIN, fits(3)).unwrap();
    assert_eq!(outcome.findings[0].kind, FindingKind::Deadlock);
    let text = outcome.findings[0].to_string();
    assert!(
        text.contains("warp 0 waits for global memory at 0x")
            && text.contains(
                "2 of 8 blocks have not started: 3 multiprocessors hold 2 each, by their shared memory"
            ),
        "{text}"
    );
    // Another order of the blocks lets one of them start that others wait for, but not all.
    let seeded = run(CHAIN, |launch| {
        fits(3)(launch);
        launch.seed = 3;
    });
    let seeded = seeded.unwrap();
    assert!(seeded.findings.is_empty() || seeded.findings[0].kind == FindingKind::Deadlock);
    // The other way round nobody waits for one that starts later.
    let down = CHAIN
        .replace("add.s32 %r3, %r1, 1;", "mov.b32 %r3, %r1;")
        .replace("setp.eq.u32 %p1, %r3, %r2", "setp.eq.u32 %p1, %r3, 0")
        .replace("[%rd2+4]", "[%rd2+-4]");
    assert_eq!(run(&down, fits(1)).unwrap().findings, []);
}

#[test]
fn occupancy_follows_the_limits() {
    let of = |change: fn(&mut Launch)| {
        let residency = run(CHAIN, change).unwrap().residency;
        (residency.blocks, residency.limit)
    };
    assert_eq!(of(|_| ()), (32, "blocks"));
    assert_eq!(of(|launch| launch.threads = 256), (8, "threads"));
    assert_eq!(
        of(|launch| (launch.threads, launch.registers) = (256, Some(128))),
        (2, "registers")
    );
    assert_eq!(
        of(|launch| launch.shared_bytes = 30000),
        (5, "shared memory")
    );
    let bounded = CHAIN.replace("flags) {", "flags) .reqntid 128, 1, 1 .maxnreg 168 {");
    let residency = run(&bounded, |launch| launch.threads = 128)
        .unwrap()
        .residency;
    assert_eq!((residency.blocks, residency.limit), (3, "registers"));
    assert_eq!(run(CHAIN, |_| ()).unwrap().residency.multiprocessors, 108);
    let later = CHAIN.replace("sm_80", "sm_90a");
    assert_eq!(run(&later, |_| ()).unwrap().residency.multiprocessors, 132);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |text: &str, change: fn(&mut Launch)| match run(text, change) {
        Err(Error::Launch(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(refused(CHAIN, |launch| launch.shared_bytes = 170_000).contains("sm_80 has 166912"));
    assert!(refused(CHAIN, |launch| launch.registers = Some(256)).contains("at most 255"));
    assert!(
        refused(CHAIN, |launch| {
            (launch.threads, launch.registers) = (1024, Some(72));
        })
        .contains("no cluster")
    );
    assert!(
        refused(CHAIN, |launch| launch.multiprocessors = Some(0))
            .contains("no cluster of 1 blocks fits")
    );
    let declared = CHAIN.replace(".visible", ".shared .align 4 .b8 much[50000];\n.visible");
    assert!(refused(&declared, |_| ()).contains("more than 49152"));
    let few = CHAIN.replace("flags) {", "flags) .maxntid 64 {");
    assert!(refused(&few, |launch| launch.threads = 96).contains("at most 64"));
    let required = CHAIN.replace("flags) {", "flags) .reqntid 64 {");
    assert!(refused(&required, |launch| launch.threads = 32).contains("requires 64"));
    let resident = CHAIN.replace("flags) {", "flags) .maxntid 1024 .minnctapersm 3 {");
    assert!(refused(&resident, |launch| launch.threads = 1024).contains("shall hold 3"));
    let grouped = CHAIN.replace("flags) {", "flags) .reqnctapercluster 4 {");
    assert!(refused(&grouped, |_| ()).contains("the kernel requires 4"));
}
