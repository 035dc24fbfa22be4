// RUN: raddle-opt %s --fuse-linear | FileCheck %s

// The pre-activation is read by the gradient of gelu, so it stays as the second result.
// CHECK-LABEL: func.func @gelu
// CHECK-NEXT: %[[F:.*]]:2 = dist.fused_linear gelu %arg0, %arg1, %arg2 {dist.role = "forward"}
// CHECK-NEXT: %[[G:.*]] = dist.gelu_grad %[[F]]#1, %arg3
// CHECK-NEXT: return %[[F]]#0, %[[G]]
func.func @gelu(%x: tensor<2x8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %d: tensor<2x8x32xf32>) -> (tensor<2x8x32xf32>, tensor<2x8x32xf32>) {
  %0 = dist.matmul %x, %w {dist.role = "forward"} : (tensor<2x8x16xf32>, tensor<16x32xf32>) -> tensor<2x8x32xf32>
  %1 = dist.add %0, %b : (tensor<2x8x32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32>
  %2 = dist.gelu %1 : tensor<2x8x32xf32>
  %3 = dist.gelu_grad %1, %d : tensor<2x8x32xf32>
  return %2, %3 : tensor<2x8x32xf32>, tensor<2x8x32xf32>
}

// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: dist.fused_linear gelu_tanh %arg0, %arg1, %arg2
func.func @tanh(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = dist.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = dist.gelu %1 {approximate = true} : tensor<8x32xf32>
  return %2 : tensor<8x32xf32>
}

// The bias may come first, the weight transposed, and there may be no activation.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT: %[[F:.*]] = dist.fused_linear none %arg0, %arg1, %arg2 {transpose_b = true}
// CHECK-NEXT: return %[[F]]
func.func @plain(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = dist.matmul %x, %w {transpose_b = true} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = dist.add %b, %0 : (tensor<32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @no_bias
// CHECK-NEXT: dist.fused_linear relu %arg0, %arg1 :
func.func @no_bias(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = dist.relu %0 : tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @silu
// CHECK-NEXT: %[[F:.*]]:2 = dist.fused_linear silu %arg0, %arg1, %arg2
// CHECK-NEXT: %[[G:.*]] = dist.silu_grad %[[F]]#1, %arg3
// CHECK-NEXT: return %[[F]]#0, %[[G]]
func.func @silu(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %d: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = dist.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = dist.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = dist.silu %1 : tensor<8x32xf32>
  %3 = dist.silu_grad %1, %d : tensor<8x32xf32>
  return %2, %3 : tensor<8x32xf32>, tensor<8x32xf32>
}
