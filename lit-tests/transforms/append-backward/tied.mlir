// RUN: raddle-opt %s --append-backward=optimizer=none | FileCheck %s
// RUN: raddle-opt %s --append-backward='loss=%%4 optimizer=none' | FileCheck %s --check-prefix=NAMED

// A weight that is used twice: its gradients are summed, then reduced once. It is also read through a transpose, and gradients go back
// through that before they are reduced.

// CHECK: %[[T:.*]]:2 = dist.matmul_grad
// CHECK-NEXT: %[[TT:.*]] = dist.transpose %[[T]]#1
// CHECK: %[[W:.*]] = dist.matmul_grad
// CHECK-NEXT: %[[SUM:.*]] = dist.sum %[[TT]], %[[W]]
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce avg %[[SUM]] over ["dp"]
// CHECK-NEXT: dist.store @w_grad %[[R]]

// An existing init is kept and completed, and a value can be named as the loss.
// NAMED: func.func @init()
// NAMED-NEXT: dist.fill {value = 5.000000e-01 : f64}
// NAMED-NEXT: dist.store @w %
// NAMED-NEXT: dist.fill {value = 0.000000e+00 : f64}
// NAMED-NEXT: dist.store @w_grad
// NAMED-NEXT: return
// NAMED: dist.fill {dist.role = "backward", value = 1.000000e+00 : f64} : tensor<f32>
// NAMED-NEXT: dist.reduce_mean_grad
module {
  dist.mesh @mesh ["dp" = 2]
  module @all attributes {dist.mesh = @mesh, dist.microbatches = 1 : i64, dist.ranks = [{}]} {
    dist.global @w parameter {layout = #dist.layout<[[], []], []>} : tensor<4x6xf32>
    func.func @init() attributes {dist.kind = "init"} {
      %0 = dist.fill {value = 0.5 : f64} : tensor<4x6xf32>
      dist.store @w %0 : tensor<4x6xf32>
      return
    }
    func.func @step(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[["dp"], []], []>}) -> tensor<1xf32> attributes {dist.kind = "step"} {
      %w = dist.load @w : tensor<4x6xf32>
      %0 = dist.matmul %x, %w : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
      %t = dist.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
      %1 = dist.matmul %0, %t : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
      %2 = dist.reduce_mean %1 {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      %3 = dist.reshape %2 : (tensor<f32>) -> tensor<1xf32>
      return %3 : tensor<1xf32>
    }
  }
}
