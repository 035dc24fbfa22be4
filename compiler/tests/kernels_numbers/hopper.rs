//! The kernels of sm_90a: the same numbers by TMA and `wgmma`, and what happens if one of them is changed for the worse.

use raddle_compiler::codegen::nvptx::{Architecture, Parameter, Plan, Ptx, Target, emit_tuned};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_compiler::codegen::warpgroup_tiling::StorePath;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize,
};
use raddle_ptxsim::FindingKind;

use super::run::{WAYS, run};
use super::{LATE, LAYOUTS, forward};

fn emit(kernel: &KernelDescription, tile: Option<TileSize>) -> Ptx {
    emit_tuned(kernel, Target::of(Architecture::Sm90a), tile)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error}"))
        .ptx
}

/// Runs a kernel in both ways, compares all that it writes, and asserts that both ways give the same bits.
pub(super) fn check_emitted(kernel: &KernelDescription, ptx: &Ptx) {
    let inputs = Inputs::random(kernel, kernel.m * 31 + kernel.n * 17 + kernel.k);
    let mut before = None;
    for way in WAYS {
        let (ran, outcome) = run(ptx, &inputs, way);
        let shown: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [] as [String; 0], "{kernel:?} {way:?}");
        // The other way must give the same bits.
        if before.is_none() {
            let comparison = ran.compare(kernel, &inputs);
            assert!(comparison.is_right(), "{kernel:?} {way:?}\n{comparison:?}");
        }
        let written = [
            Parameter::Output,
            Parameter::AuxiliaryOutput,
            Parameter::BiasGradient,
        ];
        let bits = written.map(|parameter| ran.bytes(parameter).map(<[u8]>::to_vec));
        assert!(
            before.as_ref().is_none_or(|before| *before == bits),
            "{kernel:?}: the order of things changes the result"
        );
        before = Some(bits);
    }
}

/// The same for a kernel that warpgroups compute.
fn check(kernel: &KernelDescription, tile: Option<TileSize>) {
    let ptx = emit(kernel, tile);
    assert!(matches!(ptx.plan, Plan::Warpgroups(_)), "{kernel:?}");
    check_emitted(kernel, &ptx);
}

/// Lines at multiples of 16 bytes: regular, ragged, less than a stage of depth, one row, one chunk of everything.
pub(super) const SHAPES: [(u64, u64, u64); 5] = [
    (128, 128, 192),
    (72, 40, 136),
    (200, 72, 8),
    (1, 136, 72),
    (8, 8, 8),
];

/// One row is no line of 16 bytes if A lies transposed.
pub(super) fn lines(m: u64, layout: usize) -> u64 {
    if layout % LAYOUTS.len() < 2 {
        m
    } else {
        m.max(8)
    }
}

const TILES: [(u32, u32); 6] = [
    (128, 256),
    (256, 128),
    (128, 128),
    (64, 128),
    (128, 64),
    (64, 64),
];

fn tile(index: usize) -> Option<TileSize> {
    let (rows, columns) = TILES[index % TILES.len()];
    Some(TileSize { rows, columns })
}

#[test]
fn every_shape_and_layout() {
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        for layout in 0..LAYOUTS.len() {
            let shape = (lines(m, layout), n, k);
            let element = [ElementType::Bf16, ElementType::F16][(index + layout) % 2];
            check(&forward(element, shape, layout), None);
        }
    }
}

#[test]
fn every_tile_and_layout() {
    // More stages than the depth has, as many, and fewer.
    for (index, (rows, columns)) in TILES.into_iter().enumerate() {
        for layout in [index, index + 3] {
            let depth = [64, 328, 584][(index + layout) % 3];
            let shape = (u64::from(rows) + 8, u64::from(columns) - 8, depth);
            let activation = Activation::ALL[(index + layout) % Activation::ALL.len()];
            let kernel = KernelDescription {
                activation,
                ..forward(ElementType::Bf16, shape, layout)
            };
            check(&kernel, tile(index));
        }
    }
}

