// RUN: raddle-opt %s --promote-linear | FileCheck %s
// RUN: raddle-opt %s --promote-linear --fuse-linear --canonicalize --validate-each=1 -o %t

// amp o1: what is added is a cast of the bias; the cast moves with the load, and the parameter itself goes.

// CHECK-LABEL: module @all_first
// CHECK:           %[[P:.*]] = dist.matmul
// CHECK-NEXT:      %[[B:.*]] = dist.load @b
// CHECK-NEXT:      %[[C:.*]] = dist.cast %[[B]]
// CHECK-NEXT:      %[[S:.*]] = dist.add %[[P]], %[[C]]
// CHECK-NEXT:      dist.all_reduce sum %[[S]] over ["mp"]
// CHECK:           %[[AG:.*]]:2 = dist.add_grad %[[P]], %[[C]]
// CHECK-NEXT:      %[[DB:.*]] = dist.cast %[[AG]]#1
// CHECK:           dist.sgd %[[B]], %[[DB]]

// CHECK-LABEL: module @all_rest
// CHECK-NOT:     tensor<16x
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
    func.func @step(%x: tensor<4x2x8xbf16>) -> tensor<bf16> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<8x16xf32>
      %wc = dist.cast %w : (tensor<8x16xf32>) -> tensor<8x16xbf16>
      %p = dist.matmul %x, %wc : (tensor<4x2x8xbf16>, tensor<8x16xbf16>) -> tensor<4x2x16xbf16>
      %r = dist.all_reduce sum %p over ["mp"] : tensor<4x2x16xbf16>
      %b = dist.load @b : tensor<16xf32>
      %bc = dist.cast %b : (tensor<16xf32>) -> tensor<16xbf16>
      %s = dist.add %r, %bc : (tensor<4x2x16xbf16>, tensor<16xbf16>) -> tensor<4x2x16xbf16>
      %loss = dist.reduce_mean %s {dims = array<i64: 0, 1, 2>} : (tensor<4x2x16xbf16>) -> tensor<bf16>
      %one = dist.fill {value = 1.0 : f64} : tensor<bf16>
      %ds = dist.reduce_mean_grad %s, %one {dims = array<i64: 0, 1, 2>} : (tensor<4x2x16xbf16>, tensor<bf16>) -> tensor<4x2x16xbf16>
      %ag:2 = dist.add_grad %r, %bc, %ds : (tensor<4x2x16xbf16>, tensor<16xbf16>, tensor<4x2x16xbf16>) -> (tensor<4x2x16xbf16>, tensor<16xbf16>)
      %db = dist.cast %ag#1 : (tensor<16xbf16>) -> tensor<16xf32>
      %mg:2 = dist.matmul_grad %x, %wc, %ag#0 : (tensor<4x2x8xbf16>, tensor<8x16xbf16>, tensor<4x2x16xbf16>) -> (tensor<4x2x8xbf16>, tensor<8x16xbf16>)
      %dw = dist.cast %mg#1 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
      %lr = dist.load @lr : tensor<1xf32>
      %w1 = dist.sgd %w, %dw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      %b1 = dist.sgd %b, %db, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<bf16>
    }
  }
}
