//! Products of warpgroups, in every layout of their operands.

use half::bf16;
use raddle_ptxsim::{FindingKind, Swizzle};

use super::operand_layout::Layout;
use super::{DELIVERIES, Setting, kinds, plain, run, words};

/// Rows or columns of the operands of the products here.
const EXTENT: usize = 64;

/// The descriptor of an operand (PTX ISA, "Matrix descriptor").
fn descriptor(layout: Layout, start: usize) -> u64 {
    let swizzle: u64 = match layout.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes128 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes32 => 3,
    };
    layout.places(start) | swizzle << 62
}

/// Where the right operand starts in shared memory.
const RIGHT: usize = 16384;

/// Copies 24 KiB from global to shared memory, multiplies, and writes the sums: 32 registers of each thread.
fn product(left: Layout, right: Layout) -> String {
    let copies: String = (0..48)
        .map(|index| {
            let at = index * 512;
            format!("ld.global.b32 %r2, [%rd7+{at}]; st.shared.b32 [%rd8+{at}], %r2;\n")
        })
        .collect();
    let registers: Vec<String> = (0..32).map(|index| format!("%r{}", 100 + index)).collect();
    let registers = registers.join(", ");
    let multiply = |adds: u32| {
        format!(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{registers}}}, {}, {}, {adds}, 1, 1, {}, {};\n",
            descriptor(left, 0),
            descriptor(right, RIGHT),
            u32::from(!left.along_terms),
            u32::from(!right.along_terms),
        )
    };
    let writes: String = (0..32)
        .map(|index| format!("st.global.b32 [%rd9+{}], %r{};\n", index * 512, 100 + index))
        .collect();
    format!(
        "add.s64 %rd7, %rd1, %rd5; add.s64 %rd8, %rd6, %rd5; add.s64 %rd9, %rd2, %rd5;
        {copies}
        fence.proxy.async.shared::cta;
        bar.sync 0;
        wgmma.fence.sync.aligned;
        {}{}
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        {writes}",
        multiply(0),
        multiply(1),
    )
}

fn factor(index: usize) -> f32 {
    (index * 7 % 23) as f32 - 11.0
}

fn product_setting(left: Layout, right: Layout) -> Setting {
    let mut from = vec![0; 48 * 512];
    for outer in 0..EXTENT {
        for term in 0..16 {
            for (layout, start, seed) in [(left, 0, 3), (right, RIGHT, 5)] {
                let at = start + layout.place(outer, term);
                let value = bf16::from_f32(factor(outer * seed + term));
                from[at..at + 2].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    Setting {
        from,
        to: 32 * 512,
        ..plain(128)
    }
}

const WIDE: Layout = Layout {
    swizzle: Swizzle::Bytes128,
    along_terms: true,
};

#[test]
fn products_read_every_layout() {
    let swizzles = [
        Swizzle::None,
        Swizzle::Bytes32,
        Swizzle::Bytes64,
        Swizzle::Bytes128,
    ];
    let layouts: Vec<Layout> = swizzles
        .into_iter()
        .flat_map(|swizzle| {
            [true, false].map(|along_terms| Layout {
                swizzle,
                along_terms,
            })
        })
        .collect();
    for (index, &left) in layouts.iter().enumerate() {
        for right in [layouts[index], layouts[(index + 3) % layouts.len()]] {
            for delivery in DELIVERIES {
                let (outcome, found) = run(
                    &product(left, right),
                    &product_setting(left, right),
                    delivery,
                );
                assert_eq!(outcome.findings, [], "{left:?} {right:?}");
                let found = words(&found);
                for row in 0..EXTENT {
                    for column in 0..EXTENT {
                        let terms =
                            (0..16).map(|term| factor(row * 3 + term) * factor(column * 5 + term));
                        let expected = 2.0 * terms.sum::<f32>();
                        let thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
                        let register = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
                        let value = f32::from_bits(found[register * 128 + thread]);
                        assert_eq!(value, expected, "{left:?} {right:?} {row} {column}");
                    }
                }
            }
        }
    }
}

#[test]
fn products_need_their_fences_and_waits() {
    let body = product(WIDE, WIDE);
    let setting = product_setting(WIDE, WIDE);
    for (from, to, expected) in [
        ("fence.proxy.async.shared::cta;", "", FindingKind::Fence),
        ("bar.sync 0;", "", FindingKind::Race),
        ("wgmma.fence.sync.aligned;", "", FindingKind::Fence),
        (
            "wgmma.wait_group.sync.aligned 0;",
            "",
            FindingKind::InFlight,
        ),
        (
            "wgmma.wait_group.sync.aligned 0;",
            "wgmma.wait_group.sync.aligned 1;",
            FindingKind::InFlight,
        ),
        (
            "wgmma.commit_group.sync.aligned;",
            "mov.b32 %r100, 0;\nwgmma.commit_group.sync.aligned;",
            FindingKind::InFlight,
        ),
        (
            "wgmma.commit_group.sync.aligned;",
            "wgmma.commit_group.sync.aligned;\nst.shared.b32 [%rd8], %r1;",
            FindingKind::InFlight,
        ),
    ] {
        for delivery in DELIVERIES {
            let body = body.replacen(from, to, 1);
            let kinds = kinds(&body, &setting, delivery);
            assert!(
                kinds.contains(&expected),
                "{from} {to} {delivery:?} {kinds:?}"
            );
        }
    }
}
