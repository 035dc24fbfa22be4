// RUN: raddle-opt %s --promote-linear --remarks --diagnostic-format=plain 2>&1 | FileCheck %s

// No rank is first on both.

// CHECK: two_axes.mlir:[[#]]:[[#]]: remark: not promoted: bias @b: it is added after reductions over ["mp"] and over ["ep"]
// CHECK: module @all attributes
// CHECK-NOT: module @all
module {
  dist.mesh @mesh ["ep" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %f = dist.fill {value = 0.5 : f64} : tensor<8x16xf32>
      dist.store @w %f : tensor<8x16xf32>
      %z = dist.fill {value = 0.0 : f64} : tensor<16xf32>
      %zb = dist.broadcast %z over ["mp"] : tensor<16xf32>
      dist.store @b %zb : tensor<16xf32>
      return
    }
    func.func @step(%x: tensor<4x2x8xf32>) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x2x8xf32>, tensor<8x16xf32>) -> tensor<4x2x16xf32>
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x2x16xf32>
      %b = dist.load @b : tensor<16xf32>
      %s = dist.add %r, %b : (tensor<4x2x16xf32>, tensor<16xf32>) -> tensor<4x2x16xf32>
      %p2 = dist.matmul %x, %w : (tensor<4x2x8xf32>, tensor<8x16xf32>) -> tensor<4x2x16xf32>
      %r2 = dist.all_reduce sum %p2 over ["ep"] : tensor<4x2x16xf32>
      %s2 = dist.add %r2, %b : (tensor<4x2x16xf32>, tensor<16xf32>) -> tensor<4x2x16xf32>
      %q = dist.add %s, %s2 : (tensor<4x2x16xf32>, tensor<4x2x16xf32>) -> tensor<4x2x16xf32>
      %loss = dist.reduce_mean %q {dims = array<i64: 0, 1, 2>} : (tensor<4x2x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
