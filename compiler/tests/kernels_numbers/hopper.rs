//! The kernels of sm_90a: the same numbers by TMA and `wgmma`, and what happens if one of them is changed for the worse.

use raddle_compiler::codegen::nvptx::{Architecture, Plan, Ptx};
use raddle_compiler::codegen::warpgroup_tiling::StorePath;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize,
};

use super::run::{self, WAYS};
use super::{LAYOUTS, forward};

pub(super) fn emit(kernel: &KernelDescription, tile: Option<TileSize>) -> Ptx {
    run::emit(kernel, Architecture::Sm90a, tile)
}

/// Runs a kernel that warpgroups compute in both ways, and compares all that it writes.
fn check(kernel: &KernelDescription, tile: Option<TileSize>) {
    let ptx = emit(kernel, tile);
    assert!(matches!(ptx.plan, Plan::Warpgroups(_)), "{kernel:?}");
    run::check(&ptx, &WAYS);
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

pub(super) fn tile(index: usize) -> Option<TileSize> {
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
        run::check(&ptx, &WAYS);
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
        run::check(&ptx, &WAYS);
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
        run::check(&ptx, &WAYS);
    }
}
