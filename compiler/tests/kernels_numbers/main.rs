//! What the kernels compute, run without a GPU and compared with sums in double precision of the same rounded inputs.
//!
//! Every kernel runs twice, with asynchronous copies that arrive at once and as late as the waits allow, on random data,
//! into memory that holds nothing before; neither run may have a finding.
#![cfg(feature = "llvm")]

mod blackwell;
mod faults;
mod gradients;
mod hopper;
#[path = "../kernels_layouts/mod.rs"]
mod kernels_layouts;
mod run;
mod split;
mod tf32;
mod whole;

use raddle_compiler::codegen::nvptx::Architecture;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, MatrixOrder, TileSize,
};
use raddle_ptxsim::Delivery;

use kernels_layouts::LAYOUTS;
use run::{WAYS, Way};

/// Runs a kernel of sm_80 both ways, and compares all that it writes.
fn check(kernel: &KernelDescription, tile: Option<TileSize>) {
    run::check(&run::emit(kernel, Architecture::Sm80, tile), &WAYS);
}

/// Regular, ragged with wide copies, ragged with copies of 8 and 4 bytes, odd, one term, one row, one element.
const SHAPES: [(u64, u64, u64); 8] = [
    (64, 64, 96),
    (72, 40, 56),
    (70, 36, 44),
    (66, 34, 38),
    (33, 29, 37),
    (40, 24, 1),
    (1, 72, 33),
    (1, 1, 1),
];

fn forward(element: ElementType, (m, n, k): (u64, u64, u64), layout: usize) -> KernelDescription {
    let (a, b) = LAYOUTS[layout % LAYOUTS.len()];
    KernelDescription {
        a,
        b,
        bias: Some(element),
        auxiliary: true,
        ..KernelDescription::product(element, m, n, k)
    }
}

#[test]
fn every_shape_and_layout() {
    for shape in SHAPES {
        for layout in 0..LAYOUTS.len() {
            check(&forward(ElementType::Bf16, shape, layout), None);
        }
    }
}

#[test]
fn every_activation_and_type() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        for (shift, element) in ElementType::ALL.into_iter().enumerate() {
            let kernel = KernelDescription {
                activation,
                bias: [None, Some(ElementType::F32), Some(ElementType::Bf16)][(index + shift) % 3],
                ..forward(element, SHAPES[(index + 2 * shift) % 4], index + shift)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn every_tile() {
    // More stages than the depth has tiles, as many, and more tiles than stages.
    for (index, (rows, columns)) in [
        (128, 256),
        (256, 128),
        (128, 128),
        (64, 128),
        (128, 64),
        (64, 64),
        (16, 128),
    ]
    .into_iter()
    .enumerate()
    {
        let tile = Some(TileSize { rows, columns });
        let depth = [40, 128, 168][index % 3];
        let shape = (u64::from(rows) + 8, u64::from(columns) - 8, depth);
        check(&forward(ElementType::Bf16, shape, index), tile);
    }
    for (index, (rows, columns)) in [(128, 128), (64, 64), (32, 64)].into_iter().enumerate() {
        let tile = Some(TileSize { rows, columns });
        check(&forward(ElementType::F32, (130, 132, 52), index), tile);
        check(&forward(ElementType::F32, (60, 68, 20), index + 2), tile);
    }
}

#[test]
fn gaps_and_offsets() {
    let gap = |order, leading, offset| MatrixLayout {
        order,
        leading: Some(leading),
        offset,
        batch_stride: None,
    };
    for (a_offset, b_offset, c_offset) in [(0, 8, 16), (4, 2, 6), (1, 3, 5)] {
        for (a_order, b_order) in [
            (MatrixOrder::RowMajor, MatrixOrder::RowMajor),
            (MatrixOrder::ColumnMajor, MatrixOrder::ColumnMajor),
        ] {
            let kernel = KernelDescription {
                a: gap(a_order, 80, a_offset),
                b: gap(b_order, 72, b_offset),
                c: gap(MatrixOrder::RowMajor, 56, c_offset),
                auxiliary: false,
                ..forward(ElementType::Bf16, (66, 50, 70), 0)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn batches() {
    for (index, shape) in SHAPES.into_iter().enumerate() {
        let kernel = KernelDescription {
            batch: 3,
            activation: Activation::Relu,
            ..forward(ElementType::Bf16, shape, index)
        };
        check(&kernel, None);
    }
    let padded = |layout: MatrixLayout, stride| MatrixLayout {
        batch_stride: Some(stride),
        ..layout
    };
    for (op, element, a_stride, b_stride) in [
        (KernelOp::FusedLinear, ElementType::F32, 5000, 0),
        (KernelOp::InputGradient, ElementType::F16, 4001, 4804),
        (KernelOp::WeightGradient, ElementType::Bf16, 4808, 4002),
    ] {
        let kernel = KernelDescription {
            op,
            batch: 2,
            a: padded(MatrixLayout::ROW_MAJOR, a_stride),
            b: padded(MatrixLayout::ROW_MAJOR, b_stride),
            c: padded(MatrixLayout::ROW_MAJOR, 6002),
            ..KernelDescription::product(element, 66, 60, 72)
        };
        check(&kernel, None);
    }
}

#[test]
fn input_gradients() {
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        for (shift, element) in ElementType::ALL.into_iter().enumerate() {
            let (m, n, k) = SHAPES[(index + 3 * shift) % SHAPES.len()];
            let (a, b) = LAYOUTS[(index + shift) % LAYOUTS.len()];
            let kernel = KernelDescription {
                op: KernelOp::InputGradient,
                a,
                b,
                activation,
                ..KernelDescription::product(element, m, n, k)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn weight_gradients() {
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        for (shift, element) in ElementType::ALL.into_iter().enumerate() {
            let (a, b) = LAYOUTS[(index + shift) % LAYOUTS.len()];
            let kernel = KernelDescription {
                op: KernelOp::WeightGradient,
                output: ElementType::F32,
                a,
                b,
                bias: (shift != 1).then_some(ElementType::F32),
                accumulate: (index + shift) % 2 == 0,
                ..KernelDescription::product(element, m, n, k)
            };
            check(&kernel, None);
        }
    }
}

#[test]
fn bias_gradients() {
    for (index, element) in ElementType::ALL.into_iter().enumerate() {
        for a in [MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR] {
            for (m, n) in [(70, 33), (17, 66), (1, 1), (64, 128)] {
                let kernel = KernelDescription {
                    op: KernelOp::BiasGradient,
                    a,
                    bias: Some(ElementType::F32),
                    ..KernelDescription::product(element, m, n, 1 + index as u64)
                };
                check(&kernel, None);
            }
        }
    }
}

const LATE: Way = Way {
    delivery: Delivery::Late,
    seed: 0,
};
