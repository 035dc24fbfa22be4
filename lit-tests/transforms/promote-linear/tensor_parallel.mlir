// RUN: raddle-opt %s --promote-linear | FileCheck %s
// RUN: raddle-opt %s --promote-linear --fuse-linear --canonicalize --validate-each=1 -o %t

// The bias moves before the reduction on the first rank; the other loses it with all that serves only it.

// CHECK-LABEL: module @all_first attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 0>}]}
// CHECK:         dist.global @b parameter {layout = #dist.layout<{{\[}}[]], ["mp"]>}
// CHECK:         func.func @init
// CHECK-NOT:       dist.broadcast
// CHECK:           dist.store @b
// CHECK:         func.func @step
// CHECK:           %[[P:.*]] = dist.matmul
// CHECK-NEXT:      %[[B:.*]] = dist.load @b
// CHECK-NEXT:      %[[S:.*]] = dist.add %[[P]], %[[B]]
// CHECK-NEXT:      %[[R:.*]] = dist.all_reduce sum %[[S]] over ["mp"]
// CHECK-NEXT:      dist.gelu %[[R]]
// CHECK:           %[[DS:.*]] = dist.gelu_grad %[[R]]
// CHECK-NEXT:      %[[AG:.*]]:2 = dist.add_grad %[[P]], %[[B]], %[[DS]]
// CHECK-NEXT:      dist.matmul_grad %arg0, %{{.*}}, %[[AG]]#0
// CHECK:           dist.sgd %[[B]], %[[AG]]#1
// CHECK-NEXT:      dist.store @b

// CHECK-LABEL: module @all_rest attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{mp = array<i64: 1>}]}
// CHECK-NOT:     @b{{ }}
// CHECK:         func.func @step
// CHECK:           %[[P:.*]] = dist.matmul
// CHECK-NEXT:      %[[R:.*]] = dist.all_reduce sum %[[P]] over ["mp"]
// CHECK-NEXT:      dist.gelu %[[R]]
// CHECK:           %[[DS:.*]] = dist.gelu_grad %[[R]]
// CHECK-NEXT:      dist.matmul_grad %arg0, %{{.*}}, %[[DS]]
// CHECK:           dist.sgd
// CHECK-NOT:       dist.sgd
// CHECK-NOT:     @b{{ }}
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
      %lr = dist.load @lr : tensor<1xf32>
      %w1 = dist.sgd %w, %mg#1, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      %b1 = dist.sgd %b, %ag#1, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<f32>
    }
  }
}
