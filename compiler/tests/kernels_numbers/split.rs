//! Products whose depth several blocks share: the same numbers, the same bits whoever is last, and what happens if blocks
//! do not tell each other properly.

use raddle_compiler::codegen::nvptx::{Architecture, Plan, Ptx, Target, emit_tuned};
use raddle_compiler::codegen::oracle::Inputs;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, Math, MatrixLayout, TileSize, Wish,
};
use raddle_ptxsim::{Delivery, FindingKind};

use super::run::{self, Way, emit, run};
use super::{LAYOUTS, SHAPES, forward};

/// Both deliveries, and orders of the blocks that differ between them.
pub const WAYS: [Way; 3] = [
    Way {
        delivery: Delivery::Eager,
        seed: 0,
    },
    Way {
        delivery: Delivery::Late,
        seed: 1,
    },
    Way {
        delivery: Delivery::Late,
        seed: 12345,
    },
];

/// Stages of the whole depth on a path.
fn splits_of(ptx: &Ptx) -> u32 {
    match ptx.plan {
        Plan::Product(schedule) => schedule.parts.splits,
        Plan::Warpgroups(schedule) => schedule.parts.splits,
        _ => panic!("{:?}", ptx.plan),
    }
}

/// The most shares that a depth can be cut into, up to so many.
fn check(
    kernel: &KernelDescription,
    architecture: Architecture,
    (tile, most): (Option<TileSize>, u32),
) {
    let splits = (1..=most)
        .rev()
        .find(|&splits| {
            let splits = Some(splits);
            emit_tuned(kernel, Target::of(architecture), Wish { tile, splits }).is_ok()
        })
        .expect("one share is always possible");
    let wish = Wish {
        tile,
        splits: Some(splits),
    };
    let ptx = emit(kernel, architecture, wish);
    assert!((1..=splits).contains(&splits_of(&ptx)));
    assert_eq!(ptx.scratch.counter_bytes > 0, splits_of(&ptx) > 1);
    run::check(&ptx, &WAYS);
}

/// Depths that leave the last share as long as the others, shorter, and with stages that lie beyond the depth.
const DEPTHS: [u64; 3] = [256, 200, 9 * 32 + 5];

#[test]
fn every_shape() {
    // As the common shapes, with depths of several stages.
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        let depth = if k == 1 { 1 } else { DEPTHS[index % 3] };
        let kernel = KernelDescription {
            activation: Activation::ALL[index % Activation::ALL.len()],
            ..forward(ElementType::Bf16, (m, n, depth), index)
        };
        check(&kernel, Architecture::Sm80, (None, [4, 3, 7][index % 3]));
    }
}

#[test]
fn every_tile() {
    for (index, (rows, columns)) in [(128, 256), (128, 128), (64, 128), (16, 128)]
        .into_iter()
        .enumerate()
    {
        let tile = Some(TileSize { rows, columns });
        let shape = (u64::from(rows) - 8, u64::from(columns) - 8, 144);
        let kernel = forward(
            [ElementType::Bf16, ElementType::F16][index % 2],
            shape,
            index,
        );
        check(&kernel, Architecture::Sm80, (tile, 2));
    }
    let tile = Some(TileSize {
        rows: 64,
        columns: 64,
    });
    check(
        &forward(ElementType::F32, (60, 68, 84), 1),
        Architecture::Sm80,
        (tile, 4),
    );
}

/// Lines and results that start anywhere, and products in tf32.
#[test]
fn odd_addresses_and_tf32() {
    for (index, math) in [Math::Full, Math::Tf32, Math::ThreeTf32]
        .into_iter()
        .enumerate()
    {
        let element = [ElementType::Bf16, ElementType::F32][index.min(1)];
        let at = |leading, offset, layout: MatrixLayout| MatrixLayout {
            leading: Some(leading),
            offset,
            ..layout
        };
        let plain = forward(element, (37, 41, 150), index);
        let kernel = KernelDescription {
            math,
            a: at(151, 1, plain.a),
            b: at(154, 2, plain.b),
            c: at(43, 3, plain.c),
            activation: Activation::Silu,
            ..plain
        };
        check(&kernel, Architecture::Sm80, (None, 3));
    }
}

/// A depth of nine stages in five shares leaves one stage to the last; in four, none of three to it.
#[test]
fn shares_of_any_size() {
    for splits in [2, 4, 5, 9] {
        let kernel = forward(ElementType::Bf16, (40, 72, 9 * 64 - 8), 0);
        for architecture in [Architecture::Sm80, Architecture::Sm90a] {
            check(&kernel, architecture, (None, splits));
        }
    }
}

#[test]
fn gradients() {
    for (index, (m, n, k)) in [(136, 40, 72), (100, 33, 29)].into_iter().enumerate() {
        for (layout, (a, b)) in LAYOUTS.into_iter().enumerate().skip(index).step_by(2) {
            let plain = KernelDescription {
                a,
                b,
                ..KernelDescription::product(ElementType::Bf16, m, n, k)
            };
            let weights = KernelDescription {
                op: KernelOp::WeightGradient,
                output: ElementType::F32,
                bias: Some([ElementType::F32, ElementType::Bf16][layout % 2]),
                accumulate: layout < 2,
                ..plain
            };
            let input = KernelDescription {
                op: KernelOp::InputGradient,
                bias: Some(ElementType::F32),
                activation: Activation::GeluTanh,
                m: k,
                n: m,
                ..plain
            };
            for kernel in [weights, input] {
                for architecture in [Architecture::Sm80, Architecture::Sm90a] {
                    check(&kernel, architecture, (None, 3));
                }
            }
        }
    }
}

