//! What is checked: every kind of kernel in small, compared whole, and the large ones that are timed.

use raddle_compiler::codegen::nvptx::{Planned, Target};
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, Math, MatrixLayout, MatrixOrder, Wish,
};

/// One kernel to check.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is called in the table.
    pub name: String,
    /// The kernel.
    pub kernel: KernelDescription,
}

/// Tokens, out features, in features, problems of a batch, elements before the first one.
const SHAPES: [(&str, [u64; 5]); 7] = [
    ("regular", [256, 384, 320, 1, 0]),
    ("ragged", [131, 197, 90, 1, 0]),
    ("tiny", [1, 3, 2, 1, 0]),
    ("k1", [72, 40, 1, 1, 0]),
    ("unaligned", [65, 67, 69, 1, 1]),
    ("batched", [48, 80, 64, 3, 0]),
    ("deep", [16, 24, 4096, 1, 0]),
];

const ELEMENTS: [(ElementType, Math); 5] = [
    (ElementType::Bf16, Math::Full),
    (ElementType::F16, Math::Full),
    (ElementType::F32, Math::Full),
    (ElementType::F32, Math::Tf32),
    (ElementType::F32, Math::ThreeTf32),
];

/// Every op with every type and every shape; layouts, activations and epilogues take turns. Combinations that no kernel
/// computes are left out.
pub fn small(target: Target) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut turn = 0;
    for op in KernelOp::ALL {
        for (element, math) in ELEMENTS {
            for (shape, extents) in SHAPES {
                turn += 1;
                let kernel = variant(op, (element, math), extents, turn);
                if Planned::of(&kernel, target, Wish::default()).is_ok() {
                    let name = format!("{} {} {shape}", op.name(), type_name(element, math));
                    cases.push(Case { name, kernel });
                }
            }
        }
    }
    cases
}

fn variant(
    op: KernelOp,
    (element, math): (ElementType, Math),
    [m, n, k, batch, offset]: [u64; 5],
    turn: usize,
) -> KernelDescription {
    let layout = |order| MatrixLayout {
        order,
        offset,
        ..MatrixLayout::ROW_MAJOR
    };
    let order = |bit: usize| match bit & 1 {
        0 => MatrixOrder::RowMajor,
        _ => MatrixOrder::ColumnMajor,
    };
    let forward = op == KernelOp::FusedLinear;
    let has_activation = matches!(
        op,
        KernelOp::FusedLinear | KernelOp::InputGradient | KernelOp::ActivationGradient
    );
    let single = |is_single| if is_single { ElementType::F32 } else { element };
    let bias = match op {
        KernelOp::FusedLinear => {
            (!turn.is_multiple_of(3)).then_some(single(turn.is_multiple_of(4)))
        }
        KernelOp::InputGradient => turn.is_multiple_of(2).then_some(ElementType::F32),
        KernelOp::WeightGradient | KernelOp::ActivationGradient => {
            (!turn.is_multiple_of(3)).then_some(ElementType::F32)
        }
        KernelOp::BiasGradient => Some(ElementType::F32),
    };
    KernelDescription {
        op,
        math,
        batch,
        a: layout(order(turn)),
        b: layout(order(turn / 2)),
        c: layout(MatrixOrder::RowMajor),
        output: single(op == KernelOp::WeightGradient && !turn.is_multiple_of(5)),
        bias,
        activation: if has_activation {
            Activation::ALL[turn % Activation::ALL.len()]
        } else {
            Activation::None
        },
        auxiliary: forward && turn.is_multiple_of(2),
        accumulate: op == KernelOp::WeightGradient && turn.is_multiple_of(2),
        ..KernelDescription::product(element, m, n, k)
    }
}

