// A training step with its linear layers computed by kernels on the simulator: each number is checked against the op, and the losses
// are those of the reference device. A layer that no kernel computes is left to that device, with a warning.
//
// RUN: raddle run %s --steps 2 | FileCheck %s --check-prefix=REFERENCE
// RUN: raddle run %s --steps 2 --device ptxsim --check 2>%t.err | FileCheck %s --check-prefixes=KERNELS,SM80
// RUN: FileCheck %s --check-prefix=WARNING < %t.err
// RUN: raddle run %s --steps 2 --device ptxsim --check --target sm_90a --delivery eager 2>%t.err | FileCheck %s --check-prefixes=KERNELS,SM90
// RUN: raddle run %s --steps 1 --seed 3 --device ptxsim --check --format json 2>%t.err | FileCheck %s --check-prefix=JSON

// REFERENCE:      step {{ *}}loss {{ *}}lowest {{ *}}highest {{ *}}losses
// REFERENCE-NEXT: 0 {{ *}}0.498{{[0-9]+ .*}} 2
// REFERENCE-NEXT: 1 {{ *}}0.477{{[0-9]+ .*}} 2
// REFERENCE-NOT:  {{.}}

// KERNELS:      step {{ *}}loss
// KERNELS-NEXT: 0 {{ *}}0.498{{[0-9]+ .*}} 2
// KERNELS-NEXT: 1 {{ *}}0.477{{[0-9]+ .*}} 2
// KERNELS:      kernel {{ *}}launches {{ *}}us each
// KERNELS-NEXT: dbias_bf16_none_40x32x16_bias_f32 {{ *}}4
// KERNELS-NEXT: dw_bf16_none_40x16x32_to_f32_accumulate {{ *}}4
// KERNELS-NEXT: dx_bf16_relu_40x32x16 {{ *}}4
// KERNELS-NEXT: fused_linear_bf16_gelu_40x32x16_bias_f32_aux {{ *}}4
// SM80-NEXT:    target:      sm_80
// SM90-NEXT:    target:      sm_90a
// KERNELS-NEXT: layers:      2 by kernels, 1 by the reference device
// KERNELS-NEXT: numbers:     14976 compared, 0 wrong, largest error 0.{{[0-9]+}} of what is allowed
// KERNELS-NEXT: findings:    0

// WARNING: warning: no GPU kernel computes this layer: elements of x are f64; kernels take bf16, f16, tf32 and f32 {{\[W0901\]}}

// JSON:     "check": {
// JSON:       "wrong": 0
// JSON:     "device": "ptxsim",
// JSON:     "kernels": [
// JSON:       "launches": 2,
// JSON:     "layers": {
// JSON-NEXT:  "kernels": 2,
// JSON-NEXT:  "reference": 1
// JSON:     "seed": 3,
// JSON:     "steps": [
// JSON:       "losses": 2,
// JSON:     "target": "sm_80"

dist.mesh @mesh ["dp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<32x16xbf16>
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<32xf32>
  dist.global @main buffer {layout = #dist.layout<[[], []], []>} : tensor<32x16xf32>
  func.func @step(%x: tensor<5x8x16xbf16> {dist.layout = #dist.layout<[["dp"], [], []], []>},
                  %dout: tensor<5x8x32xbf16> {dist.layout = #dist.layout<[["dp"], [], []], []>},
                  %z: tensor<8x16xf64> {dist.layout = #dist.layout<[["dp"], []], []>},
                  %u: tensor<16x32xf64>) -> tensor<f32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<32x16xbf16>
    %b = dist.load @b : tensor<32xf32>
    %main = dist.load @main : tensor<32x16xf32>
    %out, %aux = "dist.fused_linear"(%x, %w, %b) {activation = "gelu_tanh", transpose_a = false, transpose_b = true}
      : (tensor<5x8x16xbf16>, tensor<32x16xbf16>, tensor<32xf32>) -> (tensor<5x8x32xbf16>, tensor<5x8x32xbf16>)
    %dx, %dw, %db = "dist.fused_linear_grad"(%x, %w, %dout, %x, %main) {activation = "relu", overwrite = false,
        transpose_a = false, transpose_b = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, resultSegmentSizes = array<i32: 1, 1, 1>}
      : (tensor<5x8x16xbf16>, tensor<32x16xbf16>, tensor<5x8x32xbf16>, tensor<5x8x16xbf16>, tensor<32x16xf32>)
      -> (tensor<5x8x16xbf16>, tensor<32x16xf32>, tensor<32xf32>)
    %wide = "dist.fused_linear"(%z, %u) {activation = "none", transpose_a = false, transpose_b = false}
      : (tensor<8x16xf64>, tensor<16x32xf64>) -> tensor<8x32xf64>
    %sum = dist.all_reduce sum %dw over ["dp"] : tensor<32x16xf32>
    dist.store @main %sum : tensor<32x16xf32>
    %o = dist.cast %out : (tensor<5x8x32xbf16>) -> tensor<5x8x32xf32>
    %loss = dist.reduce_mean %o {dims = array<i64: 0, 1, 2>} : (tensor<5x8x32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
