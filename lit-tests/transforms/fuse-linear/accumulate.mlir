// Gradients of several micro-batches are added up by the fused op, in the type of the sum.
// RUN: raddle-opt %s --fuse-linear --split-input-file | FileCheck %s

dist.mesh @mesh ["x" = 1]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 4 : i64, dist.ranks = [{}]} {
  dist.global @w_grad buffer {layout = #dist.layout<[[], []], []>} : tensor<16x32xf32>
  dist.global @b_grad buffer {layout = #dist.layout<[[]], []>} : tensor<32xf32>

  // dX with the derivative, dW added to the f32 sum, dBias as f32: nothing is rounded to bf16 on the way.
  // CHECK-LABEL: func.func @all
  // CHECK-NEXT: %[[SUM:.*]] = dist.load @w_grad {dist.role = "backward"} : tensor<16x32xf32>
  // CHECK-NEXT: %[[F:.*]]:3 = dist.fused_linear_grad gelu %arg0, %arg1, %arg3, %arg4, %[[SUM]] : (tensor<8x16xbf16>, tensor<16x32xbf16>, tensor<8x32xbf16>, tensor<8x16xbf16>, tensor<16x32xf32>) -> (tensor<8x16xbf16>, tensor<16x32xf32>, tensor<32xf32>)
  // CHECK-NEXT: dist.store @w_grad %[[F]]#1 {dist.role = "backward"} : tensor<16x32xf32>
  // CHECK-NEXT: dist.accumulate @b_grad %[[F]]#2 {dist.role = "backward"} : tensor<32xf32>
  // CHECK-NEXT: return %[[F]]#0
  func.func @all(%x: tensor<8x16xbf16>, %w: tensor<16x32xbf16>, %b: tensor<32xbf16>, %d: tensor<8x32xbf16>, %pre: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
    %0:2 = dist.add_grad %d, %b, %d : (tensor<8x32xbf16>, tensor<32xbf16>, tensor<8x32xbf16>) -> (tensor<8x32xbf16>, tensor<32xbf16>)
    %1:2 = dist.matmul_grad %x, %w, %0#0 : (tensor<8x16xbf16>, tensor<16x32xbf16>, tensor<8x32xbf16>) -> (tensor<8x16xbf16>, tensor<16x32xbf16>)
    %2 = dist.gelu_grad %pre, %1#0 : tensor<8x16xbf16>
    %3 = dist.cast %1#1 : (tensor<16x32xbf16>) -> tensor<16x32xf32>
    dist.accumulate @w_grad %3 {dist.role = "backward"} : tensor<16x32xf32>
    dist.accumulate @b_grad %0#1 {dist.role = "backward"} : tensor<32xbf16>
    return %2 : tensor<8x16xbf16>
  }

  // dW alone.
  // CHECK-LABEL: func.func @weight
  // CHECK-NEXT: %[[SUM:.*]] = dist.load @w_grad
  // CHECK-NEXT: %[[F:.*]] = dist.fused_linear_grad none %arg0, %arg1, %arg2, %[[SUM]] {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, resultSegmentSizes = array<i32: 0, 1, 0>}
  // CHECK-NEXT: dist.store @w_grad %[[F]]
  // CHECK-NEXT: return
  func.func @weight(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    dist.accumulate @w_grad %0 : tensor<16x32xf32>
    return
  }

  // A weight that two layers share: the second reads what the first has stored.
  // CHECK-LABEL: func.func @tied
  // CHECK-NEXT: %[[S0:.*]] = dist.load @w_grad
  // CHECK-NEXT: %[[F0:.*]] = dist.fused_linear_grad none %arg0, %arg1, %arg2, %[[S0]]
  // CHECK-NEXT: dist.store @w_grad %[[F0]]
  // CHECK-NEXT: %[[S1:.*]] = dist.load @w_grad
  // CHECK-NEXT: %[[F1:.*]] = dist.fused_linear_grad none %arg2, %arg1, %arg0, %[[S1]] {{{.*}}transpose_b = true}
  // CHECK-NEXT: dist.store @w_grad %[[F1]]
  func.func @tied(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) {
    %0 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    %1 = dist.matmul_grad %d, %w, %x {transpose_b = true, resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x32xf32>, tensor<16x32xf32>, tensor<8x16xf32>) -> tensor<16x32xf32>
    dist.accumulate @w_grad %0 : tensor<16x32xf32>
    dist.accumulate @w_grad %1 : tensor<16x32xf32>
    return
  }

  // The sum is zero here, so it is overwritten and neither read nor zeroed.
  // CHECK-LABEL: func.func @overwrites
  // CHECK-NOT: @w_grad
  // CHECK: %[[F:.*]] = dist.fused_linear_grad none %arg0, %arg1, %arg2 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, overwrite = true, resultSegmentSizes = array<i32: 0, 1, 0>}
  // CHECK-NEXT: dist.store @w_grad %[[F]]
  // CHECK-NOT: @w_grad
  // CHECK: return
  func.func @overwrites(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>) {
    %0 = dist.fill {value = 0.0 : f64} : tensor<16x32xf32>
    dist.store @w_grad %0 : tensor<16x32xf32>
    %1 = dist.matmul_grad %x, %w, %d {resultSegmentSizes = array<i32: 0, 1>} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    dist.accumulate @w_grad %1 : tensor<16x32xf32>
    return
  }

  // The gradient of the bias may be written as a sum of what comes in.
  // CHECK-LABEL: func.func @summed
  // CHECK-NEXT: %[[F:.*]]:3 = dist.fused_linear_grad none %arg0, %arg1, %arg2 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x16xf32>, tensor<16x32xf32>, tensor<2x4x32xf32>) -> (tensor<2x4x16xf32>, tensor<16x32xf32>, tensor<32xf32>)
  // CHECK-NEXT: return %[[F]]#0, %[[F]]#1, %[[F]]#2
  func.func @summed(%x: tensor<2x4x16xf32>, %w: tensor<16x32xf32>, %d: tensor<2x4x32xf32>) -> (tensor<2x4x16xf32>, tensor<16x32xf32>, tensor<32xf32>) {
    %0:2 = dist.matmul_grad %x, %w, %d : (tensor<2x4x16xf32>, tensor<16x32xf32>, tensor<2x4x32xf32>) -> (tensor<2x4x16xf32>, tensor<16x32xf32>)
    %1 = dist.reduce_sum %d {dims = array<i64: 0, 1>} : (tensor<2x4x32xf32>) -> tensor<32xf32>
    return %0#0, %0#1, %1 : tensor<2x4x16xf32>, tensor<16x32xf32>, tensor<32xf32>
  }
}
