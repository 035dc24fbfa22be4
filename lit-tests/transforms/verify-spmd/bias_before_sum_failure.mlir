// RUN: not raddle-opt %s --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// Each rank adds the bias to its part of the sum, so the sum holds it as often as there are ranks.

// CHECK: error: 'dist.add' adds 'b', which is whole along axis 'mp', to 'a', which is partial there: it would count once per rank [E0348]
// CHECK-NEXT: [[#@LINE+12]]:12: note: 'dist.matmul' makes it a part of a sum along 'mp': it combines elements along a dimension that the axis cuts
// CHECK-NEXT: [[#@LINE+12]]:12: note: '@b' is whole along 'mp', as its layout says
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
      %b = dist.load @b : tensor<16xf32>
      %s = dist.add %p, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %s over ["mp"] : tensor<4x16xf32>
      %loss = dist.reduce_mean %r {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