#[test]
fn blocks_that_take_several_tiles() {
    // 144 tiles for 132 blocks; one buffer for each tile, and three.
    for auxiliary in [false, true] {
        let kernel = KernelDescription {
            auxiliary,
            output: if auxiliary {
                ElementType::F32
            } else {
                ElementType::Bf16
            },
            ..forward(ElementType::Bf16, (12 * 128, 12 * 64, 8), 0)
        };
        let ptx = emit(&kernel, tile(4));
        assert!(matches!(ptx.plan, Plan::Warpgroups(plan) if plan.tiles() > plan.blocks));
        check_emitted(&kernel, &ptx);
    }
}

#[test]
fn every_activation_both_ways() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        for (shift, element) in [ElementType::Bf16, ElementType::F16]
            .into_iter()
            .enumerate()
        {
            let (m, n, k) = SHAPES[(index + shift) % SHAPES.len()];
            let shape = (lines(m, index), n, k);
            let output = [element, ElementType::F32][(index + shift) % 2];
            let kernel = KernelDescription {
                activation,
                output,
                bias: [None, Some(ElementType::F32), Some(ElementType::Bf16)][(index + shift) % 3],
                ..forward(element, shape, index)
            };
            check(&kernel, tile(index + 3));
            let (a, b) = LAYOUTS[(index + 2 * shift) % LAYOUTS.len()];
            let kernel = KernelDescription {
                op: KernelOp::InputGradient,
                output,
                a,
                b,
                activation,
                ..KernelDescription::product(element, lines(m, index + 2 * shift), n, k)
            };
            check(&kernel, tile(index + shift));
        }
    }
}

#[test]
fn weight_gradients() {
    for (index, (m, n, k)) in [(72, 264, 136), (200, 72, 72), (8, 40, 264)]
        .into_iter()
        .enumerate()
    {
        for (layout, (a, b)) in LAYOUTS.into_iter().enumerate() {
            let kernel = KernelDescription {
                op: KernelOp::WeightGradient,
                output: ElementType::F32,
                a,
                b,
                bias: (index != 1 || layout % 2 == 0).then_some(ElementType::F32),
                accumulate: (index + layout) % 2 == 0,
                ..KernelDescription::product(ElementType::Bf16, m, n, k)
            };
            check(&kernel, tile(index + 2 * layout));
        }
    }
}

#[test]
fn results_and_biases_at_any_address() {
    for (leading, offset) in [(None, 0), (Some(45), 3), (Some(46), 2), (Some(48), 8)] {
        let kernel = KernelDescription {
            c: MatrixLayout {
                leading,
                offset,
                ..MatrixLayout::ROW_MAJOR
            },
            bias: Some(ElementType::F16),
            b: MatrixLayout {
                leading: Some(48),
                ..MatrixLayout::ROW_MAJOR
            },
            ..forward(ElementType::Bf16, (70, 41 + u64::from(offset != 3), 72), 0)
        };
        let ptx = emit(&kernel, None);
        let Plan::Warpgroups(plan) = ptx.plan else {
            panic!("{:?}", ptx.plan);
        };
        let is_direct = matches!(plan.output, StorePath::Direct(_));
        assert_eq!(is_direct, leading != Some(48), "{kernel:?}");
        check_emitted(&kernel, &ptx);
    }
}

#[test]
fn batches() {
    let padded = |layout: MatrixLayout, stride| MatrixLayout {
        batch_stride: Some(stride),
        ..layout
    };
    let plain = forward(ElementType::Bf16, (72, 40, 56), 0);
    for kernel in [
        KernelDescription { batch: 3, ..plain },
        KernelDescription {
            batch: 2,
            b: padded(plain.b, 0),
            c: padded(plain.c, 3000),
            ..plain
        },
        KernelDescription {
            op: KernelOp::WeightGradient,
            batch: 2,
            output: ElementType::F32,
            a: padded(MatrixLayout::ROW_MAJOR, 4808),
            accumulate: true,
            ..KernelDescription::product(ElementType::F16, 72, 48, 64)
        },
        KernelDescription {
            op: KernelOp::InputGradient,
            batch: 3,
            activation: Activation::Silu,
            ..KernelDescription::product(ElementType::Bf16, 40, 64, 72)
        },
    ] {
        check(&kernel, None);
    }
}

