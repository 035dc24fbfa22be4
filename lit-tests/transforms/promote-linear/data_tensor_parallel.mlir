// RUN: raddle-opt %s --promote-linear | FileCheck %s
// RUN: raddle-opt %s --promote-linear --fuse-linear --canonicalize --validate-each=1 -o %t

// What is reduced or broadcast over the data axis stays on the first ranks, of which there are two, and goes on the others.

// CHECK-LABEL: module @all_first {{.*}}dist.ranks = [{mp = array<i64: 0>}]
// CHECK:         func.func @init
// CHECK:           dist.broadcast {{.*}} over ["dp"] : tensor<8x16xf32>
// CHECK:           %[[Z:.*]] = dist.broadcast {{.*}} over ["dp"] : tensor<16xf32>
// CHECK-NEXT:      dist.store @b %[[Z]]
// CHECK:         func.func @step
// CHECK:           %[[AG:.*]]:2 = dist.add_grad
// CHECK-NEXT:      %[[SUM:.*]] = dist.all_reduce sum %[[AG]]#1 over ["dp"]
// CHECK-NEXT:      %[[MEAN:.*]] = dist.scale %[[SUM]]
// CHECK:           dist.sgd %{{.*}}, %[[MEAN]]

// CHECK-LABEL: module @all_rest {{.*}}dist.ranks = [{mp = array<i64: 1>}]
// CHECK:         func.func @init
// CHECK-COUNT-1:   dist.broadcast
// CHECK-NOT:       dist.broadcast
// CHECK:         func.func @step
// CHECK-COUNT-1:   over ["dp"]
// CHECK-NOT:       over ["dp"]
module {
  dist.mesh @mesh ["dp" = 2, "mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
    dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %f = dist.fill {value = 0.5 : f64} : tensor<8x16xf32>
      %fb = dist.broadcast %f over ["dp"] : tensor<8x16xf32>
      dist.store @w %fb : tensor<8x16xf32>
      %z = dist.fill {value = 0.0 : f64} : tensor<16xf32>
      %zd = dist.broadcast %z over ["dp"] : tensor<16xf32>
      %zb = dist.broadcast %zd over ["mp"] : tensor<16xf32>
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
      %bs = dist.all_reduce sum %ag#1 over ["dp"] : tensor<16xf32>
      %bm = dist.scale %bs {scale = 0.5 : f64} : tensor<16xf32>
      %mg:2 = dist.matmul_grad %x, %w, %ag#0 : (tensor<4x2x8xf32>, tensor<8x16xf32>, tensor<4x2x16xf32>) -> (tensor<4x2x8xf32>, tensor<8x16xf32>)
      %ws = dist.all_reduce sum %mg#1 over ["dp"] : tensor<8x16xf32>
      %wm = dist.scale %ws {scale = 0.5 : f64} : tensor<8x16xf32>
      %lr = dist.load @lr : tensor<1xf32>
      %w1 = dist.sgd %w, %wm, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      %b1 = dist.sgd %b, %bm, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<f32>
    }
  }
}
