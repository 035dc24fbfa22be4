// RUN: raddle-opt %s --append-backward=optimizer=none | FileCheck %s

// A layer norm on pieces of the sequence, then a pair of layers.

// CHECK: %[[N:.*]]:3 = dist.layer_norm
// CHECK: %[[X:.*]] = dist.all_gather %[[N]]#0
// CHECK: %[[W1:.*]] = dist.load @w1
// CHECK: %[[P:.*]] = dist.matmul %[[X]], %[[W1]]
// CHECK: %[[A:.*]] = dist.relu %[[P]]
// CHECK: %[[W2:.*]] = dist.load @w2
// CHECK: %[[S:.*]] = dist.reduce_scatter
// CHECK: %[[B:.*]] = dist.load @b
// CHECK: dist.all_reduce avg {{.*}} over ["mp"]
// The loss is completed over mp, so every rank's part counts 1/2.
// CHECK: %[[SEED:.*]] = dist.fill {dist.role = "backward", value = 1.000000e+00 : f64}
// CHECK-NEXT: %[[HALF:.*]] = dist.scale %[[SEED]] {dist.role = "backward", scale = 5.000000e-01 : f64}
// CHECK: %[[DB:.*]]:2 = dist.add_grad %[[S]], %[[B]]
// The parts of a scattered sum have the gradient of the whole sequence.
// CHECK-NEXT: %[[DS:.*]] = dist.all_gather %[[DB]]#0 over ["mp"] {dim = 0 : i64, dist.role = "backward"}
// CHECK-NEXT: %[[DR:.*]]:2 = dist.matmul_grad %[[A]], %[[W2]], %[[DS]]
// CHECK-NEXT: %[[DA:.*]] = dist.relu_grad %[[P]], %[[DR]]#0
// CHECK-NEXT: %[[DC:.*]]:2 = dist.matmul_grad %[[X]], %[[W1]], %[[DA]]
// Reducing the gathered sequence's gradient and taking a piece of it is one op.
// CHECK-NEXT: %[[DX:.*]] = dist.reduce_scatter sum %[[DC]]#0 over ["mp"] {dim = 0 : i64, dist.role = "backward"}
// CHECK-NEXT: %[[DN:.*]]:2 = dist.layer_norm_grad {{.*}} %[[DX]]
// Bias and norm parameters see pieces of the sequence, weights all of it.
// CHECK-NEXT: %[[GS:.*]] = dist.all_reduce sum %[[DN]]#0 over ["mp"]
// CHECK-NEXT: %[[GN:.*]] = dist.all_reduce sum %[[DN]]#1 over ["mp"]
// CHECK-NEXT: %[[GB:.*]] = dist.all_reduce sum %[[DB]]#1 over ["mp"]
// CHECK-NEXT: dist.store @scale_grad %[[GS]]
// CHECK-NEXT: dist.store @shift_grad %[[GN]]
// CHECK-NEXT: dist.store @w1_grad %[[DC]]#1
// CHECK-NEXT: dist.store @w2_grad %[[DR]]#1
// CHECK-NEXT: dist.store @b_grad %[[GB]]
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @scale parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @shift parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @w1 parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x8xf32>
    dist.global @w2 parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @step(%x: tensor<3x2x4xf32> {dist.layout = #dist.layout<[["mp"], [], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %scale = dist.load @scale : tensor<4xf32>
      %shift = dist.load @shift : tensor<4xf32>
      %n, %mean, %variance = dist.layer_norm %x, %scale, %shift {begin_norm_axis = 2 : i64, epsilon = 1.0e-05 : f64} : (tensor<3x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>)
      %g = dist.all_gather %n over ["mp"] {dim = 0 : i64} : (tensor<3x2x4xf32>) -> tensor<6x2x4xf32>
      %w1 = dist.load @w1 : tensor<4x8xf32>
      %0 = dist.matmul %g, %w1 : (tensor<6x2x4xf32>, tensor<4x8xf32>) -> tensor<6x2x8xf32>
      %1 = dist.relu %0 : tensor<6x2x8xf32>
      %w2 = dist.load @w2 : tensor<8x4xf32>
      %2 = dist.matmul %1, %w2 : (tensor<6x2x8xf32>, tensor<8x4xf32>) -> tensor<6x2x4xf32>
      %3 = dist.reduce_scatter sum %2 over ["mp"] {dim = 0 : i64} : (tensor<6x2x4xf32>) -> tensor<3x2x4xf32>
      %b = dist.load @b : tensor<4xf32>
      %4 = dist.add %3, %b : (tensor<3x2x4xf32>, tensor<4xf32>) -> tensor<3x2x4xf32>
      %5 = dist.reduce_mean %4 {dims = array<i64: 0, 1, 2>} : (tensor<3x2x4xf32>) -> tensor<f32>
      %6 = dist.all_reduce avg %5 over ["mp"] : tensor<f32>
      return %6 : tensor<f32>
    }
  }
}
