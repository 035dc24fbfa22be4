//! Columns of tensor memory, and copies between them and registers.

use raddle_ptxsim::{Delivery, FindingKind};

use super::{DELIVERIES, kinds, registers, run, words, write_registers};

/// Every warp stores 32 columns of its lanes, in which lane l has 1000 l + c in column c, and loads them in another shape.
fn round_trip(load: &str) -> String {
    let fills: String = (0..32)
        .map(|column| format!("mad.lo.s32 %r{}, %r1, 1000, {column};\n", 200 + column))
        .collect();
    let list = registers(32).replace("%r1", "%r2");
    format!(
        "and.b32 %r3, %r1, 96;
        shl.b32 %r4, %r3, 16;
        add.s32 %r5, %r2, %r4;
        {fills}
        tcgen05.st.sync.aligned.32x32b.x32.b32 [%r5], {{{list}}};
        tcgen05.wait::st.sync.aligned;
        {load}
        tcgen05.wait::ld.sync.aligned;
        {}",
        write_registers(32)
    )
}

#[test]
fn every_shape_gives_lanes_their_numbers() {
    let all = registers(32);
    let (low, high) = all.split_at(all.find(", %r116").unwrap());
    let high = high.trim_start_matches(", ");
    let halves = |shape: &str| {
        format!(
            "tcgen05.ld.sync.aligned.{shape}.b32 {{{low}}}, [%r5];
            add.s32 %r6, %r5, 1048576;
            tcgen05.ld.sync.aligned.{shape}.b32 {{{high}}}, [%r6];"
        )
    };
    let whole = format!("tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{all}}}, [%r5];");
    // PTX ISA, the figures of "Tensor Memory and Register Load/Store Instructions".
    type Place = fn(usize, usize) -> (usize, usize);
    let cases: [(String, Place); 3] = [
        (whole, |lane, register| (lane, register)),
        (halves("16x128b.x8"), |lane, register| {
            let (half, register) = (register / 16 * 16, register % 16);
            let row = half + lane / 4 + register % 2 * 8;
            (row, lane % 4 + register / 2 * 4)
        }),
        (halves("16x256b.x4"), |lane, register| {
            let (half, register) = (register / 16 * 16, register % 16);
            let row = half + lane / 4 + register / 2 % 2 * 8;
            (row, lane % 4 * 2 + register % 2 + register / 4 * 8)
        }),
    ];
    for (load, place) in cases {
        for delivery in DELIVERIES {
            let (outcome, found) = run(&round_trip(&load), &[0; 4], delivery);
            assert_eq!(outcome.findings, [], "{load}");
            let found = words(&found);
            for thread in 0..128 {
                for register in 0..32 {
                    let (row, column) = place(thread % 32, register);
                    let expected = ((thread / 32 * 32 + row) * 1000 + column) as u32;
                    assert_eq!(found[register * 128 + thread], expected, "{load} {thread}");
                }
            }
        }
    }
}

#[test]
fn the_rules_of_tensor_memory_are_checked() {
    let load = format!(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{}}}, [%r5];",
        registers(32)
    );
    let body = round_trip(&load);
    for (old, new, expected) in [
        // Without its waits.
        ("tcgen05.wait::ld.sync.aligned;", "", FindingKind::InFlight),
        ("tcgen05.wait::st.sync.aligned;", "", FindingKind::InFlight),
        // Lanes of other warps; columns of nobody.
        (
            "shl.b32 %r4, %r3, 16;",
            "mov.b32 %r4, 0;",
            FindingKind::TensorMemory,
        ),
        (
            "add.s32 %r5, %r2, %r4;",
            "add.s32 %r5, %r2, %r4; add.s32 %r5, %r5, 40;",
            FindingKind::OutOfBounds,
        ),
        (
            "add.s32 %r5, %r2, %r4;",
            "mov.b32 %r5, %r4;",
            FindingKind::OutOfBounds,
        ),
        // What nobody wrote.
        (
            "tcgen05.wait::st.sync.aligned;",
            "tcgen05.wait::st.sync.aligned; add.s32 %r5, %r5, 8;",
            FindingKind::Uninitialised,
        ),
        // Columns that are kept, given back by another number, or come in a number that does not exist.
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;",
            "",
            FindingKind::TensorMemory,
        ),
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;",
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;",
            FindingKind::TensorMemory,
        ),
        (
            "[space+65536], 64;",
            "[space+65536], 96;",
            FindingKind::TensorMemory,
        ),
        (
            "$L_taken:",
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space+65540], 32; $L_taken:",
            FindingKind::TensorMemory,
        ),
        // The address is read before it is known.
        (
            "bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n    ld",
            "ld",
            FindingKind::Race,
        ),
        // The first warp does not know what the others have done.
        (
            "tcgen05.fence::before_thread_sync;",
            "",
            FindingKind::InFlight,
        ),
        (
            "tcgen05.fence::after_thread_sync;",
            "",
            FindingKind::InFlight,
        ),
    ] {
        for delivery in DELIVERIES {
            let found = kinds(&body, &[0; 4], (old, new), delivery);
            assert!(found.contains(&expected), "{old} → {new}: {found:?}");
        }
    }
}

#[test]
fn columns_that_nobody_gives_back_are_waited_for_in_vain() {
    // 512 columns beside the 64 that are taken already.
    let taken = "[space+65536], 64;";
    let more = "[space+65536], 64;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [space+65540], 512;";
    let found = kinds("", &[0; 4], (taken, more), Delivery::Eager);
    assert_eq!(found, [FindingKind::Deadlock]);
}