#[test]
fn what_tma_cannot_copy_goes_the_older_way() {
    for kernel in [
        forward(ElementType::Bf16, (40, 24, 1), 0),
        forward(ElementType::F16, (33, 29, 37), 0),
        forward(ElementType::F32, (64, 64, 32), 0),
        KernelDescription {
            a: MatrixLayout {
                offset: 4,
                ..MatrixLayout::ROW_MAJOR
            },
            ..forward(ElementType::Bf16, (64, 64, 64), 0)
        },
    ] {
        let ptx = emit(&kernel, None);
        assert!(matches!(ptx.plan, Plan::Product(_)) && ptx.without_warpgroups.is_some());
        check_emitted(&kernel, &ptx);
    }
}

/// Changes a kernel with six stages of depth and a result through shared memory, and lists what a run with late copies
/// finds, and whether the numbers are right.
fn changed(change: impl Fn(&str) -> String) -> (Vec<FindingKind>, bool) {
    let kernel = KernelDescription {
        activation: Activation::Relu,
        ..forward(ElementType::Bf16, (128, 128, 584), 1)
    };
    let mut ptx = emit(&kernel, tile(2));
    ptx.text = ptx.text.replace(" \t", " ");
    let text = change(&ptx.text);
    assert_ne!(text, ptx.text, "the change changes nothing");
    ptx.text = text;
    let inputs = Inputs::random(&kernel, 1);
    let (ran, outcome) = run(&ptx, &inputs, LATE);
    let kinds = outcome
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect();
    (kinds, ran.compare(&kernel, &inputs).is_right())
}

