// RUN: raddle-opt %s --promote-linear --split-input-file | FileCheck %s
// RUN: raddle-opt %s --promote-linear --fuse-linear --canonicalize --cse --validate-each=1 --split-input-file -o %t.mlir

// Gradients of two micro-batches are added up in @b_sum, which the optimizer reads: it is the first rank's alone, like the bias.

// CHECK-LABEL: module @all_first
// CHECK:         dist.global @b parameter {layout = #dist.layout<{{\[\[}}]], ["mp"]>}
// CHECK:         dist.global @b_sum buffer {layout = #dist.layout<{{\[\[}}]], ["mp"]>}
// CHECK:         func.func @step
// CHECK:           dist.accumulate @w_sum
// CHECK-NEXT:      dist.accumulate @b_sum
// CHECK:         func.func @optimizer
// CHECK:           dist.load @b_sum
// CHECK:           dist.momentum
// CHECK-LABEL: module @all_rest
// CHECK-NOT:     @b
// CHECK:         dist.accumulate @w_sum
// CHECK-NOT:     @b
// CHECK:         dist.store @w_sum
// CHECK-NEXT:    return
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
  dist.global @w_sum buffer {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @b_m state {layout = #dist.layout<[[]], []>, of = @b} : tensor<16xf32>
  dist.global @b_sum buffer {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @init() attributes {dist.kind = "init"} {
    %f = dist.fill {value = 0.5 : f64} : tensor<8x16xf32>
    dist.store @w %f : tensor<8x16xf32>
    %zw = dist.fill {value = 0.0 : f64} : tensor<8x16xf32>
    dist.store @w_sum %zw : tensor<8x16xf32>
    %z = dist.fill {value = 0.0 : f64} : tensor<16xf32>
    %zb = dist.broadcast %z over ["mp"] : tensor<16xf32>
    dist.store @b %zb : tensor<16xf32>
    dist.store @b_m %z : tensor<16xf32>
    dist.store @b_sum %z : tensor<16xf32>
    %l = dist.fill {value = 0.1 : f64} : tensor<1xf32>
    dist.store @lr %l : tensor<1xf32>
    return
  }
  func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[[], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<8x16xf32>
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %r = dist.all_reduce sum %p over ["mp"] : tensor<4x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %g = dist.gelu %s : tensor<4x16xf32>
    %loss = dist.reduce_mean %g {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
    %one = dist.fill {value = 1.0 : f64} : tensor<f32>
    %dg = dist.reduce_mean_grad %g, %one {dims = array<i64: 0, 1>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %ds = dist.gelu_grad %s, %dg : tensor<4x16xf32>
    %ag:2 = dist.add_grad %r, %b, %ds : (tensor<4x16xf32>, tensor<16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)
    %mg:2 = dist.matmul_grad %x, %w, %ag#0 : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> (tensor<4x8xf32>, tensor<8x16xf32>)
    dist.accumulate @w_sum %mg#1 : tensor<8x16xf32>
    dist.accumulate @b_sum %ag#1 : tensor<16xf32>
    return %loss : tensor<f32>
  }
  func.func @optimizer() attributes {dist.kind = "optimizer"} {
    %lr = dist.load @lr : tensor<1xf32>
    %ws = dist.load @w_sum : tensor<8x16xf32>
    %gw = dist.scale %ws {scale = 0.5 : f64} : tensor<8x16xf32>
    %w = dist.load @w : tensor<8x16xf32>
    %w1 = dist.sgd %w, %gw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
    dist.store @w %w1 : tensor<8x16xf32>
    %zw = dist.fill {value = 0.0 : f64} : tensor<8x16xf32>
    dist.store @w_sum %zw : tensor<8x16xf32>
    %bs = dist.load @b_sum : tensor<16xf32>
    %gb = dist.scale %bs {scale = 0.5 : f64} : tensor<16xf32>
    %b = dist.load @b : tensor<16xf32>
    %m = dist.load @b_m : tensor<16xf32>
    %b1:2 = dist.momentum %b, %gb, %m, %lr {mu = 0.9 : f64} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    dist.store @b %b1#0 : tensor<16xf32>
    dist.store @b_m %b1#1 : tensor<16xf32>
    %z = dist.fill {value = 0.0 : f64} : tensor<16xf32>
    dist.store @b_sum %z : tensor<16xf32>
    return
  }
}

// -----

// With sequence parallelism the sum is a rank's share until the optimizer reduces it; on the first rank it is whole from the
// start, and the reduction goes.

// CHECK-LABEL: module @all_first
// CHECK:         dist.global @b_sum buffer {layout = #dist.layout<{{\[\[}}]], ["mp"]>}
// CHECK:         func.func @optimizer
// CHECK-NOT:       dist.all_reduce
// CHECK-LABEL: module @all_rest
// CHECK-NOT:     @b
// CHECK:         dist.accumulate @w_sum
// CHECK-NOT:     @b
dist.mesh @mesh ["mp" = 2]
module @all attributes {dist.mesh = @mesh, dist.microbatches = 2 : i64, dist.ranks = [{}]} {
  dist.global @w parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
  dist.global @w_sum buffer {layout = #dist.layout<[["mp"], []], []>} : tensor<8x16xf32>
  dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<16xf32>
  dist.global @b_m state {layout = #dist.layout<[[]], []>, of = @b} : tensor<16xf32>
  dist.global @b_sum buffer {layout = #dist.layout<[[]], ["mp"]>} : tensor<16xf32>
  dist.global @lr buffer {layout = #dist.layout<[[]], []>} : tensor<1xf32>
  func.func @init() attributes {dist.kind = "init"} {
    %f = dist.fill {value = 0.5 : f64} : tensor<8x16xf32>
    dist.store @w %f : tensor<8x16xf32>
    %zw = dist.fill {value = 0.0 : f64} : tensor<8x16xf32>
    dist.store @w_sum %zw : tensor<8x16xf32>
    %z = dist.fill {value = 0.0 : f64} : tensor<16xf32>
    %zb = dist.broadcast %z over ["mp"] : tensor<16xf32>
    dist.store @b %zb : tensor<16xf32>
    dist.store @b_m %z : tensor<16xf32>
    dist.store @b_sum %z : tensor<16xf32>
    %l = dist.fill {value = 0.1 : f64} : tensor<1xf32>
    dist.store @lr %l : tensor<1xf32>
    return
  }
  func.func @step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[[], ["mp"]], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
    %w = dist.load @w : tensor<8x16xf32>
    %p = dist.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %r = dist.reduce_scatter sum %p over ["mp"] {dim = 0 : i64} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    %b = dist.load @b : tensor<16xf32>
    %s = dist.add %r, %b : (tensor<2x16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
    %g = dist.gelu %s : tensor<2x16xf32>
    %loss = dist.reduce_mean %g {dims = array<i64: 0, 1>} : (tensor<2x16xf32>) -> tensor<f32>
    %one = dist.fill {value = 1.0 : f64} : tensor<f32>
    %dg = dist.reduce_mean_grad %g, %one {dims = array<i64: 0, 1>} : (tensor<2x16xf32>, tensor<f32>) -> tensor<2x16xf32>
    %ds = dist.gelu_grad %s, %dg : tensor<2x16xf32>
    %ag:2 = dist.add_grad %r, %b, %ds : (tensor<2x16xf32>, tensor<16xf32>, tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<16xf32>)
    %all = dist.all_gather %ag#0 over ["mp"] {dim = 0 : i64} : (tensor<2x16xf32>) -> tensor<4x16xf32>
    %mg:2 = dist.matmul_grad %x, %w, %all : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> (tensor<4x8xf32>, tensor<8x16xf32>)
    dist.accumulate @w_sum %mg#1 : tensor<8x16xf32>
    dist.accumulate @b_sum %ag#1 : tensor<16xf32>
    return %loss : tensor<f32>
  }
  func.func @optimizer() attributes {dist.kind = "optimizer"} {
    %lr = dist.load @lr : tensor<1xf32>
    %ws = dist.load @w_sum : tensor<8x16xf32>
    %gw = dist.scale %ws {scale = 0.5 : f64} : tensor<8x16xf32>
    %w = dist.load @w : tensor<8x16xf32>
    %w1 = dist.sgd %w, %gw, %lr : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<1xf32>) -> tensor<8x16xf32>
    dist.store @w %w1 : tensor<8x16xf32>
    %zw = dist.fill {value = 0.0 : f64} : tensor<8x16xf32>
    dist.store @w_sum %zw : tensor<8x16xf32>
    %bs = dist.load @b_sum : tensor<16xf32>
    %gb = dist.scale %bs {scale = 0.5 : f64} : tensor<16xf32>
    %gr = dist.all_reduce sum %gb over ["mp"] : tensor<16xf32>
    %b = dist.load @b : tensor<16xf32>
    %m = dist.load @b_m : tensor<16xf32>
    %b1:2 = dist.momentum %b, %gr, %m, %lr {mu = 0.9 : f64} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    dist.store @b %b1#0 : tensor<16xf32>
    dist.store @b_m %b1#1 : tensor<16xf32>
    %z = dist.fill {value = 0.0 : f64} : tensor<16xf32>
    dist.store @b_sum %z : tensor<16xf32>
    return
  }
}
