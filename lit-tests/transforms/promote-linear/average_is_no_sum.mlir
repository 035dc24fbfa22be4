// RUN: raddle-opt %s --promote-linear --remarks --diagnostic-format=plain 2>&1 | FileCheck %s

// With avg, a bias on one of two ranks would count for half.

// CHECK: average_is_no_sum.mlir:[[#]]:[[#]]: remark: not promoted: its reduction is 'avg', not 'sum': @b on one rank would count for less
// CHECK: module @all attributes
// CHECK-NOT: module @all
module {
  dist.mesh @mesh ["mp" = 2]
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
      %r = dist.all_reduce avg %p over ["mp"] : tensor<4x2x16xf32>
      %b = dist.load @b : tensor<16xf32>
      %s = dist.add %r, %b : (tensor<4x2x16xf32>, tensor<16xf32>) -> tensor<4x2x16xf32>
      %loss = dist.reduce_mean %s {dims = array<i64: 0, 1, 2>} : (tensor<4x2x16xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
