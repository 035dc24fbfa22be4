//! What sm_90a does beside its threads: barriers in shared memory, copies of boxes, products of warpgroups.

use half::bf16;
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
        seed: 0,
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
            Delivery::Late => vec![FindingKind::InFlight],
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
fn named_barriers_order_those_who_meet_there() {
    // The first warp writes and goes on; the second waits and reads.
    let body = "setp.lt.u32 %p2, %r1, 32;
        add.s64 %rd7, %rd6, %rd5;
        @!%p2 bra $L_reads;
        st.shared.b32 [%rd7], %r1;
        bar.arrive 3, 64;
        bra.uni $L_end;
        $L_reads: bar.sync 3, 64;
        ld.shared.b32 %r2, [%rd7+-128];
        add.s64 %rd8, %rd2, %rd5;
        st.global.b32 [%rd8], %r2;
        $L_end: bar.warp.sync -1;";
    let (outcome, found) = run(body, &plain(64), Delivery::Eager);
    assert_eq!(outcome.findings, []);
    assert_eq!(words(&found)[32..64], (0..32).collect::<Vec<u32>>());
    let without = body.replace("bar.sync 3, 64;", "");
    assert!(kinds(&without, &plain(64), Delivery::Eager).contains(&FindingKind::Race));
    let alone = body.replace("bar.arrive 3, 64;", "");
    assert_eq!(
        kinds(&alone, &plain(64), Delivery::Eager),
        [FindingKind::Deadlock]
    );
}

#[test]
fn barriers_are_checked() {
    let made = format!(
        "@%p1 mbarrier.init.shared.b64 [space+{BARRIER}], 2; bar.sync 0;
        @!%p1 bra $L_end;"
    );
    let arrive = format!("mbarrier.arrive.shared.b64 _, [space+{BARRIER}];\n");
    let end = "$L_end: bar.warp.sync -1;";
    let found = |middle: &str| {
        let body = format!("{made}{middle}{end}");
        kinds(&body, &plain(32), Delivery::Eager)
    };
    assert_eq!(found(&arrive.repeat(2)), []);
    assert_eq!(
        found(&format!(
            "mbarrier.arrive.shared.b64 _, [space+{BARRIER}], 3;"
        )),
        [FindingKind::Barrier]
    );
    assert_eq!(
        found(&arrive.replace("32768", "32776")),
        [FindingKind::Barrier]
    );
    let wait = format!(
        "{arrive} $L_wait: mbarrier.try_wait.parity.shared.b64 %p2, [space+{BARRIER}], 0; @!%p2 bra $L_wait;"
    );
    let body = format!("{made}{wait}{end}");
    let (outcome, _) = run(&body, &plain(32), Delivery::Eager);
    let text = outcome.findings[0].to_string();
    assert!(
        text.contains("deadlock")
            && text.contains("misses 1 of 2 arrivals and 0 bytes")
            && text.contains("warp 0 waits for the barrier at 32768"),
        "{text}"
    );
}

#[test]
fn registers_are_taken_only_when_they_are_there() {
    // Two warpgroups with 64 registers a thread each.
    let body = "setp.lt.u32 %p2, %r1, 128;
        @!%p2 bra $L_gives;
        setmaxnreg.inc.sync.aligned.u32 104;
        bra.uni $L_end;
        $L_gives: setmaxnreg.dec.sync.aligned.u32 24;
        $L_end: bar.warp.sync -1;";
    assert_eq!(kinds(body, &plain(256), Delivery::Eager), []);
    for (from, to) in [
        ("u32 104", "u32 112"),
        ("setmaxnreg.dec.sync.aligned.u32 24;", ""),
    ] {
        let body = body.replace(from, to);
        assert_eq!(
            kinds(&body, &plain(256), Delivery::Eager),
            [FindingKind::Deadlock]
        );
    }
    let upside_down = body.replace("u32 104", "u32 56");
    assert_eq!(
        kinds(&upside_down, &plain(256), Delivery::Eager),
        [FindingKind::Divergence]
    );
}

/// Rows or columns of the operands of the products here.
const EXTENT: usize = 64;

/// One operand's layout in shared memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    swizzle: Swizzle,
    along_terms: bool,
}

impl Layout {
    fn span(self) -> usize {
        match self.swizzle {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Bytes between patterns along the lines, and between groups of eight lines.
    fn offsets(self) -> (usize, usize) {
        match (self.swizzle, self.along_terms) {
            // Cores of 8 lines of 16 bytes: those along the terms 4096 bytes apart, those along the rows 128.
            (Swizzle::None, true) => (4096, 128),
            // And the other way round: the leading offset goes along the terms.
            (Swizzle::None, false) => (2048, 128),
            (_, true) => (16, 8 * self.span()),
            // Two groups of eight terms, then the next pattern along the rows.
            (_, false) => (2 * 8 * self.span(), 8 * self.span()),
        }
    }

    /// Where an element lies, in bytes from an address that is a multiple of 1024.
    fn place(self, outer: usize, term: usize) -> usize {
        let (leading, stride) = self.offsets();
        let span = self.span();
        let line = |line: usize, along: usize| line % 8 * span + line / 8 * stride + along;
        let address = match (self.swizzle, self.along_terms) {
            (Swizzle::None, true) => line(outer, term % 8 * 2) + term / 8 * leading,
            (Swizzle::None, false) => {
                term % 8 * 16 + term / 8 * leading + outer / 8 * stride + outer % 8 * 2
            }
            (_, true) => line(outer, term * 2),
            (_, false) => {
                let per_pattern = span / 2;
                line(term, outer % per_pattern * 2) + outer / per_pattern * leading
            }
        };
        let mask = span / 16 - 1;
        address ^ ((address >> 7 & mask) << 4)
    }

    fn descriptor(self, start: usize) -> u64 {
        let (leading, stride) = self.offsets();
        let swizzle: u64 = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        };
        let field = |bytes: usize| bytes as u64 >> 4;
        field(start) | field(leading) << 16 | field(stride) << 32 | swizzle << 62
    }
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
            left.descriptor(0),
            right.descriptor(RIGHT),
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
        seed: 0,
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
