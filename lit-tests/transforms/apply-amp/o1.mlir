// RUN: raddle-opt %s --apply-amp | FileCheck %s
// RUN: raddle-opt %s --apply-amp='level=o1 dtype=f16' | FileCheck %s --check-prefix=HALF
// RUN: raddle-opt %s --apply-amp --validate-each=3 2>&1 >/dev/null | FileCheck %s --check-prefix=RUNS

// Level o1: products and what follows them. The norm, the residual stream and the loss stay f32, the bias follows the product that it is
// added to, and parameters keep their type.

// RUNS: validated apply-amp: loss ×6 within

// HALF: dist.loss_scaling = "dynamic"
// HALF: -> tensor<2x8xf16>

// CHECK-NOT: dist.loss_scaling
// CHECK: %[[X:arg0]]: tensor<2x4xf32>
// CHECK: %[[N:.*]]:3 = dist.layer_norm %{{.*}} -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
// CHECK: %[[W1:.*]] = dist.load @w1 : tensor<4x8xf32>
// CHECK-NEXT: %[[NC:.*]] = dist.cast %[[N]]#0 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-NEXT: %[[WC:.*]] = dist.cast %[[W1]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-NEXT: %[[P:.*]] = dist.matmul %[[NC]], %[[WC]] : (tensor<2x4xbf16>, tensor<4x8xbf16>) -> tensor<2x8xbf16>
// CHECK-NEXT: %[[A:.*]] = dist.relu %[[P]] : tensor<2x8xbf16>
// CHECK: %[[R:.*]] = dist.all_reduce sum %{{.*}} over ["mp"] : tensor<2x4xbf16>
// CHECK-NEXT: %[[B:.*]] = dist.load @b : tensor<4xf32>
// CHECK-NEXT: %[[BC:.*]] = dist.cast %[[B]] : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: %[[S:.*]] = dist.add %[[R]], %[[BC]] : (tensor<2x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
// CHECK-NEXT: %[[SC:.*]] = dist.cast %[[S]] : (tensor<2x4xbf16>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[O:.*]] = dist.add %[[SC]], %[[X]] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[L:.*]] = dist.reduce_mean %[[O]]
// CHECK-NEXT: return %[[L]] : tensor<f32>
module {
  dist.mesh @mesh ["mp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @scale parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    dist.global @w1 parameter {layout = #dist.layout<[[], ["mp"]], []>} : tensor<4x8xf32>
    dist.global @w2 parameter {layout = #dist.layout<[["mp"], []], []>} : tensor<8x4xf32>
    dist.global @b parameter {layout = #dist.layout<[[]], []>} : tensor<4xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %0 = dist.fill {value = 1.0 : f64} : tensor<4xf32>
      dist.store @scale %0 : tensor<4xf32>
      dist.store @b %0 : tensor<4xf32>
      %1 = dist.fill {value = 1.0 : f64} : tensor<4x8xf32>
      dist.store @w1 %1 : tensor<4x8xf32>
      %2 = dist.fill {value = 1.0 : f64} : tensor<8x4xf32>
      dist.store @w2 %2 : tensor<8x4xf32>
      return
    }
    func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[[], []], []>}) -> tensor<f32> attributes {dist.kind = "step"} {
      %scale = dist.load @scale : tensor<4xf32>
      %n, %mean, %variance = dist.layer_norm %x, %scale {begin_norm_axis = 1 : i64, epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
      %w1 = dist.load @w1 : tensor<4x8xf32>
      %0 = dist.matmul %n, %w1 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
      %1 = dist.relu %0 : tensor<2x8xf32>
      %w2 = dist.load @w2 : tensor<8x4xf32>
      %2 = dist.matmul %1, %w2 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
      %3 = dist.all_reduce sum %2 over ["mp"] : tensor<2x4xf32>
      %b = dist.load @b : tensor<4xf32>
      %4 = dist.add %3, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      %5 = dist.add %4, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %6 = dist.reduce_mean %5 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      return %6 : tensor<f32>
    }
  }
}