/// The kernels that are timed, the most important first: those that time does not suffice for are the last ones. All
/// extents are divided by a number, which is 1 unless the program is only tried out.
pub fn large(shrink: u64) -> Vec<Case> {
    let bf16 = ElementType::Bf16;
    let square = |element, extent| KernelDescription::product(element, extent, extent, extent);
    let column_b = |kernel| KernelDescription {
        b: MatrixLayout::COLUMN_MAJOR,
        ..kernel
    };
    let with_bias = |kernel: KernelDescription| KernelDescription {
        bias: Some(kernel.element),
        ..kernel
    };
    let with_gelu = |kernel: KernelDescription| KernelDescription {
        activation: Activation::GeluTanh,
        auxiliary: true,
        ..with_bias(kernel)
    };
    let input_gradient = |kernel| KernelDescription {
        op: KernelOp::InputGradient,
        activation: Activation::GeluTanh,
        ..kernel
    };
    let weight_gradient = |kernel| KernelDescription {
        op: KernelOp::WeightGradient,
        output: ElementType::F32,
        bias: Some(ElementType::F32),
        ..kernel
    };
    let layer = KernelDescription::product(bf16, 4096, 14336, 4096);
    let few = KernelDescription::product(bf16, 16, 8192, 8192);
    let f32 = square(ElementType::F32, 4096);
    let tf32 = KernelDescription {
        math: Math::Tf32,
        ..f32
    };
    let bias_gradient = KernelDescription {
        op: KernelOp::BiasGradient,
        bias: Some(ElementType::F32),
        ..square(bf16, 8192)
    };
    let cases = [
        ("plain", square(bf16, 8192)),
        ("bias gelu aux", with_gelu(square(bf16, 8192))),
        ("plain, B transposed", column_b(square(bf16, 8192))),
        ("bias", with_bias(square(bf16, 8192))),
        ("plain", square(bf16, 4096)),
        ("dX gelu", input_gradient(square(bf16, 8192))),
        ("dW dBias", weight_gradient(square(bf16, 8192))),
        ("bias gelu aux", with_gelu(layer)),
        ("dX gelu", input_gradient(layer)),
        ("dW dBias", weight_gradient(layer)),
        ("plain, few tokens", few),
        ("bias gelu aux", with_gelu(square(ElementType::F16, 8192))),
        ("plain", tf32),
        ("plain", f32),
        ("dBias", bias_gradient),
    ];
    let smaller = |extent: u64| (extent / shrink).max(1);
    cases
        .into_iter()
        .map(|(name, kernel)| {
            let smaller = KernelDescription {
                m: smaller(kernel.m),
                n: smaller(kernel.n),
                k: smaller(kernel.k),
                ..kernel
            };
            (name, smaller)
        })
        .map(|(name, kernel)| Case {
            name: format!(
                "{name}, {} {}x{}x{}",
                type_name(kernel.element, kernel.math),
                kernel.m,
                kernel.n,
                kernel.k
            ),
            kernel,
        })
        .collect()
}

fn type_name(element: ElementType, math: Math) -> String {
    match math {
        Math::Full => element.name().to_owned(),
        Math::Tf32 | Math::ThreeTf32 => math.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use raddle_compiler::codegen::nvptx::Architecture;
    use raddle_compiler::codegen::oracle::Generated;

    use super::*;

    #[test]
    fn every_kind_of_kernel_is_among_the_small_ones() {
        for architecture in Architecture::ALL {
            let cases = small(Target::of(architecture));
            let kernels: Vec<_> = cases.iter().map(|case| case.kernel).collect();
            assert!(cases.len() >= 120, "{architecture}: {}", cases.len());
            for op in KernelOp::ALL {
                let of_op = || kernels.iter().filter(move |kernel| kernel.op == op);
                let types: HashSet<_> = of_op().map(|k| (k.element, k.math)).collect();
                assert!(types.len() >= 3, "{architecture}, {}: {types:?}", op.name());
                assert!(of_op().any(|kernel| kernel.a.offset > 0), "{}", op.name());
            }
            let product = || kernels.iter().filter(|k| k.op == KernelOp::FusedLinear);
            let layouts: HashSet<_> = product().map(|k| (k.a.order, k.b.order)).collect();
            assert_eq!(layouts.len(), 4);
            let activations: HashSet<_> = product().map(|k| k.activation).collect();
            assert_eq!(activations.len(), Activation::ALL.len());
            assert!(product().any(|kernel| kernel.auxiliary && kernel.batch > 1));
            assert!(kernels.iter().any(|kernel| kernel.accumulate));
        }
    }

    #[test]
    fn large_kernels_can_be_planned_and_sampled() {
        for case in large(1).into_iter().chain(large(64)) {
            assert!(Generated::of(&case.kernel, 0).is_some(), "{}", case.name);
            for architecture in Architecture::ALL {
                let target = Target::of(architecture);
                let planned = Planned::of(&case.kernel, target, Wish::default());
                assert!(planned.is_ok(), "{}: {planned:?}", case.name);
            }
        }
    }
}
