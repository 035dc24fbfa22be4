// RUN: raddle-opt %s --promote-linear --remarks --verify-diagnostics | FileCheck %s

// A column-parallel layer has no reduction to move a bias over; products of the backward pass are no layers.

// CHECK-COUNT-1: module @
// CHECK-NOT:     module @
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<8x16xf32>
  dist.global @b parameter {layout = #dist.layout<[["mp"]], []>} : tensor<16xf32>
  func.func @step(%x: tensor<4x8xf32>, %d: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x8xf32>) attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<8x16xf32>
    // expected-remark @+1 {{not promoted: its product is not summed over ranks}}
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %p, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %dx = dist.matmul %d, %w {transpose_b = true, dist.role = "backward"} : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
    return %s, %dx : tensor<4x16xf32>, tensor<4x8xf32>
  }
}
