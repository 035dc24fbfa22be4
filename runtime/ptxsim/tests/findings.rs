//! Faults that a run must find, each beside the same kernel without it.

use raddle_ptxsim::{Argument, Delivery, Error, FindingKind, Launch, Memory, Module, Outcome};

const HEAD: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 space[];
.visible .entry kernel(.param .u64 .ptr .global .align 16 from, .param .u64 .ptr .global .align 16 to) {
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<20>;
    ld.param.b64 %rd1, [from];
    ld.param.b64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    mov.b64 %rd6, space;
    add.s64 %rd7, %rd6, %rd3;
    xor.b32 %r2, %r1, 32;
    mul.wide.u32 %rd8, %r2, 4;
    add.s64 %rd9, %rd6, %rd8;
";

/// Runs a body with 64 threads, an input of 64 words and an output of as many.
fn run(body: &str, delivery: Delivery) -> (Outcome, Vec<u32>) {
    let text = format!("{HEAD}{body}\n    ret;\n}}\n");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::new();
    let from = memory.allocate((100u32..164).flat_map(u32::to_le_bytes).collect());
    let to = memory.allocate_uninitialised(256);
    let launch = Launch {
        blocks: 1,
        threads: 64,
        shared_bytes: 512,
        arguments: vec![Argument::Pointer(from), Argument::Pointer(to)],
        delivery,
        ..Launch::default()
    };
    let outcome = module
        .kernel("kernel")
        .unwrap()
        .run(&mut memory, &launch)
        .unwrap();
    let words = memory.bytes(to).chunks(4);
    let words = words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    (outcome, words)
}

fn kinds(body: &str, delivery: Delivery) -> Vec<FindingKind> {
    let (outcome, _) = run(body, delivery);
    outcome
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

/// The words of the input, each from the thread 32 further on or back.
fn swapped() -> Vec<u32> {
    (0..64).map(|thread| 100 + (thread ^ 32)).collect()
}

#[test]
fn a_missing_barrier_is_a_race() {
    let with = "ld.global.b32 %r3, [%rd4]; st.shared.b32 [%rd7], %r3; bar.sync 0;
        ld.shared.b32 %r4, [%rd9]; st.global.b32 [%rd5], %r4;";
    let (outcome, words) = run(with, Delivery::Eager);
    assert_eq!(outcome.findings, []);
    assert_eq!(words, swapped());
    let without = with.replace("bar.sync 0;", "");
    // The first warp reads what the second has not written; the second writes what the first has read, and reads what the
    // first wrote.
    assert_eq!(
        kinds(&without, Delivery::Eager),
        [
            FindingKind::Uninitialised,
            FindingKind::Race,
            FindingKind::Race
        ]
    );
    // A barrier of a warp does not order two warps.
    let weaker = with.replace("bar.sync 0;", "bar.warp.sync -1;");
    assert!(kinds(&weaker, Delivery::Eager).contains(&FindingKind::Race));
}

#[test]
fn reuse_before_everyone_has_read_is_a_race() {
    let with = "ld.global.b32 %r3, [%rd4]; st.shared.b32 [%rd7], %r3; bar.sync 0;
        ld.shared.b32 %r4, [%rd9]; bar.sync 0; st.shared.b32 [%rd7], %r4; st.global.b32 [%rd5], %r4;";
    assert_eq!(kinds(with, Delivery::Eager), []);
    let without = with.replace("[%rd9]; bar.sync 0;", "[%rd9];");
    assert_eq!(kinds(&without, Delivery::Eager), [FindingKind::Race]);
}

#[test]
fn lanes_of_a_warp_need_its_barrier() {
    let with = "xor.b32 %r5, %r1, 1; mul.wide.u32 %rd10, %r5, 4; add.s64 %rd11, %rd6, %rd10;
        st.shared.b32 [%rd7], %r1; bar.warp.sync -1; ld.shared.b32 %r4, [%rd11]; st.global.b32 [%rd5], %r4;";
    assert_eq!(kinds(with, Delivery::Eager), []);
    let without = with.replace("bar.warp.sync -1;", "");
    assert_eq!(kinds(&without, Delivery::Eager), [FindingKind::Race]);
}

const COPY: &str = "cp.async.ca.shared.global [%rd7], [%rd4], 4; cp.async.commit_group;
    cp.async.wait_group 0; bar.sync 0; ld.shared.b32 %r4, [%rd9]; st.global.b32 [%rd5], %r4;";

#[test]
fn copies_arrive_with_either_delivery() {
    for delivery in [Delivery::Eager, Delivery::Late] {
        let (outcome, words) = run(COPY, delivery);
        assert_eq!(outcome.findings, []);
        assert_eq!(outcome.counters.copies, 64);
        assert_eq!(words, swapped());
    }
}

#[test]
fn a_wait_for_too_few_copies_is_found_with_either_delivery() {
    let body = COPY.replace("wait_group 0", "wait_group 1");
    for delivery in [Delivery::Eager, Delivery::Late] {
        assert_eq!(kinds(&body, delivery), [FindingKind::InFlight]);
    }
    // Late copies also give wrong numbers: none has arrived.
    assert_eq!(run(&body, Delivery::Eager).1, swapped());
    assert_eq!(run(&body, Delivery::Late).1, vec![u32::MAX; 64]);
}

#[test]
fn a_copy_that_was_awaited_needs_a_barrier_still() {
    let body = COPY.replace("bar.sync 0;", "");
    assert!(kinds(&body, Delivery::Late).contains(&FindingKind::Race));
}

#[test]
fn a_short_copy_fills_with_zeros_and_reads_no_more() {
    // The last thread's word lies beyond the input, and is not read.
    let body = "setp.eq.b32 %p1, %r1, 63; selp.b32 %r6, 0, 4, %p1; add.s64 %rd12, %rd4, 4;
        cp.async.ca.shared.global [%rd7], [%rd12], 4, %r6; cp.async.wait_all; bar.sync 0;
        ld.shared.b32 %r4, [%rd7]; st.global.b32 [%rd5], %r4;";
    let (outcome, words) = run(body, Delivery::Late);
    assert_eq!(outcome.findings, []);
    assert_eq!((words[0], words[62], words[63]), (101, 163, 0));
    let careless = body.replace("selp.b32 %r6, 0, 4, %p1;", "mov.b32 %r6, 4;");
    assert_eq!(kinds(&careless, Delivery::Late), [FindingKind::OutOfBounds]);
}

#[test]
fn accesses_are_checked() {
    for (body, kind) in [
        ("ld.global.b32 %r3, [%rd4+4];", FindingKind::OutOfBounds),
        ("ld.global.b32 %r3, [%rd4+2];", FindingKind::Misaligned),
        (
            "ld.global.v2.b32 {%r3, %r4}, [%rd4];",
            FindingKind::Misaligned,
        ),
        ("ld.global.b32 %r3, [%rd5];", FindingKind::Uninitialised),
        ("st.shared.b32 [%rd7+512], %r1;", FindingKind::OutOfBounds),
        ("ld.shared.b32 %r3, [%rd7];", FindingKind::Uninitialised),
        ("add.s32 %r3, %r4, 1;", FindingKind::Uninitialised),
        (
            "cp.async.cg.shared.global [%rd6], [%rd4], 16;",
            FindingKind::Misaligned,
        ),
        (
            "setp.lt.u32 %p1, %r1, 7; @%p1 bar.sync 0;",
            FindingKind::Divergence,
        ),
    ] {
        assert_eq!(kinds(body, Delivery::Eager), [kind], "{body}");
    }
}

#[test]
fn lanes_diverge_and_meet_again() {
    let body = "setp.lt.u32 %p1, %r1, 5; @%p1 bra $L_low; mov.b32 %r3, 1; bra.uni $L_end;
        $L_low: mov.b32 %r3, 2;
        $L_end: bar.sync 0; st.global.b32 [%rd5], %r3;";
    let (outcome, words) = run(body, Delivery::Eager);
    assert_eq!(outcome.findings, []);
    assert_eq!((words[4], words[5]), (2, 1));
}

#[test]
fn a_finding_says_where() {
    let (outcome, _) = run(
        "\n\n  setp.eq.b32 %p1, %r1, 40;\n  @%p1 st.global.b32 [%rd5+1024], %r1;",
        Delivery::Eager,
    );
    let finding = &outcome.findings[0];
    assert_eq!(finding.place.thread, 40);
    let text = finding.to_string();
    assert!(
        text.starts_with("line 24: out of bounds: 4 bytes at offset 1184 of an allocation of 256"),
        "{text}"
    );
}

#[test]
fn what_is_not_modelled_is_refused_by_name_and_line() {
    let refused = |body: &str| Module::parse(&format!("{HEAD}{body}\n}}\n")).unwrap_err();
    let unsupported = |what: &str| Error::Unsupported {
        line: 22,
        what: what.to_owned(),
    };
    assert_eq!(
        refused("\ntcgen05.shift.cta_group::1.down [%r1];"),
        unsupported("tcgen05.shift.cta_group::1.down")
    );
    assert_eq!(
        refused("\natom.global.add.f32 %r1, [%rd1], 1;"),
        unsupported("atom.global.add.f32")
    );
    assert_eq!(refused("\nadd.f16 %r1, %r2, %r3;"), unsupported("add.f16"));
    for broken in [
        "add.s32 %r1, %r2;",
        "mov.b32 %q1, 1;",
        "bra $nowhere;",
        "mov.b32 %r1",
        "ld.global.b32 %r1, %rd1;",
    ] {
        assert!(matches!(refused(broken), Error::Syntax { .. }), "{broken}");
    }
}

#[test]
fn launches_must_fit() {
    let module = Module::parse(&format!("{HEAD} ret;\n}}\n")).unwrap();
    let kernel = module.kernel("kernel").unwrap();
    let mut launch = Launch {
        blocks: 1,
        threads: 32,
        shared_bytes: 0,
        arguments: vec![Argument::U64(0), Argument::U64(0)],
        delivery: Delivery::Eager,
        ..Launch::default()
    };
    let mut memory = Memory::new();
    assert!(kernel.run(&mut memory, &launch).is_ok());
    launch.threads = 33;
    assert!(matches!(
        kernel.run(&mut memory, &launch),
        Err(Error::Launch(_))
    ));
    launch.threads = 32;
    launch.arguments.pop();
    assert!(matches!(
        kernel.run(&mut memory, &launch),
        Err(Error::Launch(_))
    ));
    launch.arguments.push(Argument::U32(0));
    assert!(matches!(
        kernel.run(&mut memory, &launch),
        Err(Error::Launch(_))
    ));
}

#[test]
fn extracted_bits_carry_their_sign() {
    for (start, count, expected) in [
        (0, 8, 0xffff_ff84),
        (4, 4, 0xffff_fff8),
        (0, 4, 4),
        (28, 8, 0xffff_fff8),
        (31, 1, u32::MAX),
        (40, 8, u32::MAX),
        (3, 0, 0),
    ] {
        let body = format!(
            "mov.b32 %r3, 0x80000084; bfe.s32 %r4, %r3, {start}, {count}; st.global.b32 [%rd5], %r4;"
        );
        let (outcome, words) = run(&body, Delivery::Eager);
        assert_eq!(outcome.findings, []);
        assert_eq!(words[0], expected, "{start} {count}");
    }
}

#[test]
fn matrices_are_stored_the_way_they_are_loaded() {
    // Each lane holds two numbers of each of two matrices; warp 0 stores them, plain or transposed, and loads them again.
    for (store, load) in [
        ("", ""),
        (".trans", ".trans"),
        (".trans", ""),
        ("", ".trans"),
    ] {
        let body = format!(
            "setp.ge.u32 %p1, %r1, 32; @%p1 bra $L_end;
            and.b32 %r3, %r1, 15; shl.b32 %r3, %r3, 4; mul.wide.u32 %rd10, %r3, 1; add.s64 %rd10, %rd6, %rd10;
            shl.b32 %r4, %r1, 17; mad.lo.s32 %r4, %r1, 2, %r4; add.s32 %r4, %r4, 65536; add.s32 %r5, %r4, 4194368;
            stmatrix.sync.aligned.m8n8.x2{store}.shared.b16 [%rd10], {{%r4, %r5}};
            bar.warp.sync -1;
            ldmatrix.sync.aligned.m8n8.x2{load}.shared.b16 {{%r6, %r7}}, [%rd10];
            st.global.b32 [%rd5], %r6; st.global.b32 [%rd5+128], %r7; $L_end:"
        );
        let (outcome, words) = run(&body, Delivery::Late);
        assert_eq!(outcome.findings, [], "{store} {load}");
        for lane in 0..32u32 {
            let (row, column) = (lane / 4, lane % 4 * 2);
            // The number in a place of the first matrix is eight times its row and its column.
            let number = |row: u32, column: u32| row * 8 + column;
            let expected = match store == load {
                true => number(row, column) | number(row, column + 1) << 16,
                false => number(column, row) | number(column + 1, row) << 16,
            };
            assert_eq!(words[lane as usize], expected, "{store} {load} {lane}");
            assert_eq!(
                words[32 + lane as usize],
                expected + 0x0040_0040,
                "{store} {load} {lane}"
            );
        }
    }
    let unsynced = "setp.ge.u32 %p1, %r1, 32; @%p1 bra $L_end;
        and.b32 %r3, %r1, 7; shl.b32 %r3, %r3, 4; mul.wide.u32 %rd10, %r3, 1; add.s64 %rd10, %rd6, %rd10;
        stmatrix.sync.aligned.m8n8.x1.shared.b16 [%rd10], %r1;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r6, [%rd10]; $L_end:";
    assert_eq!(kinds(unsynced, Delivery::Late), [FindingKind::Race]);
}
