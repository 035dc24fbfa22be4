// RUN: raddle-opt %s --promote-linear --remarks --diagnostic-format=plain 2>&1 | FileCheck %s

// Each rank adds another piece of the bias.

// CHECK: last_dimension_cut.mlir:[[#]]:[[#]]: remark: not promoted: its reduce_scatter cuts the last dimension, along which the bias lies
// CHECK: module @all attributes
// CHECK-NOT: module @all
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<8xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %z = dist.fill {value = 0.0 : f64} : tensor<8xf32>
      dist.store @b %z : tensor<8xf32>
      %f = dist.fill {value = 0.5 : f64} : tensor<8x16xf32>
      dist.store @w %f : tensor<8x16xf32>
      return
    }
    func.func @step(%x: tensor<4x2x8xf32>) -> tensor<f32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %p = dist.matmul %x, %w : (tensor<4x2x8xf32>, tensor<8x16xf32>) -> tensor<4x2x16xf32>
      %r = dist.reduce_scatter sum %p over ["mp"] {dim = 2 : i64} : (tensor<4x2x16xf32>) -> tensor<4x2x8xf32>
      %b = dist.load @b : tensor<8xf32>
      %s = dist.add %r, %b : (tensor<4x2x8xf32>, tensor<8xf32>) -> tensor<4x2x8xf32>
      %loss = dist.reduce_mean %s {dims = array<i64: 0, 1, 2>} : (tensor<4x2x8xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
  }
}
