// RUN: raddle-opt %s --promote-linear --diagnostic-format=plain 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN < %t.err
// RUN: raddle-opt %s --promote-linear --fuse-linear --canonicalize --validate-each=1 -o %t

// Each rank clips by a norm that the bias gradient is part of; ranks without it get its square from the first.

// Nothing reduces the norm over the axis, so the ranks' factors differ, and so would their biases.
// WARN: global_norm.mlir:[[#]]:[[#]]: warning: the ranks over ["mp"] may update bias @b differently; now all of them get the first one's

// CHECK-LABEL: module @all_first
// CHECK:           %[[NW:.*]] = dist.squared_l2_norm
// CHECK-NEXT:      %[[NB:.*]] = dist.squared_l2_norm
// CHECK-NEXT:      dist.broadcast %[[NB]] over ["mp"] : tensor<1xf32>
// CHECK-NEXT:      dist.stack %[[NW]], %[[NB]]
// CHECK-COUNT-2:   dist.mul

// CHECK-LABEL: module @all_rest
// CHECK:           %[[NW:.*]] = dist.squared_l2_norm
// CHECK-NEXT:      %[[Z:.*]] = dist.fill {value = 0.000000e+00 : f64} : tensor<1xf32>
// CHECK-NEXT:      %[[NB:.*]] = dist.broadcast %[[Z]] over ["mp"] : tensor<1xf32>
// CHECK-NEXT:      dist.stack %[[NW]], %[[NB]]
// CHECK-COUNT-1:   dist.mul
// CHECK-NOT:       dist.mul
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
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x2x16xf32>
      %b = dist.load @b : tensor<16xf32>
      %s = dist.add %r, %b : (tensor<4x2x16xf32>, tensor<16xf32>) -> tensor<4x2x16xf32>
      %g = dist.gelu %s : tensor<4x2x16xf32>
      %loss = dist.reduce_mean %g {dims = array<i64: 0, 1, 2>} : (tensor<4x2x16xf32>) -> tensor<f32>
      %one = dist.fill {value = 1.0 : f64} : tensor<f32>
      %dg = dist.reduce_mean_grad %g, %one {dims = array<i64: 0, 1, 2>} : (tensor<4x2x16xf32>, tensor<f32>) -> tensor<4x2x16xf32>
      %ds = dist.gelu_grad %s, %dg : tensor<4x2x16xf32>
      %ag:2 = dist.add_grad %r, %b, %ds : (tensor<4x2x16xf32>, tensor<16xf32>, tensor<4x2x16xf32>) -> (tensor<4x2x16xf32>, tensor<16xf32>)
      %mg:2 = dist.matmul_grad %x, %w, %ag#0 : (tensor<4x2x8xf32>, tensor<8x16xf32>, tensor<4x2x16xf32>) -> (tensor<4x2x8xf32>, tensor<8x16xf32>)
      %nw = dist.squared_l2_norm %mg#1 : (tensor<8x16xf32>) -> tensor<1xf32>
      %nb = dist.squared_l2_norm %ag#1 : (tensor<16xf32>) -> tensor<1xf32>
      %st = dist.stack %nw, %nb {dim = 0 : i64} : (tensor<1xf32>, tensor<1xf32>) -> tensor<2x1xf32>
      %sq = dist.reduce_sum %st {dims = array<i64: 0>} : (tensor<2x1xf32>) -> tensor<1xf32>
      %n = dist.sqrt %sq : tensor<1xf32>
      %limit = dist.fill {value = 0.01 : f64} : tensor<1xf32>
      %m = dist.maximum %limit, %n : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      %f = dist.div %limit, %m : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      %cw = dist.mul %mg#1, %f : (tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      %cb = dist.mul %ag#1, %f : (tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      %lr = dist.load @lr : tensor<1xf32>
      %w1 = dist.sgd %w, %cw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      %b1 = dist.sgd %b, %cb, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<f32>
    }
  }
}
