// RUN: raddle-opt %s --promote-linear --remarks --diagnostic-format=plain 2>&1 | FileCheck %s

// Only the bias is trained, so nothing gathers the gradient.

// CHECK: gradient_not_gathered.mlir:[[#]]:[[#]]: remark: not promoted: bias @b: the gradient of its reduce_scatter is not gathered over ["mp"], so no rank sees all of the bias gradient
// CHECK: module @all attributes
// CHECK-NOT: module @all
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
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
      %r = dist.reduce_scatter sum %p over ["mp"] {dim = 0 : i64} : (tensor<4x2x16xf32>) -> tensor<2x2x16xf32>
      %b = dist.load @b : tensor<16xf32>
      %s = dist.add %r, %b : (tensor<2x2x16xf32>, tensor<16xf32>) -> tensor<2x2x16xf32>
      %g = dist.gelu %s : tensor<2x2x16xf32>
      %loss = dist.reduce_mean %g {dims = array<i64: 0, 1, 2>} : (tensor<2x2x16xf32>) -> tensor<f32>
      %one = dist.fill {value = 1.0 : f64} : tensor<f32>
      %dg = dist.reduce_mean_grad %g, %one {dims = array<i64: 0, 1, 2>} : (tensor<2x2x16xf32>, tensor<f32>) -> tensor<2x2x16xf32>
      %ds = dist.gelu_grad %s, %dg : tensor<2x2x16xf32>
      %ag:2 = dist.add_grad %r, %b, %ds : (tensor<2x2x16xf32>, tensor<16xf32>, tensor<2x2x16xf32>) -> (tensor<2x2x16xf32>, tensor<16xf32>)
      %bs = dist.all_reduce sum %ag#1 over ["mp"] : tensor<16xf32>
      %bm = dist.scale %bs {scale = 0.5 : f64} : tensor<16xf32>
      %lr = dist.load @lr : tensor<1xf32>
      %b1 = dist.sgd %b, %bm, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<f32>
    }
  }
}
