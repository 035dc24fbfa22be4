// RUN: not raddle-opt %s --verify-spmd --diagnostic-format=plain 2>&1 | FileCheck %s

// Each data-parallel rank updates the weight with the gradient of its own data.

// CHECK: error: 'dist.sgd' reads 'grad', which is partial (sum) along axis 'dp', as if it were whole [E0341]
// CHECK-NEXT: note: 'dist.matmul_grad' makes it a part of a sum along 'dp': it combines elements along a dimension that the axis cuts
// CHECK-NEXT: help: reduce it first: `dist.all_reduce sum … over ["dp"]`
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
      %loss = dist.reduce_mean %r {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      %one = dist.fill {value = 1.0 : f64} : tensor<f32>
      %dr = dist.reduce_mean_grad %r, %one {dims = array<i64: 0, 1>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
      %dx, %dw = dist.matmul_grad %x, %w, %dr : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> (tensor<4x8xf32>, tensor<8x16xf32>)
      %lr = dist.load @lr : tensor<1xf32>
      %w1 = dist.sgd %w, %dw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      return %loss : tensor<f32>
    }
  }
}
