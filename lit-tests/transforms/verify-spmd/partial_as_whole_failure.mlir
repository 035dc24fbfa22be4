// RUN: not raddle-opt %s --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// The activation of a part of a sum is not a part of the activation.

// CHECK: error: 'dist.gelu' reads 'x', which is partial (sum) along axis 'mp', as if it were whole [E0341]
// CHECK-NEXT: note: 'dist.matmul' makes it a part of a sum along 'mp': it combines elements along a dimension that the axis cuts
// CHECK-NEXT: note: 'dist.cast' leaves it a part of a sum along 'mp'
// CHECK-NEXT: help: reduce it first: `dist.all_reduce sum … over ["mp"]`
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
      %c = dist.cast %p : (tensor<4x16xf32>) -> tensor<4x16xbf16>
      %g = dist.gelu %c : tensor<4x16xbf16>
      %f = dist.cast %g : (tensor<4x16xbf16>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %f over ["mp"] : tensor<4x16xf32>
      %loss = dist.reduce_mean %r {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