#[test]
fn batches() {
    let padded = |layout: MatrixLayout, stride| MatrixLayout {
        batch_stride: Some(stride),
        ..layout
    };
    let plain = forward(ElementType::F16, (40, 24, 200), 1);
    let kernels = [
        KernelDescription { batch: 3, ..plain },
        KernelDescription {
            op: KernelOp::WeightGradient,
            batch: 2,
            output: ElementType::F32,
            a: padded(MatrixLayout::ROW_MAJOR, 8008),
            b: MatrixLayout::ROW_MAJOR,
            bias: Some(ElementType::F16),
            auxiliary: false,
            ..KernelDescription::product(ElementType::F16, 200, 48, 40)
        },
    ];
    for kernel in kernels {
        for architecture in [Architecture::Sm80, Architecture::Sm90a] {
            check(&kernel, architecture, (None, 3));
        }
    }
}

#[test]
fn hopper() {
    for (index, tile) in [(128, 256), (256, 128), (128, 128), (64, 64)]
        .into_iter()
        .enumerate()
    {
        let (rows, columns) = tile;
        let tile = Some(TileSize { rows, columns });
        let shape = (u64::from(rows) + 8, u64::from(columns) - 8, 264);
        let kernel = KernelDescription {
            activation: Activation::ALL[index],
            output: [ElementType::Bf16, ElementType::F32][index % 2],
            ..forward(ElementType::Bf16, shape, index)
        };
        check(&kernel, Architecture::Sm90a, (tile, 2 + index as u32));
    }
}

/// More pieces of work than blocks that stay.
#[test]
fn blocks_that_take_several_shares() {
    let kernel = KernelDescription {
        auxiliary: false,
        ..forward(ElementType::Bf16, (16 * 64, 9 * 64, 128), 0)
    };
    let wish = Wish {
        tile: Some(TileSize {
            rows: 128,
            columns: 64,
        }),
        splits: Some(2),
    };
    let ptx = emit(&kernel, Architecture::Sm90a, wish);
    assert!(matches!(ptx.plan, Plan::Warpgroups(plan) if plan.pieces() > plan.blocks));
    run::check(&ptx, &WAYS);
}

#[test]
fn few_tiles_with_a_long_depth_are_shared_unasked() {
    for architecture in [Architecture::Sm80, Architecture::Sm90a] {
        let long = KernelDescription::product(ElementType::Bf16, 64, 64, 16384);
        assert!(splits_of(&emit(&long, architecture, Wish::default())) > 4);
        let short = KernelDescription::product(ElementType::Bf16, 64, 64, 256);
        assert_eq!(splits_of(&emit(&short, architecture, Wish::default())), 1);
        let wide = KernelDescription::product(ElementType::Bf16, 8192, 8192, 8192);
        assert_eq!(splits_of(&emit(&wide, architecture, Wish::default())), 1);
    }
}

#[test]
fn more_shares_than_stages_are_refused() {
    let kernel = forward(ElementType::Bf16, (64, 64, 60), 0);
    for architecture in [Architecture::Sm80, Architecture::Sm90a] {
        let wish = Wish {
            tile: None,
            splits: Some(3),
        };
        let error = emit_tuned(&kernel, Target::of(architecture), wish).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a sum of 60 terms in 3 parts is not supported: a stage holds 32 terms, so there are at most 2 parts"
        );
    }
}

/// Changes a kernel whose depth two blocks share, and lists what the runs find.
fn findings_of_changed(architecture: Architecture, from: &str, to: &str) -> Vec<FindingKind> {
    let kernel = KernelDescription {
        auxiliary: false,
        ..forward(ElementType::Bf16, (64, 64, 256), 0)
    };
    let wish = Wish {
        tile: None,
        splits: Some(2),
    };
    let mut ptx = emit(&kernel, architecture, wish);
    assert!(ptx.text.contains(from), "no {from} in the kernel");
    ptx.text = ptx.text.replace(from, to);
    let inputs = Inputs::random(&kernel, 1);
    let found = WAYS
        .iter()
        .flat_map(|&way| run(&ptx, &inputs, way).1.findings);
    found.map(|finding| finding.kind).collect()
}

#[test]
fn faults_between_blocks_are_found() {
    let atomic = "atom.relaxed.gpu.global.inc.u32";
    for architecture in [Architecture::Sm80, Architecture::Sm90a] {
        let found = |from, to| findings_of_changed(architecture, from, to);
        assert_eq!(found(atomic, atomic), []);
        // Nobody says that the parts are there before the count, or looks at them only after it.
        let kinds = found("fence.acq_rel.gpu;", "");
        assert!(kinds.contains(&FindingKind::Race), "{kinds:?}");
        // The fence reaches the block's own threads only.
        let kinds = found("fence.acq_rel.gpu;", "fence.acq_rel.cta;");
        assert!(kinds.contains(&FindingKind::Race), "{kinds:?}");
        // The block counts before it has written its part.
        let barrier = match architecture {
            Architecture::Sm80 => "bar.sync \t0;",
            _ => "bar.sync \t2, 128;",
        };
        let kinds = found(barrier, "");
        assert!(kinds.contains(&FindingKind::Race), "{kinds:?}");
    }
}
