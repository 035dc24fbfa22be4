//! The whole product of variants and shapes, on every path.

use raddle_compiler::codegen::nvptx::{Architecture, Target, emit_tuned};
use raddle_compiler::codegen::{Activation, ElementType, KernelDescription, KernelOp, Math, Wish};

use super::hopper;
use super::run::{self, WAYS};
use super::{LAYOUTS, SHAPES, forward};

/// Every op, activation, layout and shape with each other, on both paths, for one type of the inputs:
/// `cargo xtask kernels --full` runs it for each.
fn check_whole_product(element: ElementType, math: Math) {
    let outputs: &[ElementType] = match element {
        ElementType::F32 => &[ElementType::F32],
        half => &[half, ElementType::F32],
    };
    for (m, n, k) in hopper::SHAPES.into_iter().chain(SHAPES) {
        for (layout, (a, b)) in LAYOUTS.into_iter().enumerate() {
            for activation in Activation::ALL {
                for &output in outputs {
                    let forward = KernelDescription {
                        activation,
                        output,
                        math,
                        ..forward(element, (m, n, k), layout)
                    };
                    let input_gradient = KernelDescription {
                        op: KernelOp::InputGradient,
                        bias: None,
                        auxiliary: false,
                        ..forward
                    };
                    check_everywhere(&forward);
                    check_everywhere(&input_gradient);
                    check_everywhere(&KernelDescription {
                        bias: Some(ElementType::ALL[layout % 3]),
                        ..input_gradient
                    });
                    check_everywhere(&KernelDescription {
                        op: KernelOp::ActivationGradient,
                        math: Math::Full,
                        bias: [None, Some(ElementType::F32), Some(element)][layout % 3],
                        ..input_gradient
                    });
                    if activation == Activation::GeluTanh {
                        check_splits(&forward);
                        check_splits(&input_gradient);
                    }
                }
            }
            for accumulate in [false, true] {
                for bias in [None, Some(ElementType::F32), Some(ElementType::Bf16)] {
                    let gradient = KernelDescription {
                        op: KernelOp::WeightGradient,
                        math,
                        output: ElementType::F32,
                        a,
                        b,
                        bias,
                        accumulate,
                        ..KernelDescription::product(element, m, n, k)
                    };
                    check_everywhere(&gradient);
                    check_splits(&gradient);
                }
            }
            for batch in [1, 3] {
                for bias in ElementType::ALL {
                    check_everywhere(&KernelDescription {
                        op: KernelOp::BiasGradient,
                        batch,
                        a,
                        bias: Some(bias),
                        ..KernelDescription::product(element, m, n, k)
                    });
                }
            }
        }
    }
}

/// A kernel whose depth blocks share, in as many ways as it has stages for.
fn check_splits(kernel: &KernelDescription) {
    for architecture in [
        Architecture::Sm80,
        Architecture::Sm90a,
        Architecture::Sm100a,
    ] {
        for splits in [2, 3] {
            let wish = Wish {
                splits: Some(splits),
                ..Wish::default()
            };
            if let Ok(emitted) = emit_tuned(kernel, Target::of(architecture), wish) {
                run::check(&emitted.ptx, &WAYS);
            }
        }
    }
}

#[test]
#[ignore = "takes long"]
fn the_whole_product_bf16() {
    check_whole_product(ElementType::Bf16, Math::Full);
}

#[test]
#[ignore = "takes long"]
fn the_whole_product_f16() {
    check_whole_product(ElementType::F16, Math::Full);
}

#[test]
#[ignore = "takes long"]
fn the_whole_product_f32() {
    check_whole_product(ElementType::F32, Math::Full);
}

#[test]
#[ignore = "takes long"]
fn the_whole_product_tf32() {
    check_whole_product(ElementType::F32, Math::Tf32);
}

#[test]
#[ignore = "takes long"]
fn the_whole_product_3xtf32() {
    check_whole_product(ElementType::F32, Math::ThreeTf32);
}

fn check_everywhere(kernel: &KernelDescription) {
    for architecture in [
        Architecture::Sm80,
        Architecture::Sm90a,
        Architecture::Sm100a,
    ] {
        run::check(&run::emit(kernel, architecture, None), &WAYS);
    }
}
