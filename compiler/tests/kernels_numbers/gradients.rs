//! Gradients of biases in every way that they are made: beside dX, beside dW, beside the gradient of a pre-activation, and
//! alone; in every type, and over batches.

use raddle_compiler::codegen::nvptx::Architecture;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout, TileSize, Wish,
};

use super::run::{check as check_ways, emit};
use super::split::WAYS;
use super::{LAYOUTS, SHAPES};

fn check(kernel: &KernelDescription, tile: Option<TileSize>) {
    for architecture in [Architecture::Sm80, Architecture::Sm90a] {
        check_ways(&emit(kernel, architecture, tile), &WAYS);
    }
}

fn check_sm80(kernel: &KernelDescription) {
    check_ways(&emit(kernel, Architecture::Sm80, Wish::default()), &WAYS);
}

/// The type of a gradient by number.
fn bias(index: usize) -> Option<ElementType> {
    Some(ElementType::ALL[index % ElementType::ALL.len()])
}

#[test]
fn beside_the_input_gradient() {
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        for (shift, element) in ElementType::ALL.into_iter().enumerate() {
            let (a, b) = LAYOUTS[(index + shift) % LAYOUTS.len()];
            check_sm80(&KernelDescription {
                op: KernelOp::InputGradient,
                a,
                b,
                bias: bias(index + shift),
                activation: Activation::ALL[(index + shift) % Activation::ALL.len()],
                ..KernelDescription::product(element, m, n, k)
            });
        }
    }
}

#[test]
fn beside_the_input_gradient_in_several_rows_of_tiles() {
    for (index, tile) in [
        (64, 64),
        (128, 64),
        (64, 128),
        (128, 128),
        (128, 256),
        (256, 128),
    ]
    .into_iter()
    .enumerate()
    {
        let (rows, columns) = tile;
        let tile = Some(TileSize { rows, columns });
        let (a, b) = LAYOUTS[index % LAYOUTS.len()];
        check(
            &KernelDescription {
                op: KernelOp::InputGradient,
                a,
                b,
                bias: bias(index),
                activation: Activation::ALL[index % Activation::ALL.len()],
                output: [ElementType::Bf16, ElementType::F32][index % 2],
                c: MatrixLayout {
                    leading: (index % 3 == 2).then_some(u64::from(columns) + 11),
                    ..MatrixLayout::ROW_MAJOR
                },
                ..KernelDescription::product(
                    ElementType::Bf16,
                    u64::from(rows) + 16,
                    40,
                    u64::from(columns) + 8,
                )
            },
            tile,
        );
    }
}

#[test]
fn over_batches() {
    for (index, op) in [
        KernelOp::InputGradient,
        KernelOp::WeightGradient,
        KernelOp::BiasGradient,
        KernelOp::ActivationGradient,
    ]
    .into_iter()
    .enumerate()
    {
        for (m, n, k) in [(72, 40, 56), (33, 29, 37), (1, 1, 1)] {
            let padded = MatrixLayout {
                batch_stride: (index % 2 == 1).then_some(4808),
                ..MatrixLayout::ROW_MAJOR
            };
            let activation = match op {
                KernelOp::InputGradient | KernelOp::ActivationGradient => Activation::Silu,
                _ => Activation::None,
            };
            check(
                &KernelDescription {
                    op,
                    batch: 3,
                    a: padded,
                    bias: bias(index),
                    activation,
                    ..KernelDescription::product(ElementType::Bf16, m, n, k)
                },
                None,
            );
        }
    }
}

#[test]
fn of_a_layers_own_activation() {
    for (index, (m, n, _)) in SHAPES.into_iter().enumerate() {
        for (shift, element) in ElementType::ALL.into_iter().enumerate() {
            let (a, _) = LAYOUTS[(2 * index + shift) % LAYOUTS.len()];
            let number = index + shift;
            check_sm80(&KernelDescription {
                op: KernelOp::ActivationGradient,
                a: MatrixLayout {
                    offset: [0, 0, 3, 8][number % 4],
                    ..a
                },
                c: MatrixLayout {
                    leading: (number % 3 == 1).then_some(n + 5),
                    offset: [0, 1, 8][number % 3],
                    ..MatrixLayout::ROW_MAJOR
                },
                bias: [bias(number), None][usize::from(number % 5 == 4)],
                activation: Activation::ALL[number % Activation::ALL.len()],
                output: [element, ElementType::F32, ElementType::Bf16][number % 3],
                ..KernelDescription::product(element, m, n, 1)
            });
        }
    }
}

/// More rows than one block takes, along and down the lines.
#[test]
fn of_many_rows() {
    for op in [KernelOp::BiasGradient, KernelOp::ActivationGradient] {
        for (a, _) in [LAYOUTS[0], LAYOUTS[2]] {
            let kernel = KernelDescription {
                op,
                a,
                bias: Some(ElementType::F16),
                activation: match op {
                    KernelOp::BiasGradient => Activation::None,
                    _ => Activation::GeluTanh,
                },
                ..KernelDescription::product(ElementType::F16, 4500, 3, 1)
            };
            let ptx = emit(&kernel, Architecture::Sm80, Wish::default());
            assert!(ptx.scratch.counter_bytes > 0, "{:?}", ptx.plan);
            check_ways(&ptx, &WAYS);
        }
    }
}
