// RUN: raddle-opt %s --promote-linear --diagnostic-format=plain 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN < %t
// RUN: raddle-opt %s --promote-linear --fuse-linear --canonicalize --validate-each=1 -o %t.mlir

// The gathered gradient goes through the add's gradient on the first rank, so the bias gradient is whole there and its reduction
// goes; the division by the number of ranks stays.

// WARN: sequence_parallel.mlir:[[#]]:[[#]]: warning: the gradient of bias @b is the mean over ["mp"], that of its weight the sum

// CHECK-LABEL: module @all_first
// CHECK:           %[[P:.*]] = dist.matmul
// CHECK-NEXT:      %[[B:.*]] = dist.load @b
// CHECK-NEXT:      %[[S:.*]] = dist.add %[[P]], %[[B]] : (tensor<4x2x16xf32>, tensor<16xf32>) -> tensor<4x2x16xf32>
// CHECK-NEXT:      %[[R:.*]] = dist.reduce_scatter sum %[[S]] over ["mp"] {dim = 0 : i64}
// CHECK-NEXT:      dist.gelu %[[R]]
// CHECK:           %[[DS:.*]] = dist.gelu_grad %[[R]]
// CHECK-NEXT:      %[[ALL:.*]] = dist.all_gather %[[DS]] over ["mp"] {dim = 0 : i64}
// CHECK-NEXT:      %[[AG:.*]]:2 = dist.add_grad %[[P]], %[[B]], %[[ALL]] : (tensor<4x2x16xf32>, tensor<16xf32>, tensor<4x2x16xf32>)
// CHECK-NEXT:      %[[MEAN:.*]] = dist.scale %[[AG]]#1 {scale = 5.000000e-01 : f64}
// CHECK-NEXT:      dist.matmul_grad %arg0, %{{.*}}, %[[AG]]#0
// CHECK:           dist.sgd %[[B]], %[[MEAN]]

// CHECK-LABEL: module @all_rest
// CHECK:           %[[P:.*]] = dist.matmul
// CHECK-NEXT:      %[[R:.*]] = dist.reduce_scatter sum %[[P]]
// CHECK:           %[[DS:.*]] = dist.gelu_grad %[[R]]
// CHECK-NEXT:      %[[ALL:.*]] = dist.all_gather %[[DS]]
// CHECK-NEXT:      dist.matmul_grad %arg0, %{{.*}}, %[[ALL]]
// CHECK-NOT:       dist.scale
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
      %all = dist.all_gather %ag#0 over ["mp"] {dim = 0 : i64} : (tensor<2x2x16xf32>) -> tensor<4x2x16xf32>
      %mg:2 = dist.matmul_grad %x, %w, %all : (tensor<4x2x8xf32>, tensor<8x16xf32>, tensor<4x2x16xf32>) -> (tensor<4x2x8xf32>, tensor<8x16xf32>)
      %lr = dist.load @lr : tensor<1xf32>
      %w1 = dist.sgd %w, %mg#1, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
      dist.store @w %w1 : tensor<8x16xf32>
      %b1 = dist.sgd %b, %bm, %lr : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
      dist.store @b %b1 : tensor<16xf32>
      return %loss : tensor<f32>
    }
  }
}
