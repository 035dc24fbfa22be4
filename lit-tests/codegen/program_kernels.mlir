// The kernels that a program's linear layers need. Layers of one shape share a kernel; a layer that none computes is
// explained.
//
// REQUIRES: ptxas
// RUN: raddle kernel --program %s --target sm_80 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARNING < %t.err
// RUN: raddle kernel --program %s --math tf32 2>%t.err | FileCheck %s --check-prefix=TF32

// CHECK:      fused_linear_f32_gelu_8x32x16_bias_f32_aux: {{[0-9]+}} registers, {{[0-9]+}} bytes of shared memory, 0 bytes spilled, 1 x 64 threads, 2 uses
// CHECK-NEXT: dx_bf16_relu_64x32x128: {{[0-9]+}} registers, {{[0-9]+}} bytes of shared memory, 0 bytes spilled, {{.*}} 1 use
// CHECK-NEXT: dw_bf16_none_64x32x128_bias_f32_to_f32_accumulate: {{[0-9]+}} registers, {{.*}} 0 bytes spilled, {{.*}} 1 use
// CHECK-NOT:  fused_linear

// With --math, layers in f32 are computed as tf32; others stay as they are.
//
// TF32:      fused_linear_tf32_gelu_8x32x16_bias_f32_aux: {{[0-9]+}} registers, {{.*}} 2 uses
// TF32-NEXT: dx_bf16_relu_64x32x128: {{.*}} 1 use
// TF32-NEXT: dw_bf16_none_64x32x128_bias_f32_to_f32_accumulate: {{.*}} 1 use

// WARNING: program_kernels.mlir:33:8: warning: no GPU kernel computes this layer: elements of x are f64; kernels take bf16, f16, tf32 and f32 {{\[W0901\]}}

func.func @step(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %y: tensor<64x128xbf16>,
                %v: tensor<128x32xbf16>, %d: tensor<64x32xbf16>, %acc: tensor<128x32xf32>, %z: tensor<8x16xf64>,
                %u: tensor<16x32xf64>) {
  %0:2 = "dist.fused_linear"(%x, %w, %b) {activation = "gelu_tanh"}
    : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>)
  %1:2 = "dist.fused_linear"(%x, %w, %b) {activation = "gelu_tanh"}
    : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>)
  %2:3 = "dist.fused_linear_grad"(%y, %v, %d, %y, %acc) {activation = "relu",
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, resultSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<64x128xbf16>, tensor<128x32xbf16>, tensor<64x32xbf16>, tensor<64x128xbf16>, tensor<128x32xf32>)
    -> (tensor<64x128xbf16>, tensor<128x32xf32>, tensor<32xf32>)
  %3 = "dist.fused_linear"(%z, %u) {activation = "none"}
    : (tensor<8x16xf64>, tensor<16x32xf64>) -> tensor<8x32xf64>
  func.return
}
