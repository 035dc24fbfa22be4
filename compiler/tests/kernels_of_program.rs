//! From the linear layers of a program to descriptions of kernels.

use raddle_compiler::codegen::program::kernels_of;
use raddle_compiler::codegen::{
    Activation, ElementType, KernelDescription, KernelOp, MatrixLayout,
};
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::Context;
use raddle_dialect::syntax::{self, ParseOptions};

/// The kernels of a function body, and what is said about layers without one.
fn kernels(arguments: &str, body: &str) -> (Vec<KernelDescription>, Vec<String>) {
    let text = format!("func.func @step({arguments}) {{\n{body}\n  func.return\n}}\n");
    let cx = Context::new();
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("step.mlir", text.as_bytes());
    let module = syntax::parse(&cx, &source, ParseOptions::default(), &mut diagnostics)
        .unwrap_or_else(|| panic!("{text}"));
    let (kernels, warnings) = kernels_of(&module);
    let kernels = kernels.into_iter().map(|found| found.kernel).collect();
    let warnings = warnings
        .into_iter()
        .map(|warning| warning.message)
        .collect();
    (kernels, warnings)
}

#[test]
fn batches_are_tokens_and_gelu_is_the_erf_form() {
    let (kernels, warnings) = kernels(
        "%x: tensor<4x16x64xbf16>, %w: tensor<64x32xbf16>, %b: tensor<32xf32>",
        r#"  %0:2 = "dist.fused_linear"(%x, %w, %b) {activation = "gelu"}
      : (tensor<4x16x64xbf16>, tensor<64x32xbf16>, tensor<32xf32>) -> (tensor<4x16x32xbf16>, tensor<4x16x32xbf16>)"#,
    );
    assert_eq!(warnings, [] as [String; 0]);
    let expected = KernelDescription {
        bias: Some(ElementType::F32),
        activation: Activation::GeluErf,
        auxiliary: true,
        ..KernelDescription::product(ElementType::Bf16, 64, 32, 64)
    };
    assert_eq!(kernels, [expected]);
}

#[test]
fn transposed_operands_are_column_major() {
    let (kernels, _) = kernels(
        "%x: tensor<64x8xf32>, %w: tensor<32x64xf32>",
        r#"  %0 = "dist.fused_linear"(%x, %w) {activation = "relu", transpose_a = true, transpose_b = true}
      : (tensor<64x8xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>"#,
    );
    let expected = KernelDescription {
        a: MatrixLayout::COLUMN_MAJOR,
        b: MatrixLayout::COLUMN_MAJOR,
        activation: Activation::Relu,
        ..KernelDescription::product(ElementType::F32, 8, 32, 64)
    };
    assert_eq!(kernels, [expected]);
}

#[test]
fn a_gradient_takes_two_kernels() {
    let (kernels, warnings) = kernels(
        "%x: tensor<16x64xbf16>, %w: tensor<64x32xbf16>, %d: tensor<16x32xbf16>, %aux: tensor<16x64xbf16>, %acc: tensor<64x32xf32>",
        r#"  %0:3 = "dist.fused_linear_grad"(%x, %w, %d, %aux, %acc) {activation = "gelu_tanh",
        operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, resultSegmentSizes = array<i32: 1, 1, 1>}
      : (tensor<16x64xbf16>, tensor<64x32xbf16>, tensor<16x32xbf16>, tensor<16x64xbf16>, tensor<64x32xf32>)
      -> (tensor<16x64xbf16>, tensor<64x32xf32>, tensor<32xf32>)"#,
    );
    assert_eq!(warnings, [] as [String; 0]);
    let plain = KernelDescription::product(ElementType::Bf16, 16, 32, 64);
    let input = KernelDescription {
        op: KernelOp::InputGradient,
        activation: Activation::GeluTanh,
        ..plain
    };
    let weight = KernelDescription {
        op: KernelOp::WeightGradient,
        output: ElementType::F32,
        bias: Some(ElementType::F32),
        accumulate: true,
        ..plain
    };
    assert_eq!(kernels, [input, weight]);
}

