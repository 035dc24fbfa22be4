//! Products in tensor memory, in every layout of their operands.

use half::{bf16, f16};
use raddle_ptxsim::{FindingKind, Swizzle};

use super::operand_layout::Layout;
use super::{BARRIER, DELIVERIES, kinds, registers, run, words, write_registers};

const ROWS: usize = 128;
const COLUMNS: usize = 32;

/// Where the right operand starts in shared memory.
const RIGHT: usize = 32768;

/// Words of shared memory that the operands take.
const WORDS: usize = 12288;

/// The descriptor of an operand (PTX ISA, "tcgen05 shared memory descriptor").
fn descriptor(layout: Layout, start: usize) -> u64 {
    let swizzle: u64 = match layout.swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes128 => 2,
        Swizzle::Bytes64 => 4,
        Swizzle::Bytes32 => 6,
    };
    layout.places(start) | 1 << 46 | swizzle << 61
}

/// The instruction descriptor: single-precision sums, both operands' type and order.
fn instruction(is_bf16: bool, [left, right]: [Layout; 2]) -> u32 {
    let element = u32::from(is_bf16);
    let outer = |layout: Layout| u32::from(!layout.along_terms);
    let shape = (COLUMNS as u32 / 8) << 17 | (ROWS as u32 / 16) << 24;
    1 << 4 | element << 7 | element << 10 | outer(left) << 15 | outer(right) << 16 | shape
}

/// Copies the operands from global to shared memory, multiplies twice, and writes the sums.
fn product(is_bf16: bool, layouts: [Layout; 2]) -> String {
    let copies: String = (0..WORDS / 128)
        .map(|index| {
            let at = index * 512;
            format!("ld.global.b32 %r3, [%rd7+{at}]; st.shared.b32 [%rd8+{at}], %r3;\n")
        })
        .collect();
    let multiply = |adds: u32| {
        format!(
            "tcgen05.mma.cta_group::1.kind::f16 [%r2], {}, {}, {}, {adds};\n",
            descriptor(layouts[0], 0),
            descriptor(layouts[1], RIGHT),
            instruction(is_bf16, layouts),
        )
    };
    format!(
        "add.s64 %rd7, %rd1, %rd5; add.s64 %rd8, %rd6, %rd5;
        {copies}
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @!%p2 bra $L_wait;
        elect.sync _|%p3, -1;
        @!%p3 bra $L_wait;
        {}{}
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 {BARRIER};
        $L_wait: mbarrier.try_wait.parity.shared.b64 %p4, {BARRIER}, 0;
        @!%p4 bra $L_wait;
        tcgen05.fence::after_thread_sync;
        and.b32 %r4, %r1, 96;
        shl.b32 %r4, %r4, 16;
        add.s32 %r5, %r2, %r4;
        tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{}}}, [%r5];
        tcgen05.wait::ld.sync.aligned;
        {}",
        multiply(0),
        multiply(1),
        registers(32),
        write_registers(32),
    )
}

fn factor(index: usize) -> f32 {
    (index * 7 % 23) as f32 - 11.0
}

fn operands(is_bf16: bool, layouts: [Layout; 2]) -> Vec<u8> {
    let mut bytes = vec![0; WORDS * 4];
    let extents = [(ROWS, 0, 3), (COLUMNS, RIGHT, 5)];
    for (layout, (extent, start, seed)) in layouts.into_iter().zip(extents) {
        for outer in 0..extent {
            for term in 0..16 {
                let at = start + layout.place(outer, term);
                let value = factor(outer * seed + term);
                let bits = if is_bf16 {
                    bf16::from_f32(value).to_bits()
                } else {
                    f16::from_f32(value).to_bits()
                };
                bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
    bytes
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
            let is_bf16 = index % 2 == 0;
            let both = [left, right];
            for delivery in DELIVERIES {
                let (outcome, found) =
                    run(&product(is_bf16, both), &operands(is_bf16, both), delivery);
                assert_eq!(outcome.findings, [], "{both:?}");
                assert_eq!(outcome.counters.tensor_memory_products, 2);
                let found = words(&found);
                for row in 0..ROWS {
                    for column in 0..COLUMNS {
                        let terms =
                            (0..16).map(|term| factor(row * 3 + term) * factor(column * 5 + term));
                        let expected = 2.0 * terms.sum::<f32>();
                        let value = f32::from_bits(found[column * 128 + row]);
                        assert_eq!(value, expected, "{both:?} {row} {column}");
                    }
                }
            }
        }
    }
}

#[test]
fn products_need_their_fences_waits_and_descriptors() {
    let both = [WIDE, WIDE];
    let (body, from) = (product(true, both), operands(true, both));
    let constant = instruction(true, both);
    let changed = |bits: u32| (constant ^ bits).to_string();
    let described = descriptor(WIDE, RIGHT).to_string();
    let described_as = |bits: u64| (descriptor(WIDE, RIGHT) ^ bits).to_string();
    let constant = constant.to_string();
    let wait = format!(
        "$L_wait: mbarrier.try_wait.parity.shared.b64 %p4, {BARRIER}, 0;\n        @!%p4 bra $L_wait;"
    );
    for (old, new, expected) in [
        ("fence.proxy.async.shared::cta;", "", FindingKind::Fence),
        (
            "fence.proxy.async.shared::cta;\n        bar.sync 0;",
            "fence.proxy.async.shared::cta;",
            FindingKind::Race,
        ),
        (&wait, "$L_wait: ", FindingKind::InFlight),
        (
            "@!%p4 bra $L_wait;\n        tcgen05.fence::after_thread_sync;",
            "@!%p4 bra $L_wait;",
            FindingKind::Fence,
        ),
        ("tcgen05.wait::ld.sync.aligned;", "", FindingKind::InFlight),
        ("@!%p3 bra $L_wait;", "", FindingKind::Divergence),
        (
            "@%p1 fence.mbarrier_init.release.cluster;",
            "",
            FindingKind::Fence,
        ),
        (
            ", 0;\ntcgen05.mma",
            ", 1;\ntcgen05.mma",
            FindingKind::Uninitialised,
        ),
        // Shared memory is written while the products read it.
        (
            "$L_wait: mbarrier",
            "st.shared.b32 [%rd8], %r1; $L_wait: mbarrier",
            FindingKind::Race,
        ),
        // Half the rows, sparse, sums in 16 bits, elements of different types.
        (&constant, &changed(12 << 24), FindingKind::Descriptor),
        (&constant, &changed(1 << 2), FindingKind::Descriptor),
        (&constant, &changed(1 << 4), FindingKind::Descriptor),
        (&constant, &changed(1 << 7), FindingKind::Descriptor),
        // More columns than there are.
        (&constant, &changed(20 << 17), FindingKind::OutOfBounds),
        // Another architecture's version, and a swizzle that does not exist.
        (&described, &described_as(1 << 46), FindingKind::Descriptor),
        (&described, &described_as(1 << 61), FindingKind::Descriptor),
    ] {
        for delivery in DELIVERIES {
            let found = kinds(&body, &from, (old, new), delivery);
            assert!(
                found.contains(&expected),
                "{old} → {new} {delivery:?}: {found:?}"
            );
        }
    }
}

#[test]
fn products_without_a_commit_are_waited_for_in_vain() {
    let both = [WIDE, WIDE];
    let commit =
        format!("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 {BARRIER};");
    for delivery in DELIVERIES {
        let found = kinds(
            &product(true, both),
            &operands(true, both),
            (&commit, ""),
            delivery,
        );
        assert_eq!(found, [FindingKind::Deadlock]);
    }
}