/// The lines of a text with every line that has all of these words replaced.
pub(super) fn with_lines(text: &str, words: &[&str], by: impl Fn(&str) -> String) -> String {
    let lines = text.lines().map(|line| {
        if words.iter().all(|word| line.contains(word)) {
            by(line)
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn without(words: &'static [&'static str]) -> impl Fn(&str) -> String {
    move |text| with_lines(text, words, |_| String::new())
}

#[test]
fn a_wait_for_too_few_products_is_found() {
    let (kinds, _) = changed(|text| {
        text.replace(
            "wgmma.wait_group.sync.aligned 1;",
            "wgmma.wait_group.sync.aligned 2;",
        )
    });
    // The stage is given back while it is read: the next copy comes too early.
    assert!(!kinds.is_empty(), "nothing was found");
    let too_early = |kind| matches!(kind, FindingKind::InFlight | FindingKind::Race);
    assert!(kinds.iter().copied().all(too_early), "{kinds:?}");
}

#[test]
fn a_missing_wait_for_products_is_found() {
    let (kinds, right) = changed(without(&["wgmma.wait_group.sync.aligned 0;"]));
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    assert!(!right);
}

#[test]
fn a_missing_fence_before_products_is_found() {
    let (kinds, _) = changed(without(&["wgmma.fence.sync.aligned"]));
    assert!(kinds.contains(&FindingKind::Fence), "{kinds:?}");
}

#[test]
fn a_missing_barrier_after_the_barriers_are_made_is_found() {
    let (kinds, _) = changed(without(&["bar.sync 0;"]));
    assert!(
        kinds.contains(&FindingKind::Barrier) || kinds.contains(&FindingKind::Race),
        "{kinds:?}"
    );
}

#[test]
fn a_missing_arrival_is_found() {
    let (kinds, _) = changed(without(&["mbarrier.arrive.shared.b64"]));
    assert_eq!(kinds, [FindingKind::Deadlock]);
}

#[test]
fn wrong_numbers_of_expected_bytes_are_found() {
    let expected = "mbarrier.arrive.expect_tx";
    // The bytes of one of the two copies, and a few too many.
    for (bytes, kind) in [
        ("16384", FindingKind::InFlight),
        ("32784", FindingKind::Deadlock),
    ] {
        let (kinds, _) = changed(|text| {
            with_lines(text, &[expected], |line| {
                let (start, _) = line.rsplit_once(' ').expect("an operand");
                format!("{start} {bytes};")
            })
        });
        assert!(kinds.contains(&kind), "{bytes}: {kinds:?}");
    }
}

#[test]
fn a_missing_swizzle_gives_wrong_numbers() {
    let kernel = forward(ElementType::Bf16, (128, 128, 136), 1);
    let ptx = emit(&kernel, tile(2));
    let inputs = Inputs::random(&kernel, 1);
    // The descriptors say that nothing is permuted.
    let constant = ((1u64 << 62) | (64 << 32) | (1 << 16)).to_string();
    let plain = ((64u64 << 32) | (1 << 16)).to_string();
    assert!(ptx.text.contains(&constant));
    let mut changed = ptx.clone();
    changed.text = ptx.text.replace(&constant, &plain);
    let (ran, _) = run(&changed, &inputs, LATE);
    assert!(!ran.compare(&kernel, &inputs).is_right());
}

#[test]
fn a_wrong_stride_in_a_descriptor_gives_wrong_numbers() {
    let constant = |stride: u64| ((1u64 << 62) | (stride << 32) | (1 << 16)).to_string();
    let (_, right) = changed(|text| text.replace(&constant(64), &constant(32)));
    assert!(!right);
}

#[test]
fn a_missing_fence_between_the_proxies_is_found() {
    let (kinds, _) = changed(without(&["fence.proxy.async.shared::cta"]));
    assert_eq!(kinds, [FindingKind::Fence; 1].repeat(kinds.len()));
    assert!(!kinds.is_empty());
}

#[test]
fn barriers_that_copies_do_not_see_are_found() {
    let (kinds, _) = changed(without(&["fence.mbarrier_init"]));
    assert!(kinds.contains(&FindingKind::Fence), "{kinds:?}");
}

#[test]
fn a_wrong_parity_is_found() {
    // Everyone waits for the phase before the one that is meant.
    let (kinds, _) = changed(|text| {
        with_lines(text, &["mbarrier.try_wait.parity"], |line| {
            let (start, parity) = line.rsplit_once(' ').expect("an operand");
            let register = parity.trim_end_matches(';');
            format!(
                "xor.b32 {register}, {register}, 1;\n{start} {parity}\nxor.b32 {register}, {register}, 1;"
            )
        })
    });
    assert!(
        kinds.iter().any(|kind| matches!(
            kind,
            FindingKind::InFlight | FindingKind::Uninitialised | FindingKind::Deadlock
        )),
        "{kinds:?}"
    );
}

#[test]
fn buffers_filled_while_they_are_read_are_found() {
    let (kinds, _) = changed(|text| {
        text.replace(
            "cp.async.bulk.wait_group.read 1;",
            "cp.async.bulk.wait_group.read 2;",
        )
    });
    assert!(kinds.contains(&FindingKind::InFlight), "{kinds:?}");
    let (kinds, _) = changed(|text| {
        let (start, end) = text
            .rsplit_once("cp.async.bulk.wait_group.read 0;")
            .expect("the last wait");
        format!("{start}{end}")
    });
    assert_eq!(kinds, [FindingKind::InFlight; 1].repeat(kinds.len()));
    assert!(!kinds.is_empty());
}

#[test]
fn lanes_that_do_not_wait_for_each_other_are_found() {
    let (kinds, _) = changed(without(&["bar.warp.sync"]));
    assert!(kinds.contains(&FindingKind::Race), "{kinds:?}");
}
