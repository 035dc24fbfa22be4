// RUN: not raddle-opt %s --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// The second reduction sums what is whole already.

// CHECK: error: 'dist.all_reduce' sums over axis 'mp', along which all ranks have the same: the result is 2 times too large [E0411]
// CHECK-NEXT: note: 'dist.all_reduce' makes it whole along 'mp'
// CHECK-NEXT: note: 'dist.cast' leaves it whole along 'mp'
// CHECK-NEXT: help: drop the collective if its operand has been reduced before
// CHECK-NOT: {{(error|warning)}}:
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[["dp"], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
      %c = dist.cast %r : (tensor<4x16xf32>) -> tensor<4x16xbf16>
      %s = dist.all_reduce sum %c over ["mp"] : tensor<4x16xbf16>
      // Counting ranks, and a sum that is divided again, are meant.
      %one = dist.fill {value = 1.0 : f64} : tensor<1xf32>
      %ranks = dist.all_reduce sum %one over ["dp", "mp"] : tensor<1xf32>
      %t = dist.all_reduce sum %r over ["mp"] : tensor<4x16xf32>
      %u = dist.scale %t {scale = 0.5 : f64} : tensor<4x16xf32>
      %loss = dist.reduce_mean %u {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
