// RUN: raddle-opt %s --verify-spmd --diagnostic-format=plain -o %t 2>&1 | FileCheck %s

// The gradient is averaged over all ranks, of which only the data-parallel ones have data of their own: along the tensor axis it is
// divided once too often.

// CHECK: warning: the gradient of '@w' is divided by 2, the size of axis 'mp', along which the loss is whole [W0723]
// CHECK-NEXT: note: 'dist.all_reduce' reduces it over ["dp"]
// CHECK-NEXT: note: the gradient is scaled here
// CHECK-NEXT: note: the optimizer reads it here
// CHECK-NEXT: help: sum the parts over 'mp' and leave it at that; only axes that cut the data divide gradients
// CHECK-NOT: {{(error|warning)}}:
module {
  dist.mesh @mesh ["dp" = 4, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @v parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<8x8xf32>
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[["dp"], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %v = dist.load @v : tensor<8x8xf32>
      %w = dist.load @w : tensor<8x16xf32>
      %h = dist.matmul %x, %v : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %p = dist.matmul %h, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
      %loss = dist.reduce_mean %r {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
      %one = dist.fill {value = 1.0 : f64} : tensor<f32>
      %dr = dist.reduce_mean_grad %r, %one {dims = array<i64: 0, 1>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
      %dh, %dw = dist.matmul_grad %h, %w, %dr : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> (tensor<4x8xf32>, tensor<8x16xf32>)
      %dx, %dv = dist.matmul_grad %x, %v, %dh : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>)
      %lr = dist.load @lr : tensor<1xf32>
      %sw = dist.all_reduce sum %dw over ["dp"] : tensor<8x16xf32>
      %gw = dist.scale %sw {scale = 0.125 : f64} : tensor<8x16xf32>
      %w1 = dist.sgd %w, %gw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      // The mean over the data axis is meant.
      %sv = dist.all_reduce avg %dv over ["dp"] : tensor<8x8xf32>
      %v1 = dist.sgd %v, %sv, %lr : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<1xf32>) -> tensor<8x8xf32>
      dist.store @v %v1 : tensor<8x8xf32>
      return %loss : tensor<f32>
    }
  }
}
