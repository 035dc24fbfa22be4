// RUN: raddle-opt %s --fuse-linear | FileCheck %s

// dX with the derivative of the gelu before, dW and dBias in one.
// CHECK-LABEL: func.func @all
// CHECK: %[[F:.*]]:3 = dist.fused_linear_grad gelu %arg0, %arg1, %arg3, %arg4 {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}
// CHECK-NEXT: return %[[F]]#0, %[[F]]#1, %[[F]]#2
func.func @all(%x: tensor<2x8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %d: tensor<2x8x32xf32>, %pre: tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<32xf32>) {
  %0 = dist.matmul %x, %w : (tensor<2x8x16xf32>, tensor<16x32xf32>) -> tensor<2x8x32xf32>
  %1:2 = dist.add_grad %0, %b, %d : (tensor<2x8x32xf32>, tensor<32xf32>, tensor<2x8x32xf32>) -> (tensor<2x8x32xf32>, tensor<32xf32>)
  %2:2 = dist.matmul_grad %x, %w, %1#0 : (tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<2x8x32xf32>) -> (tensor<2x8x16xf32>, tensor<16x32xf32>)
  %3 = dist.gelu_grad %pre, %2#0 : tensor<2x8x16xf32>
  return %3, %2#1, %1#1 : tensor<2x8x16xf32>, tensor<16x32xf32>, tensor<32xf32>
}

// Ranks that lost the bias still take the derivative with dX.
// CHECK-LABEL: func.func @without_bias
// CHECK-NEXT: %[[F:.*]]:2 = dist.fused_linear_grad relu %arg0, %arg1, %arg2, %arg3 {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 1, 0>}
// CHECK-NEXT: return %[[F]]#0, %[[F]]#1
func.func @without_bias(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %pre: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>) {
  %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
  %1 = dist.relu_grad %pre, %0#0 : tensor<8x16xf32>
  return %1, %0#1 : tensor<8x16xf32>, tensor<16x32xf32>
}

// The bias gradient is read before the matmul_grad, so the fused op stands where the add_grad stood.
// CHECK-LABEL: func.func @bias_gradient_first
// CHECK-NEXT: %[[F:.*]]:3 = dist.fused_linear_grad none %arg0, %arg1, %arg3
// CHECK-NEXT: dist.scale %[[F]]#2
func.func @bias_gradient_first(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %d: tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>, tensor<32xf32>) {
  %0:2 = dist.add_grad %d, %b, %d : (tensor<8x32xf32>, tensor<32xf32>, tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<32xf32>)
  %1 = dist.scale %0#1 {scale = 0.5 : f64} : tensor<32xf32>
  %2:2 = dist.matmul_grad %x, %w, %0#0 : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
  return %2#0, %2#1, %1 : tensor<8x16xf32>, tensor<16x32xf32>, tensor<32xf32>
}

// dX is needed without the derivative, too.
// CHECK-LABEL: func.func @two_readers
// CHECK-NEXT: dist.matmul_grad
// CHECK-NEXT: dist.gelu_grad
func.func @two_readers(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %pre: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<16x32xf32>) {
  %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
  %1 = dist.gelu_grad %pre, %0#0 : tensor<8x16xf32>
  return %1, %0#0, %0#1 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<16x32xf32>
}

// CHECK-LABEL: func.func @silu
// CHECK-NEXT: %[[F:.*]]:2 = dist.fused_linear_grad silu %arg0, %arg1, %arg2, %arg3
// CHECK-NEXT: return %[[F]]#0, %[[F]]#1
func.func @silu(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %pre: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>) {
  %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
  %1 = dist.silu_grad %pre, %0#0 : tensor<8x16xf32>
  return %1, %0#1 : tensor<8x16xf32>, tensor<16x32xf32>
}

// The derivative of tanh gelu.
// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: dist.fused_linear_grad gelu_tanh
func.func @tanh(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %d: tensor<8x32xf32>, %pre: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>) {
  %0:2 = dist.matmul_grad %x, %w, %d : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> (tensor<8x16xf32>, tensor<16x32xf32>)
  %1 = dist.gelu_grad %pre, %0#0 {approximate = true} : tensor<8x16xf32>
  return %1, %0#1 : tensor<8x16xf32>, tensor<16x32xf32>
}