#[test]
fn a_batch_of_transposed_matrices_is_a_batch_of_products() {
    let (kernels, warnings) = kernels(
        "%x: tensor<2x64x8xf32>, %w: tensor<64x32xf32>",
        r#"  %0 = "dist.fused_linear"(%x, %w) {activation = "none", transpose_a = true}
      : (tensor<2x64x8xf32>, tensor<64x32xf32>) -> tensor<2x8x32xf32>"#,
    );
    assert_eq!(warnings, [] as [String; 0]);
    let expected = KernelDescription {
        batch: 2,
        a: MatrixLayout::COLUMN_MAJOR,
        b: MatrixLayout {
            batch_stride: Some(0),
            ..MatrixLayout::ROW_MAJOR
        },
        ..KernelDescription::product(ElementType::F32, 8, 32, 64)
    };
    assert_eq!(kernels, [expected]);
}

/// The gradient of what is given transposed lies transposed: the kernels compute the transposed products.
#[test]
fn gradients_lie_as_their_operands_do() {
    let (kernels, warnings) = kernels(
        "%x: tensor<64x16xbf16>, %w: tensor<32x64xbf16>, %d: tensor<16x32xbf16>",
        r#"  %0:3 = "dist.fused_linear_grad"(%x, %w, %d) {activation = "none", transpose_a = true, transpose_b = true,
        operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 1>}
      : (tensor<64x16xbf16>, tensor<32x64xbf16>, tensor<16x32xbf16>)
      -> (tensor<64x16xbf16>, tensor<32x64xbf16>, tensor<32xbf16>)"#,
    );
    assert_eq!(warnings, [] as [String; 0]);
    let plain = KernelDescription::product(ElementType::Bf16, 16, 32, 64);
    // dxᵀ[64, 16] = w[64, 32] · doutᵀ[32, 16]
    let input = KernelDescription {
        op: KernelOp::InputGradient,
        m: 64,
        k: 16,
        a: MatrixLayout::COLUMN_MAJOR,
        ..plain
    };
    // dwᵀ[32, 64] = doutᵀ[32, 16] · x[16, 64]
    let weight = KernelDescription {
        op: KernelOp::WeightGradient,
        n: 64,
        k: 32,
        b: MatrixLayout::COLUMN_MAJOR,
        ..plain
    };
    let bias = KernelDescription {
        op: KernelOp::BiasGradient,
        bias: Some(ElementType::Bf16),
        ..plain
    };
    assert_eq!(kernels, [input, weight, bias]);
}

#[test]
fn layers_without_a_kernel_are_explained() {
    for (arguments, body, reason) in [
        (
            "%x: tensor<8x64xf64>, %w: tensor<64x32xf64>",
            r#"  %0 = "dist.fused_linear"(%x, %w) {activation = "none"}
      : (tensor<8x64xf64>, tensor<64x32xf64>) -> tensor<8x32xf64>"#,
            "elements of x are f64; kernels take bf16, f16, tf32 and f32",
        ),
        (
            "%x: tensor<?x64xf32>, %w: tensor<64x32xf32>",
            r#"  %0 = "dist.fused_linear"(%x, %w) {activation = "none"}
      : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>"#,
            "an extent is not known when it is compiled",
        ),
        (
            "%x: tensor<4611686018427387904x64x8xf32>, %w: tensor<64x32xf32>",
            r#"  %0 = "dist.fused_linear"(%x, %w) {activation = "none", transpose_a = true}
      : (tensor<4611686018427387904x64x8xf32>, tensor<64x32xf32>) -> tensor<4611686018427387904x8x32xf32>"#,
            "there are too many tokens",
        ),
        (
            "%x: tensor<0x64xf32>, %w: tensor<64x32xf32>",
            r#"  %0 = "dist.fused_linear"(%x, %w) {activation = "none"}
      : (tensor<0x64xf32>, tensor<64x32xf32>) -> tensor<0x32xf32>"#,
            "m is 0; an extent lies between 1 and 1073741824",
        ),
    ] {
        let (kernels, warnings) = kernels(arguments, body);
        assert_eq!(kernels, []);
        assert_eq!(
            warnings,
            [format!("no GPU kernel computes this layer: {reason}")]
        );
    }
}
