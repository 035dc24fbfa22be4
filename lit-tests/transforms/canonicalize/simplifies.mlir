// RUN: raddle-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @unchanged
// CHECK-NEXT: return %arg0
func.func @unchanged(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = dist.identity %x : tensor<2x3xf32>
  %1 = dist.cast %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = dist.reshape %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = dist.transpose %2 {perm = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = dist.scale %3 {scale = 1.0 : f64} : tensor<2x3xf32>
  %5 = dist.sum %4 : tensor<2x3xf32>
  %6 = dist.concat %5 {dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = dist.reduce_sum %6 {dims = array<i64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %7 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @transposes
// CHECK-NEXT: %[[T:.*]] = dist.transpose %arg0 {perm = array<i64: 2, 0, 1>}
// CHECK-NEXT: return %[[T]]
func.func @transposes(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = dist.transpose %x {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = dist.transpose %0 {perm = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// A transpose and its inverse are nothing at all.
// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT: return %arg0
func.func @there_and_back(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = dist.transpose %x {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = dist.transpose %0 {perm = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @reshapes
// CHECK-NEXT: %[[R:.*]] = dist.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<24xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshapes(%x: tensor<2x3x4xf32>) -> tensor<24xf32> {
  %0 = dist.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = dist.reshape %0 : (tensor<6x4xf32>) -> tensor<24xf32>
  return %1 : tensor<24xf32>
}

// CHECK-LABEL: func.func @scales
// CHECK-NEXT: %[[S:.*]] = dist.scale %arg0 {scale = 2.500000e-01 : f64}
// CHECK-NEXT: return %[[S]]
func.func @scales(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dist.scale %x {scale = 0.5 : f64} : tensor<4xf32>
  %1 = dist.scale %0 {scale = 0.5 : f64} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A gradient that nobody reads is not computed.
// CHECK-LABEL: func.func @gradients
// CHECK-NEXT: %[[G:.*]] = dist.matmul_grad %arg0, %arg1, %arg2 {resultSegmentSizes = array<i32: 0, 1>}
// CHECK-NEXT: return %[[G]]
func.func @gradients(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %d: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %0:2 = dist.matmul_grad %x, %w, %d : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<3x4xf32>)
  return %0#1 : tensor<3x4xf32>
}
