//! Copies of boxes of tensors, both ways.

use raddle_ptxsim::{Argument, Delivery, FindingKind, Launch, Memory, Module, Swizzle, TensorMap};

use super::{BARRIER, DELIVERIES, HEAD, Setting, kinds, map, plain, run, words};

/// Loads the box at (-4, 2) and waits for it.
fn load(bytes: u32) -> String {
    format!(
        "mbarrier.init.shared.b64 [space+{BARRIER}], 1;
        fence.mbarrier_init.release.cluster;
        mov.b32 %r2, -4;
        mov.b32 %r3, 2;
        mbarrier.arrive.expect_tx.shared.b64 _, [space+{BARRIER}], {bytes};
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
            [%rd6], [%rd3, {{%r2, %r3}}], [space+{BARRIER}];
        $L_wait: mbarrier.try_wait.parity.shared.b64 %p2, [space+{BARRIER}], 0;
        @!%p2 bra $L_wait;"
    )
}

#[test]
fn boxes_come_permuted_and_with_zeros_outside() {
    for (swizzle, words_of_line) in [
        (Swizzle::None, 4),
        (Swizzle::Bytes32, 8),
        (Swizzle::Bytes64, 16),
        (Swizzle::Bytes128, 32),
    ] {
        let setting = Setting {
            maps: match words_of_line {
                4 => [|pointer| map(pointer, 4, Swizzle::None); 2],
                8 => [|pointer| map(pointer, 8, Swizzle::Bytes32); 2],
                16 => [|pointer| map(pointer, 16, Swizzle::Bytes64); 2],
                _ => [|pointer| map(pointer, 32, Swizzle::Bytes128); 2],
            },
            ..plain(32)
        };
        // Thread 0 copies word after word to the result.
        let box_words = words_of_line * 8;
        let copies: String = (0..box_words)
            .map(|word| {
                let at = word * 4;
                format!("ld.shared.b32 %r4, [space+{at}]; st.global.b32 [%rd2+{at}], %r4;\n")
            })
            .collect();
        let body = format!(
            "@!%p1 bra $L_end;\n{}\n{copies}$L_end: bar.warp.sync -1;",
            load(box_words * 4)
        );
        for delivery in DELIVERIES {
            let (outcome, found) = run(&body, &setting, delivery);
            assert_eq!(outcome.findings, [], "{swizzle:?}");
            let found = words(&found);
            for line in 0..8u32 {
                for word in 0..words_of_line {
                    let (row, column) = (2 + line, i64::from(word) - 4);
                    let inside = row < 6 && (0..20).contains(&column);
                    let expected = if inside {
                        row * 20 + column as u32 + 1
                    } else {
                        0
                    };
                    // Bits 4 to 6 of the address, as many as there are chunks, XORed with bits 7 to 9.
                    let address = (line * words_of_line + word) * 4;
                    let mask = words_of_line / 4 - 1;
                    let address = address ^ ((address >> 7 & mask) << 4);
                    assert_eq!(
                        found[address as usize / 4],
                        expected,
                        "{swizzle:?} {line} {word}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_copy_used_before_its_barrier_is_found() {
    let body = format!(
        "@!%p1 bra $L_end;\n{}\nld.shared.b32 %r4, [space+16];\n$L_end: bar.warp.sync -1;",
        load(1024).replace("@!%p2 bra $L_wait;", "")
    );
    for delivery in DELIVERIES {
        let kinds = kinds(&body, &plain(32), delivery);
        let expected = match delivery {
            // It has come, but nothing says so.
            Delivery::Eager => vec![],
            // It is read too early, and the block ends before it comes.
            Delivery::Late => vec![FindingKind::InFlight; 2],
        };
        assert_eq!(kinds, expected);
    }
}

/// Every thread writes a number, and thread 0 stores or adds the box at (0, 0).
fn store(operation: &str) -> String {
    format!(
        "add.s64 %rd7, %rd6, %rd5;
        mov.b32 %r2, 0f3fc00000;
        st.shared.b32 [%rd7], %r2;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @!%p1 bra $L_end;
        mov.b32 %r3, 0;
        {operation} [%rd4, {{%r3, %r3}}], [%rd6];
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        $L_end: bar.warp.sync -1;"
    )
}

const STORE: &str = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
const ADD: &str = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";

#[test]
fn boxes_are_stored_and_added_within_the_tensor_only() {
    for delivery in DELIVERIES {
        for (operation, expected) in [
            (STORE.to_owned(), 1.5f32),
            (
                format!(
                    "{ADD} [%rd4, {{%r3, %r3}}], [%rd6];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n{ADD}"
                ),
                3.0,
            ),
        ] {
            let (outcome, found) = run(&store(&operation), &plain(256), delivery);
            assert_eq!(outcome.findings, []);
            for (index, word) in words(&found).into_iter().enumerate() {
                let inside = index < 120;
                let expected = if inside { expected } else { 0.0 };
                assert_eq!(f32::from_bits(word), expected, "{index}");
            }
        }
    }
}

#[test]
fn a_store_needs_the_fence_and_its_wait() {
    let body = store(STORE);
    let without = body.replace("fence.proxy.async.shared::cta;", "");
    assert_eq!(
        kinds(&without, &plain(256), Delivery::Late),
        [FindingKind::Fence]
    );
    let without = body.replace("bar.sync 0;", "");
    assert!(kinds(&without, &plain(256), Delivery::Late).contains(&FindingKind::Race));
    let without = body.replace("cp.async.bulk.wait_group 0;", "");
    assert_eq!(
        kinds(&without, &plain(256), Delivery::Late),
        [FindingKind::InFlight]
    );
    // A fence by the one who starts the copy, after the barrier, does as well.
    let later = without
        .replace("fence.proxy.async.shared::cta;", "")
        .replace(
            "mov.b32 %r3, 0;",
            "fence.proxy.async.shared::cta; mov.b32 %r3, 0;",
        )
        .replace(
            "commit_group;",
            "commit_group;\ncp.async.bulk.wait_group 0;",
        );
    assert_eq!(kinds(&later, &plain(256), Delivery::Late), []);
}

#[test]
fn tensor_maps_that_do_not_exist_are_refused() {
    let text = format!("{HEAD} ret;\n}}\n");
    let module = Module::parse(&text).unwrap();
    let mut memory = Memory::new();
    let pointer = memory.allocate(vec![0; 1024]);
    let good = map(pointer, 32, Swizzle::Bytes128);
    let launch = |first: TensorMap| Launch {
        blocks: 1,
        threads: 32,
        shared_bytes: 0,
        arguments: vec![
            Argument::Pointer(pointer),
            Argument::Pointer(pointer),
            Argument::TensorMap(first),
            Argument::TensorMap(good.clone()),
        ],
        delivery: Delivery::Eager,
        ..Launch::default()
    };
    let kernel = &module.kernels()[0];
    assert!(kernel.run(&mut memory, &launch(good.clone())).is_ok());
    let bad: [fn(&mut TensorMap); 6] = [
        |map| map.strides_bytes[0] = 72,
        |map| map.offset_bytes = 8,
        |map| map.box_extents[1] = 257,
        |map| map.extents[0] = 0,
        |map| map.element_bytes = 3,
        |map| map.extents.push(1),
    ];
    for change in bad {
        let mut map = good.clone();
        change(&mut map);
        assert!(kernel.run(&mut memory, &launch(map)).is_err());
    }
}
